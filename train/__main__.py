"""Command line of the training job: ``python -m train``."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from hexenv.cli import INTERRUPTED, Parser, command
from hexenv.errors import ConfigError
from train.config import TrainConfig

if TYPE_CHECKING:
    from train.loop import Trainer


def make_parser() -> argparse.ArgumentParser:
    """All options; those of the training itself are made from the fields of :class:`TrainConfig`."""
    parser = Parser(
        prog="python -m train",
        description="Train the learned scheduler (MaskablePPO) and compare it with all baselines on held-out episodes.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=36, width=110),
        allow_abbrev=False,
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the run (default: runs/<scenario>-<time>)")
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="RUN",
        help="go on with the run in this folder, with its own settings; only --steps may be given anew",
    )
    parser.add_argument("--no-eval", action="store_true", help="do not evaluate after the training")
    group = parser.add_argument_group("training options")
    types = typing.get_type_hints(TrainConfig)
    for field in dataclasses.fields(TrainConfig):
        names = ["--" + field.name.replace("_", "-")] + (["--lambda"] if field.name == "miss_weight" else [])
        default = "" if field.default is None else f" (default: {field.default})"
        group.add_argument(
            *names,
            dest=field.name,
            type=_value_type(types[field.name]),
            default=argparse.SUPPRESS,
            metavar="X",
            help=field.metadata["help"] + default,
        )
    return parser


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, 2 for wrong input, 130 when stopped by a signal."""
    options = vars(make_parser().parse_args(argv))
    out, resume, no_eval = (options.pop(name) for name in ("out", "resume", "no_eval"))
    console = Console()
    if resume is None:
        run = out or Path("runs") / f"{Path(options.get('scenario', TrainConfig.scenario)).stem}-{_now()}"
        trainer = _new_run(run, options, console)
    elif out is None:
        run = resume
        trainer = _resumed_run(run, options, console)
    else:
        raise ConfigError("option --out cannot be given with --resume: a run stays in its folder")
    if trainer.finished:
        _say(
            console,
            f"run {run} is finished: go on with --resume {run} --steps N (more than {trainer.steps:,}), "
            f"or evaluate it again with python -m eval --checkpoint {run}",
        )
        return 0
    if not trainer.learn(run, console):
        _say(console, f"stopped after {trainer.steps:,} steps; go on with: python -m train --resume {run}")
        return INTERRUPTED
    return INTERRUPTED if not no_eval and not _evaluate(run) else 0


# train.loop and train.checkpoint are imported late, so that --help and wrong options answer at once


def _new_run(run: Path, options: dict[str, Any], console: Console) -> Trainer:
    from train.checkpoint import create_run
    from train.loop import Trainer

    # a run is resumed and evaluated from any folder
    files = {name: str(Path(options[name]).resolve()) for name in ("scenario", "device") if _is_file(options.get(name))}
    config = TrainConfig(**options | files)
    _say(console, f"compiling scenario {config.scenario} for device {config.device}")
    trainer = Trainer(config)
    _check_episodes(trainer, config.eval_episodes)
    create_run(run, config)
    return trainer


def _resumed_run(run: Path, options: dict[str, Any], console: Console) -> Trainer:
    from train.checkpoint import read_config, write_config
    from train.loop import Trainer

    config = _resumed_config(read_config(run), options)
    _say(console, f"compiling scenario {config.scenario} for device {config.device}")
    trainer = Trainer(config, run)
    write_config(run, config)
    return trainer


def _resumed_config(config: TrainConfig, options: dict[str, Any]) -> TrainConfig:
    changed = [name for name, value in options.items() if name != "steps" and value != getattr(config, name)]
    if changed:
        flags = ", ".join("--" + name.replace("_", "-") for name in changed)
        raise ConfigError(f"a resumed run keeps its settings, only --steps can change; given: {flags}")
    return dataclasses.replace(config, **options)


def _check_episodes(trainer: Trainer, episodes: int) -> None:
    """Refuse a number of evaluation episodes that the scenario does not have before the training, not after it."""
    from eval.episodes import held_out

    held_out(trainer.build_tables("heldout"), episodes)


def _evaluate(run: Path) -> bool:
    """Evaluate the finished run; False if Ctrl-C stopped it."""
    from eval.runner import evaluate_run

    try:
        evaluate_run(run)
    except KeyboardInterrupt:
        print(f"evaluation stopped; the trained run is complete: python -m eval --checkpoint {run}", file=sys.stderr)
        return False
    return True


def _is_file(name: str | None) -> bool:
    """Whether a scenario or device is named by the path of its file."""
    return name is not None and name.endswith(".toml")


def _value_type(hint: Any) -> Any:
    """The type of an option, without the None of an optional one."""
    return next((part for part in typing.get_args(hint) if part is not type(None)), hint)


def _say(console: Console, line: str) -> None:
    """Print plain text on one line, however long, so that commands and paths in it can be copied."""
    console.print(line, soft_wrap=True, markup=False, highlight=False)


def _now() -> str:
    return time.strftime("%Y%m%d-%H%M%S")


if __name__ == "__main__":
    sys.exit(main())
