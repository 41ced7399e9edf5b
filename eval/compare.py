"""Schedulers of two result files against each other, episode by episode; files of different games are refused."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

from eval.plan_file import PLAN, read_plan_values
from eval.replay import read_rows
from eval.statistics import Interval, difference, improvement, interquartile_of_differences
from eval.table import interval_text, number
from hexenv.errors import ConfigError

_EPISODE = ["episode", "setting", "seed"]


def compare(first: Path, second: Path, schedulers: Sequence[str] = ()) -> pd.DataFrame:
    """A row a scenario and pair of schedulers: the return in both files, and what the first has ahead of the second.

    Args:
        first: an ``episodes.csv``.
        second: another one.
        schedulers: one of the first file and one of the second; one name for both. By default each that both files
            have, or, if each file has only one, these two.

    Raises:
        ConfigError: a file cannot be read, a scheduler is not in it, or the files do not hold the same episodes of the
            same game; the message says what differs.
    """
    frames = [read_rows(path) for path in (first, second)]
    pairs = _pairs(frames, (first, second), schedulers)
    scenarios = [name for name in frames[0]["scenario"].unique() if name in set(frames[1]["scenario"])]
    if not scenarios:
        raise ConfigError(f"{first} and {second} have no scenario in common")
    rows = []
    for scenario in scenarios:
        own = [frame[frame["scenario"] == scenario] for frame in frames]
        _refuse_other_games(scenario, own, (first, second))
        _refuse_other_episodes(scenario, own, (first, second))
        for names in pairs:
            played = [frame[frame["scheduler"] == name] for frame, name in zip(own, names, strict=True)]
            if all(len(frame) for frame in played):
                rows.append({"scenario": scenario, "first": names[0], "second": names[1]} | _figures(played))
    return pd.DataFrame(rows)


def comparison_markdown(frame: pd.DataFrame) -> str:
    """The comparison as a Markdown table, and a line on its training seeds."""
    lines = [
        "| scenario | first | second | episodes | return, first | return, second | difference [95 % paired] "
        "| interquartile mean of differences | probability of improvement |",
        "| --- | --- | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for _, row in frame.iterrows():
        texts = [
            interval_text(row[name], row[f"{name}_low"], row[f"{name}_high"], digits)
            for name, digits in (("difference", 1), ("difference_iqm", 1), ("improvement", 2))
        ]
        lines.append(
            f"| {row['scenario']} | {row['first']} | {row['second']} | {row['episodes']} "
            f"| {number(row['return_first'], 1)} | {number(row['return_second'], 1)} | {' | '.join(texts)} |"
        )
    notes = [
        f"{side} {row[side]}: 1 training seed: no interval over seeds; the intervals are over episodes"
        for _, row in frame.iterrows()
        for side in ("first", "second")
        if row[f"seeds_{side}"] == 1
    ]
    return "\n".join([*lines, *([""] if notes else []), *(f"*{note}*" for note in dict.fromkeys(notes))])


def _pairs(frames: Sequence[pd.DataFrame], paths: Sequence[Path], names: Sequence[str]) -> list[tuple[str, str]]:
    held = [list(frame["scheduler"].unique()) for frame in frames]
    if len(names) > 2:
        raise ConfigError(f"--compare takes one scheduler, or one of each file; given: {', '.join(names)}")
    if names:
        pair = (names[0], names[-1])
        for name, own, path in zip(pair, held, paths, strict=True):
            if name not in own:
                raise ConfigError(f"{path} has no scheduler {name!r}; it has {', '.join(own)}")
        return [pair]
    if len(held[0]) == len(held[1]) == 1:
        return [(held[0][0], held[1][0])]
    common = [(name, name) for name in held[0] if name in held[1]]
    if not common:
        raise ConfigError(
            f"{paths[0]} ({', '.join(held[0])}) and {paths[1]} ({', '.join(held[1])}) have no scheduler in common; "
            "name one of each with --schedulers"
        )
    return common


def _refuse_other_games(scenario: str, frames: Sequence[pd.DataFrame], paths: Sequence[Path]) -> None:
    configs = [list(frame["config"].unique()) for frame in frames]
    for own, path in zip(configs, paths, strict=True):
        if len(own) > 1:
            raise ConfigError(f"{path}: rows of {scenario} have different configs: {', '.join(own)}")
    one, other = configs[0][0], configs[1][0]
    if one != other:
        found = [_parts(path, scenario, config) for path, config in zip(paths, (one, other), strict=True)]
        names = [name for name in found[0] if name != "config" and found[0][name] != found[1].get(name)]
        parts = ", ".join(f"{name} ({found[0][name]} and {found[1].get(name)})" for name in names)
        what = parts or f"no {PLAN} beside them says in what"
        raise ConfigError(f"{paths[0]} and {paths[1]} differ on {scenario}, config {one} and {other}: {what}")


def _parts(path: Path, scenario: str, config: str) -> dict[str, object]:
    """What a file's config is made of, as far as the plan beside it says."""
    try:
        parts = read_plan_values(path.parent / PLAN).get("configs", {}).get(scenario, {})
    except ConfigError:
        return {}
    return parts if parts.get("config") == config else {}


def _refuse_other_episodes(scenario: str, frames: Sequence[pd.DataFrame], paths: Sequence[Path]) -> None:
    lists = []
    for frame, path in zip(frames, paths, strict=True):
        groups = [own[_EPISODE].to_numpy() for _, own in frame.groupby(["scheduler", "train_seed"], sort=False)]
        if any(not np.array_equal(own, groups[0]) for own in groups):
            raise ConfigError(f"{path}: its schedulers have not all played the same episodes of {scenario}")
        lists.append(groups[0])
    one, other = lists
    if len(one) != len(other):
        raise ConfigError(f"on {scenario}, {paths[0]} has {len(one)} episodes and {paths[1]} has {len(other)}")
    for mine, theirs in zip(one, other, strict=True):
        if list(mine) != list(theirs):
            texts = [", ".join(f"{k} {v}" for k, v in zip(_EPISODE, row, strict=True)) for row in (mine, theirs)]
            raise ConfigError(f"on {scenario}, {paths[0]} has {texts[0]} where {paths[1]} has {texts[1]}")


def _figures(played: Sequence[pd.DataFrame]) -> dict[str, object]:
    ours, theirs = (
        np.array([own["return"].astype(float).to_numpy() for _, own in frame.groupby("train_seed", sort=False)])
        for frame in played
    )
    ones = (np.ones(ours.shape), np.ones(theirs.shape))
    row: dict[str, object] = {"episodes": ours.shape[1]}
    row |= {"return_first": float(ours.mean()), "return_second": float(theirs.mean())}
    row |= _interval("difference", difference(ours, ones[0], theirs, ones[1]))
    row |= _interval("difference_iqm", interquartile_of_differences(ours, theirs))
    row |= _interval("improvement", improvement(ours, theirs))
    for side, frame in zip(("first", "second"), played, strict=True):
        row[f"seeds_{side}"] = int((frame["train_seed"] != "nan").any()) * frame["train_seed"].nunique()
    return row


def _interval(name: str, interval: Interval) -> dict[str, object]:
    return {name: interval.value, f"{name}_low": interval.low, f"{name}_high": interval.high}
