"""Operators that move data and compute next to nothing: copies, rows by index, layout changes, gathers. HVX only.

Source: the llama.cpp Hexagon backend (``cpy-ops.c``, ``get-rows-ops.c``, ``set-rows-ops.c``, ``concat-ops.c``,
``pad-ops.c``, ``im2col-ops.c``, ``argsort-ops.c``): which of them load and store DDR from HVX and which go through VTCM
by DMA, and where they gather. Gathers only see VTCM, and threads share the gather unit (PR 22347).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hexenv.device import Device
from hexenv.errors import ConfigError
from hexenv.kernels.cost import StageCost
from hexenv.kernels.stream import direct_cost, stream_cost, vectors
from hexenv.kernels.variants import VECTOR_BYTES, per_class, ranges


@dataclass(frozen=True, slots=True)
class _Move:
    """What a kind does for a vector of results."""

    reads: float = 1.0
    """Bytes read from DDR a byte written."""
    by_dma: bool = True
    """Through VTCM by DMA, else by HVX loads and stores on DDR."""
    gathers: float = 0.0
    """Vectors fetched or scattered by the gather unit."""
    arithmetic: int = 0


KINDS: dict[str, _Move] = {
    "copy": _Move(by_dma=False),
    "get_rows": _Move(by_dma=False),
    "set_rows": _Move(reads=2.0, by_dma=False),
    "repeat": _Move(reads=0.0, by_dma=False),
    "fill": _Move(reads=0.0, by_dma=False),
    "concat": _Move(),
    "pad": _Move(),
    "im2col": _Move(reads=2.0),
    "transpose": _Move(gathers=1.0),
    "gather": _Move(gathers=1.0),
    "scatter": _Move(gathers=1.0),
    "argsort": _Move(by_dma=False, arithmetic=512),
}
"""``set_rows`` appends fp32 rows to an fp16 cache, ``im2col`` cuts fp32 patches that do not overlap into fp16 rows.

``repeat`` reads a small source from cache. ``argsort`` is the bitonic network over rows of 128 (the experts of a
router): 25 exchanges inside a vector, about 20 operations each, and 3 between vectors.
"""


@dataclass(frozen=True, slots=True)
class Copy:
    """Every element moved once; ``kind`` is a key of :data:`KINDS`. Elements and their size are those of the result."""

    elements: int
    element_bytes: int
    kind: str = "copy"

    family: ClassVar[str] = "copy"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"copy kind = {self.kind!r}; allowed: {', '.join(KINDS)}")

    @property
    def name(self) -> str:
        """For example ``copy 65536x2``."""
        return f"{self.kind} {self.elements}x{self.element_bytes}"

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX only."""
        move = KINDS[self.kind]
        out_bytes = self.elements * self.element_bytes
        in_bytes = move.reads * out_bytes
        moved = vectors(self.elements, self.element_bytes)
        packets = moved * (device.stream_packets + move.arithmetic * device.arithmetic_packets)
        gather_us = move.gathers * moved * device.gather_us

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            if move.by_dma:
                return stream_cost(device, tile_class, budget, in_bytes, out_bytes, packets, gather_us)
            return direct_cost(device, tile_class, in_bytes, out_bytes, packets)

        yield from per_class(device, hvx)

    def split(self, parts: int) -> tuple[Copy, ...]:
        """Ranges of elements."""
        return tuple(replace(self, elements=size) for size in ranges(self.elements, parts, VECTOR_BYTES))
