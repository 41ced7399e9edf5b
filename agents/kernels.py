"""The compiled pieces that the rules share: order of tasks, predicted times of one or two stages, choice of a partner.

A prediction uses only what a scheduler knows, the profiles of the variants and the view. It is a closed form that a
real scheduler would use, not the engine's law of motion. All kernels are in this one file, since numba's cache follows
changes of a callee only inside its file. Records are those of ``hexenv.engine.layout``; times are float ns.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from hexenv.engine import clock
from hexenv.engine.dispatch import fill_mask
from hexenv.engine.jit import njit
from hexenv.engine.jobs import job_slots
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
from hexenv.engine.rng import draw
from hexenv.engine.view import fill_view, predicted_left_ns

_FREE, _PENDING = int(Phase.FREE), int(Phase.PENDING)
_SERIAL, _CONCURRENT = int(Mode.SERIAL), int(Mode.CONCURRENT)
_FUSED_SERIAL, _FUSED = int(Mode.FUSED_SERIAL), int(Mode.FUSED)
_STATIC = int(Split.STATIC)
_NEVER = int(NO_DEADLINE)
_DUE, _SPARE, _REST, _JOB, _ALLOWED = range(5)
NO_GAIN = 1.001
"""A pair must gain more than the rounding of times to ns."""
HMX_BOUND, HVX_BOUND, DMA_BOUND, UNKNOWN = range(4)
"""The engine that a variant keeps busy."""

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


ANY_ENGINES = 0
"""Pairs of any two variants."""
MATRIX_AND_VECTOR = 1
"""Pairs of a variant with HMX work and one without."""
DIFFERENT_ENGINES = 2
"""These, and pairs of variants that different engines keep busy for more than half of their time."""


class Pairing(NamedTuple):
    """What kind of pairs a rule makes. Two rules that differ in one mechanism differ in one field."""

    any_version: bool  # otherwise a stage keeps the version of its fastest variant
    gated: bool  # pairs must keep the known deadlines
    in_order: bool  # the most urgent partner that gains comes first, not the one that gains most
    margin: float  # of a gate: ns of spare time that must stay
    guard: float = 0.0  # of a gate: part of each job's whole deadline that must stay
    guests: bool = False  # only best-effort work joins, and only a stage with a deadline
    joins: bool = True  # otherwise a pair is launched as one, and nothing joins a running stage
    knee: bool = False  # the joining stage must end no later than the one it joins
    engines: int = ANY_ENGINES
    least_gain: float = NO_GAIN  # time one after the other over joint time
    window: int = 1  # ready tasks that are waited for before an empty device is filled
    hold: float = 0.0  # ns after its arrival for which a job may be held back to fill the window


class Known(NamedTuple):
    """The deadlines a gate protects."""

    n: int
    rows: np.ndarray  # (MAX_VISIBLE + MAX_SLOTS, 5), a row a job: _DUE, _SPARE, _REST, _JOB (its slot), _ALLOWED; ns


def nothing_known() -> Known:
    """No deadline to protect yet, and room for all that a view may show: the kernels allocate nothing."""
    return Known(0, np.empty((MAX_VISIBLE + MAX_SLOTS, 5)))


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
def _add_job(rows: np.ndarray, n: int, job: int, due: float, rest: float, allowed: int) -> int:
    for i in range(n):
        if rows[i, _JOB] == job:
            rows[i, _REST] = max(rows[i, _REST], rest)
            return n
    rows[n, _JOB], rows[n, _DUE], rows[n, _REST], rows[n, _ALLOWED] = job, due, rest, allowed
    return n + 1


@njit
def known_deadlines(view: Any, costs: Costs, known: Known, guard: float) -> Known:
    """Fill ``known`` with the deadlines that can still be met.

    Spare time is what is left before the deadline when the device serves the rest of that job and of every job with an
    earlier or equal deadline, one stage at a time (T_queue + T_rest of the chain rule), less the part ``guard`` of the
    time the job was given.
    """
    rows = known.rows
    n = 0
    for k in range(view.n_tasks):
        task = view.tasks[k]
        if task.deadline_ns < _NEVER and task.slack_ns >= 0:
            rest = costs.stretch[task.stream] * max(task.critical_ns, task.job_ref_ns - task.earned_ns)
            due, allowed = _due(view, task.deadline_ns), view.streams[task.stream].deadline_ns
            n = _add_job(rows, n, task.job, due, rest, allowed)
    for k in range(MAX_SLOTS):
        resident = view.residents[k]
        busy = resident.phase != _FREE and not resident.dropped
        if busy and resident.deadline_ns < _NEVER and resident.slack_ns >= 0:
            due = _due(view, resident.deadline_ns)
            rest = costs.stretch[resident.stream] * (due - resident.slack_ns)
            n = _add_job(rows, n, resident.job, due, rest, view.streams[resident.stream].deadline_ns)
    for i in range(n):
        rows[i, _SPARE] = rows[i, _DUE] - guard * rows[i, _ALLOWED]
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
def bound_by(costs: Costs, row: int, busy: float) -> int:
    """The engine that variant ``row`` alone keeps busy most, if for at least the part ``busy`` of its time."""
    variant, config = costs.variants[row], costs.config
    alone = float(variant.alone_ns[config.contexts])
    hmx = variant.hmx_ns / alone
    hvx = (variant.hvx_ns + variant.prologue_hvx_ns) / (alone * config.contexts)
    ddr = (variant.ddr_ns + variant.prologue_ddr_ns) / (alone * config.ddr_free)
    if max(hmx, hvx, ddr) < busy:
        return UNKNOWN
    if hmx >= max(hvx, ddr):
        return HMX_BOUND
    return HVX_BOUND if hvx >= ddr else DMA_BOUND


@njit
def _engines_match(costs: Costs, engines: int, a: int, b: int) -> bool:
    """Whether a rule that pairs by engines may pair variants ``a`` and ``b``."""
    if engines == ANY_ENGINES or costs.variants[a].uses_hmx != costs.variants[b].uses_hmx:
        return True
    first, second = bound_by(costs, a, 0.5), bound_by(costs, b, 0.5)
    return engines == DIFFERENT_ENGINES and first != second and first != UNKNOWN and second != UNKNOWN


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
    best_gain, best = pairing.least_gain, 0
    op = view.tasks[task].op
    for variant in range(N_VARIANTS):
        row = _variant_row(costs, op, variant)
        if row < 0 or not _version_allowed(costs, pairing, op, variant):
            continue
        if not _engines_match(costs, pairing.engines, a.row, row):
            continue
        b = fresh(view, costs, task, row)
        for share in range(N_SHARES):
            action = action_of(task, variant, share)
            if _may_join(view, mask, costs, a, row, action, planned):
                a_end, b_end = corun_ns(costs, a, b, own_contexts(costs, a.row, row, share))
                joint = max(a_end, b_end)
                gain = (a.work + b.work) / joint
                if pairing.knee and b_end > a_end:
                    continue
                if gain > best_gain and keeps_deadlines(known, pairing.margin, joint, a, b):
                    best_gain, best = gain, action
    return best_gain, best


@njit
def best_partner(
    view: Any, mask: np.ndarray, costs: Costs, pairing: Pairing, known: Known, a: Placed, planned: int
) -> tuple[float, int]:
    """Best ``(gain, action)`` beside ``a``; action 0 if no pair gains (and, for a gate, is admitted).

    Gain is the time both would take one after the other (the joining one in its fastest variant) over their joint time,
    so a slow version pays only where it frees an engine that the other stage needs. A task more urgent than ``a`` comes
    before all others, since nobody else may keep it from the next free slot (with guests, no such task joins).
    ``planned`` is the task that ``a`` would be if it were picked first, or -1 if ``a`` is on the device and the mask
    speaks of its partners.
    """
    best_gain, best, best_task = pairing.least_gain, 0, -1
    if pairing.guests and a.due == np.inf:
        return best_gain, best
    urgent = urgent_task(view, mask, a) if planned < 0 and not pairing.guests else -1
    for task in range(view.n_tasks):
        if task == planned or (urgent >= 0 and task != urgent):
            continue
        if pairing.guests and view.tasks[task].deadline_ns < _NEVER:
            continue
        gain, action = _partner_variant(view, mask, costs, pairing, known, a, task, planned >= 0)
        if pairing.in_order:
            better = best_task < 0 or _before(view.tasks[task], view.tasks[best_task], EDF)
        else:
            better = gain > best_gain
        if action > 0 and better:
            best_gain, best, best_task = gain, action, task
    return best_gain, best


@njit
def first_of_pair(view: Any, mask: np.ndarray, costs: Costs, pairing: Pairing, known: Known, task: int) -> int:
    """Pick of ``task`` for an empty device: in the variant that leaves the best partner, or else its fastest one."""
    best_gain, best = pairing.least_gain, fastest_pick(view, mask, costs, task)
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
                if end < min(best_ns, (a.work + b.work) / NO_GAIN):
                    best_ns, best = end, action
    return best


@njit
def should_hold(view: Any, costs: Costs, pairing: Pairing, known: Known) -> bool:
    """Whether an empty device waits for more ready tasks: no job is held too long and no deadline loses its margin."""
    wait = float(costs.config.wait_max_ns)
    if view.n_tasks >= pairing.window:
        return False
    for k in range(view.n_tasks):
        if float(view.now_ns - view.tasks[k].arrival_ns) + wait > pairing.hold:
            return False
    safe = True
    for i in range(known.n):
        safe &= known.rows[i, _SPARE] >= wait + pairing.margin
    return safe


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
        actions[lane] = 0
        if pairing.gated or pairing.window > 1:
            known = known_deadlines(view, costs, known, pairing.guard)
        hold = slot < 0 and should_hold(view, costs, pairing, known)
        if not pairing.gated:
            known = Known(0, known.rows)
        if slot < 0:
            task = first_task(view, mask, EDF, -1)
            if task >= 0 and not hold:
                actions[lane] = first_of_pair(view, mask, costs, pairing, known, task)
        elif pairing.joins or view.residents[slot].phase == _PENDING:
            a = placed(view, costs, slot)
            _, action = best_partner(view, mask, costs, pairing, known, a, -1)
            if action == 0 and not pairing.guests:
                action = urgent_join(view, mask, costs, pairing, known, a)
            actions[lane] = action


# ---- pairs made offline --------------------------------------------------------------------------------------------


@njit
def _unplaced(costs: Costs, op: int, row: int) -> Placed:
    """Variant ``row`` of ``op`` as it would start on an empty device."""
    latency = dispatch_ns(costs.config)
    return Placed(row, 1.0, latency, np.inf, latency + costs.ops[op].ref_ns)


@njit
def _static_pair(costs: Costs, a_op: int, b_op: int, share: int, least_gain: float) -> int:
    """Code of the pair of variants and the share with the least joint time, -1 if it gains too little.

    Both stay in the version of their fastest variant, and must fit VTCM together. ``share`` -1 searches the share of
    ``b_op``; else it is that class where both stages use HVX.
    """
    best_gain, best = least_gain, -1
    for i in range(N_VARIANTS):
        for j in range(N_VARIANTS):
            a_row, b_row = _variant_row(costs, a_op, i), _variant_row(costs, b_op, j)
            if a_row < 0 or b_row < 0:
                continue
            va, vb = costs.variants[a_row], costs.variants[b_row]
            same_versions = va.version == costs.variants[costs.ops[a_op].fastest].version
            same_versions &= vb.version == costs.variants[costs.ops[b_op].fastest].version
            if not same_versions or va.vtcm_bytes + vb.vtcm_bytes > costs.config.vtcm_bytes:
                continue
            a, b = _unplaced(costs, a_op, a_row), _unplaced(costs, b_op, b_row)
            for s in range(N_SHARES):
                fixed = share if va.uses_hvx and vb.uses_hvx else 0
                contexts = own_contexts(costs, a_row, b_row, s)
                if contexts < 0 or (share >= 0 and s != fixed):
                    continue
                gain = (a.work + b.work) / max(corun_ns(costs, a, b, contexts))
                if gain > best_gain:
                    best_gain, best = gain, (i * N_VARIANTS + j) * N_SHARES + s
    return best


@njit
def find_static_pairs(costs: Costs, share: int, least_gain: float, pairs: np.ndarray) -> None:
    """Fill ``pairs`` (ops, ops), by resident and joining operator, with ``_static_pair``."""
    for a in range(pairs.shape[0]):
        for b in range(pairs.shape[1]):
            pairs[a, b] = _static_pair(costs, a, b, share, least_gain)


@njit
def _static_partner(view: Any, pairs: np.ndarray, op: int, not_task: int) -> int:
    """The most urgent task other than ``not_task`` that has a pair with ``op``, -1 if none."""
    best = -1
    for task in range(view.n_tasks):
        known = task != not_task and pairs[op, view.tasks[task].op] >= 0
        if known and (best < 0 or _before(view.tasks[task], view.tasks[best], EDF)):
            best = task
    return best


@njit
def act_in_static_pairs(
    views: np.ndarray, masks: np.ndarray, costs: Costs, pairs: np.ndarray, joins: bool, actions: np.ndarray
) -> None:
    """Earliest deadline first, with the most urgent partner that ``pairs`` holds, whatever the state.

    ``joins`` lets a partner join a running stage; otherwise a pair is launched as one.
    """
    for lane in range(views.shape[0]):
        view, mask = views[lane], masks[lane]
        slot = resident_slot(view)
        actions[lane] = 0
        if slot < 0:
            task = first_task(view, mask, EDF, -1)
            if task < 0:
                continue
            op = view.tasks[task].op
            other = _static_partner(view, pairs, op, task)
            if other >= 0:
                variant = pairs[op, view.tasks[other].op] // (N_VARIANTS * N_SHARES)
                actions[lane] = action_of(task, variant, 0)
            if not mask[actions[lane]] or other < 0:
                actions[lane] = fastest_pick(view, mask, costs, task)
        elif joins or view.residents[slot].phase == _PENDING:
            op = view.residents[slot].op
            task = _static_partner(view, pairs, op, -1)
            if task >= 0:
                code = pairs[op, view.tasks[task].op] % (N_VARIANTS * N_SHARES)
                action = action_of(task, code // N_SHARES, code % N_SHARES)
                actions[lane] = action if mask[action] else 0


# ---- proportional interleave ---------------------------------------------------------------------------------------


@njit
def _note_work(view: Any, costs: Costs, left: np.ndarray) -> None:
    """Bring ``left``, the reference work of each job slot that is not launched yet, up to date for the visible jobs."""
    for k in range(view.n_tasks):
        left[view.tasks[k].job] = view.tasks[k].job_ref_ns - view.tasks[k].earned_ns
    for slot in range(MAX_SLOTS):
        resident = view.residents[slot]
        for k in range(view.n_tasks):
            if resident.phase != _FREE and view.tasks[k].job == resident.job:
                left[resident.job] -= costs.ops[resident.op].ref_ns
                break


@njit
def _role_work(view: Any, roles: np.ndarray, left: np.ndarray, role: int) -> float:
    """Reference work of ``role`` that is not launched yet, over the visible and resident jobs, ns."""
    work = 0.0
    for job in range(left.shape[0]):
        seen = False
        for k in range(view.n_tasks):
            seen |= view.tasks[k].job == job and roles[view.tasks[k].stream] == role
        for slot in range(MAX_SLOTS):
            resident = view.residents[slot]
            live = resident.phase != _FREE and not resident.dropped
            seen |= live and resident.job == job and roles[resident.stream] == role
        work += left[job] if seen else 0.0
    return work


@njit
def _role_resides(view: Any, roles: np.ndarray, role: int) -> bool:
    resides = False
    for slot in range(MAX_SLOTS):
        resides |= view.residents[slot].phase != _FREE and roles[view.residents[slot].stream] == role
    return resides


@njit
def _oldest_of_role(view: Any, mask: np.ndarray, roles: np.ndarray, role: int) -> int:
    """The oldest legal task of ``role``, -1 if there is none."""
    best = -1
    for task in range(view.n_tasks):
        legal = mask[action_of(task, 0, 0) : action_of(task + 1, 0, 0)].any()
        legal &= roles[view.tasks[task].stream] == role
        if legal and (best < 0 or _before(view.tasks[task], view.tasks[best], FIFO)):
            best = task
    return best


@njit
def _lagging_role(view: Any, roles: np.ndarray, left: np.ndarray, launched: np.ndarray) -> tuple[int, bool]:
    """``(role, lags)``: the role that has launched the smaller part of its work, and whether the other is ahead.

    The count starts anew when a role has nothing left, neither to launch nor on the device.
    """
    first, second = _role_work(view, roles, left, 0), _role_work(view, roles, left, 1)
    over = first == 0.0 and not _role_resides(view, roles, 0)
    over |= second == 0.0 and not _role_resides(view, roles, 1)
    if over:
        launched[:] = 0.0
    # launched / (launched + left), multiplied out
    part, other = launched[0] * (launched[1] + second), launched[1] * (launched[0] + first)
    return int(part > other), part != other


@njit
def act_proportionally(
    views: np.ndarray,
    masks: np.ndarray,
    costs: Costs,
    pairing: Pairing,
    known: Known,
    roles: np.ndarray,
    left: np.ndarray,
    launched: np.ndarray,
    actions: np.ndarray,
) -> None:
    """Bind each free slot to the role that lags behind the ratio of all work of both roles, oldest task first.

    A role that has nothing ready leaves the slot to the other one, unless that is ahead of the ratio while the lagging
    role runs. ``roles`` (streams,) is 0 or 1; ``left`` (B, MAX_JOBS) and ``launched`` (B, 2) are the memory of a lane.
    """
    for lane in range(views.shape[0]):
        view, mask = views[lane], masks[lane]
        actions[lane] = 0
        _note_work(view, costs, left[lane])
        role, lags = _lagging_role(view, roles, left[lane], launched[lane])
        task = _oldest_of_role(view, mask, roles, role)
        if task < 0 and not (lags and _role_resides(view, roles, role)):
            role = 1 - role
            task = _oldest_of_role(view, mask, roles, role)
        if task < 0:
            continue
        slot = resident_slot(view)
        if slot < 0:
            actions[lane] = first_of_pair(view, mask, costs, pairing, known, task)
        else:
            a = placed(view, costs, slot)
            _, actions[lane] = _partner_variant(view, mask, costs, pairing, known, a, task, False)
        if actions[lane] > 0:
            work = costs.ops[view.tasks[task].op].ref_ns
            launched[lane, role] += work
            left[lane, view.tasks[task].job] -= work


# ---- interference-aware submission without fusion ------------------------------------------------------------------


class Submission(NamedTuple):
    """When best-effort operators are submitted beside critical ones (Orion)."""

    busy: float  # part of its time from which a kernel is bound by an engine
    contexts: int  # HVX contexts that best-effort work may take beside critical work
    outstanding: float  # ns of best-effort work on the device above which no more is submitted


@njit
def _may_submit(view: Any, costs: Costs, rule: Submission, row: int) -> bool:
    """Whether best-effort variant ``row`` may run now: beside critical work only of another class, within limits."""
    outstanding = 0.0
    for slot in range(MAX_SLOTS):
        resident = view.residents[slot]
        if resident.phase != _FREE and resident.deadline_ns >= _NEVER:
            outstanding += resident.left_ns
    if outstanding > rule.outstanding:
        return False
    own = bound_by(costs, row, rule.busy)
    for slot in range(MAX_SLOTS):
        resident = view.residents[slot]
        if resident.phase != _FREE and resident.deadline_ns < _NEVER:
            other = bound_by(costs, resident.variant, rule.busy)
            contexts = own_contexts(costs, resident.variant, row, 0) if costs.variants[row].uses_hvx else 0
            if (own == other and own != UNKNOWN) or contexts > rule.contexts:
                return False
    return True


@njit
def _next_client(view: Any, mask: np.ndarray, n_streams: int, last: int) -> int:
    """The oldest legal best-effort task of the first stream after ``last`` that has one, -1 if none has."""
    for step in range(1, n_streams + 1):
        stream, best = (last + step) % n_streams, -1
        for task in range(view.n_tasks):
            own = view.tasks[task].stream == stream and view.tasks[task].deadline_ns >= _NEVER
            legal = own and mask[action_of(task, 0, 0) : action_of(task + 1, 0, 0)].any()
            if legal and (best < 0 or _before(view.tasks[task], view.tasks[best], FIFO)):
                best = task
        if best >= 0:
            return best
    return -1


@njit
def act_by_interference(
    views: np.ndarray, masks: np.ndarray, costs: Costs, rule: Submission, last: np.ndarray, actions: np.ndarray
) -> None:
    """Submit critical work at once, and best-effort operators, one client after the other, where they do not interfere.

    ``last`` (B,) is the memory of a lane: the best-effort stream served last.
    """
    for lane in range(views.shape[0]):
        view, mask = views[lane], masks[lane]
        slot = resident_slot(view)
        actions[lane] = 0
        task = first_task(view, mask, EDF, view.residents[slot].job if slot >= 0 else -1)
        if task >= 0 and view.tasks[task].deadline_ns < _NEVER:
            actions[lane] = fastest_pick(view, mask, costs, task)
            continue
        task = _next_client(view, mask, costs.config.n_streams, last[lane])
        if task >= 0:
            action = fastest_pick(view, mask, costs, task)
            row = _variant_row(costs, view.tasks[task].op, (action - 1) // N_SHARES % N_VARIANTS)
            if _may_submit(view, costs, rule, row):
                actions[lane] = action
                last[lane] = view.tasks[task].stream


# ---- look-ahead ----------------------------------------------------------------------------------------------------

_PLANNING = 16
"""Purpose tag of the draws that reseed a look-ahead's forks."""
_SPREAD = 0.15
"""Gain that a task's next candidate loses for each one listed before it, so that all tasks get some."""


class Outlook(NamedTuple):
    """How a look-ahead tries actions out and values what they led to."""

    budget: int  # engine decisions to spend at a decision; a round is always finished
    span: int  # ns of simulated time that a rollout covers
    candidates: int  # actions that are tried at most
    confidence: float  # standard errors by which an action must beat the base rule's
    speed: float  # ns that the device takes for a ns of queued work by itself
    doubt: float  # predicted lateness over which a deadline turns from safe to lost, as a part of the time allowed
    exact: bool  # clairvoyant: exact forks, one rollout an action


class Bench(NamedTuple):
    """Room for one rollout at a time, and for what is tried at one decision."""

    lanes: np.ndarray  # LANE, (1,)
    views: np.ndarray  # VIEW, (1,)
    masks: np.ndarray  # bool, (1, A)
    actions: np.ndarray  # int64, (1,)
    trace: np.ndarray  # TRACE, (1,), never written
    known: Known
    gains: np.ndarray  # (A,)
    arms: np.ndarray  # int64, (N, 2): action, and place of the rule that goes on after it
    sums: np.ndarray  # (N,) of the values of an arm's rollouts
    squares: np.ndarray  # (N,) of the squared differences to the first arm's


@njit
def _resident_done_ns(tables: Any, slot: Any) -> float:
    """Reference work of the stage in ``slot`` that is done, by the predicted rest."""
    variant = tables.variants[slot.variant]
    left = min(1.0, predicted_left_ns(variant, slot) / variant.alone_ns[slot.contexts])
    return (1.0 - left) * tables.ops[variant.op].ref_ns


@njit
def _demand_ns(tables: Any, lane: Any, costs: Costs, due_ns: int) -> float:
    """Work that must be done before the deadline ``due_ns`` under earliest deadline first, one stage at a time.

    It is the rest of the live jobs with deadlines up to then, and the mean demand of the arrivals to come whose
    deadlines are not after it (demand bound function of Baruah et al., RTSS 1990).
    """
    demand = 0.0
    for j in range(job_slots(tables)):
        job = lane.jobs[j]
        if job.live and not job.dropped and job.due_ns <= due_ns:
            demand += costs.stretch[job.stream] * (tables.templates[job.template].ref_ns - job.earned_ns)
    for k in range(MAX_SLOTS):
        slot = lane.slots[k]
        if slot.phase != _FREE and not lane.jobs[slot.job].dropped and lane.jobs[slot.job].due_ns <= due_ns:
            demand -= _resident_done_ns(tables, slot)
    setting = tables.settings[lane.setting]
    for s in range(tables.config[0].n_streams):
        stream = tables.streams[s]
        if setting.active[s] == 0 or stream.period_ns == 0 or stream.deadline_ns >= _NEVER:
            continue
        period = stream.period_ns / (setting.load if stream.scales else 1.0)
        jobs = (due_ns - lane.now_ns - stream.deadline_ns * setting.tightness) / period
        demand += max(0.0, jobs) * costs.stretch[s] * tables.templates[stream.template_start].ref_ns
    return demand


@njit
def _worth_ns(tables: Any, lane: Any, costs: Costs, outlook: Outlook) -> float:
    """Return so far, work in progress, and what the deadlines of the live jobs are expected to cost, in ns."""
    weight = tables.config[0].miss_weight
    worth = lane.credit_ns - weight * lane.charge_ns
    for k in range(MAX_SLOTS):
        slot = lane.slots[k]
        if slot.phase != _FREE and not lane.jobs[slot.job].dropped:
            worth += _resident_done_ns(tables, slot)
    for j in range(job_slots(tables)):
        job = lane.jobs[j]
        if job.live and not job.dropped and job.due_ns < _NEVER:
            late = outlook.speed * _demand_ns(tables, lane, costs, job.due_ns) - (job.due_ns - lane.now_ns)
            stream = tables.streams[job.stream]
            loss = weight * stream.weight * tables.templates[job.template].ref_ns
            if stream.firm:
                loss += job.earned_ns
            doubt = outlook.doubt * (job.deadline_ns - job.arrival_ns)
            worth -= min(1.0, max(0.0, 0.5 + late / doubt)) * loss
    return worth


@njit
def _rollout(
    tables: Any, costs: Costs, policy: Pairing, outlook: Outlook, bench: Bench, action: int
) -> tuple[float, int]:
    """``(value, decisions)`` of ``action`` on ``bench.lanes``, then ``policy``, over the outlook's span.

    The value is ``_worth_ns`` at the end. A rollout ends with the step that passes the span; the time past it is
    charged as if the device did nothing but earn, so that a longer last step gains nothing.
    """
    lane = bench.lanes[0]
    end = lane.now_ns + outlook.span
    decisions = 0
    while True:
        clock.step(tables, lane, bench.trace, action)
        decisions += 1
        if lane.over or lane.now_ns >= end:
            past = max(0.0, float(lane.now_ns - end))
            return _worth_ns(tables, lane, costs, outlook) - past, decisions
        fill_view(tables, lane, bench.views[0])
        fill_mask(tables, lane, bench.masks[0])
        act_in_pairs(bench.views, bench.masks, costs, policy, bench.known, bench.actions)
        action = bench.actions[0]


@njit
def _add_arm(bench: Bench, n: int, action: int) -> int:
    for i in range(n):
        if bench.arms[i, 0] == action:
            return n
    bench.arms[n, 0] = action
    return n + 1


@njit
def _fill_gains(view: Any, mask: np.ndarray, costs: Costs, gains: np.ndarray) -> None:
    """Predicted gain of each legal pick: work over time, alone on an empty device, else beside its resident."""
    slot = resident_slot(view)
    for action in range(1, mask.shape[0]):
        gains[action] = -np.inf
        if not mask[action]:
            continue
        share, pick = (action - 1) % N_SHARES, (action - 1) // N_SHARES
        row = _variant_row(costs, view.tasks[pick // N_VARIANTS].op, pick % N_VARIANTS)
        b = fresh(view, costs, pick // N_VARIANTS, row)
        if slot < 0:
            gains[action] = b.work / (b.latency + costs.variants[row].alone_ns[costs.config.contexts])
        else:
            a = placed(view, costs, slot)
            a_end, b_end = corun_ns(costs, a, b, own_contexts(costs, a.row, row, share))
            gains[action] = (a.work + b.work) / max(a_end, b_end)


@njit
def _list_arms(
    views: np.ndarray, masks: np.ndarray, costs: Costs, policies: tuple[Pairing, ...], outlook: Outlook, bench: Bench
) -> int:
    """Fill ``bench.arms``; returns their number. The first arm is what the first policy does by itself.

    Candidates are what the policies do, wait, and the picks of the highest predicted gain, spread over the tasks. Each
    is one arm with each policy.
    """
    n = 0
    for policy in policies:
        act_in_pairs(views, masks, costs, policy, bench.known, bench.actions)
        n = _add_arm(bench, n, bench.actions[0])
    n = _add_arm(bench, n, 0)
    gains = bench.gains
    _fill_gains(views[0], masks[0], costs, gains)
    while n < outlook.candidates:
        best = 0
        for action in range(1, gains.shape[0]):
            if gains[action] > -np.inf and (best == 0 or gains[action] > gains[best]):
                best = action
        if best == 0:
            break
        n = _add_arm(bench, n, best)
        task = (best - 1) // (N_SHARES * N_VARIANTS)
        for action in range(action_of(task, 0, 0), action_of(task + 1, 0, 0)):
            gains[action] -= _SPREAD
        gains[best] = -np.inf
    for i in range(n * len(policies)):
        bench.arms[i, 0], bench.arms[i, 1] = bench.arms[i % n, 0], i // n
    return n * len(policies)


@njit
def _try_arms(
    tables: Any,
    lane: Any,
    costs: Costs,
    policies: tuple[Pairing, ...],
    outlook: Outlook,
    bench: Bench,
    n: int,
    key: np.uint64,
) -> int:
    """One rollout of each of the first ``n`` arms, all in the future of ``key``; returns the decisions spent."""
    spent, first = 0, 0.0
    for i in range(n):
        bench.lanes[0] = lane
        if not outlook.exact:
            clock.reseed(tables, bench.lanes, key)
        policy = policies[bench.arms[i, 1]]
        value, decisions = _rollout(tables, costs, policy, outlook, bench, bench.arms[i, 0])
        first = value if i == 0 else first
        bench.sums[i] += value
        bench.squares[i] += (value - first) ** 2
        spent += decisions
    return spent


@njit
def _note_advantages(bench: Bench, n: int, rollouts: int, advantages: np.ndarray) -> None:
    """Write how much better than the first arm each action did, with the best policy after it, ns."""
    for i in range(n):
        advantages[bench.arms[i, 0]] = -np.inf
    for i in range(n):
        action = bench.arms[i, 0]
        advantages[action] = max(advantages[action], (bench.sums[i] - bench.sums[0]) / rollouts)


@njit
def _keep_best(bench: Bench, n: int, keep: int) -> None:
    """Move the ``keep`` best of ``n`` arms to the front; the first arm stays where it is."""
    arms, sums, squares = bench.arms, bench.sums, bench.squares
    for i in range(1, keep):
        best = i
        for j in range(i + 1, n):
            if sums[j] > sums[best]:
                best = j
        sums[i], sums[best] = sums[best], sums[i]
        squares[i], squares[best] = squares[best], squares[i]
        arms[i, 0], arms[best, 0] = arms[best, 0], arms[i, 0]
        arms[i, 1], arms[best, 1] = arms[best, 1], arms[i, 1]


@njit
def _winner(bench: Bench, n: int, rollouts: int, confidence: float) -> int:
    """The arm of the highest mean, if it beats the first one by ``confidence`` standard errors of the difference."""
    best = 0
    for i in range(1, n):
        if bench.sums[i] > bench.sums[best]:
            best = i
    mean = (bench.sums[best] - bench.sums[0]) / rollouts
    variance = max(0.0, bench.squares[best] / rollouts - mean * mean) / max(1, rollouts - 1)
    return best if mean > confidence * math.sqrt(variance) else 0


@njit
def look_ahead(
    tables: Any,
    lanes: Any,
    views: np.ndarray,
    masks: np.ndarray,
    which: np.ndarray,
    seed: np.uint64,
    costs: Costs,
    policies: tuple[Pairing, ...],
    outlook: Outlook,
    bench: Bench,
    actions: np.ndarray,
    advantages: np.ndarray,
    spent: np.ndarray,
) -> None:
    """Choose an action in each lane of ``which`` by rollouts on forks of it, by sequential halving.

    Each round gives every arm left the same futures, until its part of the budget is spent, and drops the worse half
    (Karnin et al., ICML 2013); the first arm, the base rule, stays. The futures are a function of the seed, the lane's
    place and its decision number alone.

    Args:
        which: int64, (n,), places of the lanes.
        actions: int64, (n,), written.
        advantages: (n, A), written: value of a candidate less that of the base rule's choice, ns; NaN = not tried.
        spent: int64, (n,), written: engine decisions.
    """
    for i in range(which.shape[0]):
        at = which[i]
        lane = lanes[at]
        actions[i], spent[i], advantages[i, :] = 0, 0, np.nan
        if lane.over:
            continue
        n = _list_arms(views[at : at + 1], masks[at : at + 1], costs, policies, outlook, bench)
        actions[i] = bench.arms[0, 0]
        advantages[i, actions[i]] = 0.0
        bench.sums[:n], bench.squares[:n] = 0.0, 0.0
        rounds = 1 if outlook.exact else max(1, math.ceil(math.log2(n)))
        rollouts = 0
        for round_ in range(rounds):
            allowed = outlook.budget * (round_ + 1) // rounds
            enough = n < 2
            while not enough:
                key = draw(seed + np.uint64(at), _PLANNING, lane.decisions, rollouts, 0)
                spent[i] += _try_arms(tables, lane, costs, policies, outlook, bench, n, key)
                rollouts += 1
                enough = outlook.exact or (spent[i] >= allowed and rollouts > 1)
            if n > 1:
                _note_advantages(bench, n, rollouts, advantages[i])
            if round_ + 1 < rounds:
                keep = max(2, (n + 1) // 2)
                _keep_best(bench, n, keep)
                n = min(n, keep)
        if n > 1:
            confidence = 0.0 if outlook.exact else outlook.confidence
            actions[i] = bench.arms[_winner(bench, n, rollouts, confidence), 0]
