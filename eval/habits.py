"""What a scheduler does over many episodes: versions chosen under which load, when it waits, when it pairs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd

from agents.scheduler import Scheduler
from eval.choices import Watched
from eval.episodes import Episode
from eval.metrics import lane_return
from eval.play import LANES, play
from eval.table import number, percent
from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import N_SHARES, N_TILES, N_VARIANTS, N_VERSIONS, NO_DEADLINE, Phase, Tables

VERSIONS = ("hvx", "hmx", "hybrid")
ENGINES = ("hvx", "hmx")
LOAD_BINS = ("idle", "0-25 %", "25-50 %", "50-75 %", "75-100 %")
"""Part of an engine that the residents ask for; ``idle`` = there are none."""
_LOAD_EDGES = (0.0, 0.25, 0.5, 0.75)
SLACK_BINS = ("late", "0-1 ms", "1-2 ms", "2-5 ms", "5-10 ms", "> 10 ms", "none")
"""Least slack of the tasks in view; ``none`` = none of them has a deadline."""
_SLACK_EDGES_NS = (0.0, 1e6, 2e6, 5e6, 10e6, float(NO_DEADLINE))
BACKLOG_BINS = ("1", "2", "3", "4", "5", "6 or more")
"""Jobs that are not finished, of all streams."""
RESIDENT_BINS = ("none", "one")
"""Stages in the other slot, running or pending."""
OVERVIEW_HEADINGS = (
    "scheduler", "return", "decisions", "waits, %", "idle waits, %", "pairs, %", "share, %", "free, %", "HVX, %",
    "HMX, %", "hybrid, %",
)  # fmt: skip
AXES = {"slack": SLACK_BINS, "backlog": BACKLOG_BINS, "residents": RESIDENT_BINS}
"""What waiting and pairing are shown against -> its bins."""


class _Log(Watched):
    """Notes a row a decision; columns as in :func:`play_log`."""

    def __init__(self, scheduler: Scheduler, tables: Tables) -> None:
        super().__init__(scheduler)
        self._tables = tables
        self.rows: list[dict[str, np.ndarray]] = []

    def see(self, simulator: Simulator, actions: np.ndarray) -> None:
        playing = ~simulator.lanes["over"]
        rows = decision_rows(self._tables, simulator.views[playing], simulator.masks[playing], actions[playing])
        self.rows.append(rows)


def decision_rows(tables: Tables, views: np.ndarray, masks: np.ndarray, actions: np.ndarray) -> dict[str, np.ndarray]:
    """What is noted of some decisions, by column, each (B,). See :func:`play_log`."""
    lanes, waits = np.arange(len(actions)), actions == 0
    rest = np.where(waits, 0, actions - 1)
    share, tile, version = rest % N_SHARES, rest // N_SHARES % N_TILES, rest // (N_SHARES * N_TILES) % N_VERSIONS
    task = rest // (N_VARIANTS * N_SHARES)
    op = np.where(waits, 0, views["tasks"]["op"][lanes, task])
    legal = masks[:, 1:].reshape(len(actions), -1, N_VERSIONS, N_TILES * N_SHARES)[lanes, task].any(2)
    occupied = views["residents"]["phase"] != Phase.FREE
    beside = occupied.any(1)
    variants = tables.variants[np.where(occupied, views["residents"]["variant"], 0)]
    shared = variants["uses_hvx"] & occupied
    picked = tables.variants[tables.ops["variant"][op, version, tile]]
    divides = ~waits & shared.any(1) & picked["uses_hvx"]
    shown = np.arange(views["tasks"].shape[1]) < views["n_tasks"][:, None]
    slack_ns = np.where(shown, views["tasks"]["slack_ns"], NO_DEADLINE).min(1)
    load = _loads(tables, views["residents"], variants, occupied)
    return {
        "waits": waits,
        "family": np.where(waits, -1, tables.ops["family"][op]),
        "version": np.where(waits, -1, version),
        "free_choice": ~waits & (legal.sum(1) > 1),
        "beside": beside,
        "share": np.where(divides, tables.config["share"][0][share] / tables.config["contexts"][0], np.nan),
        "hvx": np.where(beside, 1 + np.searchsorted(_LOAD_EDGES[1:], load[0]), 0),
        "hmx": np.where(beside, 1 + np.searchsorted(_LOAD_EDGES[1:], load[1]), 0),
        "slack": np.searchsorted(_SLACK_EDGES_NS, slack_ns, side="right"),
        "backlog": np.clip(views["streams"]["backlog"].sum(1), 1, len(BACKLOG_BINS)) - 1,
        "residents": beside.astype(int),
    }


def _loads(
    tables: Tables, residents: np.ndarray, variants: np.ndarray, occupied: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """HVX and HMX load, each (B,): residents' work over their predicted time alone on their present contexts."""
    contexts = np.where(occupied, residents["contexts"], 0)
    alone_ns = np.take_along_axis(variants["alone_ns"], contexts[..., None], 2)[..., 0]
    alone_ns = np.where(occupied, np.maximum(alone_ns, 1), np.inf)
    hvx_ns = (variants["hvx_ns"] + variants["prologue_hvx_ns"]) / tables.config["contexts"][0]
    return (hvx_ns / alone_ns).sum(1), (variants["hmx_ns"] / alone_ns).sum(1)


def play_log(scheduler: Scheduler, tables: Tables, episodes: Sequence[Episode]) -> tuple[pd.DataFrame, float]:
    """Play the episodes; returns a row a decision and the mean return.

    Columns: ``waits``; ``family`` and ``version`` of a pick (-1 = wait); ``free_choice``: at least two versions of that
    task were legal; ``beside``: the other slot was taken; ``share``: part of the HVX contexts that a pick takes from a
    resident, NaN where nothing is divided; ``hvx``, ``hmx``, ``slack``, ``backlog`` and ``residents``: place of the
    state in the bins of that name.
    """
    rows: list[dict[str, np.ndarray]] = []
    returns: list[float] = []
    for start in range(0, len(episodes), LANES):
        log = _Log(scheduler, tables)
        simulator, _ = play(log, tables, episodes[start : start + LANES], start, TraceLevel.NONE)
        rows += log.rows
        returns += [lane_return(lane, tables) for lane in simulator.lanes]
    frame = pd.DataFrame({key: np.concatenate([row[key] for row in rows]) for key in rows[0]})
    return frame, float(np.mean(returns))


def overview_row(name: str, log: pd.DataFrame, mean_return: float, episodes: int) -> dict[str, Any]:
    """What a scheduler does over all, in one row; every share is 0 to 1, NaN where there is nothing to count."""
    free, joint = log[log["free_choice"]], log[log["beside"]]
    return {
        "scheduler": name,
        "return_mean": mean_return,
        "decisions": len(log) / episodes,
        "waits": log["waits"].mean(),
        "waits_idle": log[~log["beside"]]["waits"].mean(),
        "pairs": 1.0 - joint["waits"].mean(),
        "mean_share": log["share"].mean(),
        "free_choices": len(free) / max(int((~log["waits"]).sum()), 1),
        **{version: (free["version"] == i).mean() for i, version in enumerate(VERSIONS)},
    }


def versions_frame(name: str, log: pd.DataFrame, tables: Tables) -> pd.DataFrame:
    """A row a family, engine and load of it: picks with a free choice of version, and how many took each one."""
    rows: list[dict[str, Any]] = []
    free = log[log["free_choice"]]
    for family in sorted(free["family"].unique()):
        own = free[free["family"] == family]
        for engine in ENGINES:
            for place, text in enumerate(LOAD_BINS):
                version = own["version"][own[engine] == place]
                counts = {key: int((version == i).sum()) for i, key in enumerate(VERSIONS)}
                row = {"scheduler": name, "family": tables.family_names[family], "engine": engine, "load": text}
                rows.append(row | {"picks": len(version), **counts})
    columns = ["scheduler", "family", "engine", "load", "picks", *VERSIONS]
    return pd.DataFrame(rows, columns=columns)


def waits_frame(name: str, log: pd.DataFrame) -> pd.DataFrame:
    """A row an axis and bin: decisions, the part that waits, the part of those beside a resident that pairs, share."""
    rows = []
    for axis, bins in AXES.items():
        for place, text in enumerate(bins):
            own = log[log[axis] == place]
            rows.append(
                {
                    "scheduler": name,
                    "against": axis,
                    "bin": text,
                    "decisions": len(own),
                    "waits": own["waits"].mean(),
                    "pairs": 1.0 - own[own["beside"]]["waits"].mean(),
                    "mean_share": own["share"].mean(),
                }
            )
    return pd.DataFrame(rows)


def overview_cells(overview: pd.DataFrame) -> list[list[str]]:
    """The overview as text, a row a scheduler, under :data:`OVERVIEW_HEADINGS`."""
    shares = ("waits", "waits_idle", "pairs", "mean_share", "free_choices", *VERSIONS)
    return [
        [
            row["scheduler"],
            number(row["return_mean"], 1),
            number(row["decisions"], 0),
            *(percent(row[k]) for k in shares),
        ]
        for _, row in overview.iterrows()
    ]
