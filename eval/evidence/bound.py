"""What no schedule can exceed: a ceiling on throughput, and the linear program where it is small.

Both hold for every scheduler in every mode that the schedulers ran in, on these very episodes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from joblib import Parallel, delayed

from eval.bounds.ceiling import throughput_ceiling
from eval.bounds.demand import demands_of
from eval.bounds.gaps import tables_of
from eval.bounds.jobs import episode_jobs
from eval.bounds.relaxation import return_bound
from eval.episodes import Episode
from eval.play import Outcome
from eval.progress import progress_bar
from hexenv.engine.layout import Tables

MOST_STAGES = 8000
"""The linear program is left out if an episode could bring more: it takes about a second in one mode up to there.

(A limit in seconds would let the machine decide what a report says.)
"""


@dataclass(frozen=True)
class Bound:
    """Upper bounds, means over the episodes."""

    throughput: float
    """Reference work in a ms, whatever is missed."""
    return_: float | None = None
    """Return of an episode, ms; None where the program would take too long."""
    stages: int = 0
    """What the largest episode could bring."""
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
    demands = demands_of(modes[0])
    sizes = [sum(len(job.ops) for job in episode_jobs(modes[0], episode, demands)) for episode in episodes]
    if max(sizes) > MOST_STAGES:
        return Bound(ceiling, None, max(sizes), horizon_ms)
    bounds: list[float] = []
    with progress_bar(len(episodes)) as bar:
        bar.begin(f"{modes[0].scenario}, bounds", 0)
        for bound in Parallel(workers, return_as="generator")(delayed(_highest)(modes, one) for one in episodes):
            bounds.append(bound)
            bar.update(len(bounds))
    return Bound(ceiling, float(np.mean(bounds)), max(sizes), horizon_ms)


def _highest(modes: Sequence[Tables], episode: Episode) -> float:
    return max(return_bound(tables, episode) for tables in modes)
