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
from eval.runner import Plan, check, play_all
from eval.table import console, number, percent
from hexenv.cli import Parser, command

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
        "--scenario", default="camera_decode", metavar="NAME", help="bundled name or path of a .toml file"
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
    return parser


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, or 2 for wrong input."""
    options = make_parser().parse_args(argv)
    settings: dict[str, Any] = {} if options.horizon_us is None else {"horizon_us": options.horizon_us}
    rules = tuple(agents.make(name) for name in options.schedulers)
    plan = Plan((options.scenario,), options.device, rules, options.episodes, settings)
    work = check(plan)
    outcomes = play_all(plan, work)
    episodes = work[0][2]
    began = time.perf_counter()
    frame = gap_frame(outcomes, episodes)
    seconds = (time.perf_counter() - began) / len(episodes)
    overlaps = {setting: overlap_of(outcomes, int(setting)) for setting in frame["setting"].unique()}
    screen = console()
    screen.print(_table(options.scenario, frame, overlaps))
    screen.print(f"{seconds:.1f} s an episode for its bound in all modes that the rules ran in")
    return 0


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
