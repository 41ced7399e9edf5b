"""Matrix multiplication of quantised or fp16 weights with fp32 activations, prefill (many tokens) to GEMV (one).

Sources: the llama.cpp Hexagon backend (``ggml-hexagon/htp``): weight tiles and VTCM layout of its chunk solver
(matmul-ops.h), the pipeline "dequantise i+1 and store i-1 while HMX multiplies i" (PR 21554, PR 26501), one buffer and
HMX waited on at once for 32 tokens or fewer. Rates come from the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar, Literal

from hexenv.device import Device
from hexenv.errors import ConfigError
from hexenv.kernels.chunks import TILE, Footprint, blocks, choose_chunk
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.variants import hybrid_split, per_class, ranges, vtcm_bound

Weight = Literal["q4_0", "q8_0", "f16"]

DDR_TILE_BYTES: dict[str, int] = {"q4_0": 576, "q8_0": 1088, "f16": 2048}
"""Bytes of a 32 x 32 weight tile in DDR."""
VTCM_TILE_BYTES: dict[str, int] = {"q4_0": 640, "q8_0": 1152, "f16": 2048}
"""The same in VTCM, aligned to 128 bytes."""
F16_TILE_BYTES = 2048
HVX_BLOCK_BYTES: dict[str, tuple[int, ...]] = {"q4_0": (1152, 36), "q8_0": (1152, 36), "f16": (64,)}
"""VTCM of 32 values of a token on the HVX path: tiled (8 bit, replicated over the lanes, scales) or else flat."""
SCALE_TABLE_BYTES = 256
F32 = 4
PIPELINED_TOKENS = 32
"""Up to so many tokens the HMX kernel has one buffer and waits for HMX at once."""
PREFETCH = (16, 2)
"""Column blocks each HVX thread prefetches: up to four tokens, more tokens."""


@dataclass(frozen=True, slots=True)
class MatMul:
    """``(m x k) weights times (k x n) activations``, ``batch`` times over: m outputs, n tokens, k inner."""

    weight: Weight
    m: int
    n: int
    k: int
    batch: int = 1

    family: ClassVar[str] = "matmul"

    def __post_init__(self) -> None:
        if self.weight not in DDR_TILE_BYTES:
            raise ConfigError(f"matmul weight = {self.weight!r}; allowed: {', '.join(DDR_TILE_BYTES)}")

    @property
    def name(self) -> str:
        """For example ``matmul q4_0 6144x512x2048`` (m x n x k)."""
        times = f" x{self.batch}" if self.batch > 1 else ""
        return f"matmul {self.weight} {self.m}x{self.n}x{self.k}{times}"

    @property
    def _weight_tiles(self) -> int:
        return blocks(self.m, TILE) * blocks(self.k, TILE) * self.batch

    @property
    def _activations(self) -> int:
        return self.n * self.k * self.batch

    @property
    def _outputs(self) -> int:
        return self.m * self.n * self.batch

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX, HMX and, up to 32 tokens, an output-range split between them, in every tile class that fits."""

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            return self._hvx(device, tile_class, budget)

        def hmx(tile_class: int, budget: int) -> StageCost | None:
            return self._hmx(device, tile_class, budget, buffers=2 if self.n > PIPELINED_TOKENS else 1)

        def pipelined_hmx(tile_class: int, budget: int) -> StageCost | None:
            return self._hmx(device, tile_class, budget, buffers=2)

        yield from per_class(device, hvx, hmx)
        if self.n <= PIPELINED_TOKENS:
            yield from per_class(device, hybrid_split(device, hvx, pipelined_hmx))

    def split(self, parts: int) -> tuple[MatMul, ...]:
        """Ranges of tokens or of outputs, whichever repeats fewer DDR bytes (weights or activations)."""
        if self.batch > 1:
            return tuple(replace(self, batch=size) for size in ranges(self.batch, parts))
        weight_bytes = self._weight_tiles * DDR_TILE_BYTES[self.weight]
        if weight_bytes < self._activations * F32 and self.n >= 2 * TILE * parts:
            return tuple(replace(self, n=size) for size in ranges(self.n, parts, TILE))
        return tuple(replace(self, m=size) for size in ranges(self.m, parts, TILE))

    def footprint(self, buffers: int) -> Footprint:
        """VTCM of an HMX chunk: raw and fp16 weights a column, fp16 activations a token, fp16 results, scale table.

        ``buffers`` is 2 where weights and results are double-buffered.
        """
        column_tiles = blocks(self.k, TILE)
        return Footprint(
            output=buffers * column_tiles * (VTCM_TILE_BYTES[self.weight] + F16_TILE_BYTES) // TILE,
            token=column_tiles * F16_TILE_BYTES // TILE,
            element=2 * buffers,
            fixed=SCALE_TABLE_BYTES,
        )

    def _hmx(self, device: Device, tile_class: int, budget: int, buffers: int) -> StageCost | None:
        """Chunks of the llama.cpp rule: activations prepared first, then DMA, dequantise, multiply, store a chunk."""
        overlapped = device.pipeline == "overlapped"
        footprint = self.footprint(buffers)
        chunk = choose_chunk(self.m, self.n, footprint, budget)
        if chunk is None:
            return None
        token_blocks = blocks(self.n, chunk.tokens)
        chunks = token_blocks * blocks(self.m, chunk.outputs) * self.batch
        weight_tiles = self._weight_tiles * token_blocks
        dequant_us = weight_tiles * self._dequant_tile_us(device)
        output_us = self._outputs * device.output_ns * 1e-3
        activation_bytes = self._activations * F32
        read_bytes = weight_tiles * VTCM_TILE_BYTES[self.weight] + self._outputs * 2
        return StageCost(
            version=Version.HMX,
            tile_class=tile_class,
            tiles=chunks,
            depth=2 if overlapped and buffers == 2 else 1,
            vtcm_bytes=footprint.bytes(chunk.outputs, chunk.tokens),
            ddr_in_bytes=weight_tiles * DDR_TILE_BYTES[self.weight],
            ddr_out_bytes=self._outputs * F32,
            hvx_before_us=dequant_us,
            hvx_after_us=output_us,
            hvx_after_floor_us=self._outputs * F32 / device.hvx_store_bytes_per_us,
            hmx_us=self._weight_tiles * blocks(self.n, TILE) * device.hmx_tile_us,
            prologue_bytes=activation_bytes,
            prologue_hvx_us=self._activations * device.activation_prep_ns * 1e-3,
            prologue_floor_us=0.0 if overlapped else activation_bytes / device.hvx_load_bytes_per_us,
            fixed_us=device.hmx_fixed_us if overlapped else device.hmx_fixed_serial_us,
            fork_joins=2 * chunks if overlapped else 0,
            phi=vtcm_bound(device, read_bytes, dequant_us + output_us),
        )

    def _hvx(self, device: Device, tile_class: int, budget: int) -> StageCost | None:
        """All activations resident, each thread streams blocks of 32 weight columns through its own DMA ring."""
        column_tiles = blocks(self.k, TILE)
        column_blocks = blocks(self.m, TILE)
        ring_bytes = device.contexts * column_tiles * VTCM_TILE_BYTES[self.weight]
        fits = [size for size in HVX_BLOCK_BYTES[self.weight] if self.n * column_tiles * size + ring_bytes <= budget]
        if not fits:
            return None
        block_bytes = fits[0]
        activation_bytes = self.n * column_tiles * block_bytes
        prefetch = min(PREFETCH[0] if self.n <= 4 else PREFETCH[1], blocks(column_blocks, device.contexts))
        while activation_bytes + prefetch * ring_bytes > budget:
            prefetch //= 2
        hvx_us = self._weight_tiles * self._hvx_tile_us(device)
        return StageCost(
            version=Version.HVX,
            tile_class=tile_class,
            tiles=blocks(column_blocks, device.contexts) * self.batch,
            depth=2,
            vtcm_bytes=activation_bytes + prefetch * ring_bytes,
            ddr_in_bytes=self._weight_tiles * DDR_TILE_BYTES[self.weight],
            ddr_out_bytes=self._outputs * F32,
            hvx_before_us=hvx_us,
            prologue_bytes=self._activations * F32,
            prologue_hvx_us=self._activations * device.quantise_ns * 1e-3,
            fixed_us=device.kernel_fixed_us,
            fork_joins=1,
            phi=vtcm_bound(device, self._weight_tiles * (VTCM_TILE_BYTES[self.weight] + self.n * block_bytes), hvx_us),
        )

    def _dequant_tile_us(self, device: Device) -> float:
        if device.pipeline == "serial":
            return device.dequant_serial_us
        by_weight = {
            "q4_0": device.dequant_q4_0_us,
            "q8_0": device.dequant_q8_0_us,
            "f16": device.convert_f16_us,
        }
        return by_weight[self.weight]

    def _hvx_tile_us(self, device: Device) -> float:
        if self.weight == "f16":
            return 2 * TILE * TILE * self.n / device.hvx_fp16_flop_per_us
        unpack = device.hvx_unpack_q4_0_us if self.weight == "q4_0" else device.hvx_unpack_q8_0_us
        return unpack + self.n * device.hvx_dot_us
