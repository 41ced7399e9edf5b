"""Actions, and the order of tasks."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.kernels.jit import njit
from hexenv.engine.layout import MAX_SLOTS, N_SHARES, N_VARIANTS, Phase

_FREE = int(Phase.FREE)

FIFO = 0
"""Order of tasks: oldest job first."""
EDF = 1
"""Order of tasks: earliest deadline first, best effort last."""


@njit
def action_of(task: int, variant: int, share: int) -> int:
    """Index of a pick; ``variant`` is ``version * 4 + tile class``."""
    return 1 + (task * N_VARIANTS + variant) * N_SHARES + share


@njit
def task_of(action: int) -> int:
    """Task of a pick, its place in the view."""
    return (action - 1) // (N_SHARES * N_VARIANTS)


@njit
def variant_of(action: int) -> int:
    """Variant of a pick, ``version * 4 + tile class``."""
    return (action - 1) // N_SHARES % N_VARIANTS


@njit
def share_of(action: int) -> int:
    """Class of the share of a pick."""
    return (action - 1) % N_SHARES


@njit
def may_start(mask: np.ndarray, task: int) -> bool:
    """Whether ``task`` has a legal pick."""
    return bool(mask[action_of(task, 0, 0) : action_of(task + 1, 0, 0)].any())


@njit
def resident_slot(view: Any) -> int:
    """First slot that holds a stage (pending or running), -1 if the device is empty."""
    for slot in range(MAX_SLOTS):
        if view.residents[slot].phase != _FREE:
            return slot
    return -1


@njit
def before(a: Any, b: Any, order: int) -> bool:
    """Whether visible task ``a`` comes before ``b``."""
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
        allowed = may_start(mask, task) and view.tasks[task].job != not_job
        if allowed and (best < 0 or before(view.tasks[task], view.tasks[best], order)):
            best = task
    return best
