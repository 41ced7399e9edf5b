"""The rule ``triage_gate``: deadlines are chosen before they are gated."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.kernels.deadlines import nothing_known
from agents.kernels.pairs import NO_GAIN
from agents.kernels.predict import costs_of
from agents.kernels.triage import Triage, act_after_triage, ward
from agents.paired import gate
from agents.scheduler import Scheduler
from hexenv.engine.layout import Tables


class TriageGate(Scheduler):
    """The slack gate after a triage in the manner of Moore and Hodgson (Moore, Management Science 1968).

    Of the visible jobs with deadlines it serves those that fit, and lets go of the ones that are dearest: a job's price
    is ``rest ** rest_power / loss``, with ``rest`` the time that it still takes and ``loss`` what its miss costs.
    Power 1 is the greedy rule for weighted misses, a higher one spares more jobs and lets go of the long ones. A late
    job that cannot be dropped goes on as the first of the best-effort work.

    Args:
        margin_us: time that must stay before each deadline that is kept, us.
        least_gain: time one after the other over joint time that a pair must reach; below 1 for eager pairs.
        speed: time that queued work is counted with, over its time alone; below 1, pairs save time.
        rest_power: see above.
    """

    name = "triage_gate"

    def __init__(
        self, margin_us: float = 1500.0, least_gain: float = NO_GAIN, speed: float = 1.0, rest_power: float = 2.0
    ) -> None:
        self.overrides: dict[str, Any] = {"mode": "fused"}
        self.pairing = gate(margin_us)._replace(least_gain=least_gain)
        self.triage = Triage(speed, rest_power, loss_power=1.0)

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`."""
        del batch, seed
        self._costs = costs_of(tables)

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """See :meth:`Scheduler.act`."""
        actions = np.empty(len(views), np.int64)
        act_after_triage(views, masks, self._costs, self.triage, self.pairing, ward(), nothing_known(), actions)
        return actions
