"""Jobs: how they arrive, which stages are ready, and how they end (finished, dropped, rejected)."""

from __future__ import annotations

from typing import Any

import numpy as np

from hexenv.engine import trace as tr
from hexenv.engine.jit import njit
from hexenv.engine.layout import MAX_READY, MAX_SLOTS, NO_DEADLINE, Arrival, Event, Phase
from hexenv.engine.rng import ARRIVAL, PHASE, draw, exponential, uniform

_NEVER = int(NO_DEADLINE)
_PERIODIC, _POISSON = int(Arrival.PERIODIC), int(Arrival.POISSON)
_CLOSED, _TRACE = int(Arrival.CLOSED_LOOP), int(Arrival.TRACE)
_FREE = int(Phase.FREE)
_ARRIVE, _REJECT, _FINISH = int(Event.ARRIVE), int(Event.REJECT), int(Event.FINISH)
_DROP, _MISS = int(Event.DROP), int(Event.MISS)


@njit
def _period_ns(tables: Any, lane: Any, s: int) -> float:
    """Mean spacing of stream ``s`` under the lane's load, ns."""
    stream = tables.streams[s]
    load = tables.settings[lane.setting].load if stream.scales else 1.0
    return stream.period_ns / load


@njit
def tightened_ns(tables: Any, lane: Any, deadline_ns: int) -> int:
    """A deadline from arrival under the lane's tightness, ns; never stays never."""
    return round(deadline_ns * tables.settings[lane.setting].tightness) if deadline_ns < _NEVER else _NEVER


@njit
def _allowed_ns(tables: Any, lane: Any, s: int, n: int) -> int:
    """Deadline of job ``n`` of stream ``s`` from its arrival, ns; never without one."""
    stream = tables.streams[s]
    if stream.arrival == _TRACE:
        return tightened_ns(tables, lane, tables.trace_deadline_ns[stream.trace_start + n])
    return tightened_ns(tables, lane, stream.deadline_ns)


@njit
def start_stream(tables: Any, lane: Any, s: int) -> None:
    """Stream ``s`` at the start of an episode: its first arrival, or none if the mix leaves it out."""
    stream = tables.streams[s]
    lane.next_index[s] = 0
    lane.last_arrival_ns[s] = 0
    lane.due[s] = 0
    lane.missed[s] = 0
    lane.finished[s] = 0
    lane.rejected[s] = 0
    lane.offset_ns[s] = stream.offset_ns
    if stream.offset_ns < 0:
        phase = uniform(draw(lane.key, PHASE, s, 0, 0))
        lane.offset_ns[s] = round(phase * _period_ns(tables, lane, s))
    lane.next_arrival_ns[s] = _NEVER
    if tables.settings[lane.setting].active[s] != 0:
        _schedule_arrival(tables, lane, s)


@njit
def _schedule_arrival(tables: Any, lane: Any, s: int) -> None:
    """Set the instant at which job ``next_index`` of stream ``s`` arrives (a closed loop: only its first)."""
    stream = tables.streams[s]
    n = lane.next_index[s]
    u = uniform(draw(lane.key, ARRIVAL, s, n, 0))
    at = float(lane.offset_ns[s])
    if stream.arrival == _PERIODIC:
        at += n * _period_ns(tables, lane, s) + stream.jitter_ns * (2.0 * u - 1.0)
    elif stream.arrival == _POISSON and n > 0:
        at = lane.last_arrival_ns[s] + _period_ns(tables, lane, s) * exponential(u)
    elif stream.arrival == _TRACE:
        row = stream.trace_start + n
        at = float(tables.trace_ns[row]) if row < stream.trace_end else float(_NEVER)
    lane.next_arrival_ns[s] = max(round(at), lane.now_ns)


@njit
def resample_arrival(tables: Any, lane: Any, s: int, key: Any) -> None:
    """Draw the next arrival of stream ``s`` again under ``key``, given that it has not come yet.

    The grid of a periodic stream that runs and the mean end of a host gap are known and stay. A random phase is drawn
    again until its first job has arrived. A recorded arrival stays as it is.
    """
    stream = tables.streams[s]
    n = lane.next_index[s]
    u = uniform(draw(key, ARRIVAL, s, n, 0))
    soon = lane.now_ns + 1
    at = float(lane.next_arrival_ns[s])
    if stream.arrival == _POISSON:
        at = lane.now_ns + _period_ns(tables, lane, s) * exponential(u)
    elif stream.arrival == _PERIODIC or (stream.arrival == _CLOSED and n > 0):
        period = _period_ns(tables, lane, s) if stream.arrival == _PERIODIC else 0.0
        if n == 0 and stream.offset_ns < 0:
            start = min(float(lane.now_ns), period)
            lane.offset_ns[s] = round(start + (period - start) * uniform(draw(key, PHASE, s, 0, 0)))
        grid = lane.offset_ns[s] + n * period
        low = min(max(-float(stream.jitter_ns), soon - grid), float(stream.jitter_ns))
        at = grid + low + (stream.jitter_ns - low) * u
    lane.next_arrival_ns[s] = max(round(at), soon)


@njit
def job_slots(tables: Any) -> int:
    """Number of job slots the scenario's streams use."""
    last = tables.streams[tables.config[0].n_streams - 1]
    return last.first_job + last.queue


@njit
def _refresh_due(tables: Any, lane: Any) -> None:
    """Find the earliest deadline again after a job has ended or missed."""
    due = _NEVER
    for j in range(job_slots(tables)):
        job = lane.jobs[j]
        if job.live and not job.dropped:
            due = min(due, job.due_ns)
    lane.next_due_ns = due


@njit
def is_done(job: Any, stage: int) -> bool:
    """Whether ``stage`` of ``job`` has finished."""
    return (job.done[stage >> 6] >> np.uint64(stage & 63)) & np.uint64(1) == np.uint64(1)


@njit
def in_slot(lane: Any, j: int, stage: int) -> bool:
    """Whether ``stage`` of job slot ``j`` holds a slot."""
    for k in range(MAX_SLOTS):
        slot = lane.slots[k]
        if slot.phase != _FREE and slot.job == j and slot.stage == stage:
            return True
    return False


@njit
def _free_of_earlier_jobs(tables: Any, lane: Any, j: int, row: int) -> bool:
    """No live earlier job of the stream still owes a stage that stage ``row`` (of ``stages``) must come after."""
    stage = tables.stages[row]
    if stage.prev_start == stage.prev_end:
        return True
    job = lane.jobs[j]
    stream = tables.streams[job.stream]
    for i in range(stream.first_job, stream.first_job + stream.queue):
        other = lane.jobs[i]
        if other.live and other.index < job.index:
            for p in range(stage.prev_start, stage.prev_end):
                before = tables.links[p]
                if not is_done(other, before) and (not other.dropped or in_slot(lane, i, before)):
                    return False
    return True


@njit
def _offer(tables: Any, lane: Any, j: int, stage: int) -> None:
    """Make ``stage`` ready if everything it waits for is done and it is not ready, resident or done already."""
    job = lane.jobs[j]
    row = tables.templates[job.template].first_stage + stage
    record = tables.stages[row]
    if is_done(job, stage) or in_slot(lane, j, stage):
        return
    for i in range(job.n_ready):
        if job.ready[i] == stage:
            return
    for p in range(record.pred_start, record.pred_end):
        if not is_done(job, tables.links[p]):
            return
    if _free_of_earlier_jobs(tables, lane, j, row) and job.n_ready < MAX_READY:
        job.ready[job.n_ready] = stage
        job.n_ready += 1


@njit
def _wake_later_jobs(tables: Any, lane: Any, s: int) -> None:
    """A stage or job that later jobs of the stream may wait for is gone: offer their waiting stages again."""
    stream = tables.streams[s]
    if stream.queue < 2:
        return
    for j in range(stream.first_job, stream.first_job + stream.queue):
        job = lane.jobs[j]
        if job.live and not job.dropped:
            template = tables.templates[job.template]
            if template.next_start == template.next_end:
                continue
            for stage in range(template.n_stages):
                record = tables.stages[template.first_stage + stage]
                if record.prev_start < record.prev_end:
                    _offer(tables, lane, j, stage)


@njit
def arrive(tables: Any, lane: Any, trace: Any, s: int) -> None:
    """The next job of stream ``s`` arrives now; a full queue rejects it: a miss if it has a deadline."""
    stream = tables.streams[s]
    n = lane.next_index[s]
    lane.next_index[s] = n + 1
    lane.last_arrival_ns[s] = lane.now_ns
    template_row = stream.template_start + n % stream.template_count
    allowed_ns = _allowed_ns(tables, lane, s, n)
    slot = -1
    for j in range(stream.first_job, stream.first_job + stream.queue):
        if not lane.jobs[j].live:
            slot = j
            break
    if slot < 0:
        lane.rejected[s] += 1
        tr.add(lane, trace, tr.JOBS, _REJECT, s, n, float(allowed_ns))
        if allowed_ns < _NEVER:
            _charge_miss(tables, lane, trace, s, n, template_row)
    else:
        _admit(tables, lane, trace, slot, s, n, template_row, allowed_ns)
    if stream.arrival == _CLOSED:
        lane.next_arrival_ns[s] = _NEVER
    else:
        _schedule_arrival(tables, lane, s)


@njit
def _admit(tables: Any, lane: Any, trace: Any, j: int, s: int, n: int, template_row: int, allowed_ns: int) -> None:
    template = tables.templates[template_row]
    job = lane.jobs[j]
    job.live = True
    job.dropped = False
    job.started = False
    job.missed = False
    job.locked = False
    job.stream = s
    job.template = template_row
    job.resident = 0
    job.left = template.n_stages
    job.n_ready = 0
    job.index = n
    job.arrival_ns = lane.now_ns
    job.deadline_ns = min(_NEVER, lane.now_ns + allowed_ns)
    job.due_ns = job.deadline_ns
    lane.next_due_ns = min(lane.next_due_ns, job.due_ns)
    job.earned_ns = 0
    job.left_ddr_ns = template.ddr_ns
    job.left_hvx_ns = template.hvx_ns
    job.left_hmx_ns = template.hmx_ns
    for w in range((template.n_stages + 63) >> 6):
        job.done[w] = np.uint64(0)
    tr.add(lane, trace, tr.JOBS, _ARRIVE, s, n, float(allowed_ns))
    for p in range(template.root_start, template.root_end):
        _offer(tables, lane, j, tables.links[p])


@njit
def _charge_miss(tables: Any, lane: Any, trace: Any, s: int, n: int, template_row: int) -> None:
    charge = tables.streams[s].weight * tables.templates[template_row].ref_ns
    lane.due[s] += 1
    lane.missed[s] += 1
    lane.charge_ns += charge
    tr.add(lane, trace, tr.JOBS, _MISS, s, n, charge)


@njit
def _leave(tables: Any, lane: Any, j: int) -> None:
    """Job slot ``j`` is empty from now on; a closed loop brings its next job one host gap later."""
    job = lane.jobs[j]
    job.live = False
    job.locked = False
    _refresh_due(tables, lane)
    _wake_later_jobs(tables, lane, job.stream)
    stream = tables.streams[job.stream]
    if stream.arrival == _CLOSED:
        s = job.stream
        u = uniform(draw(lane.key, ARRIVAL, s, lane.next_index[s], 0))
        lane.offset_ns[s] = lane.now_ns + stream.gap_ns
        lane.next_arrival_ns[s] = max(lane.now_ns, round(lane.offset_ns[s] + stream.jitter_ns * (2.0 * u - 1.0)))


@njit
def complete_stage(tables: Any, lane: Any, trace: Any, j: int, stage: int, ref_ns: int) -> bool:
    """Stage ``stage`` of job slot ``j`` has left its slot finished; credit it unless its job was dropped.

    Returns whether it was credited.
    """
    job = lane.jobs[j]
    job.resident -= 1
    if job.dropped:
        if job.resident == 0:
            _leave(tables, lane, j)
        return False
    template = tables.templates[job.template]
    record = tables.stages[template.first_stage + stage]
    job.done[stage >> 6] |= np.uint64(1) << np.uint64(stage & 63)
    job.left -= 1
    job.earned_ns += ref_ns
    lane.credit_ns += ref_ns
    fastest = tables.variants[tables.ops[record.op].fastest]
    job.left_ddr_ns = max(0.0, job.left_ddr_ns - fastest.ddr_ns - fastest.prologue_ddr_ns)
    job.left_hvx_ns = max(0.0, job.left_hvx_ns - fastest.hvx_ns - fastest.prologue_hvx_ns)
    job.left_hmx_ns = max(0.0, job.left_hmx_ns - fastest.hmx_ns)
    for p in range(record.succ_start, record.succ_end):
        _offer(tables, lane, j, tables.links[p])
    for p in range(template.next_start, template.next_end):
        if tables.links[p] == stage:
            _wake_later_jobs(tables, lane, job.stream)
            break
    if job.left == 0:
        _finish(tables, lane, trace, j)
    return True


@njit
def _finish(tables: Any, lane: Any, trace: Any, j: int) -> None:
    job = lane.jobs[j]
    s = job.stream
    lane.finished[s] += 1
    if job.deadline_ns < _NEVER and not job.missed and job.deadline_ns <= tables.config[0].horizon_ns:
        lane.due[s] += 1
    tr.add(lane, trace, tr.JOBS, _FINISH, s, job.index, float(lane.now_ns - job.arrival_ns))
    _leave(tables, lane, j)


@njit
def pass_deadlines(tables: Any, lane: Any, trace: Any) -> bool:
    """Charge every miss that is due now. Returns whether a job was dropped."""
    dropped = False
    while lane.next_due_ns <= lane.now_ns:
        for j in range(job_slots(tables)):
            job = lane.jobs[j]
            if job.live and not job.dropped and job.due_ns <= lane.now_ns:
                dropped |= _pass_deadline(tables, lane, trace, j)
        _refresh_due(tables, lane)
    return dropped


@njit
def _pass_deadline(tables: Any, lane: Any, trace: Any, j: int) -> bool:
    """Charge the miss of job slot ``j`` that is due now; a firm job is dropped. Returns whether it was."""
    job = lane.jobs[j]
    s = job.stream
    stream = tables.streams[s]
    _charge_miss(tables, lane, trace, s, job.index, job.template)
    job.missed = True
    if not stream.firm:
        # A late closed loop owes one more result for every further period, so starving it never pays.
        allowed_ns = job.deadline_ns - job.arrival_ns
        job.due_ns = job.due_ns + allowed_ns if stream.arrival == _CLOSED else _NEVER
        return False
    tr.add(lane, trace, tr.JOBS, _DROP, s, job.index, float(job.earned_ns))
    lane.credit_ns -= job.earned_ns
    job.earned_ns = 0
    job.n_ready = 0
    job.dropped = True
    job.due_ns = _NEVER
    if job.resident == 0:
        _leave(tables, lane, j)
    return True
