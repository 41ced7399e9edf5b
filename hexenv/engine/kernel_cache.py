"""Fused kernels compiled at run time: the first use of a combination pays for the compiler, later ones for a look-up.

Mechanism: SYCL online fusion (TACO 23), a cache keyed by kernels and shapes. The two stages' variants fix both here.
"""

from __future__ import annotations

from typing import Any

from hexenv.engine.jit import njit
from hexenv.engine.layout import JIT_ENTRIES, MAX_SLOTS, Jit, Phase

_FREE = int(Phase.FREE)
_OFF, _COLD = int(Jit.OFF), int(Jit.COLD)
_SPREAD = 2654435761
"""Knuth's multiplicative hash, 2**32 / golden ratio."""


@njit
def jit_ns(config: Any, lane: Any) -> int:
    """Time to get the kernel of the combination in the slots, in ns; a new one enters the cache."""
    if config.jit == _OFF:
        return 0
    key = 0
    for k in range(MAX_SLOTS):
        if lane.slots[k].phase != _FREE:
            key = _combined(key, lane.slots[k].variant + 1)
    place = (key * _SPREAD >> 16) % JIT_ENTRIES
    if config.jit == _COLD and lane.jit_keys[place] != key:
        lane.jit_keys[place] = key
        return config.jit_first_ns
    return config.jit_hit_ns


@njit
def _combined(key: int, part: int) -> int:
    """One key for a set of two, whatever their order."""
    low, high = min(key, part), max(key, part)
    return (low << 20) + high
