"""What the llama.cpp Hexagon backend runs for an operator: the engine, all of VTCM, and so the time.

Sources: the backend's own rules (``ggml-hexagon``): a matmul runs on HMX from five tokens on where its sides are
multiples of 32 and, if batched, its weights fp16; flash attention from five query rows on or above head size 128, with
head sizes a multiple of 64; the current gated delta net in prefill; everything else on HVX. Builds before HMX support
run everything on HVX.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from hexenv.device import Device
from hexenv.errors import ConfigError
from hexenv.kernels import ExpertMatMul, FlashAttention, GatedDeltaNet, MatMul, Operator, StageCost, Version
from hexenv.kernels.matmul import backend_version
from hexenv.kernels.variants import alone_on

HMX_TOKENS = 5
"""Tokens, or query rows, from which HMX is used."""
WIDE_HEAD = 128
"""Attention with a larger head runs on HMX whatever its rows."""
HEAD_STEP = 64


@dataclass(frozen=True, slots=True)
class Generation:
    """A state of the backend, as far as the model tells them apart."""

    pipeline: str
    """Generation of the HMX matmul kernel (see ``hexenv.device.device.PIPELINES``)."""
    hmx: bool = True
    """Whether it uses HMX at all."""
    hmx_delta_net: bool = True
    """Whether the gated delta net has a kernel on HMX (PR 29199)."""


GENERATIONS: Mapping[str, Generation] = {
    "overlapped": Generation("overlapped"),
    "serial": Generation("serial"),
    "hvx": Generation("overlapped", hmx=False),
    "hvx delta net": Generation("overlapped", hmx_delta_net=False),
}
"""By name: current; older, HVX and HMX take turns; before HMX support; before the delta net's kernel on HMX."""


def version(operator: Operator, generation: Generation) -> Version:
    """The engine that the backend gives an operator to."""
    if not generation.hmx:
        return Version.HVX
    if isinstance(operator, MatMul):
        return backend_version(operator)
    if isinstance(operator, FlashAttention):
        tiled = operator.head_dim % HEAD_STEP == 0
        wanted = tiled and (operator.queries >= HMX_TOKENS or operator.head_dim > WIDE_HEAD)
    elif isinstance(operator, GatedDeltaNet):
        wanted = generation.hmx_delta_net and operator.tokens >= HMX_TOKENS
    else:
        wanted = isinstance(operator, ExpertMatMul) and sum(operator.rows) >= HMX_TOKENS
    return Version.HMX if wanted else Version.HVX


def cost(operator: Operator, device: Device, generation: Generation) -> StageCost:
    """The variant that the backend runs: its engine's, with all of VTCM."""
    return cost_on(operator, device.with_pipeline(generation.pipeline), version(operator, generation))


def cost_on(operator: Operator, device: Device, wanted: Version) -> StageCost:
    """The variant of one engine with all of VTCM.

    Raises:
        ConfigError: it does not fit, or there is no such version.
    """
    costs: list[StageCost] = []
    for one in operator.costs(device):
        if one.version is wanted:
            costs.append(one)
        elif costs and one.version is Version.HYBRID:
            break  # versions follow one another, and HYBRID ones, the last, are the dearest to make
    if not costs:
        raise ConfigError(f"{operator.name} does not fit VTCM of {device.name} as {wanted.name}")
    return max(costs, key=lambda c: c.tile_class)


def duration_us(operator: Operator, device: Device, generation: Generation) -> float:
    """Time of the operator on the NPU, dispatch excluded, us."""
    hashable: Any = operator
    return _duration_us(hashable, device, generation)


@lru_cache(maxsize=4096)
def _duration_us(operator: Any, device: Device, generation: Generation) -> float:
    return alone_on(device, cost(operator, device, generation))
