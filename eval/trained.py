"""Training runs as schedulers: the policy of each in the mode it was trained in; runs of several seeds as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

from agents.learned import CHECKPOINT, Learned
from agents.scheduler import Scheduler
from hexenv.errors import ConfigError

_MAY_DIFFER = ("seed", "checkpoint_s", "eval_episodes", "torch_threads")
"""Training options in which the runs of one learned scheduler need not agree."""


class Trained(Learned):
    """The policy of one training run.

    Args:
        folder: the run's folder.

    Raises:
        ConfigError: there is no run, or its config or checkpoint is broken.
    """

    def __init__(self, folder: Path) -> None:
        from train.checkpoint import read_config  # imports torch: not before a run is read

        self.config = read_config(folder)
        super().__init__(folder)
        self.folder = folder
        self.train_seed = self.config.seed
        self.overrides = {"mode": self.config.mode}

    @property
    def checkpoint(self) -> Path:
        """The file that the policy comes from."""
        return self.folder / CHECKPOINT


def train_seed_of(scheduler: Scheduler) -> int | None:
    """Seed of the training run that a scheduler comes from; None for a rule."""
    return scheduler.train_seed if isinstance(scheduler, Trained) else None


def trained_runs(folders: Sequence[Path]) -> list[Trained]:
    """The runs in these folders, or one level below, which together are one learned scheduler.

    Raises:
        ConfigError: a folder holds no run, two runs have the same seed, or they were trained in different ways.
    """
    runs = [Trained(folder) for given in folders for folder in _runs_in(given)]
    for one, other in pairwise(sorted(runs, key=lambda run: run.train_seed)):
        mine, theirs = (dataclasses.asdict(run.config) for run in (one, other))
        wrong = [name for name in mine if name not in _MAY_DIFFER and mine[name] != theirs[name]]
        if wrong:
            parts = ", ".join(f"{name} ({mine[name]} and {theirs[name]})" for name in wrong)
            raise ConfigError(
                f"{one.folder} and {other.folder} differ in {parts}: runs of one policy differ in seed only"
            )
        if one.train_seed == other.train_seed:
            raise ConfigError(
                f"{one.folder} and {other.folder} were both trained with seed {one.train_seed}; give runs of different "
                "seeds"
            )
    return runs


def _runs_in(folder: Path) -> list[Path]:
    from train.checkpoint import CONFIG

    if (folder / CONFIG).exists():
        return [folder]
    return sorted(path.parent for path in folder.glob(f"*/{CONFIG}")) or [folder]
