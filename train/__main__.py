"""Command line of the training job: ``python -m train``."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
import typing
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NoReturn

from rich.console import Console

from hexenv.errors import EXIT_CODE, ConfigError
from train.config import TrainConfig

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells report it."""


class _Parser(argparse.ArgumentParser):
    def error(self, message: str) -> NoReturn:
        """One line, like every other error of the command."""
        self.exit(EXIT_CODE, f"error: {message} (python -m train --help explains all options)\n")


def make_parser() -> argparse.ArgumentParser:
    """All options; those of the training itself are made from the fields of :class:`TrainConfig`."""
    parser = _Parser(
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
    parser.add_argument(
        "--eval-episodes",
        type=int,
        metavar="N",
        help="held-out episodes a scheduler and setting in the evaluation (default: that of python -m eval)",
    )
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


def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, 2 for wrong input, 130 when stopped by a signal."""
    options = vars(make_parser().parse_args(argv))
    out, resume, no_eval, eval_episodes = (options.pop(name) for name in ("out", "resume", "no_eval", "eval_episodes"))
    console = Console()
    try:
        run = out or Path("runs") / f"{Path(options.get('scenario', TrainConfig.scenario)).stem}-{_now()}"
        if resume is not None:
            if out is not None:
                raise ConfigError("option --out cannot be given with --resume: a run stays in its folder")
            run = resume
        finished = _train(run, options, resume is not None, console)
        if not finished:
            return INTERRUPTED
        if not no_eval:
            _evaluate(run, eval_episodes)
    except ConfigError as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_CODE
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return 0


def _train(run: Path, options: dict[str, Any], resume: bool, console: Console) -> bool:
    """Train; False if a signal stopped it before its end."""
    # imported late, so that --help and wrong options answer at once
    from train.checkpoint import create_run, read_config, write_config
    from train.loop import Trainer

    if resume:
        config = _resumed_config(read_config(run), options)
    else:
        config = TrainConfig(**options)
    console.print(f"compiling scenario {config.scenario} for device {config.device}")
    trainer = Trainer(config, run if resume else None)
    if trainer.finished:
        console.print(
            f"run {run} is finished ({trainer.model.num_timesteps:,} steps): train longer with "
            f"--resume {run} --steps N, or evaluate it again with python -m eval --checkpoint {run}",
            soft_wrap=True,
        )
        raise SystemExit(0)
    if resume:
        write_config(run, config)
    else:
        create_run(run, config)
    finished = trainer.learn(run, console)
    if not finished:
        console.print(
            f"stopped after {trainer.model.num_timesteps:,} steps; go on with: python -m train --resume {run}",
            soft_wrap=True,
        )
    return finished


def _resumed_config(config: TrainConfig, options: dict[str, Any]) -> TrainConfig:
    changed = [name for name, value in options.items() if name != "steps" and value != getattr(config, name)]
    if changed:
        flags = ", ".join("--" + name.replace("_", "-") for name in changed)
        raise ConfigError(f"a resumed run keeps its settings, only --steps can change; given: {flags}")
    return dataclasses.replace(config, **options)


def _evaluate(run: Path, episodes: int | None) -> None:
    from eval.runner import evaluate_run

    evaluate_run(run) if episodes is None else evaluate_run(run, episodes=episodes)


def _value_type(hint: Any) -> Any:
    """The type of an option, without the None of an optional one."""
    return next((part for part in typing.get_args(hint) if part is not type(None)), hint)


def _now() -> str:
    return time.strftime("%Y%m%d-%H%M%S")


if __name__ == "__main__":
    sys.exit(main())
