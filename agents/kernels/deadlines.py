"""The deadlines that a gate protects, and whether a pair keeps them."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from agents.kernels.jit import njit
from agents.kernels.predict import Costs, Placed, due_in
from hexenv.engine.layout import MAX_SLOTS, MAX_VISIBLE, NO_DEADLINE, Phase

_FREE = int(Phase.FREE)
_NEVER = int(NO_DEADLINE)

DUE, SPARE, _REST, _JOB, _ALLOWED = range(5)
"""Columns of a known deadline: time until it, spare time, rest and slot of its job, time the job was given; ns."""


class Known(NamedTuple):
    """The deadlines a gate protects."""

    n: int
    rows: np.ndarray  # (MAX_VISIBLE + MAX_SLOTS, 5), a row a job, see the columns above


def nothing_known() -> Known:
    """No deadline to protect yet, and room for all that a view may show: the kernels allocate nothing."""
    return Known(0, np.empty((MAX_VISIBLE + MAX_SLOTS, 5)))


@njit
def _add_job(rows: np.ndarray, n: int, job: int, due: float, rest: float, allowed: int) -> int:
    for i in range(n):
        if rows[i, _JOB] == job:
            rows[i, _REST] = max(rows[i, _REST], rest)
            return n
    rows[n, _JOB], rows[n, DUE], rows[n, _REST], rows[n, _ALLOWED] = job, due, rest, allowed
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
            due, allowed = due_in(view, task.deadline_ns), task.deadline_ns - task.arrival_ns
            n = _add_job(rows, n, task.job, due, rest, allowed)
    for k in range(MAX_SLOTS):
        resident = view.residents[k]
        busy = resident.phase != _FREE and not resident.dropped
        if busy and resident.deadline_ns < _NEVER and resident.slack_ns >= 0:
            due = due_in(view, resident.deadline_ns)
            rest = costs.stretch[resident.stream] * (due - resident.slack_ns)
            n = _add_job(rows, n, resident.job, due, rest, resident.deadline_ns - resident.arrival_ns)
    for i in range(n):
        rows[i, SPARE] = rows[i, DUE] - guard * rows[i, _ALLOWED]
        for j in range(n):
            if rows[j, DUE] <= rows[i, DUE]:
                rows[i, SPARE] -= rows[j, _REST]
    return Known(n, rows)


@njit
def keeps_deadlines(known: Known, margin: float, joint: float, a: Placed, b: Placed) -> bool:
    """Whether a pair that holds the device for ``joint`` leaves each known deadline its ``margin``.

    A deadline is delayed by the joint time less the work of the pair that its queue counts anyway. A pair that delays a
    deadline by nothing is never refused for it, however little time is left.
    """
    for i in range(known.n):
        delay = joint
        if a.due <= known.rows[i, DUE]:
            delay -= a.work
        if b.due <= known.rows[i, DUE]:
            delay -= b.work
        if delay > 0.0 and delay + margin > known.rows[i, SPARE]:
            return False
    return True
