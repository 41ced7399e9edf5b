"""Triage: which deadlines to serve when not all can be met.

Earliest deadline first is optimal as long as every deadline can be met, and the worst order when they cannot: it works
on each job until it is too late for it. So the deadlines that fit are chosen first, as Moore does (Management Science
1968, the algorithm of Moore and Hodgson): jobs enter by deadline, and whenever one no longer fits, the job that is
dearest to serve leaves. Jobs that leave are served as best effort, and may come back at the next decision.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from agents.kernels.deadlines import Known
from agents.kernels.jit import njit
from agents.kernels.pairs import Pairing, act_in_pairs
from agents.kernels.predict import Costs, due_in
from hexenv.engine.layout import MAX_SLOTS, MAX_VISIBLE, NO_DEADLINE, VIEW, Phase

_FREE = int(Phase.FREE)
_NEVER = int(NO_DEADLINE)

_JOB, _DUE, _REST, _PRICE, _STATE = range(5)
"""Columns of a job: its slot, time until its deadline and time its rest takes in ns, its price, one of the states."""
_WAITING, _KEPT, _LEFT = range(3)


class Triage(NamedTuple):
    """How deadlines are chosen."""

    speed: float  # ns that the device takes for a ns of queued work by itself; below 1, pairs save time
    rest_power: float  # price of a job: rest ** rest_power / loss ** loss_power
    loss_power: float  # loss = what missing its deadline costs
    soft: float = 0.0  # log2 of a factor on the price of a job that is finished even if late


class Ward(NamedTuple):
    """Room for the choice at one decision: the kernels allocate nothing."""

    jobs: np.ndarray  # (MAX_VISIBLE + MAX_SLOTS, 5)
    views: np.ndarray  # VIEW, (1,): the decision as the rule after the triage sees it


def ward() -> Ward:
    """Room for one decision at a time."""
    return Ward(np.zeros((MAX_VISIBLE + MAX_SLOTS, 5)), np.zeros(1, VIEW))


@njit
def _place(jobs: np.ndarray, n: int, job: int) -> int:
    for i in range(n):
        if jobs[i, _JOB] == job:
            return i
    return -1


@njit
def _list_jobs(view: Any, costs: Costs, triage: Triage, jobs: np.ndarray) -> int:
    """Fill ``jobs`` with the jobs that have deadlines; returns their number.

    What has begun cannot be stopped, so a job with a stage on the device and no other in sight has no price.
    """
    n = 0
    for k in range(view.n_tasks):
        task = view.tasks[k]
        if task.deadline_ns >= _NEVER or _place(jobs, n, task.job) >= 0:
            continue
        rest = costs.stretch[task.stream] * max(task.critical_ns, task.job_ref_ns - task.earned_ns)
        loss = costs.config.miss_weight * task.weight * task.job_ref_ns + (task.earned_ns if task.firm else 0)
        price = triage.rest_power * np.log2(max(1.0, rest)) - triage.loss_power * np.log2(max(1.0, loss))
        price += 0.0 if task.firm else triage.soft
        jobs[n, _JOB], jobs[n, _DUE] = task.job, due_in(view, task.deadline_ns)
        jobs[n, _REST], jobs[n, _PRICE], jobs[n, _STATE] = triage.speed * rest, price, _WAITING
        n += 1
    for k in range(MAX_SLOTS):
        resident = view.residents[k]
        served = resident.phase != _FREE and not resident.dropped and resident.deadline_ns < _NEVER
        if served and _place(jobs, n, resident.job) < 0:
            due = due_in(view, resident.deadline_ns)
            jobs[n, _JOB], jobs[n, _DUE] = resident.job, due
            jobs[n, _REST], jobs[n, _PRICE] = triage.speed * (due - resident.slack_ns), -np.inf
            jobs[n, _STATE] = _WAITING
            n += 1
    return n


@njit
def _choose(jobs: np.ndarray, n: int) -> None:
    """Set the state of each of ``n`` jobs: kept, or left."""
    total = 0.0
    for _ in range(n):
        last = -1
        for i in range(n):
            if jobs[i, _STATE] == _WAITING and (last < 0 or jobs[i, _DUE] < jobs[last, _DUE]):
                last = i
        jobs[last, _STATE] = _KEPT
        total += jobs[last, _REST]
        while total > jobs[last, _DUE]:
            dearest, price = -1, -np.inf
            for i in range(n):
                if jobs[i, _STATE] == _KEPT and jobs[i, _PRICE] > price:
                    dearest, price = i, jobs[i, _PRICE]
            if dearest < 0:
                break
            jobs[dearest, _STATE] = _LEFT
            total -= jobs[dearest, _REST]


@njit
def sort_out(view: Any, costs: Costs, triage: Triage, room: Ward) -> None:
    """Copy ``view`` to ``room.views[0]``, where the jobs that leave have no deadline.

    Those that are finished even if late come before all best-effort work, those that will be dropped after it.
    """
    out = room.views[0]
    room.views[0] = view
    jobs = room.jobs
    n = _list_jobs(view, costs, triage, jobs)
    _choose(jobs, n)
    for k in range(out.n_tasks):
        task = out.tasks[k]
        i = _place(jobs, n, task.job)
        if i >= 0 and jobs[i, _STATE] == _LEFT:
            task.deadline_ns = task.slack_ns = _NEVER
            task.arrival_ns = _NEVER if task.firm else 0
    for k in range(MAX_SLOTS):
        resident = out.residents[k]
        i = _place(jobs, n, resident.job) if resident.phase != _FREE else -1
        if i >= 0 and jobs[i, _STATE] == _LEFT:
            resident.deadline_ns = resident.slack_ns = _NEVER


@njit
def act_after_triage(
    views: np.ndarray,
    masks: np.ndarray,
    costs: Costs,
    triage: Triage,
    pairing: Pairing,
    room: Ward,
    known: Known,
    actions: np.ndarray,
) -> None:
    """Sort out the deadlines of each lane, then pair (:func:`agents.kernels.pairs.act_in_pairs`)."""
    for lane in range(views.shape[0]):
        sort_out(views[lane], costs, triage, room)
        act_in_pairs(room.views, masks[lane : lane + 1], costs, pairing, known, actions[lane : lane + 1])
