"""Orion (EuroSys 2024): schedules whole operators by how they would interfere; no fusion."""

from __future__ import annotations

import numpy as np

from agents.kernels.interference import Submission, act_by_interference
from agents.kernels.predict import costs_of
from agents.ordered import concurrent
from agents.scheduler import Scheduler
from hexenv.engine.layout import NO_DEADLINE, Tables

BUSY = 0.6
"""Part of its time from which the released code calls a kernel bound by an engine; below it is unknown."""


class Orion(Scheduler):
    """Submits high-priority work at once and best-effort operators only where they do not interfere.

    High priority are the jobs with a deadline, by earliest deadline; best effort are the other streams, in turn. A
    best-effort operator runs beside high-priority work only if another engine bounds it (HMX, HVX or DMA), or either is
    unknown, and it takes few enough contexts. While more than a part of the fastest critical job's time is outstanding
    on the device as best-effort work, no more of it is submitted.

    Args:
        duration: that part, 0 to 1.
        contexts: part of the HVX contexts that best-effort work may take beside high-priority work, 0 to 1.
        settings: what the runtime legally gives, as in :func:`agents.ordered.concurrent`.
    """

    def __init__(self, duration: float = 0.025, contexts: float = 1.0, **settings: str) -> None:
        self.name = "orion"
        self.overrides = concurrent(**settings).overrides
        self.duration = duration
        self.contexts = contexts

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`."""
        del seed
        self._costs = costs_of(tables)
        contexts = int(self.contexts * tables.config["contexts"][0])
        self._rule = Submission(BUSY, contexts, self.duration * shortest_critical_ns(tables, self._costs.stretch))
        self._last = np.full(batch, -1)

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """See :meth:`Scheduler.act`."""
        actions = np.empty(len(views), np.int64)
        act_by_interference(views, masks, self._costs, self._rule, self._last, actions)
        return actions


def shortest_critical_ns(tables: Tables, stretch: np.ndarray) -> float:
    """Time alone of the fastest job with a deadline, dispatch included, ns; 0 if no stream has deadlines."""
    times = [
        float(tables.templates["ref_ns"][job] * stretch[s])
        for s, stream in enumerate(tables.streams)
        if stream["deadline_ns"] < NO_DEADLINE
        for job in range(stream["template_start"], stream["template_start"] + stream["template_count"])
    ]
    return min(times, default=0.0)
