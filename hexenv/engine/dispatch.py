"""Decisions: which picks are legal, what a pick reserves, and what a launch costs.

A decision is open while a slot is free and something is legal. Picks at one instant stay pending until wait is chosen,
the slots are full or nothing legal is left; then they launch together, as one composite in the fused modes.
"""

from __future__ import annotations

from typing import Any

from hexenv.engine import trace as tr
from hexenv.engine.jit import njit
from hexenv.engine.jobs import job_slots
from hexenv.engine.kernel_cache import jit_ns
from hexenv.engine.layout import (
    MAX_SLOTS,
    N_SHARES,
    N_TILES,
    N_VERSIONS,
    Event,
    HmxLock,
    Mode,
    Phase,
    Split,
)
from hexenv.engine.rng import noise_factor
from hexenv.engine.vtcm import capacity, find

_FREE, _PENDING, _QUEUED = int(Phase.FREE), int(Phase.PENDING), int(Phase.QUEUED)
_LAUNCH_PHASE = int(Phase.LAUNCH)
_CONCURRENT = int(Mode.CONCURRENT)
_FUSED_SERIAL, _FUSED = int(Mode.FUSED_SERIAL), int(Mode.FUSED)
_BATCH, _CHUNK = int(HmxLock.BATCH), int(HmxLock.CHUNK)
_STATIC = int(Split.STATIC)
_LAUNCH = int(Event.LAUNCH)


@njit
def free_slot(lane: Any, config: Any) -> int:
    """Lowest free slot, or -1."""
    for k in range(config.slots):
        if lane.slots[k].phase == _FREE:
            return k
    return -1


@njit
def occupied_slot(lane: Any) -> int:
    """Lowest slot that holds a stage, or -1."""
    for k in range(MAX_SLOTS):
        if lane.slots[k].phase != _FREE:
            return k
    return -1


@njit
def _oldest_job(lane: Any, stream: Any) -> int:
    """Slot of the stream's oldest job with something ready, or -1."""
    oldest = -1
    for j in range(stream.first_job, stream.first_job + stream.queue):
        job = lane.jobs[j]
        if job.live and job.n_ready > 0 and (oldest < 0 or job.index < lane.jobs[oldest].index):
            oldest = j
    return oldest


@njit
def _comes_before(lane: Any, head: bool, j: int, at: int) -> bool:
    """Whether a task of job slot ``j`` belongs ahead of the visible task in place ``at``."""
    if head != (lane.visible_head[at] != 0):
        return head
    job, other = lane.jobs[j], lane.jobs[lane.visible_job[at]]
    if job.deadline_ns != other.deadline_ns:
        return job.deadline_ns < other.deadline_ns
    return job.arrival_ns < other.arrival_ns


@njit
def list_tasks(tables: Any, lane: Any) -> None:
    """Fill the visible tasks: each stream's head first, then the other ready stages, both by earliest deadline.

    A stream's head is the first ready stage of its oldest job. Equal keys keep the order of job slots and readiness.
    """
    config = tables.config[0]
    lane.n_visible = 0
    for s in range(config.n_streams):
        stream = tables.streams[s]
        oldest = _oldest_job(lane, stream)
        if oldest < 0:
            continue
        for j in range(stream.first_job, stream.first_job + stream.queue):
            job = lane.jobs[j]
            if job.live:
                for i in range(job.n_ready):
                    _insert_task(lane, config.visible, j, job.ready[i], j == oldest and i == 0)


@njit
def _insert_task(lane: Any, visible: int, j: int, stage: int, head: bool) -> None:
    """Put a ready stage in its place among the visible tasks; the last one falls off a full list."""
    at = lane.n_visible
    while at > 0 and _comes_before(lane, head, j, at - 1):
        at -= 1
    if at >= visible:
        return
    lane.n_visible = min(lane.n_visible + 1, visible)
    for m in range(lane.n_visible - 1, at, -1):
        lane.visible_job[m] = lane.visible_job[m - 1]
        lane.visible_stage[m] = lane.visible_stage[m - 1]
        lane.visible_head[m] = lane.visible_head[m - 1]
    lane.visible_job[at] = j
    lane.visible_stage[at] = stage
    lane.visible_head[at] = head


@njit
def op_of(tables: Any, lane: Any, j: int, stage: int) -> int:
    """Row of ``ops`` of ``stage`` of job slot ``j``."""
    return tables.stages[tables.templates[lane.jobs[j].template].first_stage + stage].op


@njit
def _hmx_is_locked(tables: Any, lane: Any, j: int, other: int) -> bool:
    """Mode ``concurrent``: whether another graph holds the HMX lock against job slot ``j``."""
    config = tables.config[0]
    if config.mode != _CONCURRENT or config.hmx_lock == _CHUNK:
        return False
    if other >= 0 and tables.variants[lane.slots[other].variant].uses_hmx:
        return True
    if config.hmx_lock == _BATCH:
        for i in range(job_slots(tables)):
            if i != j and lane.jobs[i].live and lane.jobs[i].locked:
                return True
    return False


@njit
def _mode_allows(config: Any, lane: Any, other: int) -> bool:
    """Whether the mode lets a stage start beside the one in slot ``other`` (-1: nobody)."""
    if other < 0 or config.mode == _FUSED or config.mode == _CONCURRENT:
        return True
    return config.mode == _FUSED_SERIAL and lane.slots[other].phase == _PENDING


@njit
def contexts_are_fixed(config: Any) -> bool:
    """Whether each graph keeps its part of the contexts, whoever else is there (``concurrent``, static split)."""
    return config.mode == _CONCURRENT and config.context_split == _STATIC


@njit
def contexts_of_share(tables: Any, lane: Any, other: int, v: int, share: int) -> int:
    """HVX contexts variant ``v`` would get with ``share`` beside slot ``other`` (-1: nobody), or -1 if not legal.

    Of shares with equal effect only the first is legal: beside nobody, without HVX work on either side, and in the
    modes that fix the contexts, that is share 0.
    """
    config = tables.config[0]
    if config.mode == _FUSED and other >= 0:
        if not tables.variants[v].uses_hvx:
            return 0 if share == 0 else -1
        if tables.variants[lane.slots[other].variant].uses_hvx:
            return config.share[share]
    if share > 0:
        return -1
    if contexts_are_fixed(config) or (config.mode == _CONCURRENT and other >= 0):
        return max(1, config.contexts // 2)
    return config.contexts


@njit
def _variant_is_legal(tables: Any, v: int, room: int, locked: bool) -> bool:
    """Whether variant ``v`` (-1: not offered) fits the VTCM block ``room`` and the HMX lock."""
    if v < 0 or tables.variants[v].vtcm_bytes > room:
        return False
    return not (locked and tables.variants[v].uses_hmx)


@njit
def decision_is_open(tables: Any, lane: Any) -> bool:
    """Whether a slot is free and some pick is legal; refreshes the visible tasks."""
    config = tables.config[0]
    lane.n_visible = 0
    other = occupied_slot(lane)
    if free_slot(lane, config) < 0 or not _mode_allows(config, lane, other):
        return False
    list_tasks(tables, lane)
    room = capacity(lane, config)
    for k in range(lane.n_visible):
        j = lane.visible_job[k]
        op = tables.ops[op_of(tables, lane, j, lane.visible_stage[k])]
        locked = _hmx_is_locked(tables, lane, j, other)
        for a in range(N_VERSIONS):
            for t in range(N_TILES):
                v = op.variant[a, t]
                if _variant_is_legal(tables, v, room, locked) and contexts_of_share(tables, lane, other, v, 0) >= 0:
                    return True
    return False


@njit
def fill_mask(tables: Any, lane: Any, mask: Any) -> None:
    """Write the exact mask of the decision at hand into ``mask`` (bool, shape (1 + K * V * T * S,))."""
    config = tables.config[0]
    mask[:] = False
    mask[0] = True
    other = occupied_slot(lane)
    if lane.over or free_slot(lane, config) < 0 or not _mode_allows(config, lane, other):
        return
    room = capacity(lane, config)
    at = 1
    for k in range(lane.n_visible):
        j = lane.visible_job[k]
        op = tables.ops[op_of(tables, lane, j, lane.visible_stage[k])]
        locked = _hmx_is_locked(tables, lane, j, other)
        for a in range(N_VERSIONS):
            for t in range(N_TILES):
                v = op.variant[a, t]
                if _variant_is_legal(tables, v, room, locked):
                    for s in range(N_SHARES):
                        mask[at + s] = contexts_of_share(tables, lane, other, v, s) >= 0
                at += N_SHARES


@njit
def decode(action: int) -> tuple[int, int, int, int]:
    """``(visible task, version, tile class, share class)`` of an action that is not wait."""
    rest = action - 1
    share = rest % N_SHARES
    rest //= N_SHARES
    tile = rest % N_TILES
    rest //= N_TILES
    return rest // N_VERSIONS, rest % N_VERSIONS, tile, share


@njit
def pick(tables: Any, lane: Any, action: int) -> None:
    """Reserve a slot, VTCM and contexts for a legal ``action`` (not wait); the stage is pending until the launch."""
    config = tables.config[0]
    k, version, tile, share = decode(action)
    j = lane.visible_job[k]
    stage = lane.visible_stage[k]
    job = lane.jobs[j]
    v = tables.ops[op_of(tables, lane, j, stage)].variant[version, tile]
    other = occupied_slot(lane)
    contexts = contexts_of_share(tables, lane, other, v, share)
    target = free_slot(lane, config)
    size = tables.variants[v].vtcm_bytes
    offset = find(lane, config, target, size)
    slot = lane.slots[target]
    slot.phase = _PENDING
    slot.launched = False
    slot.job = j
    slot.stage = stage
    slot.variant = v
    slot.contexts = contexts
    slot.contexts_next = contexts
    slot.switch_left = -1.0
    slot.trace_row = -1
    slot.noise = noise_factor(lane.key, job.stream, job.index, stage, config.noise)
    slot.slowdown = 1.0
    slot.vtcm_offset = offset
    slot.vtcm_bytes = size
    if other >= 0:
        _share_contexts(tables, lane, other, contexts)
    job.resident += 1
    _remove_ready(job, stage)


@njit
def _share_contexts(tables: Any, lane: Any, other: int, contexts: int) -> None:
    """The stage in slot ``other`` keeps what the joining one leaves: at once if pending, else from a tile boundary."""
    config = tables.config[0]
    slot = lane.slots[other]
    if config.mode == _FUSED_SERIAL or contexts_are_fixed(config):
        return
    rest = config.contexts - contexts if tables.variants[slot.variant].uses_hvx else 0
    slot.contexts_next = rest
    if slot.phase == _PENDING:
        slot.contexts = rest


@njit
def _remove_ready(job: Any, stage: int) -> None:
    at = 0
    for i in range(job.n_ready):
        if job.ready[i] != stage:
            job.ready[at] = job.ready[i]
            at += 1
    job.n_ready = at


@njit
def launch(tables: Any, lane: Any, trace: Any) -> None:
    """Dispatch what is pending.

    A job's first stage pays its batch (``batch_ns``). Fused modes pay one entry for all picks of this instant or for a
    join, and the compilation or look-up of a combination's kernel; the others pay ``op_ns`` a stage. Each decision's
    cost is paid by what it launched. In ``fused_serial`` the second stage waits behind the internal barrier and pays
    nothing more.
    """
    config = tables.config[0]
    pending, occupied = 0, 0
    for k in range(MAX_SLOTS):
        pending += lane.slots[k].phase == _PENDING
        occupied += lane.slots[k].phase != _FREE
    fused = config.mode >= _FUSED_SERIAL
    base = config.entry_ns + pending * config.decision_ns if fused else config.op_ns + config.decision_ns
    if fused and pending > 0 and occupied > 1:
        base += jit_ns(config, lane)
    behind = False
    for k in range(MAX_SLOTS):
        slot = lane.slots[k]
        if slot.phase != _PENDING:
            continue
        job = lane.jobs[slot.job]
        latency = base
        if not job.started:
            latency += config.batch_ns
            job.started = True
        if tables.variants[slot.variant].uses_hmx:
            job.locked = True
        slot.launched = True
        slot.left = float(latency)
        slot.phase = _LAUNCH_PHASE
        if config.mode == _FUSED_SERIAL and behind:
            slot.phase = _QUEUED
            slot.left = float(latency - base)
        behind = True
        slot.trace_row = tr.add(lane, trace, tr.ALL, _LAUNCH, job.stream, job.index, float(latency))
        if slot.trace_row >= 0:
            record = trace[slot.trace_row]
            record.slot = k
            record.stage = slot.stage
            record.variant = slot.variant
            record.contexts = slot.contexts
