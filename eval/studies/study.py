"""What a study is made of, and how it is played: entries (who plays) in cells (under which conditions)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
import pandas as pd

import agents
from agents.scheduler import Scheduler
from eval.episodes import Episode, held_out
from eval.metrics import NS_PER_MS, lane_return
from eval.play import play
from eval.progress import progress_bar
from eval.statistics import difference, ratio
from eval.theme import Figure
from hexenv.device import load_device
from hexenv.engine import TraceLevel
from hexenv.engine.layout import Tables
from hexenv.workload.compiler import compile_scenario
from hexenv.workload.scenario import Scenario, load_scenario, override

EPISODES = 40
"""Held-out episodes of each entry in each cell."""
_LANES = 64
_PARTS = {"return": ("return", None), "throughput": ("credit_ms", "simulated_ms"), "miss_rate": ("misses", "due")}
_EPISODE_DECIMALS = 6
"""Of an episode's figures: ms to the ns."""
_DECIMALS = 4
"""Of a summary: far below what the intervals resolve, far above the rounding of sums."""

Change = Callable[[Tables], Tables]


@dataclass(frozen=True)
class Cell:
    """One condition."""

    labels: Mapping[str, Any]
    """Its columns in the results, the same ones in every cell of a study."""
    scenario: str
    load: float
    """The one load of its settings; mixes, tightness and seeds are the scenario's."""
    split: str = "heldout"
    engine: Mapping[str, Any] = field(default_factory=dict)
    """Engine settings, on top of the scenario's and the scheduler's."""
    device: Mapping[str, float] = field(default_factory=dict)
    """Constants of v79 that are replaced."""
    edit: Callable[[Scenario], Scenario] = lambda scenario: scenario
    truth: Change = lambda tables: tables
    """What the device really does, made of what the schedulers are told."""

    def tables(self, overrides: Mapping[str, Any]) -> Tables:
        """The scenario under a scheduler's engine settings and those of the cell."""
        scenario = load_scenario(self.scenario)
        one_load = {name: replace(getattr(scenario, name), loads=(self.load,)) for name in ("train", "heldout")}
        engine = override(scenario.engine, {**overrides, **self.engine})
        scenario = self.edit(replace(scenario, engine=engine, **one_load))
        return _compiled(scenario, tuple(self.device.items()), self.split)


@lru_cache(maxsize=8)
def _compiled(scenario: Scenario, constants: tuple[tuple[str, float], ...], split: str) -> Tables:
    changed: dict[str, Any] = dict(constants)
    return compile_scenario(scenario, replace(load_device("v79"), **changed), split)


@dataclass(frozen=True)
class Entry:
    """One way to schedule."""

    label: str
    rule: str
    values: Mapping[str, Any] = field(default_factory=dict)
    """Settings of the rule, else the tuned ones."""
    offer: Change = lambda tables: tables
    """What is left of the variants on offer."""


@dataclass(frozen=True)
class Study:
    """A question, what is played to answer it, and how the answer is shown."""

    name: str
    question: str
    method: str
    """Markdown."""
    plan: Callable[[], Sequence[tuple[Cell, Sequence[Entry]]]]
    """All cells with their entries."""
    versus: Mapping[str, str]
    """Entry -> the one it is compared with in the same cell."""
    draw: Callable[[pd.DataFrame], Figure]
    """The picture of a summary."""
    answer: Callable[[pd.DataFrame], str]
    """Markdown, with figures out of a summary."""
    choose: Callable[[pd.DataFrame], pd.DataFrame] = lambda episodes: episodes
    """What is compared, made of what was played: rows of the same columns."""


class _Told(Scheduler):
    """A scheduler that is told other tables than the ones it is played on."""

    def __init__(self, inner: Scheduler, told: Tables) -> None:
        self.name, self.overrides = inner.name, inner.overrides
        self._inner, self._told = inner, told

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`."""
        self._inner.start(self._told, batch, seed)

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """See :meth:`Scheduler.act`."""
        return self._inner.act(views, masks)


def play_entry(cell: Cell, entry: Entry, count: int) -> pd.DataFrame:
    """The first ``count`` episodes of a cell: a row an episode, with the cell's labels and the entry's."""
    scheduler = agents.make(entry.rule, **entry.values)
    told = entry.offer(cell.tables(scheduler.overrides))
    tables = cell.truth(told)
    episodes = held_out(told, count)
    rows = []
    for start in range(0, count, _LANES):
        some = episodes[start : start + _LANES]
        simulator, _ = play(_Told(scheduler, told), tables, some, start, TraceLevel.NONE)
        rows += [
            {**cell.labels, "entry": entry.label, **_episode_row(episode, lane, tables)}
            for episode, lane in zip(some, simulator.lanes, strict=True)
        ]
    return pd.DataFrame(rows).round(_EPISODE_DECIMALS)


def _episode_row(episode: Episode, lane: np.void, tables: Tables) -> dict[str, Any]:
    elapsed = float(lane["now_ns"])
    return {
        "setting": episode.setting,
        "seed": episode.seed,
        "return": lane_return(lane, tables),
        "credit_ms": int(lane["credit_ns"]) / NS_PER_MS,
        "simulated_ms": elapsed / NS_PER_MS,
        "due": int(lane["due"].sum()),
        "misses": int(lane["missed"].sum()),
        "hvx_busy": float(lane["busy_hvx_ns"]) / (elapsed * float(tables.config["contexts"][0])),
        "hmx_busy": float(lane["busy_hmx_ns"]) / elapsed,
        "dma_busy": float(lane["busy_ddr_ns"]) / elapsed,
    }


def play_study(study: Study, count: int = EPISODES) -> pd.DataFrame:
    """Everything, with a progress bar; a row an entry, cell and episode."""
    work = [(cell, entry) for cell, entries in study.plan() for entry in entries]
    frames = []
    with progress_bar(count * len(work)) as bar:
        for i, (cell, entry) in enumerate(work):
            bar.begin(f"{', '.join(map(str, cell.labels.values()))}, {entry.label}", float(count * i))
            frames.append(play_entry(cell, entry, count))
    return pd.concat(frames, ignore_index=True)


def summarise(study: Study, episodes: pd.DataFrame) -> pd.DataFrame:
    """A row an entry and cell: figures, and the paired difference to the entry it is compared with (95 %)."""
    episodes = study.choose(episodes)
    labels = list(episodes.columns[: episodes.columns.get_loc("entry")])
    rows = []
    for values, cell in episodes.groupby(labels, sort=False):
        groups = {str(entry): frame for entry, frame in cell.groupby("entry", sort=False)}
        for entry, frame in groups.items():
            versus = study.versus.get(entry, "")
            row: dict[str, Any] = {**dict(zip(labels, values, strict=True)), "entry": entry, "episodes": len(frame)}
            row |= {figure: ratio(*_parts(frame, figure)) for figure in _PARTS}
            row |= {name: float(frame[name].mean()) for name in ("hvx_busy", "hmx_busy", "dma_busy")}
            row |= {"versus": versus} | _gains(frame, groups.get(versus))
            rows.append(row)
    return pd.DataFrame(rows).round(_DECIMALS)


def _parts(frame: pd.DataFrame, figure: str) -> tuple[np.ndarray, np.ndarray]:
    numerator, denominator = _PARTS[figure]
    weights = np.ones(len(frame)) if denominator is None else frame[denominator].to_numpy(np.float64)
    return frame[numerator].to_numpy(np.float64), weights


def _gains(frame: pd.DataFrame, other: pd.DataFrame | None) -> dict[str, float]:
    """``FIGURE_gain``, ``_low`` and ``_high`` of each figure; NaN without another entry."""
    row: dict[str, float] = {}
    for figure in _PARTS:
        values = (float("nan"),) * 3
        if other is not None:
            gain = difference(*_parts(frame, figure), *_parts(other, figure))
            values = gain.value, gain.low, gain.high
        row |= dict(zip((f"{figure}_gain", f"{figure}_low", f"{figure}_high"), values, strict=True))
    return row
