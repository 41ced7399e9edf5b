"""Choice of a pair, and the rule that pairs wherever a pair is predicted to gain."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from agents.kernels.deadlines import DUE, SPARE, Known, keeps_deadlines, known_deadlines
from agents.kernels.jit import njit
from agents.kernels.predict import (
    UNKNOWN,
    Costs,
    Placed,
    bound_by,
    corun_ns,
    due_in,
    fastest_pick,
    fresh,
    own_contexts,
    placed,
    variant_row,
)
from agents.kernels.tasks import EDF, action_of, before, first_task, resident_slot, share_of
from hexenv.engine.layout import N_SHARES, N_TILES, N_VARIANTS, NO_DEADLINE, Mode, Phase

_PENDING = int(Phase.PENDING)
_SERIAL = int(Mode.SERIAL)
_NEVER = int(NO_DEADLINE)

NO_GAIN = 1.001
"""A pair must gain more than the rounding of times to ns."""

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
    guest_gain: float = 0.0  # that much more a best-effort partner must gain beside a stage with a deadline
    tile_price: float = 0.0  # gain that a tile class must bring over the one below it


@njit
def _version_allowed(costs: Costs, pairing: Pairing, op: int, variant: int) -> bool:
    return pairing.any_version or variant // N_TILES == costs.variants[costs.ops[op].fastest].version


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
    return task if task >= 0 and due_in(view, view.tasks[task].deadline_ns) < a.due else -1


@njit
def _may_join(view: Any, mask: np.ndarray, costs: Costs, a: Placed, row: int, action: int, planned: bool) -> bool:
    """Whether the pick ``action`` of variant ``row`` may join ``a``: the mask, or a forecast if ``a`` is planned."""
    if not planned:
        return mask[action]
    share = share_of(action)
    if not mask[action - share] or own_contexts(costs, a.row, row, share) < 0:
        return False
    if costs.config.mode == _SERIAL or costs.config.slots < 2:
        return False
    return costs.variants[a.row].vtcm_bytes + costs.variants[row].vtcm_bytes <= view.vtcm_largest_bytes


@njit
def partner_variant(
    view: Any, mask: np.ndarray, costs: Costs, pairing: Pairing, known: Known, a: Placed, task: int, planned: bool
) -> tuple[float, int]:
    """Best ``(gain, action)`` of ``task`` beside ``a``; action 0 if no admitted variant gains."""
    best_gain, best = pairing.least_gain, 0
    if view.tasks[task].deadline_ns >= _NEVER and a.due < np.inf:
        best_gain += pairing.guest_gain
    op = view.tasks[task].op
    for variant in range(N_VARIANTS):
        row = variant_row(costs, op, variant)
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
                gain -= pairing.tile_price * (variant % N_TILES)
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
        gain, action = partner_variant(view, mask, costs, pairing, known, a, task, planned >= 0)
        if pairing.in_order:
            better = best_task < 0 or before(view.tasks[task], view.tasks[best_task], EDF)
        else:
            better = gain > best_gain
        if action > 0 and better:
            best_gain, best, best_task = gain, action, task
    return best_gain, best


@njit
def first_of_pair(view: Any, mask: np.ndarray, costs: Costs, pairing: Pairing, known: Known, task: int) -> int:
    """Pick of ``task`` for an empty device: in the variant that leaves the best partner, or else its fastest one."""
    best_gain, best = pairing.least_gain, fastest_pick(view, mask, costs, task, pairing.tile_price)
    op = view.tasks[task].op
    for variant in range(N_VARIANTS):
        action = action_of(task, variant, 0)
        if mask[action] and _version_allowed(costs, pairing, op, variant):
            a = fresh(view, costs, task, variant_row(costs, op, variant))
            gain, _ = best_partner(view, mask, costs, pairing, known, a, task)
            gain -= pairing.tile_price * (variant % N_TILES)
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
        endangered |= known.rows[i, DUE] < a.due and known.rows[i, SPARE] < a.work + pairing.margin
    task = urgent_task(view, mask, a)
    if not endangered or task < 0:
        return 0
    best_ns, best = np.inf, 0
    for variant in range(N_VARIANTS):
        row = variant_row(costs, view.tasks[task].op, variant)
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
        safe &= known.rows[i, SPARE] >= wait + pairing.margin
    return safe


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
