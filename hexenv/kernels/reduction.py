"""Norms, softmax, sums and prefix sums along rows: on HVX, or with sums and row factors as tile products on HMX.

Sources: Dakkak et al. (ICS 19, arXiv 1811.09736): a row sum is a product with ones, at 32 times the arithmetic minimum,
since a tile product yields 32 equal columns; a prefix sum is a product with triangular ones and a second pass over the
block sums. llama.cpp Hexagon: rows are split over threads; a per-row factor is a product with a diagonal tile.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from hexenv.device import Device
from hexenv.kernels.chunks import TILE, blocks
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.exponential import SOURCE as EXP_SOURCE
from hexenv.kernels.exponential import Exponentials, exponentials
from hexenv.kernels.stream import stream_cost, vectors
from hexenv.kernels.techniques import check, one_of
from hexenv.kernels.variants import best_of, doublings, hybrid_split, per_class, ranges, vtcm_bound

F32 = 4
TILE_BYTES = 2048


@dataclass(frozen=True, slots=True)
class _Work:
    """What a row operator does, on HVX and with HMX, exponentials aside.

    Counts are HVX operations a vector of 32 fp32 or a row; ``products`` are tile products a tile of 32 x 32.
    """

    arithmetic: int
    reductions: int
    row_divides: int
    matrix_arithmetic: int
    """Simple operations left on HVX when HMX sums and scales."""
    matrix_reductions: int
    products: int
    writes_all: bool = True
    """The result is as large as the input, not one value a row."""
    carries: bool = False
    """HMX sums over the blocks of 32 columns in a second pass."""


@dataclass(frozen=True, slots=True)
class _Rows:
    """An operator along each of ``rows`` rows of ``columns`` fp32."""

    rows: int
    columns: int

    family: ClassVar[str]
    kind: ClassVar[str]
    """Key of :data:`WORK`, and the label."""

    @property
    def name(self) -> str:
        """Kind and shape, for example ``softmax 128x2048``."""
        return f"{self.kind} {self.rows}x{self.columns}"

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX, HMX, or the rows split between them, in every tile class that fits."""

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            return self._hvx(device, tile_class, budget)

        def hmx(tile_class: int, budget: int) -> StageCost | None:
            most = (budget - self._exponentials(device).table_bytes) // self._row_tile_bytes
            fits = doublings(1, min(most, blocks(self.rows, TILE)))
            return best_of(device, [self._hmx(device, tile_class, fit) for fit in fits])

        yield from per_class(device, hvx, hmx, hybrid_split(device, hvx, hmx))

    def split(self, parts: int) -> tuple[Self, ...]:
        """Ranges of rows."""
        return tuple(replace(self, rows=size) for size in ranges(self.rows, parts, TILE))

    @property
    def _work(self) -> _Work:
        return WORK[self.kind]

    @property
    def _elements(self) -> int:
        return self.rows * self.columns

    @property
    def _results(self) -> int:
        return self._elements if self._work.writes_all else self.rows

    @property
    def _row_tile_bytes(self) -> int:
        """VTCM of 32 rows, double-buffered: fp32 in, fp16 tiles, results, a tile of sums and one of factors."""
        column_bytes = min(self.rows, TILE) * TILE * F32 + TILE_BYTES * (2 if self._work.writes_all else 1)
        return 2 * (blocks(self.columns, TILE) * column_bytes + 2 * TILE_BYTES)

    def _exponentials(self, device: Device) -> Exponentials:
        """Exponentials of the operator: none but in softmax."""
        return Exponentials(0.0, 0.0, 0)

    def _hvx(self, device: Device, tile_class: int, budget: int) -> StageCost | None:
        """Rows split over the contexts: no faster than one row on one of them."""
        work = self._work
        exp = self._exponentials(device)
        packets = (device.stream_packets + work.arithmetic * device.arithmetic_packets) * vectors(self._elements, F32)
        row_packets = work.reductions * device.reduce_row_packets + work.row_divides * device.divide_packets
        packets += self.rows * row_packets
        in_bytes, out_bytes = self._elements * F32, self._results * F32
        cost = stream_cost(device, tile_class, budget - exp.table_bytes, in_bytes, out_bytes, packets)
        if cost is None:
            return None
        hvx_us = cost.hvx_before_us + exp.hvx_us
        return replace(
            cost,
            vtcm_bytes=cost.vtcm_bytes + exp.table_bytes,
            hvx_before_us=hvx_us,
            hvx_before_floor_us=max(hvx_us / self.rows, exp.gather_us),
            phi=vtcm_bound(device, in_bytes, hvx_us),
        )

    def _hmx(self, device: Device, tile_class: int, fit: int) -> StageCost:
        """``fit`` row tiles at a time: HVX brings 32 rows into fp16 tiles, HMX sums and scales them, HVX stores."""
        work = self._work
        exp = self._exponentials(device)
        row_tiles, column_tiles = blocks(self.rows, TILE), blocks(self.columns, TILE)
        steps = blocks(row_tiles, fit)
        packets = work.matrix_arithmetic * device.arithmetic_packets * vectors(self._elements, F32)
        packets += work.matrix_reductions * device.reduce_row_packets * self.rows
        packets += (work.row_divides * device.divide_packets + device.stream_packets) * row_tiles
        before_us = self._elements * device.activation_prep_ns * 1e-3 + packets * device.packet_us + exp.hvx_us
        after_us = self._results * device.output_ns * 1e-3
        carry_blocks = blocks(column_tiles, TILE)
        row_products = work.products * column_tiles
        if work.carries:
            row_products += carry_blocks * (carry_blocks + 1) // 2
        return StageCost(
            version=Version.HMX,
            tile_class=tile_class,
            tiles=steps,
            depth=2,
            vtcm_bytes=fit * self._row_tile_bytes + exp.table_bytes,
            ddr_in_bytes=self._elements * F32,
            ddr_out_bytes=self._results * F32,
            hvx_before_us=before_us,
            hvx_before_floor_us=exp.gather_us,
            hvx_after_us=after_us,
            hmx_us=row_tiles * row_products * device.hmx_tile_us,
            fixed_us=device.hmx_fixed_us,
            fork_joins=2 * steps,
            phi=vtcm_bound(device, self._elements * F32 + self._results * 2, before_us + after_us),
        )


@dataclass(frozen=True, slots=True)
class RmsNorm(_Rows):
    """Root-mean-square norm of each row, times a weight a column; fp32.

    On HMX the sums of squares are the diagonal of X X^T, the row factors a diagonal product, and the weights the
    per-column scales that HMX applies when it stores a tile.
    """

    family: ClassVar[str] = "norm"
    kind: ClassVar[str] = "rms_norm"


@dataclass(frozen=True, slots=True)
class LayerNorm(_Rows):
    """Mean and variance norm of each row, times a weight and plus a bias a column; fp32.

    On HMX as :class:`RmsNorm`, with a product with ones for the mean and one of rank 1 that subtracts it.
    """

    family: ClassVar[str] = "norm"
    kind: ClassVar[str] = "layer_norm"


@dataclass(frozen=True, slots=True)
class L2Norm(_Rows):
    """Each row divided by its Euclidean length; fp32. On HMX as :class:`RmsNorm`."""

    family: ClassVar[str] = "norm"
    kind: ClassVar[str] = "l2_norm"


@dataclass(frozen=True, slots=True)
class Softmax(_Rows):
    """Softmax of each row; fp32. The maximum and the exponential stay on HVX."""

    exp: str = one_of("f32", "f16", "table", "split", source=EXP_SOURCE)

    family: ClassVar[str] = "softmax"
    kind: ClassVar[str] = "softmax"

    def __post_init__(self) -> None:
        check(self)

    def _exponentials(self, device: Device) -> Exponentials:
        polynomial_us = vectors(self._elements, F32) * device.exp_packets * device.packet_us / device.exp_f32_ratio
        return exponentials(self.exp, polynomial_us, self._elements, device)


@dataclass(frozen=True, slots=True)
class Reduce(_Rows):
    """Sum, mean or maximum of each row; fp32. On HMX a sum is a product with ones."""

    family: ClassVar[str] = "reduction"
    kind: ClassVar[str] = "reduce"


@dataclass(frozen=True, slots=True)
class Scan(_Rows):
    """Prefix sum of each row; fp32.

    On HVX five shift-and-add steps a vector, and the last lane carried to the next vector (llama.cpp ``cumsum-ops.c``).
    On HMX each tile times upper triangular ones, plus carries: sums of blocks of 32 columns by products with a column
    of ones, their prefix sums by strictly triangular ones, and a product that spreads them over each block.
    """

    family: ClassVar[str] = "scan"
    kind: ClassVar[str] = "scan"


WORK: dict[str, _Work] = {
    # square, add, load again, two products
    "rms_norm": _Work(5, 1, 1, matrix_arithmetic=0, matrix_reductions=0, products=2),
    # add, square, add, load again, subtract, two products, add
    "layer_norm": _Work(8, 2, 1, matrix_arithmetic=0, matrix_reductions=0, products=4),
    # square, add, load again, product
    "l2_norm": _Work(4, 1, 1, matrix_arithmetic=0, matrix_reductions=0, products=2),
    # maximum, load, subtract, add, load, product, store
    "softmax": _Work(7, 2, 1, matrix_arithmetic=3, matrix_reductions=1, products=2),
    # the addition takes the place of the store
    "reduce": _Work(0, 1, 0, matrix_arithmetic=0, matrix_reductions=0, products=1, writes_all=False),
    # five shifts, six additions, one spread of the last lane
    "scan": _Work(12, 0, 0, matrix_arithmetic=0, matrix_reductions=0, products=3, carries=True),
}
"""Work of each kind."""
