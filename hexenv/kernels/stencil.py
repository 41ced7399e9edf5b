"""Image stencils over u8 pixels: on HVX, or the linear ones as products with banded matrices on HMX.

Sources: the image kernels of uwplse/rake (Rake, ASPLOS 22); packets a vector are device constants, bracketed by that
repository's simulator profiles. A one-dimensional filter over a tile is a product with a banded 32 x 32 matrix and, for
the neighbouring tile that its ends reach into, a second one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hexenv.device import Device
from hexenv.errors import ConfigError
from hexenv.kernels.chunks import TILE, blocks
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.stream import vectors
from hexenv.kernels.techniques import check, one_of
from hexenv.kernels.variants import best_of, hybrid_split, per_class, ranges, vtcm_bound

U8 = 1
TILE_BYTES = 2048
BAND_TILES = 2
"""Tile products of a one-dimensional pass a tile: the tile itself and the neighbour its ends reach into."""
STRIP_ROWS = TILE
"""Rows worked on at a time grow by a tile's height."""


@dataclass(frozen=True, slots=True)
class _Work:
    """One kind of filter."""

    radius: int
    """Rows above and below that an output row needs."""
    passes: int
    """One-dimensional passes as matrix products, 0 = not linear."""
    left: int = 0
    """HVX operations a vector of pixels left beside the matrix products."""
    in_bytes: int = U8
    """Bytes of an input pixel."""
    out_bytes: int = U8
    """Bytes of an output pixel."""


KINDS: dict[str, _Work] = {
    "gaussian3x3": _Work(1, 2),
    "gaussian5x5": _Work(2, 2),
    "gaussian7x7": _Work(3, 2),
    "box3x3": _Work(1, 2),
    "sobel3x3": _Work(1, 4, left=6),
    "conv3x3": _Work(1, 6),
    "conv3x3a16": _Work(1, 6),
    "median3x3": _Work(1, 0),
    "dilate3x3": _Work(1, 0),
    "camera_pipe": _Work(6, 0, in_bytes=2, out_bytes=3),
}
"""Separable filters take two passes, Sobel two filters and a magnitude, a general 3x3 three shifts of two passes.

``box3x3`` is Rake's blur3x3, ``conv3x3`` its conv3x3a32 (32-bit sums; ``a16``: 16-bit). ``camera_pipe`` makes RGB of a
16-bit Bayer image: hot pixels (2 rows around), demosaic (4 rows around), colour matrix, tone curve.
"""


@dataclass(frozen=True, slots=True)
class Stencil:
    """One filter over a ``height`` x ``width`` image of u8 pixels; ``kind`` is a key of :data:`KINDS`."""

    kind: str
    height: int
    width: int
    matrix: str = one_of(
        "banded",
        "off",
        source="linear filters as products with banded matrices on HMX, the idea of Dakkak et al. (ICS 19) for sums; "
        "off: HVX only, as the kernels of Rake (ASPLOS 22)",
    )
    register_rows: int | str = one_of(
        "radius",
        1,
        2,
        4,
        source="output rows that share their input rows in registers: 4 in the schedules of Rake (ASPLOS 22), 1 or 2 "
        "in hand-written HVX kernels, by default as many as the radius, which is three reads a pixel. Saves VTCM "
        "reads, no packets: loads ride in the packets of the arithmetic",
    )

    family: ClassVar[str] = "stencil"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"stencil kind = {self.kind!r}; allowed: {', '.join(KINDS)}")
        check(self)

    @property
    def name(self) -> str:
        """For example ``gaussian3x3 1080x1920``."""
        return f"{self.kind} {self.height}x{self.width}"

    @property
    def _pixels(self) -> int:
        return self.height * self.width

    @property
    def _row_reads(self) -> float:
        """Times an input row is read from VTCM: a register tile of r rows reads r + 2 * radius."""
        radius = KINDS[self.kind].radius
        rows = radius if self.register_rows == "radius" else int(self.register_rows)
        return (rows + 2 * radius) / rows

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX; for linear filters also HMX and the output rows split between them."""

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            strips = self._strips(budget, self._hvx_bytes)
            return best_of(device, [self._hvx(device, tile_class, rows) for rows in strips])

        def hmx(tile_class: int, budget: int) -> StageCost | None:
            strips = self._strips(budget, self._hmx_bytes)
            return best_of(device, [self._hmx(device, tile_class, rows) for rows in strips])

        yield from per_class(device, hvx)
        if KINDS[self.kind].passes and self.matrix == "banded":
            yield from per_class(device, hmx, hybrid_split(device, hvx, hmx))

    def split(self, parts: int) -> tuple[Stencil, ...]:
        """Ranges of output rows; each reads its halo again."""
        return tuple(replace(self, height=size) for size in ranges(self.height, parts, STRIP_ROWS))

    def _strips(self, budget: int, vtcm_bytes: Callable[[int], int]) -> list[int]:
        """Strip heights that fit ``budget``: multiples of 32 rows, and all rows."""
        heights = [*range(STRIP_ROWS, self.height, STRIP_ROWS), self.height]
        return [rows for rows in heights if vtcm_bytes(rows) <= budget]

    def _hvx_bytes(self, rows: int) -> int:
        """Strip with halo in, strip out, both double-buffered."""
        work = KINDS[self.kind]
        return 2 * ((rows + 2 * work.radius) * work.in_bytes + rows * work.out_bytes) * self.width

    def _hmx_bytes(self, rows: int) -> int:
        """The same, fp16 tiles before, between and after the passes, and the bands."""
        tiles = blocks(rows, TILE) * blocks(self.width, TILE) * TILE_BYTES
        return self._hvx_bytes(rows) + 3 * tiles + BAND_TILES * KINDS[self.kind].passes * TILE_BYTES

    def _in_bytes(self, strips: int) -> int:
        work = KINDS[self.kind]
        return (self.height + 2 * work.radius * strips) * self.width * work.in_bytes

    def _hvx(self, device: Device, tile_class: int, rows: int) -> StageCost:
        """Strips of rows in and out by double-buffered DMA, rows of a strip split over the contexts."""
        work = KINDS[self.kind]
        strips = blocks(self.height, rows)
        hvx_us = vectors(self._pixels, U8) * getattr(device, f"{self.kind}_packets") * device.packet_us
        return StageCost(
            version=Version.HVX,
            tile_class=tile_class,
            tiles=strips,
            depth=2,
            vtcm_bytes=self._hvx_bytes(rows),
            ddr_in_bytes=self._in_bytes(strips),
            ddr_out_bytes=self._pixels * work.out_bytes,
            hvx_before_us=hvx_us,
            fixed_us=device.kernel_fixed_us,
            fork_joins=strips,
            phi=vtcm_bound(device, self._row_reads * self._pixels * work.in_bytes, hvx_us),
        )

    def _hmx(self, device: Device, tile_class: int, rows: int) -> StageCost:
        """HVX widens a strip to fp16 tiles, HMX multiplies by the bands, HVX rounds back to u8."""
        work = KINDS[self.kind]
        strips = blocks(self.height, rows)
        tiles = blocks(self.height, TILE) * blocks(self.width, TILE)
        pixel_vectors = vectors(self._pixels, U8)
        before_us = pixel_vectors * device.image_to_tiles_packets * device.packet_us
        after_packets = device.tiles_to_image_packets + work.left * device.arithmetic_packets
        after_us = pixel_vectors * after_packets * device.packet_us
        return StageCost(
            version=Version.HMX,
            tile_class=tile_class,
            tiles=strips,
            depth=2,
            vtcm_bytes=self._hmx_bytes(rows),
            ddr_in_bytes=self._in_bytes(strips),
            ddr_out_bytes=self._pixels * work.out_bytes,
            hvx_before_us=before_us,
            hvx_after_us=after_us,
            hmx_us=tiles * work.passes * BAND_TILES * device.hmx_tile_us,
            fixed_us=device.hmx_fixed_us,
            fork_joins=2 * strips,
            phi=vtcm_bound(device, 3 * self._pixels, before_us + after_us),
        )
