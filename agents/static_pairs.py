"""Pairs chosen offline from the profiles of two operators: ``static_pairs`` and ``hfuse``."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.kernels.predict import costs_of
from agents.kernels.static_pairs import act_in_static_pairs, find_static_pairs
from agents.scheduler import Scheduler
from hexenv.engine.layout import Tables

SEARCH = -1
"""Share class of a pair that searches its own."""


class StaticPairs(Scheduler):
    """Runs the task with the earliest deadline beside the most urgent one that has a pair with it, whatever the state.

    The pairs are found once, from profiles: those that are predicted to gain when both stages start together.

    Args:
        name: name in reports.
        share: class of the joining stage's share in every pair, or ``SEARCH`` for the best one of each pair.
        joins: whether a partner may join a running stage; otherwise pairs are launched as one.
        least_gain: time of both stages one after the other, over their joint time, from which on they are a pair.
    """

    def __init__(self, name: str, share: int, joins: bool, least_gain: float) -> None:
        self.name = name
        self.overrides: dict[str, Any] = {"mode": "fused"}
        self.share = share
        self.joins = joins
        self.least_gain = least_gain

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`."""
        del batch, seed
        self._costs = costs_of(tables)
        self.pairs = np.empty((len(tables.ops), len(tables.ops)), np.int16)
        """(ops, ops): code of variants and share by resident and joining operator, -1 = no pair."""
        find_static_pairs(self._costs, self.share, self.least_gain, self.pairs)

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """See :meth:`Scheduler.act`."""
        actions = np.empty(len(views), np.int64)
        act_in_static_pairs(views, masks, self._costs, self.pairs, self.joins, actions)
        return actions


def static_pairs(share: int = 1, least_gain: float = 1.1) -> StaticPairs:
    """Static pairs with one fixed ratio: the online rule's pairing decisions, made once and for all.

    Args:
        share: share class of the joining stage, 0 to 2 (a quarter, half or three quarters of the contexts).
        least_gain: see :class:`StaticPairs`.
    """
    return StaticPairs("static_pairs", share, joins=True, least_gain=least_gain)


def hfuse(least_gain: float = 1.1) -> StaticPairs:
    """HFuse (CGO 2022): two kernels merged offline into one, the split between them searched for each pair.

    No decision of its own at run time and no deadlines. A merged kernel is launched as one.

    Args:
        least_gain: see :class:`StaticPairs`.
    """
    return StaticPairs("hfuse", SEARCH, joins=False, least_gain=least_gain)
