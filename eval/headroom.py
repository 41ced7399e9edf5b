"""The head-room map: what look-ahead finds beyond the best rule, setting by setting: ``python -m eval.headroom``.

Every setting of a scenario is played by all rules and by ``search`` on the same episodes, and every setting is
published, also those where nothing matters. The best rule of a setting is chosen by its mean return on further
episodes that only the rules play: chosen on the compared ones, the luckiest of many rules would look like the best. The
head-room is a lower bound: search is no optimum.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import sys
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor, Future, ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from textwrap import wrap
from typing import Any

import numpy as np
import pandas as pd

import agents
from agents.search import Search
from eval.episodes import Episode, held_out
from eval.metrics import lane_return, mix_name
from eval.play import play
from eval.progress import progress_bar
from eval.statistics import difference
from eval.summary import REFERENCE
from eval.table import interval_text, number, percent
from eval.theme import COLOURS, figure, light, styled
from hexenv.cli import Parser, command
from hexenv.engine import TraceLevel
from hexenv.engine.layout import Tables
from hexenv.errors import ConfigError
from hexenv.files import csv_text, require_writable, write_all
from hexenv.workload import build

EPISODES = 4
"""Compared episodes of a setting."""
CHOOSING = 12
"""Further episodes of a setting that choose its best rule."""
BUDGET = 1000
"""Engine decisions that search spends at a decision, about."""
SEARCH = "search"
_LANES = {SEARCH: 4}
"""Episodes that a process plays at once, 64 by default; few where they take long, so that progress shows."""
_LABEL = 26
"""Letters of a mix on one line of the picture."""
_RETURNS = ("scheduler", "compared", "setting", "seed", "return", "due", "misses", "decisions", "spent")
_COLUMNS = (
    "setting", "mix", "tightness", "load", "episodes", "serial", "best_rule", "best", "search", "headroom",
    "headroom_low", "headroom_high", "share", "best_miss_rate", "search_miss_rate",
)  # fmt: skip


@dataclass(frozen=True)
class Plan:
    """What a map is made of. Equal plans give equal bytes in the CSV files, whatever the number of processes."""

    scenario: str
    device: str = "v79"
    split: str = "heldout"
    episodes: int = EPISODES
    """Of each setting, compared."""
    choosing: int = CHOOSING
    """Further ones of each setting, for the rules alone."""
    budget: int = BUDGET
    rules: tuple[str, ...] = field(default_factory=agents.names)
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Engine settings for all schedulers (``hexenv.workload.build``)."""

    def tables(self, overrides: Mapping[str, Any]) -> Tables:
        """The scenario under a scheduler's engine settings and those of the plan."""
        return build(self.scenario, self.device, self.split, **{**overrides, **self.settings})

    def episode_lists(self) -> tuple[tuple[Episode, ...], tuple[Episode, ...]]:
        """The episodes to compare on and those to choose the best rules on, the same number of each setting.

        Raises:
            ConfigError: the scenario, the split or a rule is unknown, or a number is out of range.
        """
        for name in self.rules:
            agents.rule(name)
        if REFERENCE not in self.rules:
            raise ConfigError(f"the rules must include {REFERENCE!r}, which the map is scaled by; got {self.rules}")
        for name in ("episodes", "choosing", "budget"):
            if getattr(self, name) < 1:
                raise ConfigError(f"{name} {getattr(self, name)} is not allowed; at least 1")
        tables = self.tables({})
        n = len(tables.settings)
        episodes = held_out(tables, (self.episodes + self.choosing) * n)
        return episodes[: self.episodes * n], episodes[self.episodes * n :]


@dataclass(frozen=True)
class _Part:
    """Episodes that one scheduler plays at once."""

    plan: Plan
    scheduler: str
    compared: bool
    episodes: tuple[Episode, ...]
    place: int
    """Of the first episode in the whole list: it seeds the scheduler."""


@lru_cache(maxsize=8)
def _tables(scenario: str, device: str, split: str, settings: tuple[tuple[str, Any], ...]) -> Tables:
    return build(scenario, device, split, **dict(settings))


def _play_part(part: _Part) -> pd.DataFrame:
    """A row an episode, columns :data:`_RETURNS`."""
    plan = part.plan
    scheduler = agents.make(part.scheduler, **({"budget": plan.budget} if part.scheduler == SEARCH else {}))
    settings = tuple({**scheduler.overrides, **plan.settings}.items())
    tables = _tables(plan.scenario, plan.device, plan.split, settings)
    simulator, _ = play(scheduler, tables, part.episodes, part.place, TraceLevel.NONE)
    spent = scheduler.spent / len(part.episodes) if isinstance(scheduler, Search) else 0.0
    rows = []
    for episode, lane in zip(part.episodes, simulator.lanes, strict=True):
        counts = int(lane["due"].sum()), int(lane["missed"].sum()), int(lane["decisions"])
        earned = lane_return(lane, tables)
        rows.append((part.scheduler, part.compared, episode.setting, episode.seed, earned, *counts, spent))
    return pd.DataFrame(rows, columns=list(_RETURNS))


def _parts(plan: Plan) -> list[_Part]:
    """All that is to be played, what takes longest first."""
    compared, choosing = plan.episode_lists()
    work = [(name, True, compared, 0) for name in (SEARCH, *plan.rules)]
    work += [(name, False, choosing, len(compared)) for name in plan.rules]
    parts = []
    for name, is_compared, episodes, first in work:
        lanes = _LANES.get(name, 64)
        parts += [
            _Part(plan, name, is_compared, episodes[i : i + lanes], first + i) for i in range(0, len(episodes), lanes)
        ]
    return parts


def play_map(plan: Plan, processes: int) -> pd.DataFrame:
    """Play everything in this many processes, with a progress bar; a row a scheduler and episode, in a fixed order.

    Columns: scheduler, compared (else for choosing the best rule), setting, seed, return (ms of reference work), due,
    misses, decisions, and spent, the engine decisions of its search (mean over the episodes that were played together).
    """
    parts = _parts(plan)
    frames: list[pd.DataFrame] = [pd.DataFrame()] * len(parts)
    with progress_bar(sum(len(part.episodes) for part in parts)) as bar:
        played = 0
        for i, frame in _played(parts, processes):
            frames[i] = frame
            played += len(frame)
            bar.begin(f"{plan.scenario}, {parts[i].scheduler}", played)
    return pd.concat(frames, ignore_index=True)


def _played(parts: Sequence[_Part], processes: int) -> Iterator[tuple[int, pd.DataFrame]]:
    """Each part's place and rows, as they are done."""
    if processes == 1:
        yield from ((i, _play_part(part)) for i, part in enumerate(parts))
        return
    pool: Executor
    with ProcessPoolExecutor(processes, multiprocessing.get_context("spawn")) as pool:
        futures: dict[Future[pd.DataFrame], int] = {pool.submit(_play_part, part): i for i, part in enumerate(parts)}
        try:
            for future in as_completed(futures):
                yield futures[future], future.result()
        except BaseException:
            pool.shutdown(cancel_futures=True)
            raise


def map_frame(plan: Plan, returns: pd.DataFrame) -> pd.DataFrame:
    """A row a setting, in their order, and a last one over all (setting -1), whose best rule is one for all settings.

    ``share`` is the head-room over the range from serial to search. Intervals are paired, 95 %.
    """
    tables = plan.tables({})
    rows = []
    for setting in range(len(tables.settings)):
        row = _map_row(returns[returns["setting"] == setting])
        own = tables.settings[setting]
        named = {"setting": setting, "mix": mix_name(tables, setting), "tightness": float(own["tightness"])}
        rows.append(row | named | {"load": float(own["load"])})
    rows.append(_map_row(returns) | {"setting": -1, "mix": "all settings"})
    return pd.DataFrame(rows, columns=list(_COLUMNS))


def _map_row(returns: pd.DataFrame) -> dict[str, Any]:
    """The figures over some episodes, the same ones for every scheduler."""
    choosing = returns[~returns["compared"]].groupby("scheduler", sort=False)["return"].mean()
    best = str(choosing.idxmax())
    groups = {str(name): frame for name, frame in returns[returns["compared"]].groupby("scheduler", sort=False)}
    means = {name: float(frame["return"].mean()) for name, frame in groups.items()}
    one = np.ones(len(groups[SEARCH]))
    gain = difference(groups[SEARCH]["return"].to_numpy(), one, groups[best]["return"].to_numpy(), one)
    reach = means[SEARCH] - means[REFERENCE]
    misses = {name: frame["misses"].sum() / max(frame["due"].sum(), 1) for name, frame in groups.items()}
    return {
        "episodes": len(one),
        "serial": means[REFERENCE],
        "best_rule": best,
        "best": means[best],
        "search": means[SEARCH],
        "headroom": gain.value,
        "headroom_low": gain.low,
        "headroom_high": gain.high,
        "share": gain.value / reach if reach > 0.0 else float("nan"),
        "best_miss_rate": misses[best],
        "search_miss_rate": misses[SEARCH],
    }


def map_markdown(frame: pd.DataFrame) -> str:
    """The whole map as a Markdown table."""
    lines = [
        "| mix | tightness | load | serial | best rule | its return | search | head-room [95 % paired] | share "
        "| misses, best rule | misses, search |",
        "| --- | ---: | ---: | ---: | --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for _, row in frame.iterrows():
        gain = interval_text(row["headroom"], row["headroom_low"], row["headroom_high"])
        lines.append(
            f"| {row['mix']} | {_factor(row['tightness'])} | {_factor(row['load'])} | {number(row['serial'], 1)} "
            f"| `{row['best_rule']}` | {number(row['best'], 1)} | {number(row['search'], 1)} | {gain} "
            f"| {percent(row['share'])} % | {percent(row['best_miss_rate'])} % | {percent(row['search_miss_rate'])} % |"
        )
    return "\n".join(lines)


def _factor(value: float) -> str:
    return "" if pd.isna(value) else f"{value:g}"


def map_svg(frame: pd.DataFrame) -> bytes:
    """The map as a picture: a panel a tightness, mixes down, loads across, colour and number the head-room in ms."""
    from matplotlib.colors import LinearSegmentedColormap

    cells = frame[frame["setting"] >= 0]
    mixes, loads = list(cells["mix"].unique()), sorted(cells["load"].unique())
    names = sorted(cells["tightness"].unique())
    colours = LinearSegmentedColormap.from_list("headroom", [COLOURS["surface"][0], light("scheduler-0")])
    top = max(float(cells["headroom"].max()), 1e-9)
    with styled():
        drawing = figure(3.4 + 2.0 * len(names), 1.4 + 0.5 * len(mixes))
        panels = np.atleast_1d(drawing.subplots(1, len(names), sharey=True))
        for axes, tightness in zip(panels, names, strict=True):
            own = cells[cells["tightness"] == tightness]
            grid = own.pivot(index="mix", columns="load", values="headroom").loc[mixes, loads].to_numpy()
            axes.imshow(grid, cmap=colours, vmin=0.0, vmax=top, aspect="auto")
            for (i, j), value in np.ndenumerate(grid):
                ink = light("surface") if value > 0.6 * top else light("miss") if value < 0.0 else light("ink")
                axes.text(j, i, f"{value:.0f}", ha="center", va="center", color=ink, fontsize=8.5)
            axes.set_title(f"deadlines x {tightness:g}")
            axes.set_xticks(range(len(loads)), [f"{load:g}" for load in loads])
            axes.set_yticks(range(len(mixes)), ["\n".join(wrap(mix.replace("+", ", "), _LABEL)) for mix in mixes])
            axes.tick_params(length=0)
            axes.spines[["left", "bottom"]].set_visible(False)
        panels[len(names) // 2].set_xlabel("load")
        drawing.suptitle("search less the best rule of each setting, ms of reference work an episode", fontsize=9.5)
        buffer = BytesIO()
        drawing.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, facecolor=light("surface"))
    return buffer.getvalue()


def make_parser() -> argparse.ArgumentParser:
    """All options."""
    parser = Parser(
        prog="python -m eval.headroom",
        description="The best rule against search on every setting of a scenario: headroom.csv (a row a setting), "
        "returns.csv (a row a scheduler and episode), headroom.svg, and a Markdown table on the screen.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--scenario", default="grid", metavar="NAME", help="name or path of a .toml file (default: grid)"
    )
    parser.add_argument("--device", default="v79", metavar="NAME", help="name or path of a .toml file (default: v79)")
    parser.add_argument("--split", default="heldout", choices=("train", "heldout"), help="default: heldout")
    parser.add_argument(
        "--episodes", type=int, default=EPISODES, metavar="N", help=f"compared, of each setting (default: {EPISODES})"
    )
    parser.add_argument(
        "--choosing",
        type=int,
        default=CHOOSING,
        metavar="N",
        help=f"further ones of each setting that choose its best rule (default: {CHOOSING})",
    )
    parser.add_argument(
        "--budget", type=int, default=BUDGET, metavar="N", help=f"of search, engine decisions (default: {BUDGET})"
    )
    parser.add_argument(
        "--schedulers", metavar="NAME,...", help=f"rules, serial among them, out of {', '.join(agents.names())}"
    )
    parser.add_argument("--horizon-us", type=float, metavar="X", help="length of an episode (default: the scenario's)")
    parser.add_argument("--processes", type=int, default=os.cpu_count() or 1, metavar="N", help="default: one a core")
    parser.add_argument("--out", type=Path, default=Path("runs/headroom"), metavar="DIR", help="default: runs/headroom")
    return parser


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, or 2 for wrong input, 130 when interrupted."""
    options = make_parser().parse_args(argv)
    rules = tuple(options.schedulers.split(",")) if options.schedulers else agents.names()
    settings = {} if options.horizon_us is None else {"horizon_us": options.horizon_us}
    plan = Plan(
        options.scenario,
        options.device,
        options.split,
        options.episodes,
        options.choosing,
        options.budget,
        rules,
        settings,
    )
    if options.processes < 1:
        raise ConfigError(f"processes {options.processes} is not allowed; at least 1")
    plan.episode_lists()
    require_writable(options.out)
    returns = play_map(plan, options.processes)
    frame = map_frame(plan, returns)
    texts: dict[str, str | bytes] = {
        "headroom.csv": csv_text(frame),
        "returns.csv": csv_text(returns),
        "headroom.svg": map_svg(frame),
    }
    write_all(options.out, texts)
    searched = returns[returns["scheduler"] == SEARCH]
    print(map_markdown(frame))
    print(f"\nsearch spent {searched['spent'].sum() / searched['decisions'].sum():.0f} engine decisions a decision")
    print(f"results: {options.out}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
