"""The scheduler ``random``: every legal action is equally likely."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.scheduler import Scheduler
from hexenv.engine.jit import njit
from hexenv.engine.layout import Tables
from hexenv.engine.rng import draw


@njit
def _choose(masks: np.ndarray, seed: np.uint64, call: int, actions: np.ndarray) -> None:
    for lane in range(masks.shape[0]):
        # Legal actions are so few beside 2**64 that the bias of the modulus cannot be seen.
        left = draw(seed + np.uint64(lane), 0, call, 0, 0) % np.uint64(masks[lane].sum())
        for action in range(masks.shape[1]):
            if masks[lane, action]:
                if left == 0:
                    actions[lane] = action
                    break
                left -= np.uint64(1)


class Uniform(Scheduler):
    """Draws from the legal actions, wait included.

    The draw is a hash of (seed of the lane, number of :meth:`act` calls since :meth:`start`), so it depends neither on
    the batch size nor on the other lanes.
    """

    def __init__(self) -> None:
        self.name = "random"
        self.overrides: dict[str, Any] = {"mode": "fused"}

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`."""
        del tables, batch
        self._seed = np.uint64(seed % (1 << 64))
        self._call = 0

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """See :meth:`Scheduler.act`."""
        del views
        actions = np.zeros(len(masks), np.int64)
        _choose(masks, self._seed, self._call, actions)
        self._call += 1
        return actions
