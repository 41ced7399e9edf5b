"""Slack-gated pairing, after Tacker (HPCA 2022) and Aker (IEEE TC 2025): pairs only while no deadline is in danger."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.kernels import act_greedy, costs_of, nothing_known
from agents.scheduler import Scheduler
from hexenv.engine.layout import Tables


class SlackGate(Scheduler):
    """Greedy pairing with versions behind an admission test.

    A pair is admitted only if ``T_queue + T_wait + T_corun + T_rest <= deadline - margin`` for every known deadline,
    where T_queue is the rest of all jobs with earlier deadlines, T_wait and T_corun are what the pair adds before the
    job goes on, and T_rest is its own chain. Deadlines that cannot be met any more are not protected. Otherwise the
    most urgent stage runs alone in its fastest variant; if a less urgent stage holds the device, it joins that one
    where this ends it sooner than to wait.

    Args:
        margin_us: time that must stay, us. The best value moves with load and tightness.
    """

    def __init__(self, margin_us: float = 1500.0) -> None:
        self.name = "slack_gate"
        self.overrides: dict[str, Any] = {"mode": "fused"}
        self.margin_us = margin_us

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`."""
        del batch, seed
        self._costs = costs_of(tables)

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """See :meth:`Scheduler.act`."""
        actions = np.empty(len(views), np.int64)
        act_greedy(views, masks, self._costs, True, True, nothing_known(1000.0 * self.margin_us), actions)
        return actions
