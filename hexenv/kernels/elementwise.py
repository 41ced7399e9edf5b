"""Element-wise operators, gated units and rotary embedding: bound by DDR, HVX only."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hexenv.device import Device
from hexenv.errors import ConfigError
from hexenv.kernels.cost import StageCost
from hexenv.kernels.stream import stream_cost, vectors
from hexenv.kernels.variants import per_class, ranges

F32 = 4


@dataclass(frozen=True, slots=True)
class _Work:
    """Inputs of a kind and its HVX operations a vector: simple ones, exponentials, divisions."""

    inputs: int
    arithmetic: int
    exp: int = 0
    divide: int = 0


KINDS: dict[str, _Work] = {
    "add": _Work(2, 1),
    "sub": _Work(2, 1),
    "mul": _Work(2, 1),
    "div": _Work(2, 0, divide=1),
    "min": _Work(2, 1),
    "max": _Work(2, 1),
    "neg": _Work(1, 1),
    "abs": _Work(1, 1),
    "scale": _Work(1, 1),
    "sqr": _Work(1, 1),
    "sqrt": _Work(1, 0, divide=1),
    "relu": _Work(1, 1),
    "clip": _Work(1, 2),
    "hardsigmoid": _Work(1, 3),
    "hardswish": _Work(1, 4),
    "exp": _Work(1, 0, exp=1),
    "sigmoid": _Work(1, 1, exp=1, divide=1),
    "tanh": _Work(1, 3, exp=1, divide=1),
    "silu": _Work(1, 2, exp=1, divide=1),
    "gelu": _Work(1, 6, exp=1, divide=1),
    "erf": _Work(1, 8, exp=1, divide=1),
    "softplus": _Work(1, 6, exp=1, divide=1),
    "swiglu": _Work(2, 3, exp=1, divide=1),
    "geglu": _Work(2, 7, exp=1, divide=1),
}
"""Textbook forms: sigmoid-based, tanh-form GELU, Abramowitz-Stegun 7.1.26 for erf."""


def packets(kind: str, elements: int, device: Device) -> float:
    """HVX packets of a kind over ``elements``: loads, arithmetic in fp32 and stores."""
    work = KINDS[kind]
    each = (
        device.stream_packets
        + work.arithmetic * device.arithmetic_packets
        + work.exp * device.exp_packets
        + work.divide * device.divide_packets
    )
    return vectors(elements, F32) * each


@dataclass(frozen=True, slots=True)
class Elementwise:
    """One result an element; ``kind`` is a key of :data:`KINDS`. fp32 unless ``element_bytes`` is 2."""

    kind: str
    elements: int
    element_bytes: int = F32

    family: ClassVar[str] = "elementwise"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"element-wise kind = {self.kind!r}; allowed: {', '.join(KINDS)}")

    @property
    def name(self) -> str:
        """For example ``add 65536``."""
        return f"{self.kind} {self.elements}"

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX only: too little arithmetic a byte for HMX."""
        out_bytes = self.elements * self.element_bytes
        in_bytes = KINDS[self.kind].inputs * out_bytes

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            return stream_cost(
                device, tile_class, budget, in_bytes, out_bytes, packets(self.kind, self.elements, device)
            )

        yield from per_class(device, hvx)

    def split(self, parts: int) -> tuple[Elementwise, ...]:
        """Ranges of elements."""
        return tuple(replace(self, elements=size) for size in ranges(self.elements, parts, F32 * 32))


@dataclass(frozen=True, slots=True)
class Rope:
    """Rotary embedding of ``tokens`` x ``heads`` x ``head_dim`` fp32 values, sines and cosines from a table."""

    tokens: int
    heads: int
    head_dim: int

    family: ClassVar[str] = "rope"

    OPERATIONS: ClassVar[int] = 4
    """Two multiplications, an addition and the swap of the halves, a result vector."""

    @property
    def name(self) -> str:
        """For example ``rope 128x16x128``."""
        return f"rope {self.tokens}x{self.heads}x{self.head_dim}"

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX only."""
        elements = self.tokens * self.heads * self.head_dim
        packets_each = device.stream_packets + self.OPERATIONS * device.arithmetic_packets
        table_bytes = self.tokens * self.head_dim * F32

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            in_bytes = elements * F32 + table_bytes
            return stream_cost(
                device, tile_class, budget, in_bytes, elements * F32, vectors(elements, F32) * packets_each
            )

        yield from per_class(device, hvx)

    def split(self, parts: int) -> tuple[Rope, ...]:
        """Ranges of tokens, or of heads for a single token."""
        if self.tokens > 1:
            return tuple(replace(self, tokens=size) for size in ranges(self.tokens, parts))
        return tuple(replace(self, heads=size) for size in ranges(self.heads, parts))
