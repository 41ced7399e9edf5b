"""What no schedule can exceed: a ceiling on throughput, and the linear program where it is quick.

Both hold for every scheduler in every mode that the schedulers ran in, on these very episodes.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed

from eval.bounds.ceiling import throughput_ceiling
from eval.bounds.gaps import tables_of
from eval.bounds.relaxation import return_bound
from eval.episodes import Episode
from eval.play import Outcome
from eval.progress import progress_bar
from hexenv.engine.layout import Tables

PATIENCE_S = 1.0
"""The linear program is left out if an episode takes longer in one mode."""


@dataclass(frozen=True)
class Bound:
    """Upper bounds, means over the episodes."""

    throughput: float
    """Reference work in a ms, whatever is missed."""
    return_: float | None = None
    """Return of an episode, ms; None where the program would take too long."""
    seconds: float = 0.0
    """What its first episode took in one mode."""
    horizon_ms: float = 1.0

    @property
    def throughput_without_miss(self) -> float | None:
        """Reference work in a ms of any schedule that misses nothing: its return is its credit."""
        return None if self.return_ is None else min(self.return_ / self.horizon_ms, self.throughput)


def bound_of(outcomes: Sequence[Outcome], episodes: Sequence[Episode], workers: int) -> Bound:
    """The bounds of one scenario. ``outcomes`` played ``episodes``, all to the horizon."""
    modes = tables_of(outcomes)
    horizon_ms = float(modes[0].config["horizon_ns"][0]) / 1e6
    ceiling = max(throughput_ceiling(tables, episodes) for tables in modes)
    began = time.process_time()
    return_bound(modes[0], episodes[0])
    seconds = time.process_time() - began
    if seconds > PATIENCE_S:
        return Bound(ceiling, None, seconds, horizon_ms)
    bounds: list[float] = []
    with progress_bar(len(episodes)) as bar:
        bar.begin(f"{modes[0].scenario}, bounds", 0)
        for bound in Parallel(workers, return_as="generator")(delayed(_highest)(modes, one) for one in episodes):
            bounds.append(bound)
            bar.update(len(bounds))
    return Bound(ceiling, float(np.mean(bounds)), seconds, horizon_ms)


def _highest(modes: Sequence[Tables], episode: Episode) -> float:
    return max(return_bound(tables, episode) for tables in modes)
