"""What a stage costs: the one currency between kernels (which fill it in) and the engine (which spends it)."""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum


class Version(IntEnum):
    """Which engine does the arithmetic of a stage."""

    HVX = 0
    HMX = 1
    HYBRID = 2


@dataclass(frozen=True, slots=True)
class StageCost:
    """One variant (version x tile class) of one stage, alone on the device and before launch costs.

    All amounts are totals over the body, not per tile; divide by ``tiles`` for one tile. "Context-time" is the
    time one HVX context would need; on h contexts it takes 1/h of it, but never less than the matching floor,
    since loads and stores that stream DDR stop scaling with contexts (facts: about 25 and 48 GB/s on v79).
    """

    version: Version
    tile_class: int
    """Index of the VTCM budget the chunk sizes were chosen for (see ``Device.tile_fractions``)."""
    tiles: int
    """Number of tiles of the body, at least 1."""
    depth: int
    """Tile buffers: 1 = HVX and HMX take turns and only the next DMA overlaps, 2 or more = all three overlap."""
    vtcm_bytes: int
    """Contiguous VTCM the stage holds while it is resident: its real footprint, not the budget."""
    ddr_in_bytes: float = 0.0
    """Bytes read from DDR in the body, by DMA or by HVX loads."""
    ddr_out_bytes: float = 0.0
    """Bytes written to DDR in the body, by DMA or by HVX stores."""
    hvx_before_us: float = 0.0
    """HVX context-time ahead of the HMX phase (dequantise, convert, or all the work of an HVX version), us."""
    hvx_after_us: float = 0.0
    """HVX context-time behind the HMX phase (convert and store), us."""
    hvx_before_floor_us: float = 0.0
    """Least time of the before phase whatever the contexts, us: HVX loads from DDR, shared gathers, one row each."""
    hvx_after_floor_us: float = 0.0
    """Time of the after phase bound by HVX stores to DDR, whatever the contexts, us."""
    hmx_us: float = 0.0
    """HMX time, us."""
    storage_us: float = 0.0
    """Time to load the body's bytes from flash storage (UFS) into DDR at the full storage rate, us."""
    prologue_bytes: float = 0.0
    """Bytes the serial prologue reads from DDR (activation preparation)."""
    prologue_hvx_us: float = 0.0
    """HVX context-time of the prologue, us."""
    prologue_floor_us: float = 0.0
    """Time of the prologue bound by HVX loads, whatever the contexts, us."""
    fixed_us: float = 0.0
    """Set-up and cache flush of the kernel itself: a latency that uses no engine, us."""
    fork_joins: int = 0
    """HVX fork-joins in the body; each adds the device's fork-join time when more than one context works."""
    phi: float = 0.0
    """Part of the HVX time bound by VTCM reads, 0 to 1: what HMX traffic of another stage slows down."""


def floored_us(work_us: float, floor_us: float, contexts: int) -> float:
    """Time of an HVX phase on ``contexts`` contexts: ``max(work / contexts, floor)``, us. No contexts, no work: 0."""
    if work_us <= 0.0:
        return floor_us
    return max(work_us / contexts, floor_us)


def _forked(cost: StageCost, contexts: int, fork_join_us: float) -> tuple[float, float]:
    """Elapsed HVX time of the body's before and after phases on ``contexts`` contexts, fork-joins included, us.

    A kernel forks over its contexts and pays the fork-joins, or stays on one where that is faster.
    """

    def phases(workers: int, join_us: float) -> tuple[float, float]:
        before = floored_us(cost.hvx_before_us, cost.hvx_before_floor_us, workers)
        after = floored_us(cost.hvx_after_us, cost.hvx_after_floor_us, workers)
        joins_us = cost.fork_joins * join_us / ((before > 0.0) + (after > 0.0))
        return before and before + joins_us, after and after + joins_us

    if cost.hvx_before_us + cost.hvx_after_us <= 0.0:
        return 0.0, 0.0
    alone = phases(1, 0.0)
    return alone if contexts == 1 else min(alone, phases(contexts, fork_join_us), key=sum)


def body_hvx_us(cost: StageCost, contexts: int, fork_join_us: float) -> float:
    """Elapsed HVX time of the body on ``contexts`` contexts, us."""
    return sum(_forked(cost, contexts, fork_join_us))


def unloaded_us(cost: StageCost, contexts: int, fork_join_us: float) -> float:
    """Part of the body in which HVX reads the only buffer, so that no load can run, us. With two buffers: 0."""
    return _forked(cost, contexts, fork_join_us)[0] if cost.depth < 2 else 0.0


def prologue_us(cost: StageCost, contexts: int, ddr_bytes_per_us: float) -> float:
    """Elapsed time of the serial prologue: HVX time, or the DDR time of its bytes if that is longer, us."""
    hvx = floored_us(cost.prologue_hvx_us, cost.prologue_floor_us, contexts)
    return max(hvx, cost.prologue_bytes / ddr_bytes_per_us)


def body_us(cost: StageCost, contexts: int, fork_join_us: float, ddr_bytes_per_us: float) -> tuple[float, float]:
    """``(steady, fill)``: the body at its bottleneck rate, and the fill and drain around it, us.

    At depth 2 or more storage, DMA, HVX and HMX of neighbouring tiles overlap, so the body takes the largest of them
    and one tile's remaining phases fill and drain the pipeline; what an HVX phase itself streams is part of that phase.
    At depth 1 HMX is waited on at once and the next load overlaps with HMX and the store, not with the HVX phase that
    still reads the one buffer (llama.cpp Hexagon matmul with 32 tokens or fewer).
    """
    ddr = (cost.ddr_in_bytes + cost.ddr_out_bytes) / ddr_bytes_per_us
    hvx = body_hvx_us(cost, contexts, fork_join_us)
    compute = (hvx, cost.hmx_us) if cost.depth >= 2 else (hvx + cost.hmx_us,)
    steady = max(cost.storage_us, ddr + unloaded_us(cost, contexts, fork_join_us), *compute)
    in_turn = cost.storage_us + _dma_bytes(cost) / ddr_bytes_per_us + hvx + cost.hmx_us
    return steady, max(0.0, in_turn - steady) / cost.tiles


def _dma_bytes(cost: StageCost) -> float:
    """Bytes of the body that go by DMA: those that HVX phases do not load or store themselves."""
    loaded = cost.ddr_in_bytes if cost.hvx_before_floor_us <= 0.0 else 0.0
    stored = cost.ddr_out_bytes if cost.hvx_after_floor_us <= 0.0 else 0.0
    return loaded + stored


def alone_us(cost: StageCost, contexts: int, fork_join_us: float, ddr_bytes_per_us: float) -> float:
    """Predicted duration of the stage alone on ``contexts`` contexts, launch excluded, us."""
    steady, fill = body_us(cost, contexts, fork_join_us, ddr_bytes_per_us)
    return cost.fixed_us + prologue_us(cost, contexts, ddr_bytes_per_us) + fill + steady
