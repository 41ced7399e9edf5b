"""Shared by all families: budgets of the tile classes, the hybrid split of an output range, VTCM-bound shares."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator

from hexenv.device import Device
from hexenv.kernels.cost import StageCost, Version, alone_us

Plan = Callable[[int, int], StageCost | None]
"""Builds a variant from (tile class, VTCM budget in bytes), None if nothing fits."""

VECTOR_BYTES = 128
F16_LANES = 64
HYBRID_STEPS = 16
"""A hybrid gives HMX a whole number of sixteenths of the output range."""


def per_class(device: Device, *plans: Plan) -> Iterator[StageCost]:
    """What each plan makes of each tile class's VTCM budget."""
    for plan in plans:
        for tile_class, fraction in enumerate(device.tile_fractions):
            cost = plan(tile_class, int(device.vtcm_bytes * fraction))
            if cost is not None:
                yield cost


def alone_on(device: Device, cost: StageCost) -> float:
    """Predicted duration alone on all contexts of the device, launch excluded, us."""
    return alone_us(cost, device.contexts, device.fork_join_us, device.ddr_bytes_per_us)


def best_of(device: Device, costs: Iterable[StageCost]) -> StageCost | None:
    """The kernel's choice inside one budget: the shortest alone, then the smallest footprint; None of nothing."""
    return min(costs, key=lambda cost: (alone_on(device, cost), cost.vtcm_bytes), default=None)


def doublings(unit: int, most: int) -> Iterator[int]:
    """Sizes to try: ``unit`` times 1, 2, 4 ... below ``most``, and ``most`` itself if it is positive."""
    size = unit
    while size < most:
        yield size
        size *= 2
    if most > 0:
        yield most


def vtcm_bound(device: Device, read_bytes: float, hvx_us: float) -> float:
    """phi: part of ``hvx_us`` context-time that reading ``read_bytes`` from VTCM takes, 0 to 1."""
    if hvx_us <= 0.0:
        return 0.0
    return min(1.0, read_bytes / device.vtcm_read_bytes_per_us / hvx_us)


def hybrid_split(device: Device, hvx: Plan, hmx: Plan) -> Plan:
    """Plan of a HYBRID version that gives a part x of the output range to HMX and the rest to HVX.

    Each part gets half of the budget. x is the best in sixteenths for the operator alone: the shortest duration, then
    the smallest load of the busier engine. There is no hybrid where one engine with the whole budget does as well.
    """

    def plan(tile_class: int, budget: int) -> StageCost | None:
        vector, matrix = hvx(tile_class, budget // 2), hmx(tile_class, budget // 2)
        if vector is None or matrix is None:
            return None

        def load(cost: StageCost) -> tuple[float, float]:
            hvx_us = (cost.hvx_before_us + cost.hvx_after_us) / device.contexts
            return alone_on(device, cost), max(hvx_us, cost.hmx_us)

        pure = [cost for cost in (hvx(tile_class, budget), hmx(tile_class, budget)) if cost is not None]
        mixes = [_mix(vector, matrix, step / HYBRID_STEPS) for step in range(1, HYBRID_STEPS)]
        best = min(mixes, key=load)
        return best if load(best) < min(load(cost) for cost in pure) else None

    return plan


def _mix(vector: StageCost, matrix: StageCost, x: float) -> StageCost:
    def blend(name: str) -> float:
        return float((1.0 - x) * getattr(vector, name) + x * getattr(matrix, name))

    hvx_before, hvx_after = blend("hvx_before_us"), blend("hvx_after_us")
    vtcm_bound_us = (1.0 - x) * vector.phi * (vector.hvx_before_us + vector.hvx_after_us) + x * matrix.phi * (
        matrix.hvx_before_us + matrix.hvx_after_us
    )
    return StageCost(
        version=Version.HYBRID,
        tile_class=matrix.tile_class,
        tiles=max(1, math.ceil(blend("tiles"))),
        depth=matrix.depth,
        vtcm_bytes=vector.vtcm_bytes + matrix.vtcm_bytes,
        ddr_in_bytes=blend("ddr_in_bytes"),
        ddr_out_bytes=blend("ddr_out_bytes"),
        hvx_before_us=hvx_before,
        hvx_after_us=hvx_after,
        hvx_before_floor_us=blend("hvx_before_floor_us"),
        hvx_after_floor_us=blend("hvx_after_floor_us"),
        hmx_us=x * matrix.hmx_us,
        prologue_bytes=max(vector.prologue_bytes, matrix.prologue_bytes),
        prologue_hvx_us=vector.prologue_hvx_us + matrix.prologue_hvx_us,
        prologue_floor_us=max(vector.prologue_floor_us, matrix.prologue_floor_us),
        fixed_us=max(vector.fixed_us, matrix.fixed_us),
        fork_joins=math.ceil(blend("fork_joins")),
        phi=vtcm_bound_us / (hvx_before + hvx_after) if hvx_before + hvx_after > 0.0 else 0.0,
    )


def ranges(total: int, parts: int, step: int = 1) -> tuple[int, ...]:
    """Sizes of at most ``parts`` near-equal ranges of ``total``, each but the last a multiple of ``step``."""
    units = -(-total // step)
    parts = max(1, min(parts, units))
    base, extra = divmod(units, parts)
    sizes = [(base + (1 if part < extra else 0)) * step for part in range(parts)]
    sizes[-1] -= units * step - total
    return tuple(sizes)
