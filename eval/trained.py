"""Training runs as schedulers: the policy of each in the mode it was trained in; runs of several seeds as one."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np

from agents.learned import LEARNED
from agents.policy import load_policy, policy_file
from agents.scheduler import Scheduler
from hexenv.engine import Simulator
from hexenv.engine.layout import Tables
from hexenv.errors import ConfigError
from train.config import TrainConfig
from train.run_folder import CONFIG, read_config

_MAY_DIFFER = ("seed", "checkpoint_s", "eval_episodes", "threads", "torch_threads")
"""Training options in which the runs of one learned scheduler need not agree."""


class Trained(Scheduler):
    """Plays the policy of one training run.

    Args:
        folder: the run's folder.

    Raises:
        ConfigError: there is no run, or its config or policy is broken.
    """

    def __init__(self, folder: Path) -> None:
        self.config = read_config(folder)
        self.policy = load_policy(folder)
        self.name = LEARNED
        self.overrides = {"mode": self.config.mode}
        self.folder = folder
        self.train_seed = self.config.seed

    @property
    def policy_file(self) -> Path:
        """The file that the policy comes from."""
        return policy_file(self.folder)

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`."""
        self.policy.start(tables, batch, seed)

    def attach(self, simulator: Simulator) -> None:
        """See :meth:`Scheduler.attach`."""
        self.policy.attach(simulator)

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """See :meth:`Scheduler.act`."""
        return self.policy.act(views, masks)


def policy_of(scheduler: Scheduler) -> Scheduler:
    """What decides for a scheduler: the policy of a training run, else the scheduler itself."""
    return scheduler.policy if isinstance(scheduler, Trained) else scheduler


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
        if parts := _differences(one.config, other.config):
            raise ConfigError(
                f"{one.folder} and {other.folder} differ in {', '.join(parts)}: runs of one policy differ in seed only"
            )
        if one.train_seed == other.train_seed:
            raise ConfigError(
                f"{one.folder} and {other.folder} were both trained with seed {one.train_seed}; give runs of different "
                "seeds"
            )
    return runs


def _differences(one: TrainConfig, other: TrainConfig) -> list[str]:
    """In what two runs of one policy must not differ, and do."""
    if one.learner != other.learner:
        return [f"learner ({one.learner} and {other.learner})"]
    mine, theirs = dataclasses.asdict(one), dataclasses.asdict(other)
    wrong = [name for name in mine if name not in _MAY_DIFFER and mine[name] != theirs[name]]
    return [f"{name} ({mine[name]} and {theirs[name]})" for name in wrong]


def _runs_in(folder: Path) -> list[Path]:
    if (folder / CONFIG).exists():
        return [folder]
    return sorted(path.parent for path in folder.glob(f"*/{CONFIG}")) or [folder]
