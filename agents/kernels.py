"""The compiled pieces that the rules share: order of tasks, predicted times of one or two stages, choice of a partner.

A prediction uses only what a scheduler knows, the profiles of the variants and the view. It is a closed form that a
real scheduler would use, not the engine's law of motion. All kernels are in this one file, since numba's cache follows
changes of a callee only inside its file. Records are those of ``hexenv.engine.layout``; times are float ns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from hexenv.engine.jit import njit
from hexenv.engine.layout import (
    MAX_SLOTS,
    MAX_VISIBLE,
    N_SHARES,
    N_TILES,
    N_VARIANTS,
    NO_DEADLINE,
    Mode,
    Phase,
    Split,
    Tables,
)

_FREE, _PENDING = int(Phase.FREE), int(Phase.PENDING)
_SERIAL, _CONCURRENT = int(Mode.SERIAL), int(Mode.CONCURRENT)
_FUSED_SERIAL, _FUSED = int(Mode.FUSED_SERIAL), int(Mode.FUSED)
_STATIC = int(Split.STATIC)
_NEVER = int(NO_DEADLINE)
_DUE, _SPARE, _REST, _JOB = range(4)
_NO_GAIN = 1.001
"""A pair must gain more than the rounding of times to ns."""

FIFO = 0
"""Order of tasks: oldest job first."""
EDF = 1
"""Order of tasks: earliest deadline first, best effort last."""


class Costs(NamedTuple):
    """What the rules read of the scenario's tables."""

    config: Any  # CONFIG record
    ops: np.ndarray  # OP
    variants: np.ndarray  # VARIANT
    stretch: np.ndarray  # (n_streams,): time of a job's rest with the dispatch of its stages, over its reference time


class Placed(NamedTuple):
    """A stage on the device, or one that may be put there, as the predictions see it."""

    row: int  # of the variant table
    part: float  # of it that is left, 0 to 1
    latency: float  # ns of dispatch before it starts
    due: float  # deadline from now, ns; inf = best effort
    work: float  # what it still takes by itself, ns: the queue of a deadline shrinks by it


class Pairing(NamedTuple):
    """What kind of pairs a rule makes."""

    any_version: bool  # otherwise a stage keeps the version of its fastest variant
    gated: bool  # pairs must keep the known deadlines, and the most urgent partner that gains comes first
    margin: float  # of a gate: ns of spare time that must stay


class Known(NamedTuple):
    """The deadlines a gate protects."""

    n: int
    rows: np.ndarray  # (MAX_VISIBLE + MAX_SLOTS, 4), a row a job: _DUE, _SPARE, _REST in ns, and the job slot


def nothing_known() -> Known:
    """No deadline to protect yet, and room for all that a view may show: the kernels allocate nothing."""
    return Known(0, np.empty((MAX_VISIBLE + MAX_SLOTS, 4)))


def costs_of(tables: Tables) -> Costs:
    """Gather what the rules need."""
    config, stretch = tables.config[0], np.ones(len(tables.streams))
    for s, stream in enumerate(tables.streams):
        jobs = tables.templates[stream["template_start"] : stream["template_start"] + stream["template_count"]]
        stretch[s] += dispatch_ns(config) * jobs["n_stages"].sum() / jobs["ref_ns"].sum()
    return Costs(config, tables.ops, tables.variants, stretch)


@njit
def dispatch_ns(config: Any) -> float:
    """Decision and dispatch of one stage by itself, inside a batch that has started."""
    entry = config.entry_ns if config.mode >= _FUSED_SERIAL else config.op_ns
    return float(entry + config.decision_ns)


# ---- actions and order of tasks ------------------------------------------------------------------------------------


@njit
def action_of(task: int, variant: int, share: int) -> int:
    """Index of a pick; ``variant`` is ``version * 4 + tile class``."""
    return 1 + (task * N_VARIANTS + variant) * N_SHARES + share


@njit
def resident_slot(view: Any) -> int:
    """First slot that holds a stage (pending or running), -1 if the device is empty."""
    for slot in range(MAX_SLOTS):
        if view.residents[slot].phase != _FREE:
            return slot
    return -1


@njit
def _before(a: Any, b: Any, order: int) -> bool:
    if order == EDF and a.deadline_ns != b.deadline_ns:
        return a.deadline_ns < b.deadline_ns
    if a.arrival_ns != b.arrival_ns:
        return a.arrival_ns < b.arrival_ns
    return a.job == b.job and a.stage < b.stage


@njit
def first_task(view: Any, mask: np.ndarray, order: int, not_job: int) -> int:
    """The legal task that comes first in ``order`` and is not of job slot ``not_job``; -1 if there is none."""
    best = -1
    for task in range(view.n_tasks):
        legal = mask[action_of(task, 0, 0) : action_of(task + 1, 0, 0)].any()
        allowed = legal and view.tasks[task].job != not_job
        if allowed and (best < 0 or _before(view.tasks[task], view.tasks[best], order)):
            best = task
    return best


# ---- predicted times -----------------------------------------------------------------------------------------------


@njit
def _variant_row(costs: Costs, op: int, variant: int) -> int:
    return costs.ops[op].variant[variant // N_TILES, variant % N_TILES]


@njit
def own_contexts(costs: Costs, other: int, row: int, share: int) -> int:
    """HVX contexts variant ``row`` gets beside variant ``other`` (-1 = nobody); -1 if ``share`` is not offered."""
    config = costs.config
    if config.mode == _CONCURRENT and (config.context_split == _STATIC or other >= 0):
        contexts = max(1, config.contexts // 2)
    elif other < 0 or config.mode != _FUSED or not costs.variants[other].uses_hvx:
        contexts = config.contexts if costs.variants[row].uses_hvx or other < 0 else 0
    elif costs.variants[row].uses_hvx:
        return config.share[share]
    else:
        contexts = 0
    return contexts if share == 0 else -1


@njit
def _due(view: Any, deadline_ns: int) -> float:
    return float(deadline_ns - view.now_ns) if deadline_ns < _NEVER else np.inf


@njit
def fresh(view: Any, costs: Costs, task: int, row: int) -> Placed:
    """Describe a visible task as it would start now in variant ``row``; its work is that of its fastest variant."""
    latency = dispatch_ns(costs.config)
    work = latency + costs.ops[view.tasks[task].op].ref_ns
    return Placed(row, 1.0, latency, _due(view, view.tasks[task].deadline_ns), work)


@njit
def placed(view: Any, costs: Costs, slot: int) -> Placed:
    """Describe the stage in ``slot``; its work is the rest of the variant it runs in, alone on all contexts."""
    resident = view.residents[slot]
    times = costs.variants[resident.variant].alone_ns
    left, whole = float(resident.left_ns), float(times[resident.contexts])
    latency = dispatch_ns(costs.config) if resident.phase == _PENDING else max(0.0, left - whole)
    part = min(1.0, left / whole)
    work = latency + part * times[costs.config.contexts]
    return Placed(resident.variant, part, latency, _due(view, resident.deadline_ns), work)


@njit
def corun_ns(costs: Costs, a: Placed, b: Placed, b_contexts: int) -> tuple[float, float]:
    """Predicted ends of ``a`` and ``b`` when they run together from now on and ``b`` gets ``b_contexts`` contexts.

    Each needs at least its own time on its contexts. While both run, the sum of their DDR times and the sum of their
    HMX times bound the overlap. What is then left of the longer one runs alone on all contexts. Mode ``fused_serial``
    only saves the second dispatch.
    """
    config = costs.config
    va, vb = costs.variants[a.row], costs.variants[b.row]
    if config.mode == _FUSED_SERIAL:
        a_end = a.latency + a.part * va.alone_ns[config.contexts]
        return a_end, a_end + b.part * vb.alone_ns[config.contexts]
    a_own = a.latency + a.part * va.alone_ns[config.contexts - b_contexts]
    b_own = b.latency + b.part * vb.alone_ns[b_contexts]
    overlap = min(a_own, b_own)
    if overlap <= 0.0:
        return a_own, b_own
    a_done, b_done = a.part * overlap / a_own, b.part * overlap / b_own
    ddr = a_done * (va.ddr_ns + va.prologue_ddr_ns) + b_done * (vb.ddr_ns + vb.prologue_ddr_ns)
    both = max(overlap, ddr / (config.eta_shared * config.ddr_free), a_done * va.hmx_ns + b_done * vb.hmx_ns)
    a_rest = (a.part - a_done) * va.alone_ns[config.contexts]
    b_rest = (b.part - b_done) * vb.alone_ns[config.contexts]
    return both + a_rest, both + b_rest


@njit
def fastest_pick(view: Any, mask: np.ndarray, costs: Costs, task: int) -> int:
    """Legal pick of ``task`` that runs fastest by itself on the contexts it would get."""
    best_ns, best = np.inf, 0
    slot = resident_slot(view)
    other = view.residents[slot].variant if slot >= 0 else -1
    for variant in range(N_VARIANTS):
        for share in range(N_SHARES):
            action = action_of(task, variant, share)
            if mask[action]:
                row = _variant_row(costs, view.tasks[task].op, variant)
                own_ns = float(costs.variants[row].alone_ns[own_contexts(costs, other, row, share)])
                if own_ns < best_ns:
                    best_ns, best = own_ns, action
    return best


# ---- known deadlines -----------------------------------------------------------------------------------------------


@njit
def _add_job(rows: np.ndarray, n: int, job: int, due: float, rest: float) -> int:
    for i in range(n):
        if rows[i, _JOB] == job:
            rows[i, _REST] = max(rows[i, _REST], rest)
            return n
    rows[n, _JOB], rows[n, _DUE], rows[n, _REST] = job, due, rest
    return n + 1


@njit
def known_deadlines(view: Any, costs: Costs, known: Known) -> Known:
    """Fill ``known`` with the deadlines that can still be met.

    Spare time is what is left before the deadline when the device serves the rest of that job and of every job with an
    earlier or equal deadline, one stage at a time (T_queue + T_rest of the chain rule).
    """
    rows = known.rows
    n = 0
    for k in range(view.n_tasks):
        task = view.tasks[k]
        if task.deadline_ns < _NEVER and task.slack_ns >= 0:
            rest = costs.stretch[task.stream] * max(task.critical_ns, task.job_ref_ns - task.earned_ns)
            n = _add_job(rows, n, task.job, _due(view, task.deadline_ns), rest)
    for k in range(MAX_SLOTS):
        resident = view.residents[k]
        busy = resident.phase != _FREE and not resident.dropped
        if busy and resident.deadline_ns < _NEVER and resident.slack_ns >= 0:
            due = _due(view, resident.deadline_ns)
            rest = costs.stretch[resident.stream] * (due - resident.slack_ns)
            n = _add_job(rows, n, resident.job, due, rest)
    for i in range(n):
        rows[i, _SPARE] = rows[i, _DUE]
        for j in range(n):
            if rows[j, _DUE] <= rows[i, _DUE]:
                rows[i, _SPARE] -= rows[j, _REST]
    return Known(n, rows)


@njit
def keeps_deadlines(known: Known, margin: float, joint: float, a: Placed, b: Placed) -> bool:
    """Whether a pair that holds the device for ``joint`` leaves each known deadline its ``margin``.

    A deadline is delayed by the joint time less the work of the pair that its queue counts anyway. A pair that delays a
    deadline by nothing is never refused for it, however little time is left.
    """
    for i in range(known.n):
        delay = joint
        if a.due <= known.rows[i, _DUE]:
            delay -= a.work
        if b.due <= known.rows[i, _DUE]:
            delay -= b.work
        if delay > 0.0 and delay + margin > known.rows[i, _SPARE]:
            return False
    return True


# ---- choice of a pair ----------------------------------------------------------------------------------------------


@njit
def _version_allowed(costs: Costs, pairing: Pairing, op: int, variant: int) -> bool:
    return pairing.any_version or variant // N_TILES == costs.variants[costs.ops[op].fastest].version


@njit
def urgent_task(view: Any, mask: np.ndarray, a: Placed) -> int:
    """The legal task with the earliest deadline if that is earlier than ``a``'s, else -1."""
    task = first_task(view, mask, EDF, -1)
    return task if task >= 0 and _due(view, view.tasks[task].deadline_ns) < a.due else -1


@njit
def _may_join(view: Any, mask: np.ndarray, costs: Costs, a: Placed, row: int, action: int, planned: bool) -> bool:
    """Whether the pick ``action`` of variant ``row`` may join ``a``: the mask, or a forecast if ``a`` is planned."""
    if not planned:
        return mask[action]
    share = (action - 1) % N_SHARES
    if not mask[action - share] or own_contexts(costs, a.row, row, share) < 0:
        return False
    if costs.config.mode == _SERIAL or costs.config.slots < 2:
        return False
    return costs.variants[a.row].vtcm_bytes + costs.variants[row].vtcm_bytes <= view.vtcm_largest_bytes


@njit
def _partner_variant(
    view: Any, mask: np.ndarray, costs: Costs, pairing: Pairing, known: Known, a: Placed, task: int, planned: bool
) -> tuple[float, int]:
    """Best ``(gain, action)`` of ``task`` beside ``a``; action 0 if no admitted variant gains."""
    best_gain, best = _NO_GAIN, 0
    op = view.tasks[task].op
    for variant in range(N_VARIANTS):
        row = _variant_row(costs, op, variant)
        if row < 0 or not _version_allowed(costs, pairing, op, variant):
            continue
        b = fresh(view, costs, task, row)
        for share in range(N_SHARES):
            action = action_of(task, variant, share)
            if _may_join(view, mask, costs, a, row, action, planned):
                a_end, b_end = corun_ns(costs, a, b, own_contexts(costs, a.row, row, share))
                joint = max(a_end, b_end)
                gain = (a.work + b.work) / joint
                if gain > best_gain and keeps_deadlines(known, pairing.margin, joint, a, b):
                    best_gain, best = gain, action
    return best_gain, best


@njit
def best_partner(
    view: Any, mask: np.ndarray, costs: Costs, pairing: Pairing, known: Known, a: Placed, planned: int
) -> tuple[float, int]:
    """Best ``(gain, action)`` beside ``a``; action 0 if no pair gains (and, for a gate, is admitted).

    Gain is the time both would take one after the other (the joining one in its fastest variant) over their joint time,
    so a slow version pays only where it frees an engine that the other stage needs. A gate takes the most urgent task
    that gains, the others the highest gain of all. A task more urgent than ``a`` comes before all others, since nobody
    else may keep it from the next free slot. ``planned`` is the task that ``a`` would be if it were picked first, or -1
    if ``a`` is on the device and the mask speaks of its partners.
    """
    best_gain, best, best_task = _NO_GAIN, 0, -1
    urgent = urgent_task(view, mask, a) if planned < 0 else -1
    for task in range(view.n_tasks):
        if task == planned or (urgent >= 0 and task != urgent):
            continue
        gain, action = _partner_variant(view, mask, costs, pairing, known, a, task, planned >= 0)
        if pairing.gated:
            better = best_task < 0 or _before(view.tasks[task], view.tasks[best_task], EDF)
        else:
            better = gain > best_gain
        if action > 0 and better:
            best_gain, best, best_task = gain, action, task
    return best_gain, best


@njit
def first_of_pair(view: Any, mask: np.ndarray, costs: Costs, pairing: Pairing, known: Known, task: int) -> int:
    """Pick of ``task`` for an empty device: in the variant that leaves the best partner, or else its fastest one."""
    best_gain, best = _NO_GAIN, fastest_pick(view, mask, costs, task)
    op = view.tasks[task].op
    for variant in range(N_VARIANTS):
        action = action_of(task, variant, 0)
        if mask[action] and _version_allowed(costs, pairing, op, variant):
            a = fresh(view, costs, task, _variant_row(costs, op, variant))
            gain, _ = best_partner(view, mask, costs, pairing, known, a, task)
            if gain > best_gain:
                best_gain, best = gain, action
    return best


@njit
def urgent_join(view: Any, mask: np.ndarray, costs: Costs, pairing: Pairing, known: Known, a: Placed) -> int:
    """Pick that ends the most urgent task soonest beside the less urgent ``a``; 0 if it should wait for ``a``.

    It should wait if that costs no deadline its margin, or ends it no later.
    """
    endangered = False
    for i in range(known.n):
        endangered |= known.rows[i, _DUE] < a.due and known.rows[i, _SPARE] < a.work + pairing.margin
    task = urgent_task(view, mask, a)
    if not endangered or task < 0:
        return 0
    best_ns, best = np.inf, 0
    for variant in range(N_VARIANTS):
        row = _variant_row(costs, view.tasks[task].op, variant)
        if row < 0:
            continue
        b = fresh(view, costs, task, row)
        for share in range(N_SHARES):
            action = action_of(task, variant, share)
            if mask[action]:
                _, end = corun_ns(costs, a, b, own_contexts(costs, a.row, row, share))
                if end < min(best_ns, (a.work + b.work) / _NO_GAIN):
                    best_ns, best = end, action
    return best


# ---- rules, a lane at a time ---------------------------------------------------------------------------------------


@njit
def act_in_order(
    views: np.ndarray, masks: np.ndarray, costs: Costs, order: int, alone: bool, actions: np.ndarray
) -> None:
    """First task in ``order`` in its fastest variant; ``alone`` on the device, or beside a stage of another job."""
    for lane in range(views.shape[0]):
        view, mask = views[lane], masks[lane]
        slot = resident_slot(view)
        actions[lane] = 0
        if slot >= 0 and alone:
            continue
        task = first_task(view, mask, order, view.residents[slot].job if slot >= 0 else -1)
        if task >= 0:
            actions[lane] = fastest_pick(view, mask, costs, task)


@njit
def act_in_pairs(
    views: np.ndarray, masks: np.ndarray, costs: Costs, pairing: Pairing, known: Known, actions: np.ndarray
) -> None:
    """Earliest deadline first, beside a partner where the ``pairing`` finds one; ``known`` is the gate's memory."""
    for lane in range(views.shape[0]):
        view, mask = views[lane], masks[lane]
        slot = resident_slot(view)
        if pairing.gated:
            known = known_deadlines(view, costs, known)
        if slot < 0:
            task = first_task(view, mask, EDF, -1)
            actions[lane] = first_of_pair(view, mask, costs, pairing, known, task) if task >= 0 else 0
        else:
            a = placed(view, costs, slot)
            _, action = best_partner(view, mask, costs, pairing, known, a, -1)
            actions[lane] = action if action > 0 else urgent_join(view, mask, costs, pairing, known, a)
