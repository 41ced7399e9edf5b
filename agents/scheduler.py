"""The one interface of all schedulers: heuristics, published rules, search and learned policies."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np

from hexenv.engine import Simulator
from hexenv.engine.layout import Tables


class Scheduler(ABC):
    """Chooses one action for every lane of a batch, from what a real scheduler knows (predicted values only).

    A scheduler is deterministic: the same views and masks give the same actions, and a lane's actions depend neither
    on the other lanes nor on the batch size. Ties go to the lowest action index.
    """

    name: str
    """The name in reports and in :func:`agents.make`."""
    overrides: dict[str, Any]
    """Engine settings that its entry in a comparison runs under, for example ``{"mode": "serial"}``."""

    @abstractmethod
    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """Prepare for new episodes of ``batch`` lanes of the scenario ``tables``.

        Call it once before the first :meth:`act`. ``seed`` is that of lane 0; lane ``i`` uses ``seed + i``, so lane
        ``i`` acts as a batch of one started with ``seed + i`` does. Rules without random choices ignore it.
        """

    def attach(self, simulator: Simulator) -> None:
        """Give a scheduler that plans the simulator it plays on, after :meth:`start`; the others ignore it.

        It may read the state of the lanes only to fork them, and may only use reseeded forks, which know no future
        (``oracle`` is the one exception, named as such). It must change nothing.
        """
        del simulator

    @abstractmethod
    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """Choose actions, int64 of shape (B,), each legal.

        Args:
            views: the decision at hand, ``VIEW`` records of shape (B,).
            masks: legal actions, bool of shape (B, A); action 0 (wait) is always legal.
        """
