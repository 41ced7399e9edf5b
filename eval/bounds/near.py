"""How near schedulers come to the exact optimum, on episodes small enough to know it."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import resources

import numpy as np
import pandas as pd

from eval.bounds.exact import optimum
from eval.bounds.gaps import tables_of
from eval.episodes import Episode
from eval.play import Outcome

SMALL = str(resources.files("eval.bounds").joinpath("small_vision.toml"))
"""The scenario of such episodes that comes with this package."""
MAX_NODES = 20_000
"""Engine steps that a search may take, by default."""
_SAME_MS = 1e-6


def optima(outcomes: Sequence[Outcome], episodes: Sequence[Episode], max_nodes: int = MAX_NODES) -> np.ndarray:
    """The best return of each episode in any mode that ``outcomes`` ran in, ms, (episodes,); NaN if not proven.

    Raises:
        ConfigError: a stream of an episode is a closed loop.
    """
    found = [[optimum(tables, episode, max_nodes) for episode in episodes] for tables in tables_of(outcomes)]
    values = np.array([[best.value for best in own] for own in found])
    proven = np.array([[best.proven for best in own] for own in found])
    return np.where(proven.all(axis=0), values.max(axis=0), np.nan)


def near_frame(outcomes: Sequence[Outcome], best: np.ndarray) -> pd.DataFrame:
    """A row a scheduler: how near it comes to the optima ``best`` (episodes,), over the episodes where one is proven.

    ``share`` is its part of the range from the first of ``outcomes`` to the optimum, pooled over the episodes (1 = all
    of it, NaN if there is no range), ``lost`` the ms an episode below the optimum, ``reached`` the part of the episodes
    that it plays optimally.
    """
    known = ~np.isnan(best)
    best = best[known]
    returns = np.array([outcome.episodes["return"].to_numpy(np.float64)[known] for outcome in outcomes])
    with np.errstate(invalid="ignore"):  # no episode or no range: NaN
        share = (returns - returns[0]).sum(axis=1) / (best - returns[0]).sum()
        lost = (best - returns).sum(axis=1) / np.float64(len(best))
        reached = (returns > best - _SAME_MS).sum(axis=1) / np.float64(len(best))
    names = [outcome.scheduler for outcome in outcomes]
    return pd.DataFrame({"scheduler": names, "episodes": len(best), "share": share, "lost": lost, "reached": reached})
