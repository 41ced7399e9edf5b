"""POD-Attention (ASPLOS 2025): two kinds of work interleaved in proportion to what is outstanding of each."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.kernels.deadlines import nothing_known
from agents.kernels.pairs import Pairing
from agents.kernels.predict import costs_of
from agents.kernels.proportional import act_proportionally
from agents.scheduler import Scheduler
from hexenv.engine.layout import MAX_JOBS, Tables

COMPUTE, OTHER = range(2)
"""Roles: the streams that use HMX for more of their time than the mean stream does, and all others."""


class Pod(Scheduler):
    """Binds a slot to a role when it becomes free, so that both roles have always done the same part of their work.

    Within a role the oldest job comes first. Deadlines play no part, as in the original.
    """

    def __init__(self) -> None:
        self.name = "pod"
        self.overrides: dict[str, Any] = {"mode": "fused"}
        self.pairing = Pairing(any_version=False, gated=False, in_order=True, margin=0.0, least_gain=0.0)

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`."""
        del seed
        self._costs = costs_of(tables)
        self._roles = roles_of(tables)
        self._left = np.zeros((batch, MAX_JOBS))
        self._launched = np.zeros((batch, 2))

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """See :meth:`Scheduler.act`."""
        actions = np.empty(len(views), np.int64)
        memory = (self._roles, self._left, self._launched)
        act_proportionally(views, masks, self._costs, self.pairing, nothing_known(), *memory, actions)
        return actions


def roles_of(tables: Tables) -> np.ndarray:
    """Role of each stream, int64 (n_streams,)."""
    use = np.zeros(len(tables.streams))
    for s, stream in enumerate(tables.streams):
        jobs = tables.templates[stream["template_start"] : stream["template_start"] + stream["template_count"]]
        use[s] = jobs["hmx_ns"].sum() / jobs["ref_ns"].sum()
    return np.where(use > use.mean(), COMPUTE, OTHER)
