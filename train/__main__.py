"""Command line of the training job: ``python -m train``."""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
import typing
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console

from hexenv.cli import INTERRUPTED, Parser, command
from hexenv.errors import ConfigError
from train.config import LEARNERS, PRESETS, GateConfig, PpoConfig, TrainConfig

if TYPE_CHECKING:
    from train.trainer import Trainer

_SHARED = tuple(field.name for field in dataclasses.fields(TrainConfig))


def make_parser() -> argparse.ArgumentParser:
    """All options; those of the training itself are made from the fields of the learners' configs."""
    parser = Parser(
        prog="python -m train",
        description="Train a learned scheduler and compare it with all rules on held-out episodes.",
        formatter_class=lambda prog: argparse.HelpFormatter(prog, max_help_position=36, width=110),
        allow_abbrev=False,
    )
    parser.add_argument(
        "--learner",
        choices=LEARNERS,
        help="gate: evolution strategy on the settings of a gate with triage; ppo: MaskablePPO on single decisions "
        f"(default: {next(iter(LEARNERS))})",
    )
    parser.add_argument(
        "--preset", choices=PRESETS, help="start from the settings of this name; the options given replace its own"
    )
    parser.add_argument("--out", type=Path, metavar="DIR", help="folder of the run (default: runs/<scenario>-<time>)")
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="RUN",
        help="go on with the run in this folder, with its own settings; only "
        f"{' or '.join(_flag(config.length) for config in LEARNERS.values())} may be given anew",
    )
    parser.add_argument("--no-eval", action="store_true", help="do not evaluate after the training")
    _add_options(parser.add_argument_group("options of all learners"), TrainConfig, ())
    for learner, config in LEARNERS.items():
        _add_options(parser.add_argument_group(f"options of learner {learner}"), config, _SHARED)
    return parser


def _add_options(group: argparse._ArgumentGroup, config: type[TrainConfig], but: Sequence[str]) -> None:
    """An option for each field of ``config``, except for ``but``."""
    types = typing.get_type_hints(config)
    for field in dataclasses.fields(config):
        if field.name in but:
            continue
        names = [_flag(field.name)] + (["--lambda"] if field.name == "miss_weight" else [])
        default = "" if field.default is None else f" (default: {field.default})"
        group.add_argument(
            *names,
            dest=field.name,
            type=_value_type(types[field.name]),
            default=argparse.SUPPRESS,
            metavar="X",
            help=field.metadata["help"] + default,
        )


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, 2 for wrong input, 130 when stopped by a signal."""
    options = vars(make_parser().parse_args(argv))
    resume, no_eval = options.pop("resume"), options.pop("no_eval")
    console = Console()
    if resume is None:
        run, trainer = _new_run(options, console)
    else:
        run, trainer = resume, _resumed_run(resume, options, console)
    length = trainer.config.length
    if trainer.finished:
        _say(
            console,
            f"run {run} is finished: go on with --resume {run} {_flag(length)} N (more than {trainer.done:,}), "
            f"or evaluate it again with python -m eval --checkpoint {run}",
        )
        return 0
    if not trainer.learn(run, console):
        _say(console, f"stopped after {trainer.done:,} {length}; go on with: python -m train --resume {run}")
        return INTERRUPTED
    return INTERRUPTED if not no_eval and not _evaluate(run) else 0


# trainers are imported late, so that --help and wrong options answer at once, and torch only where it is needed


def _new_run(options: dict[str, Any], console: Console) -> tuple[Path, Trainer]:
    from train.run_folder import create_run

    out = options.pop("out")
    config = _new_config(options)
    run = out or Path("runs") / f"{Path(config.scenario).stem}-{time.strftime('%Y%m%d-%H%M%S')}"
    trainer = _trainer(config, None, console)
    _check_episodes(trainer, config.eval_episodes)
    create_run(run, config)
    return run, trainer


def _new_config(options: dict[str, Any]) -> TrainConfig:
    """The settings that the options ask for."""
    learner, preset = options.pop("learner"), options.pop("preset")
    config = LEARNERS[learner or next(iter(LEARNERS))]() if preset is None else PRESETS[preset]
    if learner not in (None, config.learner):
        raise ConfigError(f"preset {preset} is one of learner {config.learner}, not of {learner}")
    _refuse_strangers(config, options)
    # a run is resumed and evaluated from any folder
    files = {name: str(Path(options[name]).resolve()) for name in ("scenario", "device") if _is_file(options.get(name))}
    return dataclasses.replace(config, **options | files)


def _resumed_run(run: Path, options: dict[str, Any], console: Console) -> Trainer:
    from train.run_folder import read_config, write_config

    for name in ("out", "learner", "preset"):
        if options.pop(name) is not None:
            raise ConfigError(f"option --{name} cannot be given with --resume: a run keeps folder and settings")
    config = _resumed_config(read_config(run), options)
    trainer = _trainer(config, run, console)
    write_config(run, config)
    return trainer


def _resumed_config(config: TrainConfig, options: dict[str, Any]) -> TrainConfig:
    _refuse_strangers(config, options)
    changed = [name for name, value in options.items() if name != config.length and value != getattr(config, name)]
    if changed:
        flags = ", ".join(map(_flag, changed))
        raise ConfigError(f"a resumed run keeps its settings, only {_flag(config.length)} can change; given: {flags}")
    return dataclasses.replace(config, **options)


def _trainer(config: TrainConfig, resume: Path | None, console: Console) -> Trainer:
    """The trainer of the config's learner."""
    _say(console, f"compiling scenario {config.scenario} for device {config.device}")
    if isinstance(config, GateConfig):
        from train.evolution import GateTrainer

        return GateTrainer(config, resume)
    from train.loop import PpoTrainer

    assert isinstance(config, PpoConfig)
    return PpoTrainer(config, resume)


def _refuse_strangers(config: TrainConfig, options: Collection[str]) -> None:
    """Refuse options of another learner."""
    for learner, other in LEARNERS.items():
        own = {field.name for field in dataclasses.fields(other)}
        for name in options:
            if name in own and not hasattr(config, name):
                raise ConfigError(f"option {_flag(name)} is one of learner {learner}; this run's is {config.learner}")


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


def _flag(name: str) -> str:
    """A field of a config as an option."""
    return "--" + name.replace("_", "-")


def _say(console: Console, line: str) -> None:
    """Print plain text on one line, however long, so that commands and paths in it can be copied."""
    console.print(line, soft_wrap=True, markup=False, highlight=False)


if __name__ == "__main__":
    sys.exit(main())
