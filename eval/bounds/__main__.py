"""Command line of the bounds: ``python -m eval.bounds``."""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from typing import Any

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table

import agents
from eval.bounds.gaps import gap_frame, overlap_of
from eval.bounds.near import MAX_NODES, SMALL, near_frame, optima
from eval.episodes import Episode
from eval.play import Outcome
from eval.runner import Plan, check, play_all
from eval.table import console, number, percent
from hexenv.cli import Parser, command
from hexenv.errors import ConfigError

EPISODES = 6


def make_parser() -> argparse.ArgumentParser:
    """All options."""
    parser = Parser(
        prog="python -m eval.bounds",
        description="What no scheduler can exceed on held-out episodes (a linear program each), beside the best of "
        "some rules, and the overlap bound of each mix.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "--scenario", metavar="NAME", help="bundled name or path of a .toml file (default: camera_decode)"
    )
    parser.add_argument("--device", default="v79", metavar="NAME", help="name or path of a .toml file (default: v79)")
    parser.add_argument(
        "--episodes", type=int, default=EPISODES, metavar="N", help=f"held-out episodes (default: {EPISODES})"
    )
    parser.add_argument(
        "--schedulers",
        type=lambda text: tuple(text.split(",")),
        default=agents.names(),
        metavar="NAME,...",
        help=f"rules to compare with, out of {', '.join(agents.names())} (default: all)",
    )
    parser.add_argument("--horizon-us", type=float, metavar="X", help="length of an episode (default: the scenario's)")
    parser.add_argument(
        "--exact",
        type=int,
        nargs="?",
        const=MAX_NODES,
        metavar="NODES",
        help="search for the exact optimum of each episode instead, with at most so many steps of the engine (default: "
        f"{MAX_NODES}), and say how near each scheduler comes; the scenario is then one of small episodes by default",
    )
    return parser


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, or 2 for wrong input."""
    options = make_parser().parse_args(argv)
    settings: dict[str, Any] = {} if options.horizon_us is None else {"horizon_us": options.horizon_us}
    rules = tuple(agents.make(name) for name in options.schedulers)
    exact: int | None = options.exact
    if exact is not None and exact < 1:
        raise ConfigError(f"--exact {exact}: allowed are 1 step or more")
    scenario = options.scenario or ("camera_decode" if exact is None else SMALL)
    plan = Plan((scenario,), options.device, rules, options.episodes, settings)
    work = check(plan)
    outcomes = play_all(plan, work)
    episodes = work[0][2]
    if exact is None:
        _print_bounds(scenario, outcomes, episodes)
    else:
        console().print(_near_table(near_frame(outcomes, optima(outcomes, episodes, exact)), len(episodes)))
    return 0


def _print_bounds(scenario: str, outcomes: Sequence[Outcome], episodes: Sequence[Episode]) -> None:
    began = time.perf_counter()
    frame = gap_frame(outcomes, episodes)
    seconds = (time.perf_counter() - began) / len(episodes)
    overlaps = {setting: overlap_of(outcomes, int(setting)) for setting in frame["setting"].unique()}
    screen = console()
    screen.print(_table(scenario, frame, overlaps))
    screen.print(f"{seconds:.1f} s an episode for its bound in all modes that the rules ran in")


def _near_table(frame: pd.DataFrame, episodes: int) -> Table:
    first = frame["scheduler"].iloc[0]
    table = Table(
        title=f"Exact optima: proven in {frame['episodes'].iloc[0]} of {episodes} episodes",
        caption=f"share: part of the range from {first} to the optimum; lost: ms of reference work an episode below "
        "it; reached: episodes played optimally",
        box=SIMPLE_HEAD,
    )
    for heading in ("scheduler", "share %", "lost", "reached %"):
        table.add_column(heading, justify="left" if heading == "scheduler" else "right")
    for _, row in frame.iterrows():
        table.add_row(row["scheduler"], percent(row["share"]), number(row["lost"], 3), percent(row["reached"], 0))
    return table


def _table(scenario: str, frame: pd.DataFrame, overlaps: dict[int, float]) -> Table:
    table = Table(
        title=f"{scenario}: bounds on the return, ms of reference work",
        caption="share: of the way from the worst rule to the bound; overlap: largest speed-up of one job a stream "
        "over its stages alone",
        box=SIMPLE_HEAD,
    )
    for heading in ("load", "mix", "seed", "bound", "best rule", "return", "gap", "share %", "overlap"):
        table.add_column(heading, justify="left" if heading in ("mix", "best rule") else "right")
    for _, row in frame.sort_values(["setting", "seed"]).iterrows():
        table.add_row(
            f"{row['load']:g}",
            row["mix"],
            str(row["seed"]),
            number(row["bound"], 1),
            row["best"],
            number(row["return"], 1),
            number(row["gap"], 1),
            percent(row["share"]),
            number(overlaps[row["setting"]], 2),
        )
    means = frame[["bound", "return", "gap", "share"]].mean()
    cells = (
        number(means["bound"], 1),
        "",
        number(means["return"], 1),
        number(means["gap"], 1),
        percent(means["share"]),
    )
    table.add_row("mean", "", "", *cells, "", style="bold")
    return table


if __name__ == "__main__":
    sys.exit(main())
