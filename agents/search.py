"""Look-ahead over forks of the simulator: the scheduler ``search``, its clairvoyant twin ``oracle``, and labels.

Both try a few actions at each decision: every candidate is carried out on forks of the lane, a base rule goes on for a
span of simulated time, and the action of the best mean value is chosen, if it beats the base rule's own choice by more
than chance. Where the base rule lets a deadline go, its choice stands: which ones to serve is left to its triage.
``search`` works on reseeded forks, so it knows no more of the future than any other scheduler; its forks never end, so
it does not know the horizon either. ``oracle`` works on exact forks: it knows the arrivals and durations to come and is
an indication of what that is worth, not a competitor.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agents.kernels.deadlines import nothing_known
from agents.kernels.look_ahead import Bench, Outlook, Policy, look_ahead
from agents.kernels.predict import costs_of
from agents.kernels.triage import Triage, ward
from agents.paired import Paired
from agents.scheduler import Scheduler
from agents.triage import TriageGate
from agents.tuned import tuned_values
from hexenv.engine import Simulator
from hexenv.engine.layout import LANE, NO_DEADLINE, TRACE, VIEW, Tables

_KEEP_ALL = Triage(speed=-np.inf, rest_power=0.0, loss_power=0.0)
"""Lets no deadline go: where work takes no time, all of it fits."""


@dataclass(frozen=True)
class Labels:
    """What a look-ahead found at one decision of each lane asked for."""

    actions: np.ndarray
    """int64, (n,): the chosen actions."""
    advantages: np.ndarray
    """(n, A): ms of return by which an action beats the base rule's choice in the mean; NaN where it was not tried."""
    spent: np.ndarray
    """int64, (n,): engine decisions that the rollouts took."""


class LookAhead:
    """Plans decisions of a scenario's lanes by rollouts. A plan changes nothing in the simulator.

    Args:
        tables: the scenario, as the simulator has it.
        seed: of lane 0; the futures that lane ``i`` is tried in are those of ``seed + i``.
        budget: engine decisions to spend at a decision, about.
        span_us: simulated time that a rollout covers, us; by default 2000, less for budgets that do not reach so far.
        candidates: actions tried at a decision, at most.
        rules: what goes on after an action, each one in turn; the first is the base rule. By default ``triage_gate`` as
            it is tuned.
        confidence: standard errors by which an action must beat the base rule's choice.
        speed: ns that the device takes for a ns of work queued ahead of a deadline, for the value at a rollout's end.
        doubt: predicted lateness over which a deadline turns from safe to lost there, as a part of the time that its
            job is allowed.
        exact: plan on exact forks (clairvoyant).
        threads: lanes are planned in this many parts at once; no effect on the results.
    """

    def __init__(
        self,
        tables: Tables,
        seed: int = 0,
        *,
        budget: int = 1000,
        span_us: float | None = None,
        candidates: int = 6,
        rules: Sequence[Paired | TriageGate] = (),
        confidence: float = 2.0,
        speed: float = 0.9,
        doubt: float = 0.35,
        exact: bool = False,
        threads: int = 1,
    ) -> None:
        self._n_actions = tables.n_actions
        span_us = min(2000.0, 2.0 * budget) if span_us is None else span_us
        self._arrays = (tables if exact else _endless(tables)).arrays
        self._costs = costs_of(tables)
        self._seed = np.uint64(seed % (1 << 64))
        rules = rules or (TriageGate(**tuned_values("triage_gate")),)
        self._policies = tuple(_policy(rule) for rule in rules)
        self._outlook = Outlook(budget, round(1000 * span_us), candidates, confidence, speed, doubt, exact)
        most = max(candidates, len(rules) + 1) * len(rules)
        self._benches = [_bench(tables.n_actions, most) for _ in range(threads)]
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None

    def label(self, simulator: Simulator, lanes: np.ndarray | None = None) -> Labels:
        """Plan the decision at hand in ``lanes`` (places, int64, (n,); all by default). A lane that is over: wait."""
        which = np.arange(simulator.batch) if lanes is None else np.asarray(lanes, np.int64)
        n = len(which)
        actions, spent = np.empty(n, np.int64), np.empty(n, np.int64)
        advantages = np.empty((n, self._n_actions))
        parts = [
            slice(p * n // len(self._benches), (p + 1) * n // len(self._benches)) for p in range(len(self._benches))
        ]

        def plan(part: slice, bench: Bench) -> None:
            look_ahead(
                self._arrays, simulator.lanes, simulator.views, simulator.masks, which[part], self._seed, self._costs,
                self._policies, self._outlook, bench, actions[part], advantages[part], spent[part],
            )  # fmt: skip

        if self._pool is None:
            plan(parts[0], self._benches[0])
        else:
            list(self._pool.map(plan, parts, self._benches))
        return Labels(actions, advantages / 1e6, spent)


def _policy(rule: Paired | TriageGate) -> Policy:
    return Policy(rule.triage if isinstance(rule, TriageGate) else _KEEP_ALL, rule.pairing)


def _endless(tables: Tables) -> Tables:
    """The scenario without its horizon, which no scheduler knows."""
    config = tables.config.copy()
    config["horizon_ns"] = NO_DEADLINE
    return replace(tables, config=config)


def _bench(n_actions: int, arms: int) -> Bench:
    return Bench(
        np.zeros(1, LANE),
        np.zeros(1, VIEW),
        np.zeros((1, n_actions), np.bool_),
        np.zeros(1, np.int64),
        np.zeros(1, TRACE),
        ward(),
        nothing_known(),
        np.zeros(n_actions),
        np.zeros((arms, 2), np.int64),
        np.zeros(arms),
        np.zeros(arms),
    )


class Search(Scheduler):
    """Chooses by :class:`LookAhead`; attach the simulator that it plays on before the first :meth:`act`.

    Args:
        name: name in reports.
        settings: of :class:`LookAhead`.
    """

    def __init__(self, name: str, **settings: Any) -> None:
        self.name = name
        self.overrides: dict[str, Any] = {"mode": "fused"}
        self.spent = 0
        """Engine decisions taken in rollouts since :meth:`start`."""
        self.decisions = 0
        """Decisions made since :meth:`start`, those of lanes that were over left out."""
        self._settings = settings
        self._simulator: Simulator | None = None

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`."""
        del batch
        self._planner = LookAhead(tables, seed, **self._settings)
        self._simulator = None
        self.spent = self.decisions = 0

    def attach(self, simulator: Simulator) -> None:
        """See :meth:`Scheduler.attach`."""
        self._simulator = simulator

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """See :meth:`Scheduler.act`."""
        del views, masks
        if self._simulator is None:
            raise RuntimeError(f"scheduler {self.name!r} plans on a simulator: call attach(simulator) after start()")
        labels = self._planner.label(self._simulator)
        self.spent += int(labels.spent.sum())
        self.decisions += int((~self._simulator.lanes["over"]).sum())
        return labels.actions


def search(budget: int = 1000) -> Search:
    """Look-ahead on reseeded forks, about ``budget`` engine decisions a decision."""
    return Search("search", budget=budget)


def oracle() -> Search:
    """The same on exact forks: clairvoyant, an indication only."""
    return Search("oracle", exact=True)
