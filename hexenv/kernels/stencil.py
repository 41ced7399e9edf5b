"""Image stencils over u8 pixels: on HVX, or the linear ones as products with banded matrices on HMX.

Sources: the kernel list of uwplse/rake (operations, u8 in and out); a one-dimensional filter over a tile is a product with
a banded 32 x 32 matrix and, for the neighbouring tile that its ends reach into, a second one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hexenv.device import Device
from hexenv.errors import ConfigError
from hexenv.kernels.chunks import TILE, blocks
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.stream import vectors
from hexenv.kernels.variants import hybrid_split, per_class, ranges, vtcm_bound

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
"""Separable filters take two passes, Sobel two filters and a magnitude, a general 3x3 three row shifts of two passes."""


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
            return self._hvx(device, tile_class, budget)

        def hmx(tile_class: int, budget: int) -> StageCost | None:
            return self._hmx(device, tile_class, budget)

        yield from per_class(device, hvx)
        if KINDS[self.kind].passes:
            yield from per_class(device, hmx, hybrid_split(device, hvx, hmx))

    def split(self, parts: int) -> tuple[Stencil, ...]:
        """Ranges of output rows; each reads its halo again."""
        return tuple(replace(self, height=size) for size in ranges(self.height, parts, STRIP_ROWS))

    def _strip(self, budget: int, row_bytes: int, halo_bytes: int) -> int:
        """Most rows, a multiple of 32 or all, whose strip fits ``budget``; 0 if none."""
        fit = (budget - halo_bytes) // row_bytes // STRIP_ROWS * STRIP_ROWS
        return min(fit, self.height) if fit > 0 else 0

    def _in_bytes(self, strips: int) -> int:
        return (self.height + 2 * KINDS[self.kind].radius * strips) * self.width * U8

    def _hvx(self, device: Device, tile_class: int, budget: int) -> StageCost | None:
        """Strips of rows in and out by double-buffered DMA, rows of a strip split over the contexts."""
        row_bytes = 4 * self.width * U8
        halo_bytes = 4 * KINDS[self.kind].radius * self.width * U8
        strip = self._strip(budget, row_bytes, halo_bytes)
        if strip == 0:
            return None
        strips = blocks(self.height, strip)
        hvx_us = vectors(self._pixels, U8) * getattr(device, f"{self.kind}_packets") * device.packet_us
        return StageCost(
            version=Version.HVX,
            tile_class=tile_class,
            tiles=strips,
            depth=2,
            vtcm_bytes=strip * row_bytes + halo_bytes,
            ddr_in_bytes=self._in_bytes(strips),
            ddr_out_bytes=self._pixels * U8,
            hvx_before_us=hvx_us,
            fixed_us=device.kernel_fixed_us,
            fork_joins=strips,
            phi=vtcm_bound(device, 3 * self._pixels * U8, hvx_us),
        )

    def _hmx(self, device: Device, tile_class: int, budget: int) -> StageCost | None:
        """HVX widens a strip to fp16 tiles, HMX multiplies by the bands, HVX rounds back to u8."""
        work = KINDS[self.kind]
        row_bytes = (4 + 3 * 2) * self.width
        halo_bytes = 4 * work.radius * self.width + (TILE + 2 * work.passes) * TILE_BYTES
        strip = self._strip(budget, row_bytes, halo_bytes)
        if strip == 0:
            return None
        strips = blocks(self.height, strip)
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
            vtcm_bytes=strip * row_bytes + halo_bytes,
            ddr_in_bytes=self._in_bytes(strips),
            ddr_out_bytes=self._pixels * U8,
            hvx_before_us=before_us,
            hvx_after_us=after_us,
            hmx_us=tiles * work.passes * BAND_TILES * device.hmx_tile_us,
            fixed_us=device.hmx_fixed_us,
            fork_joins=2 * strips,
            phi=vtcm_bound(device, 3 * self._pixels, before_us + after_us),
        )
