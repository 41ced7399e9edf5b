"""MaskablePPO in simulated time: discounts by elapsed time, a fixed reward scale, exact truncation."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from sb3_contrib import MaskablePPO
from sb3_contrib.common.maskable.utils import get_action_masks
from stable_baselines3.common.buffers import RolloutBuffer
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.utils import obs_as_tensor, update_learning_rate
from stable_baselines3.common.vec_env import VecEnv
from torch.nn import functional as F

from train.discount import TimedRolloutBuffer

_IMITATION_SPLIT = 4
"""Gradient steps of imitation for each of PPO's minibatches."""

Teacher = Callable[[], np.ndarray]
"""Says what a rule would do in each lane's present state: actions, int64 of shape (n_envs,)."""


class TimedPPO(MaskablePPO):
    """MaskablePPO for an environment whose infos say how much simulated time a step took (``elapsed_us``).

    Args:
        args: those of MaskablePPO.
        teacher: the rule of the warm start; None trains from scratch.
        imitate_steps: steps of the warm start. In it the policy plays, and learns what the teacher would have done in
            each state that it comes to (Ross et al. 2011, DAgger), and the value of its own play.
        imitate_learning_rate: Adam's step size at the start of the warm start; falls linearly to 0 at its end.
        reward_scale: factor on every reward before it reaches the learner. Fixed, so that nothing depends on running
            statistics. Episode statistics stay unscaled.
        kwargs: those of MaskablePPO; ``rollout_buffer_kwargs`` holds the time constants of :class:`TimedRolloutBuffer`.
    """

    rollout_buffer: TimedRolloutBuffer  # type: ignore[assignment]
    lane_episodes: list[int]
    """Number of each lane's next episode when the model was saved."""
    seconds: dict[str, float]
    """Wall time so far in s: ``env``, ``policy`` (forward passes of rollouts) and ``learner`` (updates)."""

    def __init__(
        self,
        *args: Any,
        reward_scale: float = 1.0,
        teacher: Teacher | None = None,
        imitate_steps: int = 0,
        imitate_learning_rate: float = 1e-3,
        **kwargs: Any,
    ) -> None:
        self.teacher = teacher
        self.imitate_steps = imitate_steps
        self.imitate_learning_rate = imitate_learning_rate
        self._imitating = False
        self.reward_scale = reward_scale
        self.lane_episodes = []
        self.seconds = {"env": 0.0, "policy": 0.0, "learner": 0.0}
        super().__init__(*args, **kwargs, rollout_buffer_class=TimedRolloutBuffer)  # type: ignore[misc]

    def _excluded_save_params(self) -> list[str]:
        return [*super()._excluded_save_params(), "teacher"]

    def collect_rollouts(
        self,
        env: VecEnv,
        callback: BaseCallback,
        rollout_buffer: RolloutBuffer,
        n_rollout_steps: int,
        use_masking: bool = True,
    ) -> bool:
        """Fill the buffer with ``n_rollout_steps`` steps of all lanes; False if the callback stopped it early."""
        assert isinstance(rollout_buffer, TimedRolloutBuffer)
        assert use_masking
        self.policy.set_training_mode(False)
        rollout_buffer.reset()
        teacher = self.teacher if self.num_timesteps < self.imitate_steps else None
        self._imitating = teacher is not None
        callback.on_rollout_start()
        for _ in range(n_rollout_steps):
            assert isinstance(self._last_obs, dict)
            masks = get_action_masks(env)
            advice = teacher() if teacher is not None else None
            start = time.perf_counter()
            with torch.no_grad():
                actions, values, log_probs = self.policy(obs_as_tensor(self._last_obs, self.device), action_masks=masks)
            acted = time.perf_counter()
            new_obs, rewards, dones, infos = env.step(actions.cpu().numpy())
            self.seconds["policy"] += acted - start
            self.seconds["env"] += time.perf_counter() - acted

            self.num_timesteps += env.num_envs
            callback.update_locals(locals())
            if not callback.on_step():
                return False
            self._update_info_buffer(infos, dones)
            elapsed_us = np.array([info["elapsed_us"] for info in infos])
            rewards = rewards * np.float32(self.reward_scale) + self._cut_off_values(infos, elapsed_us)
            rollout_buffer.add(
                self._last_obs,
                actions.cpu().numpy() if advice is None else advice,
                rewards,
                self._last_episode_starts,
                values,
                log_probs,
                action_masks=masks,
                elapsed_us=elapsed_us,
            )
            assert isinstance(new_obs, dict)
            self._last_obs = new_obs
            self._last_episode_starts = dones

        assert isinstance(self._last_obs, dict)
        with torch.no_grad():
            last_values = self.policy.predict_values(obs_as_tensor(self._last_obs, self.device))
        rollout_buffer.compute_returns_and_advantage(last_values=last_values, dones=dones)
        callback.on_rollout_end()
        return True

    def train(self) -> None:
        """Update the policy from the rollout, and log where the time goes."""
        start = time.perf_counter()
        if self._imitating:
            self._imitate()
        else:
            super().train()
        self.seconds["learner"] += time.perf_counter() - start
        for part, seconds in self.seconds.items():
            self.logger.record(f"time/{part}_share", seconds / sum(self.seconds.values()))

    def _imitate(self) -> None:
        """Fit the policy to the teacher's actions in the rollout, and the value to the returns."""
        self.policy.set_training_mode(True)
        left = 1.0 - min(self.num_timesteps / self.imitate_steps, 1.0)
        update_learning_rate(self.policy.optimizer, self.imitate_learning_rate * left)
        losses = []
        assert self.batch_size is not None
        # one pass, since fresh labels cost less than a second look; small batches, since labels carry little noise
        for data in self.rollout_buffer.get(max(1, self.batch_size // _IMITATION_SPLIT)):
            values, log_probs, _ = self.policy.evaluate_actions(
                data.observations,  # type: ignore[arg-type]
                data.actions.flatten(),
                data.action_masks,
            )
            imitation_loss = -log_probs.mean()
            loss = imitation_loss + self.vf_coef * F.mse_loss(values.flatten(), data.returns)
            self.policy.optimizer.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(self.policy.parameters(), self.max_grad_norm)
            self.policy.optimizer.step()
            losses.append(imitation_loss.item())
        self._n_updates += 1
        self.logger.record("train/imitation_loss", np.mean(losses))

    def _cut_off_values(self, infos: list[dict[str, Any]], elapsed_us: np.ndarray) -> np.ndarray:
        """Discounted value of the state where a lane was cut off, 0 for other lanes; float32 of shape (n_envs,)."""
        cut_off = [lane for lane, info in enumerate(infos) if info.get("TimeLimit.truncated", False)]
        bonus = np.zeros(len(infos), dtype=np.float32)
        if cut_off:
            finals = [infos[lane]["terminal_observation"] for lane in cut_off]
            batch = {key: np.stack([final[key] for final in finals]) for key in finals[0]}
            with torch.no_grad():
                values = self.policy.predict_values(obs_as_tensor(batch, self.device))
            bonus[cut_off] = values.cpu().numpy()[:, 0] * self.rollout_buffer.discount(elapsed_us[cut_off])
        return bonus
