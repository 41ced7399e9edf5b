"""Command line of the evaluation: ``python -m eval``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import agents
from eval.engine_options import add_engine_options, engine_settings, flag, refuse_engine_options
from hexenv.cli import Parser, command
from hexenv.errors import ConfigError

if TYPE_CHECKING:
    from eval.runner import Plan


def _numbers(text: str) -> tuple[int, ...]:
    """Whole numbers separated by commas."""
    try:
        return tuple(int(part) for part in text.split(","))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r}: give whole numbers separated by commas") from None


_EXPLAIN_OPTIONS: tuple[tuple[str, Any, str], ...] = (
    ("episode", int, "the episode to take decisions from, a place in the held-out list, from 0 (default: 0)"),
    ("decisions", int, "how many decisions, those where another choice matters most (default: 8)"),
    ("at", _numbers, "decisions by their numbers instead, from 0, separated by commas"),
)
"""Options that go with ``--explain``."""

_GO_WITH = {
    "compare": {"schedulers"},
    "replay": {"rows", "workers"},
    "update": {"out", "workers"},
    "check": {"out", "workers"},
}
"""Commands on results that exist already, and the options that go with each."""
_SHOWN = 40
"""Differences of a replay that are printed."""


def make_parser() -> argparse.ArgumentParser:
    """All options."""
    parser = Parser(
        prog="python -m eval",
        description="Run schedulers on held-out episodes, the same for each, and compare them: a table, summary.csv, "
        "streams.csv, episodes.csv and report.html.",
        epilog="Examples: python -m eval --checkpoint runs/mine; "
        "python -m eval --scenario camera_decode --schedulers serial,slack_gate --episodes 12; "
        "python -m eval --explain --scenario camera_decode --schedulers slack_gate,online_pairs",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=32, width=110),
        allow_abbrev=False,
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        nargs="+",
        metavar="RUN",
        help="folders of training runs that differ in their seed, or a folder that holds them: evaluate their "
        "policies, as one learned scheduler, beside the rules; scenario, device and engine settings come from "
        "config.json, results go into the folder (runs/eval if several are named) unless --out is given",
    )
    parser.add_argument(
        "--scenario",
        type=_names,
        metavar="NAME,...",
        help="scenarios: bundled names or paths of .toml files, separated by commas (default: all bundled)",
    )
    parser.add_argument("--device", metavar="NAME", help="device: a name or the path of a .toml file (default: v79)")
    parser.add_argument(
        "--schedulers",
        type=_names,
        metavar="NAME,...",
        help=f"rules to run, out of {', '.join(agents.names())} (default: all)",
    )
    parser.add_argument(
        "--episodes",
        type=int,
        metavar="N",
        help="held-out episodes of a scenario, over all loads and mixes (default: 60, or as the run's config says)",
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder for the results (default: runs/eval)")
    parser.add_argument(
        "--report",
        type=Path,
        metavar="DIR",
        help="like --out, with the full report: also bounds, bubbles, VTCM, run-time compilation, decision cost and "
        "sensitivity to every device constant (minutes a scenario), and CSV, Parquet, Markdown, PNG and SVG files",
    )
    parser.add_argument("--markdown", action="store_true", help="print the results as a Markdown table")
    parser.add_argument(
        "--workers",
        type=int,
        metavar="N",
        help="processes that play (default: one a core); no effect on the results. What an interrupted run has played "
        "is kept in the folder of the results, and the same command goes on from there",
    )
    group = parser.add_argument_group("explaining")
    group.add_argument(
        "--explain",
        action="store_true",
        help="explain the run's policy, or the first scheduler named, beside the others: single decisions of one "
        "episode and what each choice led to, and habits over all episodes",
    )
    for name, kind, text in _EXPLAIN_OPTIONS:
        group.add_argument(f"--{name}", type=kind, default=argparse.SUPPRESS, metavar="N", help=text)
    _add_result_options(parser)
    add_engine_options(parser)
    return parser


def _add_result_options(parser: argparse.ArgumentParser) -> None:
    group = parser.add_argument_group("results that exist already")
    group.add_argument(
        "--compare",
        type=Path,
        nargs=2,
        metavar="FILE",
        help="two episodes.csv: paired difference, interquartile mean and probability of improvement of each scheduler "
        "that both have (or of one, or of one of each file: --schedulers A,B); refused unless game and episodes agree",
    )
    group.add_argument(
        "--replay",
        type=Path,
        metavar="FILE",
        help="play the rows of an episodes.csv again, from the plan.json beside it; exit code 1 on any difference",
    )
    group.add_argument("--rows", type=int, metavar="N", help="with --replay: only so many rows, evenly spread")
    group.add_argument(
        "--update",
        type=Path,
        metavar="FILE",
        help="a document: make the table in each marked block again, by the command that stands in the block",
    )
    group.add_argument(
        "--check", type=Path, metavar="FILE", help="the same, but only say what differs; exit code 1 if anything does"
    )


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, 1 where results differ, 2 for wrong input, 130 when interrupted."""
    options = vars(make_parser().parse_args(argv))
    if options["report"] is not None and (options["out"] is not None or options["explain"]):
        raise ConfigError(
            "--report DIR names the folder for the results; it goes neither with --out nor with --explain"
        )
    _refuse_strangers(options)
    if options["compare"]:
        return _compare(options)
    if options["replay"]:
        return _replay(options)
    if options["update"] or options["check"]:
        return _tables_of_document(options)
    if options["explain"]:
        _explain(options)
    elif given := [name for name, _, _ in _EXPLAIN_OPTIONS if name in options]:
        raise ConfigError(f"--{given[0]} goes with --explain, which was not given")
    else:
        from eval.runner import execute

        plan, folder = _plan(options)
        execute(plan, folder, options["markdown"], _workers(options), full=options["report"] is not None)
    return 0


def _explain(options: dict[str, Any]) -> None:
    from eval.explain import BASELINES, Question, explain
    from eval.runner import plan_of_run

    if options["markdown"]:
        raise ConfigError("--markdown cannot be given with --explain")
    given = {name: options[name] for name, _, _ in _EXPLAIN_OPTIONS if name in options}
    if options["checkpoint"] is not None and len(options["checkpoint"]) > 1:
        raise ConfigError("--explain takes one --checkpoint: explain training runs one by one")
    run = options["checkpoint"][0] if options["checkpoint"] is not None else None
    if run is not None:
        refuse_engine_options(options)
        plan = plan_of_run(run, options["episodes"], options["schedulers"] or BASELINES, options["out"])
        explained, folder = plan.schedulers[-1], options["out"] or run
    elif options["scenario"] is None or options["schedulers"] is None:
        raise ConfigError("--explain needs --checkpoint, or --scenario and --schedulers, the explained one first")
    else:
        folder = options["out"] or Path("runs/explain")
        plan = _plan_of_rules(options, folder)
        explained = plan.schedulers[0]
    words = [word for name, value in given.items() for word in (f"--{name}", _text(value))]
    plan = replace(plan, command=("--explain", *plan.command, *words))
    explain(plan, explained, Question(**given), folder)


def _refuse_strangers(options: dict[str, Any]) -> None:
    """Refuse options that do not go together."""
    given = {name for name, value in options.items() if value is not None and value is not False}
    for name, others in _GO_WITH.items():
        if name in given and given - {name} - others:
            raise ConfigError(f"{flag(min(given - {name} - others))} cannot be given with {flag(name)}")
    if "rows" in given and "replay" not in given:
        raise ConfigError("--rows goes with --replay, which was not given")


def _compare(options: dict[str, Any]) -> int:
    from eval.compare import compare, comparison_markdown

    first, second = options["compare"]
    print(comparison_markdown(compare(first, second, options["schedulers"] or ())))
    return 0


def _replay(options: dict[str, Any]) -> int:
    from eval.replay import replay

    found = replay(options["replay"], options["rows"], _workers(options))
    for difference in found.differences[:_SHOWN]:
        print(difference)
    if len(found.differences) > _SHOWN:
        print(f"and {len(found.differences) - _SHOWN} more")
    rows = len({difference.row for difference in found.differences})
    print(f"{found.rows} rows replayed, {rows or 'none'} with a difference")
    for line in found.changed:
        print(f"note: {line}")
    return 1 if found.differences else 0


def _tables_of_document(options: dict[str, Any]) -> int:
    from eval import document
    from eval.runner import check, play_all
    from eval.summary import summary_frame
    from eval.table import trade_off_markdown
    from eval.units import FOLDER
    from hexenv.files import require_writable

    def make(arguments: Sequence[str]) -> str:
        asked = vars(make_parser().parse_args(arguments))
        plan, folder = _plan({**asked, "out": options["out"] or asked["out"]})
        work = check(plan)
        require_writable(folder)
        return trade_off_markdown(summary_frame(play_all(plan, work, _workers(options), folder / FOLDER)))

    if options["update"]:
        print(f"{options['update']}: {'updated' if document.update(options['update'], make) else 'nothing to change'}")
        return 0
    lines = document.stale(options["check"], make)
    print("\n".join(lines) or f"{options['check']}: as its commands print it")
    return 1 if lines else 0


def _workers(options: dict[str, Any]) -> int:
    from eval.units import all_cores

    return all_cores() if options["workers"] is None else int(options["workers"])


def _plan(options: dict[str, Any]) -> tuple[Plan, Path]:
    """What the options ask to play, and the folder for the results."""
    from eval.runner import plan_of_runs

    runs = options["checkpoint"]
    out = options["report"] or options["out"]
    folder = out or (runs[0] if runs is not None and len(runs) == 1 else Path("runs/eval"))
    if runs is None:
        plan = _plan_of_rules(options, folder)
    else:
        refuse_engine_options(options)
        plan = plan_of_runs(runs, options["episodes"], options["schedulers"], out)
    if options["report"] is not None:
        plan = replace(plan, command=tuple("--report" if word == "--out" else word for word in plan.command))
    return plan, folder


def _plan_of_rules(options: dict[str, Any], folder: Path) -> Plan:
    from eval.runner import EPISODES, Plan
    from hexenv.workload import scenario_names

    settings = engine_settings(options)
    scenarios, names = options["scenario"] or scenario_names(), options["schedulers"] or agents.names()
    device = options["device"] or "v79"
    episodes = EPISODES if options["episodes"] is None else options["episodes"]
    command = ["--scenario", ",".join(scenarios), "--device", device, "--schedulers", ",".join(names)]
    command += ["--episodes", str(episodes), "--out", str(folder)]
    for name, value in settings.items():
        command += [flag(name), str(value)]
    rules = tuple(agents.make(name) for name in names)
    return Plan(scenarios, device, rules, episodes, settings, command=tuple(command))


def _text(value: Any) -> str:
    return ",".join(map(str, value)) if isinstance(value, tuple) else str(value)


def _names(text: str) -> tuple[str, ...]:
    """Names separated by commas, each once."""
    names = tuple(name.strip() for name in text.split(","))
    if "" in names or len(set(names)) < len(names):
        raise argparse.ArgumentTypeError(f"{text!r} names nothing, or something twice; give names separated by commas")
    return names


if __name__ == "__main__":
    sys.exit(main())
