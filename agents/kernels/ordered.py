"""The rule that takes tasks in a fixed order, each in its fastest variant."""

from __future__ import annotations

import numpy as np

from agents.kernels.jit import njit
from agents.kernels.predict import Costs, fastest_pick
from agents.kernels.tasks import first_task, resident_slot


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
