"""Max and average pools over an image, channels last: on HVX, or the average as products with a banded matrix on HMX.

Sources: max_pool and average_pool of uwplse/rake (one HVX operation a tap, the average then multiplied by a reciprocal,
shifted and saturated); sums along pixels as matrix products after Dakkak et al. (ICS 19): 32 output pixels of a row are
a banded 32 x 32 matrix times the input pixels they cover, once for each kernel row.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

from hexenv.device import Device
from hexenv.errors import ConfigError
from hexenv.kernels.chunks import TILE, blocks, padded
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.stream import vectors
from hexenv.kernels.variants import best_of, doublings, hybrid_split, per_class, vtcm_bound
from hexenv.kernels.windows import hvx_cost, input_bytes, input_lines, input_width, split_rows

U8, F16 = 1, 2
TILE_BYTES = 2048
FINISH: dict[str, int] = {"max": 0, "average": 3}
"""HVX operations a result vector after the taps, by kind: multiply by the reciprocal, shift, saturate."""


@dataclass(frozen=True, slots=True)
class Pool:
    """Pool of ``kind`` ``max`` or ``average``; ``height`` and ``width`` are those of the output. u8, or fp16."""

    kind: str
    height: int
    width: int
    channels: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int
    element_bytes: int = U8

    family: ClassVar[str] = "pooling"

    def __post_init__(self) -> None:
        if self.kind not in FINISH:
            raise ConfigError(f"pool kind = {self.kind!r}; allowed: {', '.join(FINISH)}")
        if self.element_bytes not in (U8, F16):
            raise ConfigError(f"pool element_bytes = {self.element_bytes!r}; allowed: {U8}, {F16}")

    @property
    def name(self) -> str:
        """For example ``max_pool 2x2 56x56x64``."""
        return f"{self.kind}_pool {self.kernel_h}x{self.kernel_w} {self.height}x{self.width}x{self.channels}"

    @property
    def _outputs(self) -> int:
        return self.height * self.width * self.channels

    @property
    def _pixel_bytes(self) -> int:
        return self.channels * self.element_bytes

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX; for the average also HMX and the output rows split between them."""

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            return self._hvx(device, tile_class, budget)

        def hmx(tile_class: int, budget: int) -> StageCost | None:
            most = min((budget - self._band_bytes) // self._hmx_row_bytes, self.height)
            return best_of(device, [self._hmx(device, tile_class, lines) for lines in doublings(1, most)])

        yield from per_class(device, hvx)
        if self.kind == "average":
            yield from per_class(device, hmx, hybrid_split(device, hvx, hmx))

    def split(self, parts: int) -> tuple[Pool, ...]:
        """Ranges of output rows, of channels for a single row."""
        return split_rows(self, parts)

    def _hvx(self, device: Device, tile_class: int, budget: int) -> StageCost | None:
        taps = self.kernel_h * self.kernel_w
        each = device.stream_packets + (taps + FINISH[self.kind]) * device.arithmetic_packets
        out_bytes = self._outputs * self.element_bytes
        hvx_us = vectors(out_bytes, 1) * each * device.packet_us
        return hvx_cost(
            self,
            device,
            tile_class,
            budget,
            in_pixel_bytes=self._pixel_bytes,
            out_pixel_bytes=self._pixel_bytes,
            hvx_us=hvx_us,
            touched_bytes=taps * out_bytes,
        )

    @property
    def _band_tiles(self) -> int:
        """Tiles of a row's input pixels that 32 of its output pixels cover."""
        return blocks((TILE - 1) * self.stride_w + self.kernel_w, TILE)

    @property
    def _band_bytes(self) -> int:
        """VTCM of the averaging matrix."""
        return self._band_tiles * TILE_BYTES

    @property
    def _hmx_row_bytes(self) -> int:
        """VTCM of an output row, double-buffered: its new input rows as they come and as fp16 tiles, its results."""
        channel_bytes = padded(self.channels) * F16
        rows = max(self.stride_h, self.kernel_h)
        in_bytes = rows * (input_width(self) * self._pixel_bytes + padded(input_width(self)) * channel_bytes)
        return 2 * (in_bytes + padded(self.width) * (channel_bytes + self._pixel_bytes))

    def _hmx(self, device: Device, tile_class: int, lines: int) -> StageCost:
        """HVX brings the input rows into fp16 tiles, HMX averages along them, HVX stores."""
        steps = blocks(self.height, lines)
        inputs = input_lines(self, self.height) * input_width(self) * self.channels
        out_bytes = self._outputs * self.element_bytes
        to_tiles, from_tiles = (
            (device.image_to_tiles_packets, device.tiles_to_image_packets)
            if self.element_bytes == U8
            else (device.im2col_packets, device.im2col_packets)
        )
        before_us = vectors(inputs, self.element_bytes) * to_tiles * device.packet_us
        after_us = vectors(out_bytes, 1) * from_tiles * device.packet_us
        tiles = self.height * blocks(self.width, TILE) * blocks(self.channels, TILE)
        return StageCost(
            version=Version.HMX,
            tile_class=tile_class,
            tiles=steps,
            depth=2,
            vtcm_bytes=lines * self._hmx_row_bytes + self._band_bytes,
            ddr_in_bytes=input_bytes(self, self._pixel_bytes),
            ddr_out_bytes=out_bytes,
            hvx_before_us=before_us,
            hvx_after_us=after_us,
            hmx_us=tiles * self.kernel_h * self._band_tiles * device.hmx_tile_us,
            fixed_us=device.hmx_fixed_us,
            fork_joins=2 * steps,
            phi=vtcm_bound(device, inputs * self.element_bytes + self._outputs * F16, before_us + after_us),
        )
