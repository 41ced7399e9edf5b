"""Gated delta net: linear attention with a decaying state that each token corrects, recurrent or in chunks.

For a head with state S (d x d), token t: ``S = a_t S (I - b_t k_t k_t^T) + b_t v_t k_t^T`` and ``o_t = S q_t``.

Sources. HVX: the llama.cpp Hexagon kernel (PR 22837): heads over threads, two copies of the fp32 state a thread, rows
fused by four (prefill) or eight (decode), one token after another. HMX: the chunked form of Yang et al., "Gated Delta
Networks" (ICLR 25). llama.cpp has an HMX kernel too (PR 29199), but neither its chunk length nor its stages were
published, so the counts here follow the algebra. For a chunk of C tokens with cumulative decays g, ratios
``R_ij = g_i / g_j``, all products masked to the lower triangle::

    A  = b R (K K^T)             T  = (I + A)^-1 b       W = T (g K)
    V' = T V - W S^T             P  = R (Q K^T)          O = (g Q) S^T + P V'
    S' = g_C S + V'^T (g_C/g K)

With c = C / 32 and s = d / 32 tiles a side and ``t = c (c + 1) / 2`` tiles in a lower triangle, the tile products are
``2 t s`` (both score matrices), ``t s`` (W), ``t s + c s^2`` (V', one accumulation), ``c s^2 + t s`` (O, likewise),
``c s^2`` (S') and the block solve of T: block (i, j) sums i - j products and takes one more with the inverse of its
diagonal block. Those 32 x 32 inverses, decays, masks and the fp32 state stay on HVX.

HYBRID moves a part of the vector work to HMX: the row factors as diagonal products, and the inverses of the diagonal
blocks as ``(I - A)(I + A^2)(I + A^4)(I + A^8)(I + A^16)``, exact since A^32 = 0.

The switches are the three levels of HA-NPU (arXiv 2609.32114, abstract; what they cost here is derived).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hexenv.device import Device
from hexenv.errors import ConfigError
from hexenv.kernels import techniques
from hexenv.kernels.chunks import TILE, blocks, padded
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.stream import vectors
from hexenv.kernels.techniques import one_of
from hexenv.kernels.variants import HYBRID_STEPS, best_of, per_class, ranges, vtcm_bound

F16 = 2
F32 = 4
STATE_COPIES = 2
"""fp32 states a thread of the HVX kernel holds: the one it works on, and the next by DMA."""
PREFILL_ROWS = 4
DECODE_ROWS = 8
"""State rows the HVX kernel fuses: they share loads of q and k, and their reductions overlap."""
STATE_STREAMS = 2
STATE_ARITHMETIC = 7
"""HVX, a state vector: loaded and stored twice; decay, product with k, sum; correction (2), product with q, sum."""
INVERSE_PRODUCTS = 8
"""Tile products of a diagonal block's inverse on HMX: four squarings and four products."""
SCALED_OPERANDS = 3
"""Operands with a factor a row: g K, g Q, g_C/g K."""
CHUNK_OPERATORS = 6
"""Dependent steps of a chunk: scores, solve, W, V', output, state."""
STAGED_BLOCKS = 9
"""Operand blocks (C x d, fp16) alive when every step keeps its result: q, k, v, three scaled ones, W, V', O."""
STAGED_SQUARES = 3
"""C x C matrices alive then: A, T, P."""
CONVERTED = 2
"""Blocks and squares that also have a row-major copy when layouts are converted: W, V'; A, P."""
LIVE_BLOCKS = 2
"""Blocks alive when each result is consumed at once: the one read and the one written."""
INPUT_READS = {"staged": 3, "consume": 6}
"""Blocks read from DDR a chunk: q, k, v once; or at each use (k three times, q twice), since none is kept."""


@dataclass(frozen=True, slots=True)
class GatedDeltaNet:
    """``tokens`` of each of ``sequences`` through ``v_heads`` states of ``head_dim`` x ``head_dim``; fp32 in and out.

    ``v_heads / qk_heads`` value heads share a query and key head.
    """

    tokens: int
    v_heads: int
    qk_heads: int
    head_dim: int
    sequences: int = 1
    chunk: int = one_of(
        64, 32, 128, 256, source="tokens a chunk; 64 in common libraries, llama.cpp's value (PR 29199) is not published"
    )
    core: str = one_of(
        "head",
        "operator",
        source="HA-NPU, core level: a context takes whole heads with their dependent steps fused (llama.cpp's split), "
        "or all contexts share one step after another, with intermediates through DDR",
    )
    order: str = one_of(
        "staged",
        "consume",
        source="HA-NPU, operator level: a step's result stays until the chunk is done, or is consumed at once",
    )
    layout: str = one_of(
        "convert",
        "matched",
        source="HA-NPU, tensor level: results go to rows and back to tiles around vector steps, or these work on tiles",
    )

    family: ClassVar[str] = "delta_net"

    def __post_init__(self) -> None:
        techniques.check(self)
        if self.v_heads % self.qk_heads:
            raise ConfigError(f"delta_net v_heads = {self.v_heads}; allowed: a multiple of qk_heads = {self.qk_heads}")

    @property
    def name(self) -> str:
        """For example ``delta_net 512 heads 16/16x128``."""
        times = f" x{self.sequences}" if self.sequences > 1 else ""
        return f"delta_net {self.tokens} heads {self.v_heads}/{self.qk_heads}x{self.head_dim}{times}"

    @property
    def _heads(self) -> int:
        return self.v_heads * self.sequences

    @property
    def _state_bytes(self) -> int:
        return self._heads * self.head_dim**2 * F32

    @property
    def _block_bytes(self) -> int:
        """fp32 bytes of q, k, v or the result, a value head each."""
        return self._heads * self.tokens * self.head_dim * F32

    @property
    def _gate_bytes(self) -> int:
        return 2 * self._heads * self.tokens * F32

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX token by token, HMX in chunks and, beyond one token, HYBRID with row factors and inverses on HMX."""

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            return self._hvx(device, tile_class, budget)

        def hmx(tile_class: int, budget: int) -> StageCost | None:
            return self._hmx(device, tile_class, budget, moved=0.0)

        def hybrid(tile_class: int, budget: int) -> StageCost | None:
            parts = (step / HYBRID_STEPS for step in range(1, HYBRID_STEPS + 1))
            mixes = (self._hmx(device, tile_class, budget, moved) for moved in parts)
            return best_of(device, [mix for mix in mixes if mix is not None])

        yield from per_class(device, hvx, hmx)
        if self.tokens > 1:
            yield from per_class(device, hybrid)

    def split(self, parts: int) -> tuple[GatedDeltaNet, ...]:
        """Ranges of whole chunks of tokens; of sequences, else of heads, where there is only one chunk.

        Each range of tokens reads the state from DDR and writes it back.
        """
        if self.tokens > self.chunk:
            return tuple(replace(self, tokens=size) for size in ranges(self.tokens, parts, self.chunk))
        if self.sequences > 1:
            return tuple(replace(self, sequences=size) for size in ranges(self.sequences, parts))
        group = self.v_heads // self.qk_heads
        return tuple(replace(self, v_heads=size * group, qk_heads=size) for size in ranges(self.qk_heads, parts))

    def _hvx(self, device: Device, tile_class: int, budget: int) -> StageCost | None:
        thread_bytes = STATE_COPIES * self.head_dim**2 * F32
        threads = min(device.contexts, self._heads, budget // thread_bytes)
        if threads == 0:
            return None
        rounds = blocks(self._heads, threads)
        head_us = self.tokens * self._token_packets(device) * device.packet_us
        hvx_us = self._heads * head_us
        state_reads = STATE_STREAMS * self._state_bytes * self.tokens
        return StageCost(
            version=Version.HVX,
            tile_class=tile_class,
            tiles=rounds * self.tokens,
            depth=2,
            vtcm_bytes=threads * thread_bytes,
            ddr_in_bytes=3 * self._block_bytes + self._gate_bytes + self._state_bytes,
            ddr_out_bytes=self._block_bytes + self._state_bytes,
            hvx_before_us=hvx_us,
            hvx_before_floor_us=rounds * head_us,
            fixed_us=device.kernel_fixed_us,
            fork_joins=1,
            phi=vtcm_bound(device, state_reads, hvx_us),
        )

    def _token_packets(self, device: Device) -> float:
        """HVX packets of one token of one head: the state, two reductions and a broadcast a row, loads, the decay."""
        row_vectors = blocks(self.head_dim * F32, 128)
        each = STATE_STREAMS * device.stream_packets + STATE_ARITHMETIC * device.arithmetic_packets
        fused = blocks(self.head_dim, DECODE_ROWS if self.tokens == 1 else PREFILL_ROWS)
        rows = 2 * fused * device.reduce_row_packets + self.head_dim * device.arithmetic_packets
        loads = 3 * row_vectors * device.stream_packets + device.exp_packets
        return self.head_dim * row_vectors * each + rows + loads

    def _hmx(self, device: Device, tile_class: int, budget: int, moved: float) -> StageCost | None:
        """As many heads in flight as there are contexts and VTCM; ``moved`` of the movable work runs on HMX."""
        full, rest = divmod(self.tokens, self.chunk)
        longest = _Chunk(min(self.tokens, self.chunk), self.head_dim)
        head_bytes = longest.vtcm_bytes(self.order, self.layout)
        in_flight = min(device.contexts, self._heads, budget // head_bytes)
        if in_flight == 0:
            return None
        parts = [
            (count, _Chunk(size, self.head_dim)) for count, size in ((full, self.chunk), (1, rest)) if count * size
        ]

        products = sum(count * (part.products + moved * part.movable_products) for count, part in parts)
        vector_us = sum(
            count * (part.vector_us(device, self.layout) - moved * part.movable_us(device)) for count, part in parts
        )
        chunks = sum(count for count, _ in parts)
        rounds = blocks(self._heads, in_flight)
        by_head = self.core == "head"
        trips = 0 if by_head else self._heads * sum(count * part.intermediate_bytes for count, part in parts)
        before_us = self._heads * vector_us
        after_us = self._block_bytes / F32 * device.output_ns * 1e-3
        input_bytes = INPUT_READS[self.order] * self._block_bytes
        return StageCost(
            version=Version.HYBRID if moved else Version.HMX,
            tile_class=tile_class,
            tiles=rounds * chunks,
            depth=2,
            vtcm_bytes=in_flight * head_bytes,
            ddr_in_bytes=input_bytes + self._gate_bytes + self._state_bytes + trips,
            ddr_out_bytes=self._block_bytes + self._state_bytes + trips,
            hvx_before_us=before_us,
            hvx_after_us=after_us,
            hvx_before_floor_us=rounds * vector_us if by_head else 0.0,
            hvx_after_floor_us=self._block_bytes / device.hvx_store_bytes_per_us,
            hmx_us=self._heads * products * device.hmx_tile_us,
            fixed_us=device.hmx_fixed_us,
            fork_joins=1 if by_head else CHUNK_OPERATORS * chunks,
            phi=vtcm_bound(device, input_bytes + chunks * 2 * self._state_bytes, before_us + after_us),
        )


@dataclass(frozen=True, slots=True)
class _Chunk:
    """One chunk of one head in the chunked form."""

    tokens: int
    head_dim: int

    @property
    def _rows(self) -> int:
        return blocks(self.tokens, TILE)

    @property
    def _columns(self) -> int:
        return blocks(self.head_dim, TILE)

    @property
    def _triangle(self) -> int:
        return self._rows * (self._rows + 1) // 2

    @property
    def _scores(self) -> float:
        """Elements of the lower block triangle in the rows that hold tokens."""
        return self.tokens * TILE * (self._rows + 1) / 2

    @property
    def _elements(self) -> int:
        return self.tokens * self.head_dim

    @property
    def products(self) -> int:
        """Tile products of the algebra, see the head of this file."""
        solve = sum((self._rows - distance) * (distance + 1) for distance in range(1, self._rows))
        return 5 * self._triangle * self._columns + 3 * self._rows * self._columns**2 + solve

    @property
    def movable_products(self) -> int:
        """What the movable work costs on HMX: a diagonal product a tile of a scaled operand, the inverses."""
        return SCALED_OPERANDS * self._rows * self._columns + INVERSE_PRODUCTS * self._rows

    def movable_us(self, device: Device) -> float:
        """HVX context-time of row factors and diagonal-block inverses, us."""
        factor = device.stream_packets + device.arithmetic_packets
        scaled = SCALED_OPERANDS * vectors(self._elements, F16) * factor
        full, rest = divmod(self.tokens, TILE)
        row_steps = full * TILE * (TILE - 1) // 2 + rest * (rest - 1) // 2
        solved = 2 * row_steps * device.arithmetic_packets + self.tokens * device.stream_packets
        return (scaled + solved) * device.packet_us

    def vector_us(self, device: Device, layout: str) -> float:
        """HVX context-time without the store of the result, us.

        Inputs into tiles; decay ratios, masks and factors on both score matrices; state update in fp32 and its fp16
        tiles; movable work; conversions around the vector steps (scores, W, V' in both roles, state update).
        """
        state = self.head_dim**2
        ratios = device.exp_packets + 2 * device.stream_packets + 4 * device.arithmetic_packets
        update = device.stream_packets + 2 * device.arithmetic_packets
        packets = vectors(self._scores, F32) * ratios + vectors(state, F32) * update
        into_tiles = float(3 * self._elements + state)
        out_of_tiles = 0.0
        if layout == "convert":
            into_tiles += 2 * self._scores + 3 * self._elements
            out_of_tiles += 2 * self._scores + 2 * self._elements + state
        converted_ns = into_tiles * device.activation_prep_ns + out_of_tiles * device.output_ns
        return packets * device.packet_us + converted_ns * 1e-3 + self.movable_us(device)

    @property
    def intermediate_bytes(self) -> int:
        """Through DDR, once each way, when the steps are not fused: T, P, W, V' in fp16 and the state in fp32."""
        return F16 * (2 * self.tokens**2 + 2 * self._elements) + F32 * self.head_dim**2

    def vtcm_bytes(self, order: str, layout: str) -> int:
        """VTCM of one head: the state (fp32 and fp16 tiles) and what is alive beside it, bytes."""
        width = self._columns * TILE
        state = width**2 * (F32 + F16)
        block = self._rows * TILE * width * F16
        if order == "consume":
            return state + LIVE_BLOCKS * block
        square = (self._rows * TILE) ** 2 * F16
        raw_inputs = 2 * 3 * self._elements * F32
        update = width**2 * F16
        copies = CONVERTED * (block + square) if layout == "convert" else 0
        return state + padded(raw_inputs, 128) + STAGED_BLOCKS * block + STAGED_SQUARES * square + update + copies
