"""The training loop of PPO: builds environment and learner, and leaves a checkpoint and TensorBoard's curves."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import Logger, TensorBoardOutputFormat
from stable_baselines3.common.utils import LinearSchedule, set_random_seed

import agents
from agents.network import TaskPolicy
from hexenv.engine.layout import NO_DEADLINE, Tables
from train.checkpoint import read_counters, restore, save
from train.config import PpoConfig
from train.ppo import Teacher, TimedPPO
from train.trainer import Trainer, Watch, first_seed
from train.vec_env import SimulatorVecEnv


class PpoTrainer(Trainer):
    """A run in memory: the compiled scenario, its lanes and the learner.

    Args:
        config: the run's settings.
        resume: folder of the run whose checkpoint is continued; None starts from scratch.

    Raises:
        ConfigError: unknown scenario or device, more lanes than training seeds, or a checkpoint that does not fit.
    """

    config: PpoConfig
    paced_by = "steps"

    def __init__(self, config: PpoConfig, resume: Path | None = None) -> None:
        super().__init__(config)
        episodes = None if resume is None else np.array(read_counters(resume)["lane_episodes"], dtype=np.int64)
        self.env = SimulatorVecEnv(self.tables, config.lanes, first_seed(config, self.tables, "lanes"), episodes)
        torch.set_num_threads(config.torch_threads)
        set_random_seed(config.seed)
        self.model = build_model(config, self.tables, self.env)
        if resume is not None:
            restore(self.model, resume)
            set_random_seed(config.seed + self.model.num_timesteps)

    @property
    def done(self) -> int:
        """Decisions trained for so far."""
        return self.model.num_timesteps

    def _train(self, run: Path, watch: Watch) -> None:
        """See :meth:`Trainer._train`."""
        self.model.set_logger(Logger(None, [TensorBoardOutputFormat(str(run / "tensorboard"))]))
        self.model.learn(self.config.steps - self.done, _Steps(watch), reset_num_timesteps=False)
        self.model.logger.close()

    def save(self, run: Path) -> None:
        """See :meth:`Trainer.save`: the checkpoint."""
        self.model.lane_episodes = self.env.episodes.tolist()
        save(self.model, run)


def discount_tau_us(config: PpoConfig, tables: Tables) -> float:
    """Time constant of the discount in us: a multiple of the longest deadline, or of the horizon if there is none."""
    deadlines = np.concatenate([tables.streams["deadline_ns"], tables.trace_deadline_ns])
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


class _Steps(BaseCallback):
    """Reports each step of all lanes, saves between rollouts, and ends the training when it is stopped."""

    def __init__(self, watch: Watch) -> None:
        super().__init__()
        self._watch = watch

    def _on_training_start(self) -> None:
        self._first = self.model.num_timesteps

    def _on_rollout_start(self) -> None:
        # between an update and the next rollout, counters and weights belong together
        self._updated_at = self.model.num_timesteps
        self._watch.save_if_due()

    def _on_step(self) -> bool:
        if self._watch.stopped:
            self.model.num_timesteps = self._updated_at  # the rollout at hand is thrown away
            return False
        steps, episodes = self.model.num_timesteps, self.model.ep_info_buffer
        mean_return = float(np.mean([episode["r"] for episode in episodes])) if episodes else None
        self._watch.show(steps, steps - self._first, mean_return)
        return True
