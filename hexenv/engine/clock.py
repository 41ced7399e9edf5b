"""How time runs: the slots' phases, the next event, and one step of a lane.

At one instant completions come first (a job finished at its very deadline is on time), then deadlines (a dropped job
frees its place in the queue), then arrivals. So the order in which simultaneous events were entered does not matter.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from hexenv.engine import trace as tr
from hexenv.engine.contention import is_working, update_rates
from hexenv.engine.dispatch import contexts_are_fixed, decision_is_open, launch, occupied_slot, pick
from hexenv.engine.jit import njit
from hexenv.engine.jobs import arrive, complete_stage, job_slots, pass_deadlines, resample_arrival, start_stream
from hexenv.engine.layout import MAX_SLOTS, NO_DEADLINE, Event, Phase
from hexenv.engine.rng import SETTING, draw, noise_factor

_NEVER = int(NO_DEADLINE)
_FREE, _PENDING, _QUEUED = int(Phase.FREE), int(Phase.PENDING), int(Phase.QUEUED)
_LAUNCH, _PROLOGUE, _BODY, _DRAIN = int(Phase.LAUNCH), int(Phase.PROLOGUE), int(Phase.BODY), int(Phase.DRAIN)
_COMPLETE, _UNCREDITED = int(Event.COMPLETE), int(Event.UNCREDITED)
_SEGMENT, _DECIDE = int(Event.SEGMENT), int(Event.DECIDE)
_TINY = 1e-9
"""Tiles or ns below which a phase is over: far under a tile, far over the rounding of double arithmetic."""


@njit
def reset(tables: Any, lane: Any, trace: Any, key: Any, setting: int) -> None:
    """Start an episode and run to its first decision. ``setting`` -1 draws the load x mix setting from the key."""
    lane.key = key
    lane.now_ns = 0
    lane.elapsed_ns = 0
    lane.reward = 0.0
    lane.n_visible = 0
    lane.over = False
    lane.terminated = False
    lane.truncated = False
    lane.n_trace = 0
    lane.next_due_ns = _NEVER
    lane.decisions = 0
    lane.credit_ns = 0
    lane.charge_ns = 0.0
    lane.busy_ddr_ns = 0.0
    lane.busy_hvx_ns = 0.0
    lane.busy_hmx_ns = 0.0
    lane.busy_storage_ns = 0.0
    lane.jit_keys[:] = -1
    if setting < 0:
        setting = int(draw(key, SETTING, 0, 0, 0) >> np.uint64(1)) % tables.settings.shape[0]
    lane.setting = setting
    for k in range(MAX_SLOTS):
        lane.slots[k].phase = _FREE
    for j in range(lane.jobs.shape[0]):
        lane.jobs[j].live = False
        lane.jobs[j].locked = False
    for s in range(tables.config[0].n_streams):
        start_stream(tables, lane, s)
    _run(tables, lane, trace, False)


@njit
def step(tables: Any, lane: Any, trace: Any, action: int) -> None:
    """Carry out a legal action and run to the next decision; sets the lane's reward and elapsed time."""
    start, credit, charge = lane.now_ns, lane.credit_ns, lane.charge_ns
    lane.decisions += 1
    tr.add(lane, trace, tr.ALL, _DECIDE, -1, -1, float(action))
    if action > 0:
        pick(tables, lane, action)
    if action == 0 or not decision_is_open(tables, lane):
        launch(tables, lane, trace)
        _run(tables, lane, trace, action == 0)
    lane.elapsed_ns = lane.now_ns - start
    lane.reward = (float(lane.credit_ns - credit) - tables.config[0].miss_weight * (lane.charge_ns - charge)) / 1e6


@njit
def _run(tables: Any, lane: Any, trace: Any, waiting: bool) -> None:
    """Let time run until a decision is open or the episode is over.

    A wait first runs to the next arrival, completion, drop or the horizon, at most ``wait_max_ns``.
    """
    config = tables.config[0]
    wait_end = lane.now_ns + config.wait_max_ns if waiting else _NEVER
    while True:
        woken = _handle_due(tables, lane, trace)
        lane.truncated = lane.now_ns >= config.horizon_ns
        lane.terminated = not lane.truncated and _nothing_left(tables, lane)
        if lane.truncated or lane.terminated:
            lane.over = True
            lane.n_visible = 0
            return
        waiting = waiting and not woken and lane.now_ns < wait_end
        if not waiting and decision_is_open(tables, lane):
            return
        update_rates(config, tables.variants, lane)
        until = min(config.horizon_ns, _next_instant(tables, lane))
        if waiting:
            until = min(until, wait_end)
        _advance(tables, lane, trace, until)


@njit
def _nothing_left(tables: Any, lane: Any) -> bool:
    """No stage in a slot, no live job, no arrival to come."""
    if occupied_slot(lane) >= 0:
        return False
    for s in range(tables.config[0].n_streams):
        if lane.next_arrival_ns[s] < _NEVER:
            return False
    live = 0
    for j in range(job_slots(tables)):
        live += lane.jobs[j].live
    return live == 0


@njit
def _handle_due(tables: Any, lane: Any, trace: Any) -> bool:
    """Carry out everything due at this instant. Returns whether something arrived, completed or was dropped."""
    woken = _settle_slots(tables, lane, trace)
    woken |= pass_deadlines(tables, lane, trace)
    for s in range(tables.config[0].n_streams):
        while lane.next_arrival_ns[s] <= lane.now_ns:
            arrive(tables, lane, trace, s)
            woken = True
    return woken


@njit
def _settle_slots(tables: Any, lane: Any, trace: Any) -> bool:
    """Move slots through the phases that end at this instant until none does. Returns whether a stage completed."""
    completed = False
    moved = True
    while moved:
        moved = False
        for k in range(MAX_SLOTS):
            slot = lane.slots[k]
            if slot.phase < _LAUNCH:
                continue
            if is_working(slot) and slot.switch_left >= 0.0 and slot.left <= slot.switch_left + _TINY:
                slot.contexts = slot.contexts_next
                slot.switch_left = -1.0
                moved = True
            if slot.left <= _TINY and not (slot.phase == _LAUNCH and _waits_for_contexts(lane, k)):
                completed |= _next_phase(tables, lane, trace, k)
                moved = True
    return completed


@njit
def _waits_for_contexts(lane: Any, k: int) -> bool:
    """Whether the joining stage in slot ``k`` must wait for another one to hand contexts over; asks for them.

    They come at the next tile boundary of a body.
    """
    for other in range(MAX_SLOTS):
        slot = lane.slots[other]
        if other != k and is_working(slot) and slot.contexts > slot.contexts_next and not _switches(slot):
            return True
    return False


@njit
def _switches(slot: Any) -> bool:
    """Give ``slot`` the contexts it is due; returns whether that was at once.

    In a body they change at its next tile boundary, since a fork-join splits the work of a tile for good (static split,
    no stealing). A prologue goes row by row and changes at once.
    """
    if slot.phase == _BODY:
        boundary = float(math.floor(slot.left + _TINY))
        if boundary < slot.left - _TINY:
            if slot.switch_left < 0.0:
                slot.switch_left = boundary
            return False
    slot.contexts = slot.contexts_next
    slot.switch_left = -1.0
    return True


@njit
def _next_phase(tables: Any, lane: Any, trace: Any, k: int) -> bool:
    """Enter the phase after the one that slot ``k`` has ended. Returns whether its stage completed."""
    slot = lane.slots[k]
    variant = tables.variants[slot.variant]
    if slot.phase == _LAUNCH:
        slot.contexts = slot.contexts_next
        slot.phase = _PROLOGUE if variant.prologue_ns[slot.contexts] > 0.0 else _BODY
        slot.left = variant.tiles
        slot.switch_left = -1.0
    elif slot.phase == _PROLOGUE:
        slot.phase = _BODY
        slot.left = variant.tiles
        slot.switch_left = -1.0
    elif slot.phase == _BODY:
        slot.phase = _DRAIN
        slot.left = variant.latency_ns[slot.contexts] * slot.noise
        slot.contexts = slot.contexts_next
    else:
        _leave_slot(tables, lane, trace, k)
        return True
    return False


@njit
def _leave_slot(tables: Any, lane: Any, trace: Any, k: int) -> None:
    """The stage in slot ``k`` is done: free the slot and its VTCM, give its contexts back, credit the job."""
    config = tables.config[0]
    slot = lane.slots[k]
    j, stage, v = slot.job, slot.stage, slot.variant
    stream, index = lane.jobs[j].stream, lane.jobs[j].index
    slot.phase = _FREE
    slot.vtcm_bytes = 0
    for other in range(MAX_SLOTS):
        rest = lane.slots[other]
        if rest.phase == _QUEUED:
            rest.phase = _LAUNCH
        if rest.phase >= _LAUNCH and not contexts_are_fixed(config):
            # Alone again: its next fork-join finds all contexts idle.
            rest.contexts_next = config.contexts
            _switches(rest)
    ref_ns = tables.ops[tables.variants[v].op].ref_ns
    credited = complete_stage(tables, lane, trace, j, stage, ref_ns)
    tr.close(lane, trace, slot.trace_row)
    row = tr.add(lane, trace, tr.ALL, _COMPLETE if credited else _UNCREDITED, stream, index, float(ref_ns))
    if row >= 0:
        record = trace[row]
        record.slot = k
        record.stage = stage
        record.variant = v


@njit
def _next_instant(tables: Any, lane: Any) -> int:
    """The earliest instant at which a phase, a context switch, a deadline or an arrival is due, in ns."""
    until = lane.next_due_ns
    for k in range(MAX_SLOTS):
        slot = lane.slots[k]
        if is_working(slot):
            target = max(slot.switch_left, 0.0)
            until = min(until, lane.now_ns + math.ceil((slot.left - target - _TINY) / slot.rate))
        elif slot.phase >= _LAUNCH and slot.left > _TINY:
            until = min(until, lane.now_ns + math.ceil(slot.left - _TINY))
    for s in range(tables.config[0].n_streams):
        until = min(until, lane.next_arrival_ns[s])
    return max(until, lane.now_ns + 1)


@njit
def _advance(tables: Any, lane: Any, trace: Any, until: int) -> None:
    """Run all slots at their rates to the instant ``until`` and book the engines' busy time."""
    elapsed = float(until - lane.now_ns)
    ddr, hvx, hmx, storage = 0.0, 0.0, 0.0, 0.0
    for k in range(MAX_SLOTS):
        slot = lane.slots[k]
        if is_working(slot):
            variant = tables.variants[slot.variant]
            tiles = min(slot.left, slot.rate * elapsed)
            work = variant.hvx_ns if slot.phase == _BODY else variant.prologue_hvx_ns
            ddr += tiles * slot.ddr_tile_ns
            hmx += tiles * slot.hmx_tile_ns
            storage += tiles * slot.storage_tile_ns
            hvx += tiles * work / variant.tiles * slot.noise * slot.slowdown
            slot.left -= tiles
        elif slot.phase >= _LAUNCH:
            slot.left = max(0.0, slot.left - elapsed)
    lane.busy_ddr_ns += ddr
    lane.busy_hvx_ns += hvx
    lane.busy_hmx_ns += hmx
    lane.busy_storage_ns += storage
    row = tr.add(lane, trace, tr.ALL, _SEGMENT, -1, -1, ddr)
    if row >= 0:
        trace[row].end_ns = until
        trace[row].value2 = hvx
        trace[row].value3 = hmx
        trace[row].value4 = storage
    lane.now_ns = until


@njit
def reseed(tables: Any, lanes: Any, key: Any) -> None:
    """Resample the future under ``key``: arrivals still to come and the noise of what is resident or not started.

    Recorded arrivals stay. ``lanes`` is a batch of one.
    """
    lane = lanes[0]
    for s in range(tables.config[0].n_streams):
        if lane.next_arrival_ns[s] < _NEVER:
            resample_arrival(tables, lane, s, key)
    lane.key = key
    for k in range(MAX_SLOTS):
        slot = lane.slots[k]
        if slot.phase != _FREE:
            job = lane.jobs[slot.job]
            noise = noise_factor(key, job.stream, job.index, slot.stage, tables.config[0].noise)
            if slot.phase == _DRAIN:
                slot.left *= noise / slot.noise
            slot.noise = noise
