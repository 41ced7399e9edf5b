"""Command line: an episode as a trace file for the Perfetto UI."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import agents
from agents.learned import LEARNED
from agents.scheduler import Scheduler
from eval.engine_options import add_engine_options, engine_settings, refuse_engine_options
from eval.episodes import held_out
from eval.runner import Plan, plan_of_run
from eval.trace.engine import add_engine
from eval.trace.events import TraceFile
from eval.trace.recording import Recording, record
from eval.trace.tiles import add_tiles, replay
from hexenv.cli import Parser, command
from hexenv.device import load_device
from hexenv.errors import ConfigError
from hexenv.files import require_writable_file, write_file
from hexenv.tilesim import chip_of

SUFFIXES = (".json", ".json.gz")


def make_parser() -> argparse.ArgumentParser:
    """All options."""
    parser = Parser(
        prog="python -m eval.trace",
        description="Play one held-out episode and write its trace for https://ui.perfetto.dev or chrome://tracing: "
        "slots, jobs, decisions, deadlines, engines and VTCM.",
        epilog="Example: python -m eval.trace --scenario camera_decode --compare slack_gate,greedy_pair -o out.json",
        allow_abbrev=False,
    )
    who = parser.add_mutually_exclusive_group()
    who.add_argument("--scheduler", metavar="NAME", help=f"out of {', '.join(agents.names())}")
    who.add_argument(
        "--compare", type=_two, metavar="A,B", help="two schedulers on the same episode, one below the other"
    )
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="RUN",
        help=f"a training run's folder: its policy is the scheduler {LEARNED!r}, and scenario, device and engine "
        "settings are the run's",
    )
    parser.add_argument("--scenario", metavar="NAME", help="name or path of a .toml file (default: camera_decode)")
    parser.add_argument("--device", metavar="NAME", help="name or path of a .toml file (default: v79)")
    parser.add_argument("--episode", type=int, default=0, metavar="N", help="place in the held-out list (default: 0)")
    parser.add_argument("--tiles", action="store_true", help="also the same schedule played tile by tile")
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FILE", help="a .json or .json.gz file")
    add_engine_options(parser)
    return parser


def _two(text: str) -> tuple[str, str]:
    names = tuple(name.strip() for name in text.split(","))
    if len(names) != 2 or "" in names or names[0] == names[1]:
        raise argparse.ArgumentTypeError(f"{text!r} does not name two schedulers; give A,B")
    return names[0], names[1]


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, 2 for wrong input, 130 when interrupted."""
    options = vars(make_parser().parse_args(argv))
    out: Path = options["out"]
    if not out.name.endswith(SUFFIXES):
        raise ConfigError(f"--out {out}: allowed: a {' or '.join(SUFFIXES)} file")
    if options["episode"] < 0:
        raise ConfigError(f"--episode {options['episode']}: allowed: a place in the held-out list, from 0")
    plan = _plan(options)
    work = [(scheduler, plan.tables(plan.scenarios[0], scheduler)) for scheduler in plan.schedulers]
    place = options["episode"]
    episodes = [held_out(tables, place + 1)[place] for _, tables in work]
    require_writable_file(out)
    recordings = [
        record(scheduler, tables, episode, place) for (scheduler, tables), episode in zip(work, episodes, strict=True)
    ]
    write_file(out, build(recordings, plan.device, options["tiles"]).data(out.suffix == ".gz"))
    for recording in recordings:
        print(_summary(recording))
    print(f"trace: {out} (open it at https://ui.perfetto.dev)")
    return 0


def _plan(options: dict[str, Any]) -> Plan:
    names = options["compare"] or ((options["scheduler"],) if options["scheduler"] else ())
    if options["checkpoint"] is None:
        if not names:
            raise ConfigError("who plays? give --scheduler NAME, --compare A,B or --checkpoint RUN")
        schedulers = tuple(agents.make(name) for name in names)
        scenario, device = options["scenario"] or "camera_decode", options["device"] or "v79"
        return Plan((scenario,), device, schedulers, settings=engine_settings(options))
    refuse_engine_options(options)
    names = names or (LEARNED,)
    plan = plan_of_run(options["checkpoint"], schedulers=[name for name in names if name != LEARNED])
    by_name: dict[str, Scheduler] = {scheduler.name: scheduler for scheduler in plan.schedulers}
    return Plan(plan.scenarios, plan.device, tuple(by_name[name] for name in names), settings=plan.settings)


def build(recordings: Sequence[Recording], device: str, tiles: bool) -> TraceFile:
    """All recordings of one episode in one file, each as a process, with their replays tile by tile if wanted.

    Raises:
        ConfigError: a recording that cannot be replayed tile by tile.
    """
    tables, episode = recordings[0].tables, recordings[0].episode
    setting = tables.settings[episode.setting]
    file = TraceFile(
        {
            "scenario": tables.scenario,
            "device": tables.device,
            "schedulers": ", ".join(recording.scheduler for recording in recordings),
            "seed": episode.seed,
            "load": float(setting["load"]),
            "tightness": float(setting["tightness"]),
        }
    )
    for recording in recordings:
        add_engine(file, recording)
        if tiles:
            chip = chip_of(load_device(device), recording.tables.config[0])
            add_tiles(file, recording, replay(recording, chip))
    return file


def _summary(recording: Recording) -> str:
    lane = recording.lane
    return (
        f"{recording.scheduler}: {len(recording.stages)} stages, {len(recording.decisions)} decisions, "
        f"{int(lane['finished'].sum())} jobs finished, {int(lane['missed'].sum())} of {int(lane['due'].sum())} "
        f"deadlines missed in {recording.end_ns / 1e6:.1f} ms"
    )


if __name__ == "__main__":
    sys.exit(main())
