"""Flash attention over an fp16 KV cache.

Sources: the llama.cpp Hexagon backend (HMX kernel: stages, block search, VTCM layout; HVX kernel with KV blocks of
64). The techniques are cost transforms on it: FlashAttention-T (PPoPP 26) for the hybrid, FlashAttention-3 (arXiv
2407.08608) for the depth, FlashAttention-4 (arXiv 2603.05451) for conditional rescaling and the split exponential, VFA
(arXiv 2604.12798) for the frozen maximum, FlashAttention-V (arXiv 2608.18656) for packed heads. Rates come from the
device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import ClassVar

from hexenv.device import Device
from hexenv.kernels.chunks import TILE, blocks, padded
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.exponential import SOURCE as EXP_SOURCE
from hexenv.kernels.exponential import TABLE_BYTES, exponentials
from hexenv.kernels.online_softmax import pieces
from hexenv.kernels.techniques import between, check, one_of
from hexenv.kernels.variants import F16_LANES, HYBRID_STEPS, best_of, per_class, ranges, vtcm_bound

F16 = 2
F32 = 4
TILE_BYTES = 2048
KV_STEP = 64
PIPELINE_BLOCKS = 3
"""The HMX kernel pipelines from so many KV blocks on, and makes them no longer than a third of the KV length then."""
QUERY_BLOCK_COST = 800
KV_BLOCK_COST = 200
ROW_VECTOR_COST = 600
"""Weights of the kernel's block search, arbitrary units calibrated from profiling by its authors."""
STEP_FORK_JOINS = 4
"""Re-tile V, re-tile K, softmax, diagonal."""
MASK_SLOTS = 4
MOVED_PRODUCTS = {"scale_sum": 2, "sum": 1, "scale": 1}
"""Tile products a score tile costs when these pieces move to HMX: one for scale-add, one for the row sum."""


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Query rows and KV rows worked on at a time, and what they hold in VTCM."""

    queries: int
    kv: int
    vtcm_bytes: int


@dataclass(frozen=True, slots=True)
class _Softmax:
    """Softmax work of one kernel, us."""

    hvx_us: float
    """Context-time with every piece on HVX."""
    gather_us: float
    """Floor set by the gather unit."""
    movable_us: float
    """Part of ``hvx_us`` that tile products can take."""


@dataclass(frozen=True, slots=True)
class FlashAttention:
    """``queries`` rows against ``kv`` rows of cache; ``q_heads / kv_heads`` query heads share a KV head."""

    queries: int
    kv: int
    q_heads: int
    kv_heads: int
    head_dim: int
    exp: str = one_of("f16", "f32", "table", "split", source=EXP_SOURCE)
    depth: int = one_of(
        2, 1, source="FlashAttention-3 (arXiv 2407.08608): KV blocks in flight; 1 = softmax and products take turns"
    )
    rescale_on: str = one_of(
        "hmx", "hvx", source="llama.cpp Hexagon: diagonal products rescale and normalise; hvx: vector products"
    )
    rescale_part: float = between(
        1.0, 0.0, 1.0, source="FlashAttention-4 (arXiv 2603.05451): part of the KV blocks that rescale the output"
    )
    live_part: float = between(
        1.0, 0.0, 1.0, source="VFA (arXiv 2604.12798): part of the KV blocks before the row maximum is frozen"
    )
    moved: str = one_of(
        "scale_sum", "sum", "scale", source="FlashAttention-T (PPoPP 26): softmax pieces that the hybrid moves to HMX"
    )
    pack_heads: bool = one_of(
        False, True, source="FlashAttention-V (arXiv 2608.18656): several heads in one vector of the HVX version"
    )
    query_block: int = one_of(
        0, 64, 128, 256, 512, source="wennitao/llama.cpp sparse-attention.md: query rows at a time; 0 = own search"
    )

    family: ClassVar[str] = "attention"

    def __post_init__(self) -> None:
        check(self)

    @property
    def name(self) -> str:
        """For example ``attention 512x2048 heads 16/8x128``."""
        return f"attention {self.queries}x{self.kv} heads {self.q_heads}/{self.kv_heads}x{self.head_dim}"

    @property
    def _group(self) -> int:
        return blocks(self.q_heads, self.kv_heads)

    @property
    def _scores(self) -> int:
        return self.queries * self.q_heads * self.kv

    @property
    def _query_elements(self) -> int:
        return self.queries * self.q_heads * self.head_dim

    @property
    def _kv_bytes(self) -> int:
        return 2 * self.kv * self.kv_heads * self.head_dim * F16

    @property
    def _rows(self) -> int:
        return self.queries * self.q_heads

    @property
    def _samples(self) -> int:
        """Key representatives that estimate a maximum to freeze: one every 64 keys (VFA)."""
        return blocks(self.kv, KV_STEP) if self.live_part < 1.0 else 0

    @property
    def _table_bytes(self) -> int:
        return TABLE_BYTES if self.exp in ("table", "split") else 0

    @property
    def _rescales(self) -> float:
        """Part of the KV blocks that correct the output."""
        return self.live_part * self.rescale_part

    @property
    def _lane_fill(self) -> float:
        """Part of the lanes of the HVX version that hold data: a head of 64 fp16 fills a vector."""
        packed = self.head_dim * (self.q_heads if self.pack_heads else 1)
        return packed / padded(packed, F16_LANES)

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX, HMX, and HYBRID with softmax pieces on HMX, in every tile class that fits."""

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            return self._hvx(device, tile_class, budget)

        def hmx(tile_class: int, budget: int) -> StageCost | None:
            chosen = _chosen_blocks(self, device.contexts, budget)
            return self._hmx(device, tile_class, chosen, moved=0.0) if chosen else None

        def hybrid(tile_class: int, budget: int) -> StageCost | None:
            chosen = _chosen_blocks(self, device.contexts, budget)
            if chosen is None:
                return None
            parts = (step / HYBRID_STEPS for step in range(1, HYBRID_STEPS + 1))
            return best_of(device, [self._hmx(device, tile_class, chosen, moved) for moved in parts])

        yield from per_class(device, hvx, hmx, hybrid)

    def split(self, parts: int) -> tuple[FlashAttention, ...]:
        """Ranges of KV heads with their query heads; ranges of queries where there are too few heads."""
        if parts <= self.kv_heads:
            return tuple(
                replace(self, q_heads=size * self._group, kv_heads=size) for size in ranges(self.kv_heads, parts)
            )
        return tuple(
            replace(head, queries=size)
            for head in self.split(self.kv_heads)
            for size in ranges(self.queries, blocks(parts, self.kv_heads), TILE)
        )

    def _softmax(self, device: Device, kv_blocks: int) -> _Softmax:
        """Pieces of the softmax, less what a technique drops, and the first maximum over the samples."""
        each = pieces(device, self._scores, self._rows * kv_blocks)
        exp = exponentials(self.exp, each.exp, self._scores, device)
        first_us = pieces(device, self._rows * self._samples, self._rows).maximum if self._samples else 0.0
        live_us = self.live_part * each.maximum + self._rescales * (each.alpha + each.rescale)
        hvx_us = each.move + each.scale + exp.hvx_us + each.total + live_us + first_us
        movable = {"scale_sum": each.scale + each.total, "sum": each.total, "scale": each.scale}
        return _Softmax(hvx_us, exp.gather_us, movable[self.moved])

    def _products(self, row_tiles: int, kv_blocks: int) -> float:
        """Tile products of Q K^T, P V, the maximum over the samples, and the diagonals.

        An output tile takes one product a 32 KV rows, one a KV block that rescales, and one to normalise.
        """
        products: float = 2 * blocks(self.kv, TILE) + blocks(self._samples, TILE)
        if self.rescale_on == "hmx":
            products += kv_blocks * self._rescales + 1
        return products * row_tiles * blocks(self.head_dim, TILE)

    def _vector_rescale(self, device: Device, kv_blocks: int) -> tuple[float, float]:
        """HVX context-time before and after the products when HVX corrects the output, less the diagonal tiles, us.

        Every KV block adds its product to the output, the part that rescales multiplies too; at the end one product
        normalises.
        """
        if self.rescale_on == "hmx":
            return 0.0, 0.0
        vector_us = self._query_elements / F16_LANES * device.packet_us
        packets = device.stream_packets + (1.0 + self._rescales) * device.arithmetic_packets
        diagonal_us = self._rescales * pieces(device, 0.0, self._rows * kv_blocks).rescale
        return kv_blocks * packets * vector_us - diagonal_us, device.arithmetic_packets * vector_us

    def _hmx(self, device: Device, tile_class: int, chosen: _Blocks, moved: float) -> StageCost:
        """Q K^T and P V on HMX with a diagonal product that rescales the output; softmax on HVX beside them.

        ``moved`` of the movable softmax work runs as tile products instead; HVX then reads a tile of row sums a row
        tile and KV block.
        """
        query_blocks = blocks(self.queries, chosen.queries)
        kv_blocks = blocks(self.kv, chosen.kv)
        steps = self.kv_heads * query_blocks * kv_blocks
        row_tiles = self.kv_heads * query_blocks * blocks(chosen.queries * self._group, TILE)
        depth_tiles = blocks(self.head_dim, TILE)
        score_tiles = row_tiles * blocks(self.kv, TILE)
        products = self._products(row_tiles, kv_blocks) + moved * MOVED_PRODUCTS[self.moved] * score_tiles
        retiled = 2 * self.kv_heads * query_blocks * blocks(self.kv, TILE) * depth_tiles
        softmax = self._softmax(device, kv_blocks)
        rescale_us, normalise_us = self._vector_rescale(device, kv_blocks)
        sums_us = row_tiles * kv_blocks * device.convert_f16_us if self.moved != "scale" else 0.0
        before_us = retiled * device.convert_f16_us + softmax.hvx_us + rescale_us
        before_us += moved * (sums_us - softmax.movable_us)
        after_us = self._query_elements * device.output_ns * 1e-3 + normalise_us
        read_bytes = retiled * TILE_BYTES + self._scores * F16 + self._query_elements * F16
        return StageCost(
            version=Version.HYBRID if moved else Version.HMX,
            tile_class=tile_class,
            tiles=steps,
            depth=min(self.depth, self._depth(chosen.kv)),
            vtcm_bytes=chosen.vtcm_bytes,
            ddr_in_bytes=self._kv_bytes * query_blocks + self.queries * self.kv * F16,
            ddr_out_bytes=self._query_elements * F32,
            hvx_before_us=before_us,
            hvx_before_floor_us=softmax.gather_us,
            hvx_after_us=after_us,
            hvx_after_floor_us=self._query_elements * F32 / device.hvx_store_bytes_per_us,
            hmx_us=products * device.hmx_tile_us,
            prologue_bytes=self._query_elements * F32,
            prologue_hvx_us=self._query_elements * device.activation_prep_ns * 1e-3,
            fixed_us=device.hmx_fixed_us,
            fork_joins=STEP_FORK_JOINS * steps,
            phi=vtcm_bound(device, read_bytes, before_us + after_us),
        )

    def _hvx(self, device: Device, tile_class: int, budget: int) -> StageCost | None:
        """Rows split over threads, KV blocks of 64 through double-buffered DMA."""
        threads = min(device.contexts, self._rows)
        vtcm_bytes = threads * 2 * 2 * KV_STEP * self.head_dim * F16 + self._table_bytes
        if vtcm_bytes > budget:
            return None
        flops = (self._scores * 4 + self._rows * self._samples * 2) * self.head_dim
        kv_blocks = blocks(self.kv, KV_STEP)
        softmax = self._softmax(device, kv_blocks)
        hvx_us = flops / self._lane_fill / device.hvx_fp16_flop_per_us + softmax.hvx_us
        row_passes = blocks(self.queries, TILE)
        return StageCost(
            version=Version.HVX,
            tile_class=tile_class,
            tiles=kv_blocks * self.kv_heads * row_passes,
            depth=2,
            vtcm_bytes=vtcm_bytes,
            ddr_in_bytes=self._kv_bytes * row_passes + self._query_elements * F32,
            ddr_out_bytes=self._query_elements * F32,
            hvx_before_us=hvx_us,
            hvx_before_floor_us=softmax.gather_us,
            fixed_us=device.kernel_fixed_us,
            fork_joins=1,
            phi=vtcm_bound(device, self._scores * 2 * self.head_dim * F16, hvx_us),
        )

    def choose_blocks(self, contexts: int, budget: int) -> _Blocks | None:
        """The kernel's own search: query blocks x (800 + KV blocks x (200 + 600 x row vectors per thread))."""
        step = blocks(TILE, self._group)
        best: _Blocks | None = None
        best_key = (0, 0)
        most = padded(self.queries, step)
        sizes = [min(self.query_block, most)] if self.query_block else range(step, most + 1, step)
        for queries in sizes:
            kv = self._largest_kv(queries, budget)
            if kv == 0:
                break
            vectors = blocks(blocks(queries * self._group, F16_LANES), contexts)
            cost = blocks(self.queries, queries) * (
                QUERY_BLOCK_COST + blocks(self.kv, kv) * (KV_BLOCK_COST + ROW_VECTOR_COST * vectors)
            )
            if best is None or (cost, -kv) < best_key:
                held = self._vtcm_bytes(queries, kv, buffers=min(self.depth, self._depth(kv)))
                best, best_key = _Blocks(queries, kv, held), (cost, -kv)
        return best

    def _depth(self, kv: int) -> int:
        """KV blocks of ``kv`` rows that the kernel has in flight where it may pipeline."""
        return 2 if blocks(self.kv, kv) >= PIPELINE_BLOCKS else 1

    def _largest_kv(self, queries: int, budget: int) -> int:
        most = padded(self.kv, KV_STEP)
        if self.kv >= PIPELINE_BLOCKS * KV_STEP:
            most = padded(blocks(self.kv, PIPELINE_BLOCKS), KV_STEP)
            while blocks(self.kv, most) < PIPELINE_BLOCKS:
                most -= KV_STEP
        for kv in range(most, 0, -KV_STEP):
            if self._vtcm_bytes(queries, kv, self._depth(kv)) <= budget:
                return kv
        return 0

    def _vtcm_bytes(self, queries: int, kv: int, buffers: int) -> int:
        """Q, two O, diagonals, ``buffers`` of K and V raw and tiled and of S and P, row vectors, masks, table."""
        rows = padded(queries * self._group)
        operand = rows * self.head_dim * F16
        diagonals = 3 * rows // TILE * TILE_BYTES
        key_value = (2 * buffers + 2) * kv * self.head_dim * F16
        scores = 2 * buffers * rows * kv * F16
        masks = MASK_SLOTS * queries * kv * F16
        return 3 * operand + diagonals + key_value + scores + 4 * rows * F32 + masks + self._table_bytes


@lru_cache(maxsize=4096)
def _chosen_blocks(attention: FlashAttention, contexts: int, budget: int) -> _Blocks | None:
    """Remembered: the search takes longer than all else, and no time of the device is in it."""
    return attention.choose_blocks(contexts, budget)
