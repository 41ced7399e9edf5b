"""The rule that interleaves two roles in proportion to their work."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.kernels.deadlines import Known
from agents.kernels.jit import njit
from agents.kernels.pairs import Pairing, first_of_pair, partner_variant
from agents.kernels.predict import Costs, placed
from agents.kernels.tasks import FIFO, before, may_start, resident_slot
from hexenv.engine.layout import MAX_SLOTS, Phase

_FREE = int(Phase.FREE)


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
        legal = may_start(mask, task) and roles[view.tasks[task].stream] == role
        if legal and (best < 0 or before(view.tasks[task], view.tasks[best], FIFO)):
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
            _, actions[lane] = partner_variant(view, mask, costs, pairing, known, a, task, False)
        if actions[lane] > 0:
            work = costs.ops[view.tasks[task].op].ref_ns
            launched[lane, role] += work
            left[lane, view.tasks[task].job] -= work
