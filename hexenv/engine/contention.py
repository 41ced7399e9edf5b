"""How fast resident stages advance together: the fluid model with queue-fair rates.

A stage in its prologue or body has ``tiles`` left to do. Its own limit is ``tiles / T_alone`` (tiles per ns). HMX, DDR
and flash storage serve queued tile jobs first in, first out, so when one of them saturates, the stages that wait for it
advance at equal tiles per ns, weighted by their buffer depth: all rates rise together until an engine is full or a
stage meets its own limit.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from hexenv.engine.jit import njit
from hexenv.engine.layout import MAX_SLOTS, HmxLock, Mode, Phase

_PROLOGUE = int(Phase.PROLOGUE)
_BODY = int(Phase.BODY)
_CONCURRENT = int(Mode.CONCURRENT)
_CHUNK = int(HmxLock.CHUNK)
_FULL = 1e-12
"""An engine with less than this share left is full."""


@njit
def is_working(slot: Any) -> bool:
    """Whether the stage in ``slot`` uses engines: it is in its prologue or body."""
    return slot.phase == _PROLOGUE or slot.phase == _BODY


@njit
def _own_limit(config: Any, variant: Any, slot: Any) -> float:
    """Tiles per ns alone on its present contexts, interference and noise included."""
    stretch = slot.slowdown * slot.noise
    if slot.phase == _PROLOGUE:
        return variant.tiles / (variant.prologue_ns[slot.contexts] * stretch)
    ddr = slot.ddr_tile_ns / config.ddr_free + variant.unloaded_ns[slot.contexts] / variant.tiles * stretch
    hvx = variant.body_hvx_ns[slot.contexts] / variant.tiles * stretch
    hmx = slot.hmx_tile_ns
    compute = max(hvx, hmx) if variant.depth >= 2.0 else hvx + hmx
    return 1.0 / max(ddr, slot.storage_tile_ns, compute)


@njit
def _fill(variants: Any, slots: Any, ddr_left: float) -> None:
    """Progressive filling: raise ``rate`` of every rising slot together until engines or own limits stop them."""
    hmx_left, storage_left = 1.0, 1.0
    rising = MAX_SLOTS
    while rising > 0:
        ddr_slope, hmx_slope, storage_slope, step = 0.0, 0.0, 0.0, np.inf
        for k in range(MAX_SLOTS):
            slot = slots[k]
            if slot.rising:
                weight = variants[slot.variant].depth
                ddr_slope += weight * slot.ddr_tile_ns
                hmx_slope += weight * slot.hmx_tile_ns
                storage_slope += weight * slot.storage_tile_ns
                step = min(step, (slot.limit - slot.rate) / weight)
        if ddr_slope > 0.0:
            step = min(step, ddr_left / ddr_slope)
        if hmx_slope > 0.0:
            step = min(step, hmx_left / hmx_slope)
        if storage_slope > 0.0:
            step = min(step, storage_left / storage_slope)
        if step == np.inf:
            return
        step = max(step, 0.0)
        ddr_left -= step * ddr_slope
        hmx_left -= step * hmx_slope
        storage_left -= step * storage_slope
        rising = 0
        for k in range(MAX_SLOTS):
            slot = slots[k]
            if slot.rising:
                slot.rate += step * variants[slot.variant].depth
                stopped = slot.rate >= slot.limit * (1.0 - _FULL)
                stopped |= slot.ddr_tile_ns > 0.0 and ddr_left <= _FULL
                stopped |= slot.hmx_tile_ns > 0.0 and hmx_left <= _FULL
                stopped |= slot.storage_tile_ns > 0.0 and storage_left <= _FULL
                slot.rising = not stopped
                rising += slot.rising


@njit
def _solve(config: Any, variants: Any, slots: Any, readers: int) -> None:
    """Rates under the present slow-downs; ``readers`` stages stream DDR."""
    for k in range(MAX_SLOTS):
        slot = slots[k]
        slot.rate = 0.0
        slot.rising = is_working(slot)
        if slot.rising:
            slot.limit = _own_limit(config, variants[slot.variant], slot)
    eta = config.eta_shared if readers > 1 else 1.0
    _fill(variants, slots, eta * config.ddr_free)


@njit
def update_rates(config: Any, variants: Any, lane: Any) -> None:
    """Set ``rate`` (tiles per ns) and ``slowdown`` of every slot in its prologue or body, until the next event.

    Interference (HVX reads of VTCM slow down while another stage's HMX streams operands, by ``beta * phi * use``) takes
    the other stages' HMX use from the solution without interference, in one pass.
    """
    slots = lane.slots
    working, hmx_stages, readers = 0, 0, 0
    for k in range(MAX_SLOTS):
        slot = slots[k]
        if is_working(slot):
            variant = variants[slot.variant]
            body = slot.phase == _BODY
            working += 1
            hmx_stages += body and variant.uses_hmx
            ddr_ns = variant.ddr_ns if body else variant.prologue_ddr_ns
            readers += ddr_ns > 0.0
            slot.slowdown = 1.0
            slot.ddr_tile_ns = ddr_ns / variant.tiles * slot.noise
            slot.hmx_tile_ns = variant.hmx_ns / variant.tiles * slot.noise if body else 0.0
            slot.storage_tile_ns = variant.storage_ns / variant.tiles * slot.noise if body else 0.0
    if working == 0:
        return
    if hmx_stages > 1 and config.mode == _CONCURRENT and config.hmx_lock == _CHUNK:
        for k in range(MAX_SLOTS):
            if slots[k].hmx_tile_ns > 0.0 and is_working(slots[k]):
                slots[k].hmx_tile_ns += config.handoff_ns
    _solve(config, variants, slots, readers)
    if working > 1 and hmx_stages > 0 and config.beta > 0.0:
        _interfere(config, variants, slots)
        _solve(config, variants, slots, readers)


@njit
def _interfere(config: Any, variants: Any, slots: Any) -> None:
    use = 0.0
    for k in range(MAX_SLOTS):
        if is_working(slots[k]):
            use += slots[k].rate * slots[k].hmx_tile_ns
    for k in range(MAX_SLOTS):
        slot = slots[k]
        if is_working(slot):
            others = use - slot.rate * slot.hmx_tile_ns
            slot.slowdown = 1.0 + config.beta * variants[slot.variant].phi * others
