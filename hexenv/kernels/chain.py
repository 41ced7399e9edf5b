"""A megakernel: streaming operators run one after another on blocks in VTCM, so that what is between them never leaves.

Mechanism: fused kernels of Hexagon-MLIR (arXiv 2602.19762) and Diffuse (ASPLOS 25: an intermediate that dies in the
window becomes a local). One launch, one pass: DDR moves the outer bytes only, and a vector between two operators is
neither stored nor loaded again.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import pairwise
from math import gcd
from typing import ClassVar

from hexenv.device import Device
from hexenv.errors import ConfigError
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.elementwise import Elementwise, Rope
from hexenv.kernels.layout import Copy
from hexenv.kernels.operator import Operator
from hexenv.kernels.reduction import RmsNorm, Softmax
from hexenv.kernels.stream import BLOCK_BYTES, stream_tiles
from hexenv.kernels.variants import VECTOR_BYTES, per_class, ranges

STREAMING: dict[type, str] = {
    Elementwise: "elements",
    Rope: "tokens",
    Copy: "elements",
    RmsNorm: "rows",
    Softmax: "rows",
}
"""Operators that may stand in a chain, and the field that counts the independent pieces of their result."""


@dataclass(frozen=True, slots=True)
class Chain:
    """``operators`` in order, each reading the result of the one before."""

    operators: tuple[Operator, ...]

    family: ClassVar[str] = "chain"

    def __post_init__(self) -> None:
        if len(self.operators) < 2 or not all(type(operator) in STREAMING for operator in self.operators):
            names = ", ".join(type(operator).__name__ for operator in self.operators)
            allowed = ", ".join(kind.__name__ for kind in STREAMING)
            raise ConfigError(f"chain of [{names}]; allowed: at least two out of {allowed}")

    @property
    def name(self) -> str:
        """For example ``rms_norm 16x128 > rope 1x16x128``."""
        return " > ".join(operator.name for operator in self.operators)

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX only, each operator as in its own HVX version."""

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            scratch_bytes = device.contexts * BLOCK_BYTES
            stages = [_own(operator, device, tile_class) for operator in self.operators]
            present = [stage for stage in stages if stage is not None]
            if len(present) < len(stages):
                return None
            cost = _chained(present, device, scratch_bytes)
            return cost if cost.vtcm_bytes <= budget else None

        yield from per_class(device, hvx)

    def split(self, parts: int) -> tuple[Chain, ...]:
        """Ranges of the pieces that all operators share, so that a leaf needs no result of another one."""
        shared = common_pieces(self.operators)
        return tuple(self._over(size, shared) for size in ranges(shared, parts))

    def _over(self, size: int, shared: int) -> Chain:
        """The chain over ``size`` of its ``shared`` pieces."""
        parts = []
        for operator in self.operators:
            count = pieces(operator) // shared * size
            parts.append(replace(operator, **{STREAMING[type(operator)]: count}))  # type: ignore[type-var]
        return Chain(tuple(parts))


def pieces(operator: Operator) -> int:
    """Independent pieces of a streaming operator's result."""
    return int(getattr(operator, STREAMING[type(operator)]))


def common_pieces(operators: tuple[Operator, ...]) -> int:
    """Pieces into which all operators can be cut alike."""
    return gcd(*(pieces(operator) for operator in operators))


def _own(operator: Operator, device: Device, tile_class: int) -> StageCost | None:
    """The operator's HVX version in a tile class."""
    costs = (cost for cost in operator.costs(device) if cost.version is Version.HVX and cost.tile_class == tile_class)
    return next(costs, None)


def _chained(stages: list[StageCost], device: Device, scratch_bytes: int) -> StageCost:
    """One pass over ``stages``: less what crosses between them, and a scratch block a context for it.

    A result is consumed at once, so the scratch does not grow with the length of the chain. Floors add up, as on their
    own: those of inner copies are then a little too high, since VTCM loads are faster than DDR loads.
    """
    links = list(pairwise(stages))
    crossing = sum(producer.ddr_out_bytes for producer, _ in links)
    in_bytes = sum(stage.ddr_in_bytes for stage in stages)
    in_bytes -= sum(min(producer.ddr_out_bytes, consumer.ddr_in_bytes) for producer, consumer in links)
    out_bytes = stages[-1].ddr_out_bytes
    saved_us = crossing / VECTOR_BYTES * device.stream_packets * device.packet_us
    hvx_us = sum(stage.hvx_before_us for stage in stages)
    vtcm_bound_us = sum(stage.phi * stage.hvx_before_us for stage in stages)
    return replace(
        stages[0],
        tiles=stream_tiles(device, in_bytes + out_bytes),
        vtcm_bytes=max(stage.vtcm_bytes for stage in stages) + scratch_bytes,
        ddr_in_bytes=in_bytes,
        ddr_out_bytes=out_bytes,
        hvx_before_us=hvx_us - saved_us,
        hvx_before_floor_us=sum(stage.hvx_before_floor_us for stage in stages),
        phi=min(1.0, vtcm_bound_us / (hvx_us - saved_us)),
    )
