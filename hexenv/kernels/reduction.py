"""RMS norm, softmax and sums along rows: on HVX, or with row sums and row factors as tile products on HMX.

Sources: Dakkak et al. (ICS 19): a row sum is a product with ones, at 32 times the arithmetic minimum, since a tile
product yields 32 equal columns; llama.cpp Hexagon flash attention: a per-row factor is a product with a diagonal tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hexenv.device import Device
from hexenv.kernels.chunks import TILE, blocks
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.stream import stream_cost, vectors
from hexenv.kernels.variants import best_of, doublings, hybrid_split, per_class, ranges, vtcm_bound

F32 = 4
TILE_BYTES = 2048


@dataclass(frozen=True, slots=True)
class _Work:
    """What a row operator does, on HVX and with HMX.

    Counts are HVX operations a vector of 32 fp32 or a row; ``products`` are tile products a tile of 32 x 32.
    """

    arithmetic: int
    exp: int
    reductions: int
    row_divides: int
    matrix_arithmetic: int
    """Simple operations left on HVX when HMX sums and scales."""
    matrix_reductions: int
    products: int
    writes_all: bool
    """The result is as large as the input, not one value a row."""


def _costs(work: _Work, rows: int, columns: int, device: Device) -> Iterator[StageCost]:
    elements = rows * columns
    in_bytes = elements * F32
    out_bytes = in_bytes if work.writes_all else rows * F32

    def hvx(tile_class: int, budget: int) -> StageCost | None:
        each = (
            device.stream_packets + work.arithmetic * device.arithmetic_packets + work.exp * device.exp_packets
        ) * vectors(elements, F32)
        per_row = work.reductions * device.reduce_row_packets + work.row_divides * device.divide_packets
        return stream_cost(device, tile_class, budget, in_bytes, out_bytes, each + rows * per_row)

    def hmx(tile_class: int, budget: int) -> StageCost | None:
        fits = doublings(1, min(budget // _row_tile_bytes(work, rows, columns), blocks(rows, TILE)))
        return best_of(device, [_hmx(work, rows, columns, device, tile_class, fit) for fit in fits])

    yield from per_class(device, hvx, hmx, hybrid_split(device, hvx, hmx))


def _row_tile_bytes(work: _Work, rows: int, columns: int) -> int:
    """VTCM of 32 rows, double-buffered: fp32 in, fp16 tiles, results, a tile of sums and one of factors."""
    column_bytes = min(rows, TILE) * TILE * F32 + TILE_BYTES * (2 if work.writes_all else 1)
    return 2 * (blocks(columns, TILE) * column_bytes + 2 * TILE_BYTES)


def _hmx(work: _Work, rows: int, columns: int, device: Device, tile_class: int, fit: int) -> StageCost:
    """``fit`` row tiles at a time: HVX brings 32 rows into fp16 tiles, HMX sums and scales them, HVX stores."""
    row_tiles, column_tiles = blocks(rows, TILE), blocks(columns, TILE)
    steps = blocks(row_tiles, fit)
    elements = rows * columns
    operations = work.matrix_arithmetic * device.arithmetic_packets + work.exp * device.exp_packets
    row_packets = (
        work.matrix_reductions * device.reduce_row_packets * rows
        + (work.row_divides * device.divide_packets + device.stream_packets) * row_tiles
    )
    before_us = elements * device.activation_prep_ns * 1e-3
    before_us += (operations * vectors(elements, F32) + row_packets) * device.packet_us
    results = elements if work.writes_all else rows
    after_us = results * device.output_ns * 1e-3
    return StageCost(
        version=Version.HMX,
        tile_class=tile_class,
        tiles=steps,
        depth=2,
        vtcm_bytes=fit * _row_tile_bytes(work, rows, columns),
        ddr_in_bytes=elements * F32,
        ddr_out_bytes=results * F32,
        hvx_before_us=before_us,
        hvx_after_us=after_us,
        hmx_us=work.products * row_tiles * column_tiles * device.hmx_tile_us,
        fixed_us=device.hmx_fixed_us,
        fork_joins=2 * steps,
        phi=vtcm_bound(device, elements * F32 + results * 2, before_us + after_us),
    )


@dataclass(frozen=True, slots=True)
class RmsNorm:
    """Root-mean-square norm of each row, times a weight a column; fp32.

    On HMX the sums of squares are the diagonal of X X^T, the row factors a diagonal product, and the weights the
    per-column scales that HMX applies when it stores a tile.
    """

    rows: int
    columns: int

    family: ClassVar[str] = "norm"

    @property
    def name(self) -> str:
        """For example ``rms_norm 128x2048``."""
        return f"rms_norm {self.rows}x{self.columns}"

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX, HMX, or the rows split between them."""
        yield from _costs(_RMS_NORM, self.rows, self.columns, device)

    def split(self, parts: int) -> tuple[RmsNorm, ...]:
        """Ranges of rows."""
        return tuple(replace(self, rows=size) for size in ranges(self.rows, parts, TILE))


@dataclass(frozen=True, slots=True)
class Softmax:
    """Softmax of each row; fp32. The maximum and the exponential stay on HVX."""

    rows: int
    columns: int

    family: ClassVar[str] = "softmax"

    @property
    def name(self) -> str:
        """For example ``softmax 128x2048``."""
        return f"softmax {self.rows}x{self.columns}"

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX, HMX, or the rows split between them."""
        yield from _costs(_SOFTMAX, self.rows, self.columns, device)

    def split(self, parts: int) -> tuple[Softmax, ...]:
        """Ranges of rows."""
        return tuple(replace(self, rows=size) for size in ranges(self.rows, parts, TILE))


@dataclass(frozen=True, slots=True)
class Reduce:
    """Sum (or mean) of each row; fp32."""

    rows: int
    columns: int

    family: ClassVar[str] = "reduction"

    @property
    def name(self) -> str:
        """For example ``reduce 960x49``."""
        return f"reduce {self.rows}x{self.columns}"

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX, HMX, or the rows split between them."""
        yield from _costs(_REDUCE, self.rows, self.columns, device)

    def split(self, parts: int) -> tuple[Reduce, ...]:
        """Ranges of rows."""
        return tuple(replace(self, rows=size) for size in ranges(self.rows, parts, TILE))


# RMS norm: square, add, load again, two products. Softmax: maximum, load, subtract, add, load, product, store.
_RMS_NORM = _Work(5, 0, 1, 1, matrix_arithmetic=0, matrix_reductions=0, products=2, writes_all=True)
_SOFTMAX = _Work(7, 1, 2, 1, matrix_arithmetic=3, matrix_reductions=1, products=2, writes_all=True)
_REDUCE = _Work(0, 0, 1, 0, matrix_arithmetic=0, matrix_reductions=0, products=1, writes_all=False)
