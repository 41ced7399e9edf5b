"""Rules that fill slots in a fixed order with the fastest variant: ``serial``, ``edf`` and ``concurrent``."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.kernels.ordered import act_in_order
from agents.kernels.predict import costs_of
from agents.kernels.tasks import EDF, FIFO
from agents.scheduler import Scheduler
from hexenv.engine.layout import Tables


class Ordered(Scheduler):
    """Takes the first task of an order in its fastest legal variant.

    Args:
        name: name in reports.
        order: ``FIFO`` (oldest job, its stages in program order) or ``EDF`` (earliest deadline, best effort last).
        alone: one stage at a time; otherwise two stages of different jobs share the device.
        overrides: engine settings of its entry in a comparison.
    """

    def __init__(self, name: str, order: int, alone: bool, overrides: dict[str, Any]) -> None:
        self.name = name
        self.overrides = overrides
        self.order = order
        self.alone = alone

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`."""
        del batch, seed
        self._costs = costs_of(tables)

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """See :meth:`Scheduler.act`."""
        actions = np.empty(len(views), np.int64)
        act_in_order(views, masks, self._costs, self.order, self.alone, actions)
        return actions


def serial() -> Ordered:
    """First in, first out, one stage at a time: what a runtime with one queue does."""
    return Ordered("serial", FIFO, alone=True, overrides={"mode": "serial"})


def edf() -> Ordered:
    """Earliest deadline first, one stage at a time."""
    return Ordered("edf", EDF, alone=True, overrides={"mode": "serial"})


def concurrent(hmx_lock: str = "chunk", vtcm_split: str = "on_demand", context_split: str = "shared") -> Ordered:
    """Native concurrency: two independent graphs, each in its own queue, earliest deadline first.

    Args:
        hmx_lock: how long a graph holds the HMX lock, ``batch``, ``op`` or ``chunk``.
        vtcm_split: ``static`` halves or ``on_demand``.
        context_split: ``static`` halves or ``shared``.

    The defaults, and the same with static VTCM halves, have the highest returns of all twelve on the bundled scenarios.
    """
    settings = {"hmx_lock": hmx_lock, "vtcm_split": vtcm_split, "context_split": context_split}
    return Ordered("concurrent", EDF, alone=False, overrides={"mode": "concurrent", **settings})
