"""Which episodes an evaluation plays: the same list for every scheduler, so that all comparisons are paired."""

from __future__ import annotations

from dataclasses import dataclass
from math import lcm

import numpy as np

from hexenv.engine import episode_key
from hexenv.engine.layout import Tables
from hexenv.errors import ConfigError


@dataclass(frozen=True, slots=True)
class Episode:
    """One episode of a scenario's split: every scheduler meets the same arrivals and noise in it."""

    setting: int
    """Row of ``Tables.settings``: the load and the mix of streams."""
    seed: int

    @property
    def key(self) -> np.uint64:
        """The engine's random key of this episode."""
        return episode_key(self.seed, 0)


def held_out(tables: Tables, count: int) -> tuple[Episode, ...]:
    """The first ``count`` episodes of the split of ``tables``, in declared order.

    The list walks the grid of settings x seeds along its diagonals: each episode takes the next setting and the next
    seed. So any prefix spreads evenly over the settings, and no seed repeats before all of them have been used, which
    keeps the episodes independent. Raises :class:`ConfigError` if the grid has fewer episodes.
    """
    n_settings = len(tables.settings)
    first_seed, n_seeds = tables.seeds
    available = n_settings * n_seeds
    if not 1 <= count <= available:
        raise ConfigError(
            f"episodes {count}: scenario {tables.scenario!r} declares {available} episodes in split {tables.split!r} "
            f"({n_settings} settings x {n_seeds} seeds); allowed: 1 to {available}"
        )
    diagonal = lcm(n_settings, n_seeds)
    return tuple(Episode(setting=i % n_settings, seed=first_seed + (i + i // diagonal) % n_seeds) for i in range(count))
