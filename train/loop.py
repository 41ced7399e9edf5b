"""The training loop of PPO: builds environment and learner, trains with a progress bar, saves, and stops cleanly."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat
from stable_baselines3.common.utils import LinearSchedule, set_random_seed

import agents
from agents.network import TaskPolicy
from hexenv.engine.layout import NO_DEADLINE, Tables
from hexenv.errors import ConfigError
from hexenv.workload import build
from train.checkpoint import read_counters, restore, save
from train.config import PpoConfig
from train.ppo import Teacher, TimedPPO
from train.signals import stop_signals
from train.vec_env import SimulatorVecEnv

_LOG_INTERVAL_S = 15.0


class PpoTrainer:
    """A run in memory: the compiled scenario, its lanes and the learner.

    Args:
        config: the run's settings.
        resume: folder of the run whose checkpoint is continued; None starts from scratch.

    Raises:
        ConfigError: unknown scenario or device, more lanes than training seeds, or a checkpoint that does not fit.
    """

    def __init__(self, config: PpoConfig, resume: Path | None = None) -> None:
        self.config = config
        self.tables = self.build_tables("train")
        episodes = None if resume is None else np.array(read_counters(resume)["lane_episodes"], dtype=np.int64)
        self.env = SimulatorVecEnv(self.tables, config.lanes, first_seed(config, self.tables), episodes)
        torch.set_num_threads(config.torch_threads)
        set_random_seed(config.seed)
        self.model = build_model(config, self.tables, self.env)
        if resume is not None:
            restore(self.model, resume)
            set_random_seed(config.seed + self.model.num_timesteps)

    def build_tables(self, split: str) -> Tables:
        """The run's scenario, compiled for split ``train`` or ``heldout``."""
        return build(self.config.scenario, self.config.device, split, **self.config.overrides())

    @property
    def done(self) -> int:
        """Decisions trained for so far."""
        return self.model.num_timesteps

    @property
    def finished(self) -> bool:
        """Whether the run has trained for all its steps."""
        return self.done >= self.config.steps

    def learn(self, run: Path, console: Console) -> bool:
        """Train until the run is finished or a signal (Ctrl-C, SIGTERM) asks to stop; leaves a checkpoint either way.

        Returns:
            Whether the run is finished.
        """
        self.model.set_logger(Logger(None, [TensorBoardOutputFormat(str(run / "tensorboard"))]))
        progress = Progress(
            TextColumn("training"),
            BarColumn(),
            TextColumn("{task.completed:,.0f} of {task.total:,.0f} steps"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[speed]:,.0f} steps/s  return {task.fields[mean_return]}"),
            console=console,
            speed_estimate_period=60.0,
        )
        with stop_signals() as stop, progress:
            watch = _Watch(lambda: self.save(run), self.config, progress, stop)
            self.model.learn(self.config.steps - self.done, watch, reset_num_timesteps=False)
        self.save(run)
        self.model.logger.close()
        return self.finished

    def save(self, run: Path) -> None:
        """Write the run's checkpoint; ConfigError if that is impossible."""
        self.model.lane_episodes = self.env.episodes.tolist()
        save(self.model, run)


def first_seed(config: PpoConfig, tables: Tables) -> int:
    """Seed of lane 0: runs with different ``config.seed`` share no episode, and no run leaves the split's seeds.

    Raises:
        ConfigError: the split has too few seeds.
    """
    first, count = tables.seeds
    if (config.seed + 1) * config.lanes > count:
        raise ConfigError(
            f"seed {config.seed} with {config.lanes} lanes needs {(config.seed + 1) * config.lanes} training seeds, "
            f"scenario {tables.scenario} has {count}"
        )
    return first + config.seed * config.lanes


def discount_tau_us(config: PpoConfig, tables: Tables) -> float:
    """Time constant of the discount in us: a multiple of the longest deadline, or of the horizon if there is none."""
    deadlines = tables.streams["deadline_ns"]
    deadlines = deadlines[deadlines < NO_DEADLINE]
    longest_ns = deadlines.max() if len(deadlines) else tables.config["horizon_ns"][0]
    return config.discount_deadlines * float(longest_ns) / 1e3


def build_teacher(config: PpoConfig, env: SimulatorVecEnv) -> Teacher | None:
    """What the rule called ``config.teacher`` would do in the lanes of ``env``; ConfigError for an unknown rule."""
    if config.teacher == "none":
        return None
    rule = agents.make(config.teacher)
    rule.start(env.tables, env.num_envs, config.seed)
    return lambda: rule.act(env.views, env.action_masks())


def build_model(config: PpoConfig, tables: Tables, env: SimulatorVecEnv) -> TimedPPO:
    """A new learner for ``env`` with the settings of ``config``."""
    return TimedPPO(
        TaskPolicy,
        env,
        learning_rate=LinearSchedule(config.learning_rate, 0.0, 1.0),
        n_steps=config.rollout,
        batch_size=config.minibatch,
        n_epochs=config.epochs,
        clip_range=config.clip,
        ent_coef=config.entropy,
        vf_coef=config.value_weight,
        max_grad_norm=config.max_grad_norm,
        reward_scale=config.reward_scale,
        teacher=build_teacher(config, env),
        imitate_steps=config.imitate_steps,
        imitate_learning_rate=config.imitate_learning_rate,
        rollout_buffer_kwargs={"tau_us": discount_tau_us(config, tables), "trace_tau_us": config.trace_us},
        policy_kwargs={"width": config.width, "context_width": config.context_width},
        device="cpu",
    )


class _Watch(BaseCallback):
    """Moves the progress bar, saves from time to time, and ends the training when a signal came."""

    def __init__(self, save: Callable[[], None], config: PpoConfig, progress: Progress, stop: list[int]) -> None:
        super().__init__()
        self._save = save
        self._interval_s = config.checkpoint_s
        self._total = config.steps
        self._progress = progress
        self._stop = stop

    def _on_training_start(self) -> None:
        self._started = self._saved = self._printed = time.monotonic()
        self._first = self.model.num_timesteps
        self._bar = self._progress.add_task("", total=self._total, completed=self._first, speed=0.0, mean_return="-")

    def _on_rollout_start(self) -> None:
        # between an update and the next rollout, counters and weights belong together
        self._updated_at = self.model.num_timesteps
        if time.monotonic() - self._saved >= self._interval_s:
            self._save()
            self._saved = time.monotonic()

    def _on_step(self) -> bool:
        if self._stop:
            self.model.num_timesteps = self._updated_at  # the rollout at hand is thrown away
            return False
        steps = self.model.num_timesteps
        episodes = self.model.ep_info_buffer or ()
        mean_return = f"{np.mean([episode['r'] for episode in episodes]):.1f}" if episodes else "-"
        speed = (steps - self._first) / max(time.monotonic() - self._started, 1e-9)
        self._progress.update(self._bar, completed=min(steps, self._total), speed=speed, mean_return=mean_return)
        self._print_for_logs(f"{steps:,} of {self._total:,} steps, {speed:,.0f} steps/s, return {mean_return}")
        return True

    def _print_for_logs(self, line: str) -> None:
        """A line now and then where no bar can move (output to a file)."""
        if not self._progress.console.is_terminal and time.monotonic() - self._printed >= _LOG_INTERVAL_S:
            self._progress.console.print(line)
            self._printed = time.monotonic()
