"""Image stencils over u8 pixels: on HVX, or the linear ones as products with banded matrices on HMX.

Sources: the kernel list of uwplse/rake (operations, u8 in and out); a one-dimensional filter over a tile is a product
with a banded 32 x 32 matrix and, for the neighbouring tile that its ends reach into, a second one.
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
from hexenv.kernels.variants import best_of, hybrid_split, per_class, ranges, vtcm_bound

U8 = 1
TILE_BYTES = 2048
BAND_TILES = 2
"""Tile products of a one-dimensional pass a tile: the tile itself and the neighbour its ends reach into."""
STRIP_ROWS = TILE
"""Rows worked on at a time grow by a tile's height."""


@dataclass(frozen=True, slots=True)
class _Work:
    """Radius, one-dimensional passes as matrix products (0 = not linear), and HVX operations left beside them."""

    radius: int
    passes: int
    left: int = 0


KINDS: dict[str, _Work] = {
    "gaussian3x3": _Work(1, 2),
    "gaussian5x5": _Work(2, 2),
    "gaussian7x7": _Work(3, 2),
    "box3x3": _Work(1, 2),
    "sobel3x3": _Work(1, 4, left=6),
    "conv3x3": _Work(1, 6),
    "median3x3": _Work(1, 0),
    "dilate3x3": _Work(1, 0),
}
"""Separable filters take two passes, Sobel two filters and a magnitude, a general 3x3 three shifts of two passes."""


@dataclass(frozen=True, slots=True)
class Stencil:
    """One filter over a ``height`` x ``width`` u8 image; ``kind`` is a key of :data:`KINDS`."""

    kind: str
    height: int
    width: int

    family: ClassVar[str] = "stencil"

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise ConfigError(f"stencil kind = {self.kind!r}; allowed: {', '.join(KINDS)}")

    @property
    def name(self) -> str:
        """For example ``gaussian3x3 1080x1920``."""
        return f"{self.kind} {self.height}x{self.width}"

    @property
    def _pixels(self) -> int:
        return self.height * self.width

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX; for linear filters also HMX and the output rows split between them."""

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            strips = self._strips(budget, self._hvx_bytes)
            return best_of(device, [self._hvx(device, tile_class, rows) for rows in strips])

        def hmx(tile_class: int, budget: int) -> StageCost | None:
            strips = self._strips(budget, self._hmx_bytes)
            return best_of(device, [self._hmx(device, tile_class, rows) for rows in strips])

        yield from per_class(device, hvx)
        if KINDS[self.kind].passes:
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
        return 2 * (2 * rows + 2 * KINDS[self.kind].radius) * self.width * U8

    def _hmx_bytes(self, rows: int) -> int:
        """The same, fp16 tiles before, between and after the passes, and the bands."""
        tiles = blocks(rows, TILE) * blocks(self.width, TILE) * TILE_BYTES
        return self._hvx_bytes(rows) + 3 * tiles + BAND_TILES * KINDS[self.kind].passes * TILE_BYTES

    def _in_bytes(self, strips: int) -> int:
        return (self.height + 2 * KINDS[self.kind].radius * strips) * self.width * U8

    def _hvx(self, device: Device, tile_class: int, rows: int) -> StageCost:
        """Strips of rows in and out by double-buffered DMA, rows of a strip split over the contexts."""
        strips = blocks(self.height, rows)
        hvx_us = vectors(self._pixels, U8) * getattr(device, f"{self.kind}_packets") * device.packet_us
        return StageCost(
            version=Version.HVX,
            tile_class=tile_class,
            tiles=strips,
            depth=2,
            vtcm_bytes=self._hvx_bytes(rows),
            ddr_in_bytes=self._in_bytes(strips),
            ddr_out_bytes=self._pixels * U8,
            hvx_before_us=hvx_us,
            fixed_us=device.kernel_fixed_us,
            fork_joins=strips,
            phi=vtcm_bound(device, 3 * self._pixels * U8, hvx_us),
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
            ddr_out_bytes=self._pixels * U8,
            hvx_before_us=before_us,
            hvx_after_us=after_us,
            hmx_us=tiles * work.passes * BAND_TILES * device.hmx_tile_us,
            fixed_us=device.hmx_fixed_us,
            fork_joins=2 * strips,
            phi=vtcm_bound(device, 3 * self._pixels, before_us + after_us),
        )
