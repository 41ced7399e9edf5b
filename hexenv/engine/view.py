"""What a scheduler may know at a decision, in raw units: predicted values only, never true durations or the horizon."""

from __future__ import annotations

from typing import Any

from hexenv.engine.jit import njit
from hexenv.engine.jobs import job_slots, tightened_ns
from hexenv.engine.layout import MAX_SLOTS, NO_DEADLINE, Arrival, Phase
from hexenv.engine.vtcm import free_bytes

_NEVER = int(NO_DEADLINE)
_FREE, _LAUNCH, _PROLOGUE = int(Phase.FREE), int(Phase.LAUNCH), int(Phase.PROLOGUE)
_BODY, _DRAIN = int(Phase.BODY), int(Phase.DRAIN)
_CLOSED = int(Arrival.CLOSED_LOOP)


@njit
def predicted_left_ns(variant: Any, slot: Any) -> float:
    """Predicted rest of a resident stage, alone on its present contexts, ns."""
    h = slot.contexts
    prologue, latency = variant.prologue_ns[h], variant.latency_ns[h]
    body = variant.alone_ns[h] - prologue - latency
    if slot.phase == _DRAIN:
        return slot.left / slot.noise
    if slot.phase == _BODY:
        return slot.left / variant.tiles * body + latency
    if slot.phase == _PROLOGUE:
        return slot.left / variant.tiles * prologue + body + latency
    launch = slot.left if slot.launched else 0.0
    return launch + variant.alone_ns[h]


@njit
def _view_tasks(tables: Any, lane: Any, view: Any) -> None:
    for k in range(lane.n_visible):
        j, stage = lane.visible_job[k], lane.visible_stage[k]
        job = lane.jobs[j]
        template = tables.templates[job.template]
        record = tables.stages[template.first_stage + stage]
        task = view.tasks[k]
        task.job = j
        task.stream = job.stream
        task.stage = stage
        task.op = record.op
        task.firm = tables.streams[job.stream].firm
        task.head = lane.visible_head[k] != 0
        task.arrival_ns = job.arrival_ns
        task.deadline_ns = job.deadline_ns
        task.critical_ns = record.critical_ns
        task.slack_ns = _slack_ns(job.deadline_ns, lane.now_ns + record.critical_ns)
        task.job_ref_ns = template.ref_ns
        task.earned_ns = job.earned_ns
        task.left_ddr_ns = job.left_ddr_ns
        task.left_hvx_ns = job.left_hvx_ns
        task.left_hmx_ns = job.left_hmx_ns
        task.weight = tables.streams[job.stream].weight


@njit
def _slack_ns(deadline_ns: int, predicted_end_ns: int) -> int:
    """Deadline minus predicted end, ns; ``NO_DEADLINE`` where there is none."""
    return deadline_ns - predicted_end_ns if deadline_ns < _NEVER else _NEVER


@njit
def _view_residents(tables: Any, lane: Any, view: Any) -> None:
    for k in range(MAX_SLOTS):
        slot = lane.slots[k]
        resident = view.residents[k]
        resident.phase = slot.phase
        if slot.phase == _FREE:
            continue
        variant = tables.variants[slot.variant]
        job = lane.jobs[slot.job]
        critical = tables.stages[tables.templates[job.template].first_stage + slot.stage].critical_ns
        rest_of_chain = critical - tables.ops[variant.op].ref_ns
        left = predicted_left_ns(variant, slot)
        resident.dropped = job.dropped
        resident.variant = slot.variant
        resident.op = variant.op
        resident.stream = job.stream
        resident.job = slot.job
        resident.contexts = slot.contexts
        resident.tiles_left = slot.left if slot.phase == _BODY else (0.0 if slot.phase == _DRAIN else variant.tiles)
        resident.left_ns = int(left)
        resident.arrival_ns = job.arrival_ns
        resident.deadline_ns = _NEVER if job.dropped else job.deadline_ns
        resident.slack_ns = _slack_ns(resident.deadline_ns, lane.now_ns + int(left) + rest_of_chain)
        resident.vtcm_offset = slot.vtcm_offset
        resident.vtcm_bytes = slot.vtcm_bytes


@njit
def _view_streams(tables: Any, lane: Any, view: Any) -> None:
    setting = tables.settings[lane.setting]
    for s in range(tables.config[0].n_streams):
        stream = tables.streams[s]
        out = view.streams[s]
        out.active = setting.active[s] != 0
        out.firm = stream.firm
        out.backlog = 0
        out.since_arrival_ns = lane.now_ns - lane.last_arrival_ns[s]
        load = setting.load if stream.scales else 1.0
        out.period_ns = 0 if stream.arrival == _CLOSED else int(stream.period_ns / load)
        out.deadline_ns = tightened_ns(tables, lane, stream.deadline_ns)
    for j in range(job_slots(tables)):
        job = lane.jobs[j]
        if job.live and not job.dropped:
            view.streams[job.stream].backlog += 1


@njit
def fill_view(tables: Any, lane: Any, view: Any) -> None:
    """Describe the decision at hand in ``view`` (a VIEW record). Rows past ``n_tasks`` keep old values."""
    view.now_ns = lane.now_ns
    view.n_tasks = lane.n_visible
    view.vtcm_free_bytes, view.vtcm_largest_bytes = free_bytes(lane, tables.config[0])
    _view_tasks(tables, lane, view)
    _view_residents(tables, lane, view)
    _view_streams(tables, lane, view)
