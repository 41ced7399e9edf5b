"""Which variants of an operator a scheduler may choose from, and the leaf kernels it is cut into."""

from __future__ import annotations

import math

from hexenv.device import Device
from hexenv.errors import ConfigError
from hexenv.kernels.cost import StageCost
from hexenv.kernels.operator import Operator
from hexenv.kernels.variants import alone_on

SLOWEST = 8.0
"""A variant more than so many times slower than the fastest is not offered."""
GAIN = 0.01
"""What a larger tile class of a version must gain somewhere to be offered."""

Profile = tuple[float, float, float, float, float]


def profile(cost: StageCost, device: Device) -> Profile:
    """``(D us, V context-us, M us, VTCM bytes, duration alone us)`` of a variant, prologue included."""
    ddr_bytes = cost.prologue_bytes + cost.ddr_in_bytes + cost.ddr_out_bytes
    hvx_us = cost.prologue_hvx_us + cost.hvx_before_us + cost.hvx_after_us
    return ddr_bytes / device.ddr_bytes_per_us, hvx_us, cost.hmx_us, cost.vtcm_bytes, alone_on(device, cost)


def offers(operator: Operator, device: Device) -> tuple[StageCost, ...]:
    """The variants worth choosing from, by version and tile class.

    Left out: variants that do not fit VTCM, those no better than another one in any of (D, V, M, VTCM, duration), tile
    classes that gain less than :data:`GAIN` over a smaller one of their version, and variants more than
    :data:`SLOWEST` times slower than the fastest.

    Raises:
        ConfigError: nothing fits VTCM.
    """
    costs = sorted(operator.costs(device), key=lambda cost: (cost.version, cost.tile_class))
    if not costs:
        raise ConfigError(
            f"operator {operator.name}: no version fits the VTCM of device {device.name} ({device.vtcm_bytes} bytes)"
        )
    profiles = [profile(cost, device) for cost in costs]
    slowest = SLOWEST * min(duration for *_, duration in profiles)

    def beaten(mine: int) -> bool:
        others = (index for index in range(len(costs)) if index != mine)
        return any(_beats(costs, profiles, other, mine) for other in others)

    return tuple(cost for index, cost in enumerate(costs) if profiles[index][-1] <= slowest and not beaten(index))


def _beats(costs: list[StageCost], profiles: list[Profile], other: int, mine: int) -> bool:
    """Whether the variant at ``other`` makes the one at ``mine`` pointless; of two equal ones the first stays."""
    theirs, own = profiles[other], profiles[mine]
    if costs[other].version is costs[mine].version and costs[other].vtcm_bytes < costs[mine].vtcm_bytes:
        return all(a <= b * (1 + GAIN) for a, b in zip(theirs, own, strict=True))
    return all(a <= b for a, b in zip(theirs, own, strict=True)) and (theirs != own or other < mine)


def fastest_us(operator: Operator, device: Device) -> float:
    """Duration of the operator's fastest variant, alone, us."""
    return min(alone_on(device, cost) for cost in offers(operator, device))


def leaves(operator: Operator, device: Device, limit_us: float = 500.0) -> tuple[Operator, ...]:
    """Leaf kernels over output ranges, each at most ``limit_us`` in its fastest version alone, where the output allows.

    A resident leaf is not pre-empted, so its length bounds how long a frame can be blocked. The parts do not depend on
    the version. Each repeats its kernel's fixed time, pipeline fill and prologue, and what its family's ``split`` says.
    """
    parts = max(1, math.ceil(fastest_us(operator, device) / limit_us))
    best: tuple[Operator, ...] = (operator,)
    while True:
        pieces = operator.split(parts)
        if len(pieces) <= len(best) and parts > 1:
            return best
        best = pieces
        longest = max(fastest_us(piece, device) for piece in set(pieces))
        if longest <= limit_us:
            return best
        parts = max(len(pieces) + 1, math.ceil(len(pieces) * longest / limit_us))
