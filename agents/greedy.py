"""Greedy pairing: the most urgent stage, beside the partner with the highest predicted gain."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.kernels import act_greedy, costs_of, nothing_known
from agents.scheduler import Scheduler
from hexenv.engine.layout import Tables


class Greedy(Scheduler):
    """Pairs whenever a pair is predicted to end before its stages would one after the other.

    On an empty device the task with the earliest deadline comes first, in the variant that leaves the best partner. A
    resident or pending stage is joined by the legal pick of the highest gain, if that exceeds 1.

    Args:
        versions: choose among all versions; otherwise a stage keeps the version of its fastest variant, and only tile
            class and share are free.
    """

    def __init__(self, versions: bool) -> None:
        self.name = "greedy_versions" if versions else "greedy_pair"
        self.overrides: dict[str, Any] = {"mode": "fused"}
        self._versions = versions

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`."""
        del batch, seed
        self._costs = costs_of(tables)

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """See :meth:`Scheduler.act`."""
        actions = np.empty(len(views), np.int64)
        act_greedy(views, masks, self._costs, self._versions, False, nothing_known(), actions)
        return actions


def greedy_pair() -> Greedy:
    """Complementary pairing, each stage in its fastest version."""
    return Greedy(versions=False)


def greedy_versions() -> Greedy:
    """Complementary pairing and version choice in one decision."""
    return Greedy(versions=True)
