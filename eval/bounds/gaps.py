"""How far schedulers stay below the linear program's bound, episode by episode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from eval.bounds.overlap import mix_bound
from eval.bounds.relaxation import return_bound
from eval.episodes import Episode
from eval.metrics import mix_name
from eval.play import Outcome
from hexenv.engine.layout import Tables


def ceilings(outcomes: Sequence[Outcome], episodes: Sequence[Episode]) -> np.ndarray:
    """What no scheduler can exceed in each episode, in any mode that ``outcomes`` ran in; float (episodes,), ms.

    ``outcomes`` are of one scenario and played ``episodes``.
    """
    bounds = [[return_bound(own, episode) for episode in episodes] for own in tables_of(outcomes)]
    return np.array(bounds).max(axis=0)


def gap_frame(outcomes: Sequence[Outcome], episodes: Sequence[Episode]) -> pd.DataFrame:
    """A row an episode: its setting, its bound, the best of the schedulers and what is missing, ms of reference work.

    ``share`` is the best return as a part of the range from the worst scheduler to the bound.
    """
    returns = np.array([outcome.episodes["return"].to_numpy(np.float64) for outcome in outcomes])
    bounds, best, worst = ceilings(outcomes, episodes), returns.max(axis=0), returns.min(axis=0)
    tables = outcomes[0].tables
    return pd.DataFrame(
        {
            "setting": [episode.setting for episode in episodes],
            "load": [float(tables.settings["load"][episode.setting]) for episode in episodes],
            "mix": [mix_name(tables, episode.setting) for episode in episodes],
            "seed": [episode.seed for episode in episodes],
            "bound": bounds,
            "best": [outcomes[i].scheduler for i in returns.argmax(axis=0)],
            "return": best,
            "gap": bounds - best,
            "share": (best - worst) / np.maximum(bounds - worst, 1e-9),
        }
    )


def overlap_of(outcomes: Sequence[Outcome], setting: int) -> float:
    """The overlap bound of one job of every stream of a setting, in the mode of ``outcomes`` that allows most."""
    tables = outcomes[0].tables
    active = tables.settings["active"][setting][: len(tables.stream_names)] > 0
    first = tables.streams["template_start"][active].tolist()
    return max(mix_bound(own, [1.0] * len(first), first) for own in tables_of(outcomes))


def tables_of(outcomes: Sequence[Outcome]) -> list[Tables]:
    """The tables that schedulers ran on, each once."""
    return list({id(outcome.tables): outcome.tables for outcome in outcomes}.values())
