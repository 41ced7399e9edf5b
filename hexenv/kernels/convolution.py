"""Convolutions over fp16 activations, channels last: implicit GEMM, depthwise, and bilinear resize.

Sources: implicit GEMM as in Tacker's convolution kernels (im2col rows built on the fly, never stored to DDR) on the
pipeline of the llama.cpp Hexagon matmul; a depthwise tap on HMX is a product with a diagonal tile. fp16 in and out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hexenv.device import Device
from hexenv.kernels.chunks import TILE, Chunk, Footprint, blocks, padded
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.stream import stream_cost, vectors
from hexenv.kernels.variants import best_of, doublings, hybrid_split, per_class, ranges, vtcm_bound
from hexenv.kernels.windows import hvx_cost, input_bytes, split_rows

F16 = 2
TILE_BYTES = 2048


@dataclass(frozen=True, slots=True)
class Conv2d:
    """Dense convolution; ``height`` and ``width`` are those of the output."""

    height: int
    width: int
    in_channels: int
    out_channels: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int

    family: ClassVar[str] = "convolution"

    @property
    def name(self) -> str:
        """For example ``conv 3x3 56x56x64->128``."""
        channels = f"{self.in_channels}->{self.out_channels}"
        return f"conv {self.kernel_h}x{self.kernel_w} {self.height}x{self.width}x{channels}"

    @property
    def _pixels(self) -> int:
        return self.height * self.width

    @property
    def _inner(self) -> int:
        return self.in_channels * self.kernel_h * self.kernel_w

    @property
    def _weights(self) -> int:
        return self._inner * self.out_channels

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX direct, HMX implicit GEMM, or the output range split between them."""

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            return self._hvx(device, tile_class, budget)

        def hmx(tile_class: int, budget: int) -> StageCost | None:
            return best_of(device, [self._hmx(device, tile_class, chunk) for chunk in self._chunks(budget)])

        yield from per_class(device, hvx, hmx, hybrid_split(device, hvx, hmx))

    def split(self, parts: int) -> tuple[Conv2d, ...]:
        """Ranges of output rows, of output channels for a single row."""
        return split_rows(self, parts, "out_channels")

    @property
    def _footprint(self) -> Footprint:
        """VTCM of a chunk of output channels and pixels, all double-buffered: weights, im2col and input, results."""
        column_bytes = blocks(self._inner, TILE) * TILE_BYTES // TILE
        pixel_bytes = column_bytes + self.stride_h * self.stride_w * self.in_channels * F16
        return Footprint(output=2 * column_bytes, token=2 * pixel_bytes, element=2 * F16)

    def _chunks(self, budget: int) -> Iterator[Chunk]:
        """Chunks that fit: 32, 64, 128 ... pixels, each with as many output channels as there is room for."""
        footprint = self._footprint
        for pixels in doublings(TILE, padded(self._pixels)):
            room = (budget - pixels * footprint.token) // (footprint.output + pixels * footprint.element)
            channels = min(room // TILE * TILE, padded(self.out_channels))
            if channels > 0:
                yield Chunk(channels, pixels)

    def _hmx(self, device: Device, tile_class: int, chunk: Chunk) -> StageCost:
        """HVX gathers pixels into im2col tiles, HMX multiplies, HVX stores: the matmul pipeline with k = taps."""
        inner_tiles = blocks(self._inner, TILE)
        channel_blocks = blocks(self.out_channels, chunk.outputs)
        pixel_blocks = blocks(self._pixels, chunk.tokens)
        chunks = channel_blocks * pixel_blocks
        gathered = self._pixels * inner_tiles * TILE
        before_us = vectors(gathered, F16) * device.im2col_packets * device.packet_us
        outputs = self._pixels * self.out_channels
        after_us = outputs * device.output_ns * 1e-3
        weight_reads = pixel_blocks if channel_blocks > 1 else 1
        weight_bytes = inner_tiles * blocks(self.out_channels, TILE) * TILE_BYTES * weight_reads
        products = blocks(self._pixels, TILE) * blocks(self.out_channels, TILE) * inner_tiles
        return StageCost(
            version=Version.HMX,
            tile_class=tile_class,
            tiles=chunks,
            depth=2,
            vtcm_bytes=self._footprint.bytes(chunk.outputs, chunk.tokens),
            ddr_in_bytes=weight_bytes + input_bytes(self, self.in_channels * F16),
            ddr_out_bytes=outputs * F16,
            hvx_before_us=before_us,
            hvx_after_us=after_us,
            hvx_after_floor_us=outputs * F16 / device.hvx_store_bytes_per_us,
            hmx_us=products * device.hmx_tile_us,
            fixed_us=device.hmx_fixed_us,
            fork_joins=2 * chunks,
            phi=vtcm_bound(device, (gathered + outputs) * F16, before_us + after_us),
        )

    def _hvx(self, device: Device, tile_class: int, budget: int) -> StageCost | None:
        """Direct convolution, weights resident."""
        outputs = self._pixels * padded(self.out_channels)
        return hvx_cost(
            self,
            device,
            tile_class,
            budget,
            in_pixel_bytes=self.in_channels * F16,
            out_pixel_bytes=self.out_channels * F16,
            hvx_us=2 * outputs * self._inner / device.hvx_fp16_flop_per_us,
            touched_bytes=self._pixels * self._inner * F16,
            weight_bytes=self._weights * F16,
        )


@dataclass(frozen=True, slots=True)
class DepthwiseConv2d:
    """One filter a channel; ``height`` and ``width`` are those of the output."""

    height: int
    width: int
    channels: int
    kernel_h: int
    kernel_w: int
    stride_h: int
    stride_w: int

    family: ClassVar[str] = "depthwise"

    @property
    def name(self) -> str:
        """For example ``depthwise 3x3 56x56x144``."""
        return f"depthwise {self.kernel_h}x{self.kernel_w} {self.height}x{self.width}x{self.channels}"

    @property
    def _outputs(self) -> int:
        return self.height * self.width * self.channels

    @property
    def _taps(self) -> int:
        return self.kernel_h * self.kernel_w

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX, HMX with diagonal tiles (1/32 of its arithmetic useful), or the output rows split between them."""

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            return self._hvx(device, tile_class, budget)

        def hmx(tile_class: int, budget: int) -> StageCost | None:
            most = min((budget - self._diagonal_bytes) // self._hmx_row_bytes, self.height)
            return best_of(device, [self._hmx(device, tile_class, lines) for lines in doublings(1, most)])

        yield from per_class(device, hvx, hmx, hybrid_split(device, hvx, hmx))

    def split(self, parts: int) -> tuple[DepthwiseConv2d, ...]:
        """Ranges of output rows, of channels for a single row."""
        return split_rows(self, parts)

    def _hvx(self, device: Device, tile_class: int, budget: int) -> StageCost | None:
        return hvx_cost(
            self,
            device,
            tile_class,
            budget,
            in_pixel_bytes=self.channels * F16,
            out_pixel_bytes=self.channels * F16,
            hvx_us=2 * self._outputs * self._taps / device.hvx_fp16_flop_per_us,
            touched_bytes=self._outputs * self.kernel_h * F16,
        )

    @property
    def _diagonal_bytes(self) -> int:
        """VTCM of the weights: a diagonal tile for each tap and 32 channels."""
        return blocks(self.channels, TILE) * self._taps * TILE_BYTES

    @property
    def _hmx_row_bytes(self) -> int:
        """VTCM of an output row, double-buffered: its inputs, their shifted copies, the results."""
        line_bytes = self.width * padded(self.channels) * F16
        return 2 * line_bytes * (self.stride_h * self.stride_w + self.stride_h * self.kernel_w + 1)

    def _hmx(self, device: Device, tile_class: int, lines: int) -> StageCost:
        """HVX builds a shifted copy of the rows for each kernel column, HMX adds up the taps, HVX stores."""
        steps = blocks(self.height, lines)
        shifted = self._outputs * self.stride_h * self.kernel_w
        before_us = vectors(shifted, F16) * device.im2col_packets * device.packet_us
        after_us = self._outputs * device.output_ns * 1e-3
        products = blocks(self.height * self.width, TILE) * blocks(self.channels, TILE) * self._taps
        return StageCost(
            version=Version.HMX,
            tile_class=tile_class,
            tiles=steps,
            depth=2,
            vtcm_bytes=lines * self._hmx_row_bytes + self._diagonal_bytes,
            ddr_in_bytes=input_bytes(self, self.channels * F16),
            ddr_out_bytes=self._outputs * F16,
            hvx_before_us=before_us,
            hvx_after_us=after_us,
            hvx_after_floor_us=self._outputs * F16 / device.hvx_store_bytes_per_us,
            hmx_us=products * device.hmx_tile_us,
            fixed_us=device.hmx_fixed_us,
            fork_joins=2 * steps,
            phi=vtcm_bound(device, (shifted + self._outputs) * F16, before_us + after_us),
        )


@dataclass(frozen=True, slots=True)
class Resize:
    """Bilinear resize; reads about as many pixels as it writes. u8 unless ``element_bytes`` is 2."""

    out_height: int
    out_width: int
    channels: int
    element_bytes: int = 1

    family: ClassVar[str] = "resize"

    @property
    def name(self) -> str:
        """For example ``resize 320x320x3``."""
        return f"resize {self.out_height}x{self.out_width}x{self.channels}"

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX only: the gather has no place on HMX."""
        moved = self.out_height * self.out_width * self.channels * self.element_bytes
        packets = vectors(moved, 1) * device.resize_packets

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            return stream_cost(device, tile_class, budget, moved, moved, packets)

        yield from per_class(device, hvx)

    def split(self, parts: int) -> tuple[Resize, ...]:
        """Ranges of output rows."""
        return tuple(replace(self, out_height=size) for size in ranges(self.out_height, parts))
