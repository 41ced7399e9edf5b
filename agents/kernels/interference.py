"""The rule that submits whole operators by how they would interfere, without fusion."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from agents.kernels.jit import njit
from agents.kernels.predict import UNKNOWN, Costs, bound_by, fastest_pick, own_contexts, variant_row
from agents.kernels.tasks import EDF, FIFO, before, first_task, may_start, resident_slot, variant_of
from hexenv.engine.layout import MAX_SLOTS, NO_DEADLINE, Phase

_FREE = int(Phase.FREE)
_NEVER = int(NO_DEADLINE)


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
            if own and may_start(mask, task) and (best < 0 or before(view.tasks[task], view.tasks[best], FIFO)):
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
            row = variant_row(costs, view.tasks[task].op, variant_of(action))
            if _may_submit(view, costs, rule, row):
                actions[lane] = action
                last[lane] = view.tasks[task].stream
