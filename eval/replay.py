"""Plays rows of an ``episodes.csv`` again, from the ``plan.json`` beside it, and says in what they differ."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from io import StringIO
from pathlib import Path

import numpy as np
import pandas as pd

from eval.plan_file import PLAN, read_plan
from eval.play import join, lanes_of
from eval.runner import Plan, check
from eval.summary import episode_frame
from eval.trained import train_seed_of
from eval.units import Unit, play_units, require_workers
from hexenv.errors import ConfigError
from hexenv.files import csv_text

_WHO = ("scheduler", "scenario", "train_seed")


@dataclass(frozen=True)
class Difference:
    """A cell that came out differently; both values as they are written in a CSV file."""

    row: int
    """Place in the file, from 1, the heading left out."""
    episode: str
    """Which episode of whom that is."""
    column: str
    recorded: str
    played: str

    def __str__(self) -> str:
        where = f"row {self.row} ({self.episode}), column {self.column}"
        return f"{where}: {self.recorded} in the file, {self.played} replayed"


@dataclass(frozen=True)
class Replay:
    """What a replay found."""

    rows: int
    """Rows played again."""
    differences: list[Difference]
    changed: list[str]
    """What is no longer as it was when the file was written, a line each."""


def replay(path: Path, rows: int | None = None, workers: int = 1) -> Replay:
    """Play all rows of the file again, or ``rows`` of them, evenly spread.

    Raises:
        ConfigError: the file or its ``plan.json`` is missing or broken, or a checkpoint is not the one they came from.
    """
    require_workers(workers)
    recorded = read_rows(path)
    if rows is not None and rows < 1:
        raise ConfigError(f"rows {rows} is not allowed; at least 1")
    plan, changed = read_plan(path.parent / PLAN)
    n = len(recorded) if rows is None else min(rows, len(recorded))
    chosen = np.unique(np.linspace(0, len(recorded) - 1, n).round().astype(int)).tolist()
    played = _play_again(plan, recorded, chosen, workers, path)
    return Replay(len(chosen), _differences(recorded.iloc[chosen], played), changed)


def read_rows(path: Path) -> pd.DataFrame:
    """An ``episodes.csv`` with every cell as it is written. Raises :class:`hexenv.errors.ConfigError` if it is none."""
    try:
        frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) else error
        raise ConfigError(f"{path}: cannot be read as CSV ({reason})") from error
    missing = [name for name in (*_WHO, "episode", "config") if name not in frame.columns]
    if missing or frame.empty:
        what = f"has no column {', '.join(missing)}" if missing else "has no rows"
        raise ConfigError(f"{path} {what}; give an episodes.csv of python -m eval")
    return frame


def _play_again(plan: Plan, recorded: pd.DataFrame, chosen: Sequence[int], workers: int, path: Path) -> pd.DataFrame:
    """The chosen rows as they come out now, index as in ``recorded``."""
    entries = {}
    scenarios = [name for name in plan.scenarios for _ in plan.schedulers]
    for scenario, entry in zip(scenarios, check(plan), strict=True):
        scheduler, tables, _ = entry
        entries[scheduler.name, tables.scenario, _seed_text(train_seed_of(scheduler))] = scenario, entry
    units, places = [], []
    for run in _consecutive(recorded, chosen):
        first = recorded.iloc[run[0]]
        key = tuple(first[name] for name in _WHO)
        place = _place(first["episode"])
        if key not in entries or place is None or place + len(run) > plan.episodes:
            raise ConfigError(f"{path} row {run[0] + 1} ({_who(first)}) is not in {path.parent / PLAN}")
        _, (scheduler, tables, episodes) = entries[key]
        lanes = lanes_of(scheduler)
        for i in range(0, len(run), lanes):
            part = run[i : i + lanes]
            units.append(Unit(scheduler, tables, episodes[place + i : place + i + len(part)], place + i))
            places.append((part, key))
    frames = []
    for (part, key), unit, block in zip(places, units, play_units(units, workers), strict=True):
        config = plan.config_hash(entries[key][0])
        outcome = join(unit.scheduler.name, unit.tables, [block], config, train_seed_of(unit.scheduler))
        frame = episode_frame([outcome])
        frame["episode"] += unit.place
        frames.append(frame.set_axis(part, axis="index"))
    return pd.concat(frames)


def _consecutive(recorded: pd.DataFrame, chosen: Sequence[int]) -> list[list[int]]:
    """The chosen rows in runs of consecutive episodes of one scheduler on one scenario."""
    runs: list[list[int]] = []
    for i in chosen:
        if runs and _follows(recorded.iloc[runs[-1][-1]], recorded.iloc[i]):
            runs[-1].append(i)
        else:
            runs.append([i])
    return runs


def _follows(row: pd.Series, other: pd.Series) -> bool:
    """Whether ``other`` is the next episode of the same scheduler on the same scenario."""
    place, next_place = _place(row["episode"]), _place(other["episode"])
    return place is not None and next_place == place + 1 and all(row[name] == other[name] for name in _WHO)


def _differences(recorded: pd.DataFrame, played: pd.DataFrame) -> list[Difference]:
    again = pd.read_csv(StringIO(csv_text(played)), dtype=str, keep_default_na=False).set_axis(played.index)
    columns = list(recorded.columns) + [name for name in again.columns if name not in recorded.columns]
    old, new = (frame.reindex(columns=columns, fill_value="(no such column)") for frame in (recorded, again))
    return [
        Difference(int(row) + 1, _who(recorded.loc[row]), column, old.loc[row, column], new.loc[row, column])
        for row in recorded.index
        for column in columns
        if old.loc[row, column] != new.loc[row, column]
    ]


def _who(row: pd.Series) -> str:
    seed = "" if row["train_seed"] == "nan" else f", training seed {row['train_seed']}"
    return f"{row['scheduler']} on {row['scenario']}, episode {row['episode']}{seed}"


def _seed_text(seed: int | None) -> str:
    return "nan" if seed is None else str(seed)


def _place(text: str) -> int | None:
    return int(text) if text.isdecimal() else None
