"""Flash attention over an fp16 KV cache.

Sources: the llama.cpp Hexagon backend (HMX kernel: stages, block search, VTCM layout; HVX kernel with KV blocks of 64);
FlashAttention-T (PPoPP 26) for the hybrid: scale and row sum as matrix products. Rates come from the device.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hexenv.device import Device
from hexenv.kernels.chunks import TILE, blocks, padded
from hexenv.kernels.cost import StageCost, Version
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
MOVED_PRODUCTS = 2
"""Tile products a score tile costs when its scale and row sum move to HMX."""


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Query rows and KV rows worked on at a time, and what they hold in VTCM."""

    queries: int
    kv: int
    vtcm_bytes: int


@dataclass(frozen=True, slots=True)
class FlashAttention:
    """``queries`` rows against ``kv`` rows of cache; ``q_heads / kv_heads`` query heads share a KV head."""

    queries: int
    kv: int
    q_heads: int
    kv_heads: int
    head_dim: int

    family: ClassVar[str] = "attention"

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

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX, HMX, and HYBRID with softmax pieces on HMX, in every tile class that fits."""

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            return self._hvx(device, tile_class, budget)

        def hmx(tile_class: int, budget: int) -> StageCost | None:
            chosen = self._choose_blocks(device, budget)
            return self._hmx(device, tile_class, chosen, moved=0.0) if chosen else None

        def hybrid(tile_class: int, budget: int) -> StageCost | None:
            chosen = self._choose_blocks(device, budget)
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

    def _hmx(self, device: Device, tile_class: int, chosen: _Blocks, moved: float) -> StageCost:
        """Q K^T and P V on HMX with a diagonal product that rescales the output; softmax on HVX beside them.

        ``moved`` of the movable softmax work (scale, row sum) runs as tile products instead.
        """
        query_blocks = blocks(self.queries, chosen.queries)
        kv_blocks = blocks(self.kv, chosen.kv)
        steps = self.kv_heads * query_blocks * kv_blocks
        row_tiles = self.kv_heads * query_blocks * blocks(chosen.queries * self._group, TILE)
        depth_tiles = blocks(self.head_dim, TILE)
        score_tiles = row_tiles * blocks(self.kv, TILE)
        products = 2 * score_tiles * depth_tiles + row_tiles * depth_tiles * (kv_blocks + 1)
        retiled = 2 * self.kv_heads * query_blocks * blocks(self.kv, TILE) * depth_tiles
        rows = self.queries * self.q_heads
        element_us = self._scores * device.softmax_element_ns * 1e-3
        row_us = rows * kv_blocks * device.softmax_row_us
        migrated = moved * (element_us * device.softmax_element_movable + row_us * device.softmax_row_movable)
        before_us = retiled * device.convert_f16_us + element_us + row_us - migrated
        after_us = self._query_elements * device.output_ns * 1e-3
        read_bytes = retiled * TILE_BYTES + self._scores * F16 + self._query_elements * F16
        return StageCost(
            version=Version.HYBRID if moved else Version.HMX,
            tile_class=tile_class,
            tiles=steps,
            depth=2 if kv_blocks >= PIPELINE_BLOCKS else 1,
            vtcm_bytes=chosen.vtcm_bytes,
            ddr_in_bytes=self._kv_bytes * query_blocks + self.queries * self.kv * F16,
            ddr_out_bytes=self._query_elements * F32,
            hvx_before_us=before_us,
            hvx_after_us=after_us,
            hvx_after_floor_us=self._query_elements * F32 / device.hvx_store_bytes_per_us,
            hmx_us=(products + moved * MOVED_PRODUCTS * score_tiles) * device.hmx_tile_us,
            prologue_bytes=self._query_elements * F32,
            prologue_hvx_us=self._query_elements * device.activation_prep_ns * 1e-3,
            fixed_us=device.hmx_fixed_us,
            fork_joins=STEP_FORK_JOINS * steps,
            phi=vtcm_bound(device, read_bytes, before_us + after_us),
        )

    def _hvx(self, device: Device, tile_class: int, budget: int) -> StageCost | None:
        """Rows split over threads, KV blocks of 64 through double-buffered DMA."""
        threads = min(device.contexts, self.queries * self.q_heads)
        vtcm_bytes = threads * 2 * 2 * KV_STEP * self.head_dim * F16
        if vtcm_bytes > budget:
            return None
        dot_us = self._scores * 4 * self.head_dim / device.hvx_fp16_flop_per_us
        kv_blocks = blocks(self.kv, KV_STEP)
        softmax_us = self._scores * device.softmax_element_ns * 1e-3
        rows_us = self.queries * self.q_heads * kv_blocks * device.softmax_row_us
        hvx_us = dot_us + softmax_us + rows_us
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
            fixed_us=device.kernel_fixed_us,
            fork_joins=1,
            phi=vtcm_bound(device, self._scores * 2 * self.head_dim * F16, hvx_us),
        )

    def _choose_blocks(self, device: Device, budget: int) -> _Blocks | None:
        """The kernel's own search: query blocks x (800 + KV blocks x (200 + 600 x row vectors per thread))."""
        step = blocks(TILE, self._group)
        best: _Blocks | None = None
        best_key = (0, 0)
        for queries in range(step, max(step, blocks(self.queries, step) * step) + 1, step):
            kv = self._largest_kv(queries, budget)
            if kv == 0:
                break
            vectors = blocks(blocks(queries * self._group, F16_LANES), device.contexts)
            cost = blocks(self.queries, queries) * (
                QUERY_BLOCK_COST + blocks(self.kv, kv) * (KV_BLOCK_COST + ROW_VECTOR_COST * vectors)
            )
            if best is None or (cost, -kv) < best_key:
                best, best_key = _Blocks(queries, kv, self._vtcm_bytes(queries, kv)), (cost, -kv)
        return best

    def _largest_kv(self, queries: int, budget: int) -> int:
        most = padded(self.kv, KV_STEP)
        if self.kv >= PIPELINE_BLOCKS * KV_STEP:
            most = padded(blocks(self.kv, PIPELINE_BLOCKS), KV_STEP)
            while blocks(self.kv, most) < PIPELINE_BLOCKS:
                most -= KV_STEP
        for kv in range(most, 0, -KV_STEP):
            if self._vtcm_bytes(queries, kv) <= budget:
                return kv
        return 0

    def _vtcm_bytes(self, queries: int, kv: int) -> int:
        """Q, two O, diagonals, K and V raw and tiled, S and P (pairs when pipelined), row vectors, mask slots."""
        rows = padded(queries * self._group)
        pairs = 2 if blocks(self.kv, kv) >= PIPELINE_BLOCKS else 1
        operand = rows * self.head_dim * F16
        diagonals = 3 * rows // TILE * TILE_BYTES
        key_value = (2 * pairs + 2) * kv * self.head_dim * F16
        scores = 2 * pairs * rows * kv * F16
        return 3 * operand + diagonals + key_value + scores + 4 * rows * F32 + MASK_SLOTS * queries * kv * F16
