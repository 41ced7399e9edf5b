"""The pairing rules: ``greedy_pair``, ``greedy_versions``, ``slack_gate`` and ``slack_gate_tuned``."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.kernels.deadlines import nothing_known
from agents.kernels.pairs import Pairing, act_in_pairs
from agents.kernels.predict import costs_of
from agents.scheduler import Scheduler
from agents.tuned import tuned_values
from hexenv.engine.layout import Tables


class Paired(Scheduler):
    """Runs the task with the earliest deadline, beside a partner wherever a pair is predicted to gain.

    On an empty device that task is picked in the variant that leaves the best partner, else in its fastest one. A
    resident or pending stage is joined by a task of an earlier deadline if there is one, else by any other.

    Args:
        name: name in reports.
        pairing: which pairs it makes.
        overrides: engine settings of its entry in a comparison; mode ``fused`` by default.
    """

    def __init__(self, name: str, pairing: Pairing, overrides: dict[str, Any] | None = None) -> None:
        self.name = name
        self.overrides = {"mode": "fused"} if overrides is None else overrides
        self.pairing = pairing

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`."""
        del batch, seed
        self._costs = costs_of(tables)

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """See :meth:`Scheduler.act`."""
        actions = np.empty(len(views), np.int64)
        act_in_pairs(views, masks, self._costs, self.pairing, nothing_known(), actions)
        return actions


def greedy_pair() -> Paired:
    """Greedy complementary pairing: the partner of the highest gain, each stage in its fastest version."""
    return Paired("greedy_pair", Pairing(any_version=False, gated=False, in_order=False, margin=0.0))


def greedy_versions() -> Paired:
    """Greedy complementary pairing that chooses partner and both versions in one decision."""
    return Paired("greedy_versions", Pairing(any_version=True, gated=False, in_order=False, margin=0.0))


def gate(margin_us: float, any_version: bool = True) -> Pairing:
    """The pairs of a slack gate: see :func:`slack_gate`."""
    return Pairing(any_version, gated=True, in_order=True, margin=1000.0 * margin_us)


def slack_gate(margin_us: float = 1500.0) -> Paired:
    """Slack-gated pairing with free versions, after Tacker (HPCA 2022) and Aker (IEEE TC 2025).

    A pair is admitted only if ``T_queue + T_wait + T_corun + T_rest <= deadline - margin`` for every known deadline
    that can still be met, where T_queue is the rest of all jobs with earlier deadlines, T_wait + T_corun is what the
    pair adds before the job goes on, and T_rest is its own chain. Of the partners that gain, the most urgent comes
    first. Otherwise the most urgent stage runs alone; where a less urgent one holds the device and waiting for it
    would cost a deadline its margin, it joins that one if this ends it sooner.

    Args:
        margin_us: time that must stay before each deadline, us. The best value moves with load and tightness.
    """
    return Paired("slack_gate", gate(margin_us))


class TunedGate(Paired):
    """The slack gate with a margin for each scenario by name; one that was not tuned for takes the common margin."""

    def __init__(self) -> None:
        super().__init__("slack_gate_tuned", gate(0.0))

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`."""
        values = tuned_values(self.name, tables.scenario) or tuned_values("slack_gate")
        self.pairing = slack_gate(**values).pairing
        super().start(tables, batch, seed)


def slack_gate_tuned(margin_us: float | None = None) -> Paired:
    """The slack gate with its margin tuned for each scenario; a given ``margin_us`` holds for all of them."""
    return TunedGate() if margin_us is None else Paired("slack_gate_tuned", gate(margin_us))
