"""Matrix multiplication of quantised or fp16 weights with fp32 activations, prefill (many tokens) to GEMV (one).

Sources: the llama.cpp Hexagon backend (``ggml-hexagon/htp``): weight tiles and VTCM layout of its chunk solver
(matmul-ops.h), the pipeline "dequantise i+1 and store i-1 while HMX multiplies i" (PR 21554, PR 26501), one buffer and
HMX waited on at once for 32 tokens or fewer, the products of a batch one after another (matmul-ops.c). Rates come from
the device.

Its weight tiles follow one another in DDR, as TileFuse (arXiv 2606.11357) interleaves them, so that a DMA stride is a
tile and never overflows the 16-bit fields before v75; no time is charged for it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hexenv.device import Device
from hexenv.kernels.chunks import TILE, Footprint, blocks, choose_chunk, padded
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.dequantise import (
    DDR_TILE_BYTES,
    F16_TILE_BYTES,
    HVX_BLOCK_BYTES,
    VTCM_TILE_BYTES,
    Weight,
    check_weight,
    instruction_ratio,
    layout,
    unpack_us,
)
from hexenv.kernels.techniques import check, one_of
from hexenv.kernels.variants import hybrid_split, per_class, ranges, vtcm_bound

SCALE_TABLE_BYTES = 256
F32 = 4
PIPELINED_TOKENS = 32
"""Up to so many tokens the HMX kernel has one buffer and waits for HMX at once."""
VECTOR_TOKENS = 4
"""Up to so many tokens the backend runs a matmul on HVX."""
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
    dequant: str = layout()
    fusion: str = one_of(
        "fused",
        "unfused",
        source="TileFuse (arXiv 2606.11357): HMX version unpacks and multiplies in one kernel, or a pass before it "
        "writes fp16 tiles to DDR",
    )
    gemv: str = one_of(
        "all_contexts",
        "one_context",
        source="TileFuse (arXiv 2606.11357): a GEMV on HVX is spread over the whole array, or runs on one part of it",
    )

    family: ClassVar[str] = "matmul"

    def __post_init__(self) -> None:
        check_weight(self.family, self.weight)
        check(self)

    @property
    def name(self) -> str:
        """For example ``matmul q4_0 6144x512x2048`` (m x n x k)."""
        times = f" x{self.batch}" if self.batch > 1 else ""
        return f"matmul {self.weight} {self.m}x{self.n}x{self.k}{times}"

    @property
    def weight_tiles(self) -> int:
        """32 x 32 tiles of all weights."""
        return blocks(self.m, TILE) * blocks(self.k, TILE) * self.batch

    @property
    def _activations(self) -> int:
        return self.n * self.k * self.batch

    @property
    def _outputs(self) -> int:
        return self.m * self.n * self.batch

    @property
    def _unfused(self) -> bool:
        return self.fusion == "unfused" and self.weight != "f16"

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX, HMX and, up to 32 tokens, an output-range split between them, in every tile class that fits."""

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            return self._hvx(device, tile_class, budget)

        def hmx(tile_class: int, budget: int) -> StageCost | None:
            return self._hmx(device, tile_class, budget, hmx_buffers(self.n))

        def pipelined_hmx(tile_class: int, budget: int) -> StageCost | None:
            return self._hmx(device, tile_class, budget, buffers=2)

        yield from per_class(device, hvx, hmx)
        if self.n <= PIPELINED_TOKENS:
            yield from per_class(device, hybrid_split(device, hvx, pipelined_hmx))

    def split(self, parts: int) -> tuple[MatMul, ...]:
        """Ranges of tokens or of outputs, whichever repeats fewer DDR bytes (weights or activations)."""
        if self.batch > 1:
            return tuple(replace(self, batch=size) for size in ranges(self.batch, parts))
        weight_bytes = self.weight_tiles * DDR_TILE_BYTES[self.weight]
        if weight_bytes < self._activations * F32 and self.n >= 2 * TILE * parts:
            return tuple(replace(self, n=size) for size in ranges(self.n, parts, TILE))
        return tuple(replace(self, m=size) for size in ranges(self.m, parts, TILE))

    def footprint(self, buffers: int) -> Footprint:
        """VTCM of an HMX chunk: raw and fp16 weights a column, fp16 activations a token, fp16 results, scale table.

        ``buffers`` is 2 where weights and results are double-buffered. Weights of an unfused product come as fp16.
        """
        column_tiles = blocks(self.k, TILE)
        raw_bytes = 0 if self._unfused else VTCM_TILE_BYTES[self.weight]
        return Footprint(
            output=buffers * column_tiles * (raw_bytes + F16_TILE_BYTES) // TILE,
            token=column_tiles * F16_TILE_BYTES // TILE,
            element=2 * buffers,
            fixed=SCALE_TABLE_BYTES,
        )

    def _hmx(self, device: Device, tile_class: int, budget: int, buffers: int) -> StageCost | None:
        """Chunks of the llama.cpp rule: activations prepared first, then DMA, dequantise, multiply, store a chunk.

        The products of a batch follow one another with nothing overlapping between them, so each fills and drains its
        own pipeline: ``tiles`` counts the chunks of one. In the serial generation one thread brings fp16 weights into
        tile order while the others wait, and the fixed time holds the fork-joins of one product.
        """
        overlapped = device.pipeline == "overlapped"
        footprint = self.footprint(buffers)
        chunk = choose_chunk(self.m, self.n, footprint, budget)
        if chunk is None:
            return None
        token_blocks = blocks(self.n, chunk.tokens)
        chunks = token_blocks * blocks(self.m, chunk.outputs)
        loaded_tiles = self.weight_tiles * token_blocks
        tile_us = unpack_us(device, self.weight, self.dequant)
        unpacking_us = 0.0 if self._unfused else loaded_tiles * tile_us
        one_thread_us = unpacking_us if self.weight == "f16" and not overlapped else 0.0
        dequant_us = unpacking_us - one_thread_us
        output_us = self._outputs * device.output_ns * 1e-3
        activation_bytes = self._activations * F32
        pass_us, pass_bytes = self._unpacking_pass(tile_us)
        stored = "f16" if self._unfused else self.weight
        read_bytes = loaded_tiles * VTCM_TILE_BYTES[stored] + self._outputs * 2
        return StageCost(
            version=Version.HMX,
            tile_class=tile_class,
            tiles=chunks,
            depth=2 if overlapped and buffers == 2 else 1,
            vtcm_bytes=footprint.bytes(chunk.outputs, chunk.tokens),
            ddr_in_bytes=loaded_tiles * DDR_TILE_BYTES[stored],
            ddr_out_bytes=self._outputs * F32,
            hvx_before_us=dequant_us,
            hvx_after_us=output_us,
            hvx_after_floor_us=self._outputs * F32 / device.hvx_store_bytes_per_us,
            hmx_us=self.weight_tiles * blocks(self.n, TILE) * device.hmx_tile_us,
            prologue_bytes=activation_bytes + pass_bytes,
            prologue_hvx_us=self._activations * device.activation_prep_ns * 1e-3 + pass_us + one_thread_us,
            prologue_floor_us=0.0 if overlapped else activation_bytes / device.hvx_load_bytes_per_us + one_thread_us,
            fixed_us=device.hmx_fixed_us if overlapped else device.hmx_fixed_serial_us,
            fork_joins=2 * chunks * self.batch if overlapped else 2 * (self.batch - 1),
            phi=vtcm_bound(device, read_bytes, dequant_us + output_us),
        )

    def _unpacking_pass(self, tile_us: float) -> tuple[float, float]:
        """Context-time and DDR bytes of the pass that writes fp16 tiles ahead of an unfused product."""
        if not self._unfused:
            return 0.0, 0.0
        tiles = self.weight_tiles
        return tiles * tile_us, tiles * (DDR_TILE_BYTES[self.weight] + F16_TILE_BYTES)

    def _hvx(self, device: Device, tile_class: int, budget: int) -> StageCost | None:
        """All activations resident, each thread streams blocks of 32 weight columns through its own DMA ring.

        A batch is not streamed by DMA but read by HVX loads.
        """
        tile_bytes = VTCM_TILE_BYTES[self.weight]
        threads = 1 if self.n == 1 and self.gemv == "one_context" else device.contexts
        column_tiles = blocks(self.k, TILE)
        column_blocks = blocks(self.m, TILE)
        ring_bytes = threads * column_tiles * tile_bytes
        fits = [size for size in HVX_BLOCK_BYTES[self.weight] if self.n * column_tiles * size + ring_bytes <= budget]
        if not fits:
            return None
        block_bytes = fits[0]
        activation_bytes = self.n * column_tiles * block_bytes
        prefetch = min(PREFETCH[0] if self.n <= VECTOR_TOKENS else PREFETCH[1], blocks(column_blocks, threads))
        while activation_bytes + prefetch * ring_bytes > budget:
            prefetch //= 2
        hvx_us = self.weight_tiles * hvx_tile_us(device, self.weight, self.n)
        in_bytes = self.weight_tiles * DDR_TILE_BYTES[self.weight]
        load_us = in_bytes / device.hvx_load_bytes_per_us if self.batch > 1 else 0.0
        return StageCost(
            version=Version.HVX,
            tile_class=tile_class,
            tiles=blocks(column_blocks, threads) * self.batch,
            depth=2,
            vtcm_bytes=activation_bytes + prefetch * ring_bytes,
            ddr_in_bytes=in_bytes,
            ddr_out_bytes=self._outputs * F32,
            hvx_before_us=hvx_us,
            hvx_before_floor_us=max(load_us, hvx_us / threads if threads < device.contexts else 0.0),
            prologue_bytes=self._activations * F32,
            prologue_hvx_us=self._activations * device.quantise_ns * 1e-3,
            fixed_us=device.kernel_fixed_us,
            fork_joins=1,
            phi=vtcm_bound(device, self.weight_tiles * (tile_bytes + self.n * block_bytes), hvx_us),
        )


def hmx_buffers(tokens: int) -> int:
    """Buffers of weights and results on the HMX path: two where HMX overlaps with HVX."""
    return 2 if tokens > PIPELINED_TOKENS else 1


def hvx_tile_us(device: Device, weight: str, tokens: int) -> float:
    """Context-time of an HVX matmul for one weight tile, unpacked once and multiplied with ``tokens`` tokens, us."""
    if weight == "f16":
        return 2 * TILE * TILE * tokens / device.hvx_fp16_flop_per_us
    if weight == "q8_0":
        unpack = device.hvx_unpack_q8_0_us
    else:
        unpack = device.hvx_unpack_q4_0_us * instruction_ratio(weight)
    return unpack + tokens * device.hvx_dot_us


def backend_version(operator: MatMul) -> Version:
    """The engine that the llama.cpp backend gives a matmul to.

    HMX for more than four tokens, outputs (padded for a quantised format) and inner size multiples of 32, and only fp16
    weights in a batch. It never mixes engines.
    """
    outputs = operator.m if operator.weight == "f16" else padded(operator.m)
    whole_tiles = outputs % TILE == 0 and operator.k % TILE == 0
    flat = operator.batch == 1 or operator.weight == "f16"
    return Version.HMX if operator.n > VECTOR_TOKENS and whole_tiles and flat else Version.HVX
