"""The contiguous VTCM allocator: lowest address first, real fragmentation."""

from __future__ import annotations

from typing import Any

from hexenv.engine.jit import njit
from hexenv.engine.layout import MAX_SLOTS, Mode, Phase, Split

_FREE = int(Phase.FREE)
_STATIC = int(Split.STATIC)
_CONCURRENT = int(Mode.CONCURRENT)


@njit
def _blocked_until(lane: Any, start: int, size: int) -> int:
    """End of a region that overlaps [start, start + size), or -1."""
    for k in range(MAX_SLOTS):
        slot = lane.slots[k]
        if slot.phase != _FREE and slot.vtcm_bytes > 0:
            end = slot.vtcm_offset + slot.vtcm_bytes
            if start < end and slot.vtcm_offset < start + size:
                return end
    return -1


@njit
def _static_part(config: Any) -> int:
    """Bytes that each slot owns, whoever else is there (``concurrent``, static split); 0 where VTCM is shared."""
    if config.mode == _CONCURRENT and config.vtcm_split == _STATIC:
        return config.vtcm_bytes // config.slots
    return 0


@njit
def find(lane: Any, config: Any, slot: int, size: int) -> int:
    """Lowest offset at which ``size`` bytes fit for a stage in ``slot``, or -1."""
    part = _static_part(config)
    if part > 0:
        return slot * part if size <= part else -1
    start = 0
    for _ in range(MAX_SLOTS + 1):
        if start + size > config.vtcm_bytes:
            return -1
        end = _blocked_until(lane, start, size)
        if end < 0:
            return start
        start = end
    return -1


@njit
def free_bytes(lane: Any, config: Any) -> tuple[int, int]:
    """``(free, largest free block)`` in bytes."""
    used = 0
    largest = 0
    for k in range(-1, MAX_SLOTS):
        start = 0
        if k >= 0:
            slot = lane.slots[k]
            if slot.phase == _FREE:
                continue
            used += slot.vtcm_bytes
            start = slot.vtcm_offset + slot.vtcm_bytes
        end = config.vtcm_bytes
        for other in range(MAX_SLOTS):
            region = lane.slots[other]
            if region.phase != _FREE and region.vtcm_bytes > 0 and region.vtcm_offset >= start:
                end = min(end, region.vtcm_offset)
        largest = max(largest, end - start)
    return config.vtcm_bytes - used, largest


@njit
def capacity(lane: Any, config: Any) -> int:
    """Bytes of the largest stage that a free slot could take."""
    part = _static_part(config)
    return part if part > 0 else free_bytes(lane, config)[1]
