"""Advantages under a time-based discount: a later reward counts less by the simulated time until it, not by the step.

A pick takes no time and a launch runs the device for up to some hundred microseconds, so a constant factor a step would
make the value of the same schedule depend on how many decisions it took.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from sb3_contrib.common.maskable.buffers import MaskableDictRolloutBuffer


class TimedRolloutBuffer(MaskableDictRolloutBuffer):
    """Rollout buffer whose transition t is discounted by ``gamma_t = exp(-elapsed_t / tau)``.

    Generalised advantage estimation (Schulman et al. 2016, eq. 16) with the same change for its trace decay,
    ``lambda_t = exp(-elapsed_t / trace_tau)``::

        delta_t = r_t + gamma_t V(s_t+1) - V(s_t)
        A_t     = delta_t + gamma_t lambda_t A_t+1        R_t = A_t + V(s_t)

    with V(s_t+1) and A_t+1 zero where the episode ends. Where an episode is cut off (truncated), the caller adds
    ``gamma_t V(s_t+1)`` to r_t before :meth:`add`.

    Args:
        args: those of sb3's buffers.
        tau_us: time constant of the discount in us.
        trace_tau_us: time constant of the trace decay in us.
        kwargs: those of sb3's buffers; ``gamma`` and ``gae_lambda`` have no effect.
    """

    def __init__(self, *args: Any, tau_us: float, trace_tau_us: float, **kwargs: Any) -> None:
        self.tau_us = tau_us
        self.trace_tau_us = trace_tau_us
        super().__init__(*args, **kwargs)

    def reset(self) -> None:
        """Empty the buffer."""
        super().reset()
        self.action_masks = np.ones(self.action_masks.shape, dtype=bool)  # a quarter of sb3-contrib's float32
        self.elapsed_us = np.zeros((self.buffer_size, self.n_envs), dtype=np.float64)

    def discount(self, elapsed_us: np.ndarray) -> np.ndarray:
        """Factor of what follows after ``elapsed_us``, float32 of the same shape."""
        return np.exp(-np.asarray(elapsed_us, dtype=np.float64) / self.tau_us).astype(np.float32)

    def add(self, *args: Any, elapsed_us: np.ndarray, **kwargs: Any) -> None:  # type: ignore[override]
        """Append one step of all lanes; ``elapsed_us`` of shape (n_envs,) is the simulated time that each took."""
        self.elapsed_us[self.pos] = elapsed_us
        super().add(*args, **kwargs)

    def compute_returns_and_advantage(self, last_values: torch.Tensor, dones: np.ndarray) -> None:
        """Fill ``advantages`` and ``returns``.

        Args:
            last_values: value of the state after the last step, shape (n_envs,) or (n_envs, 1).
            dones: whether the last step ended the lane's episode, bool of shape (n_envs,).
        """
        goes_on = 1.0 - np.concatenate((self.episode_starts[1:], dones[None].astype(np.float32)))
        gamma = self.discount(self.elapsed_us) * goes_on
        decay = gamma * np.exp(-self.elapsed_us / self.trace_tau_us)
        next_values = np.concatenate((self.values[1:], last_values.cpu().numpy().reshape(1, -1)))
        deltas = self.rewards + gamma * next_values - self.values
        advantage = np.zeros(self.n_envs)
        for step in reversed(range(self.buffer_size)):
            advantage = deltas[step] + decay[step] * advantage
            self.advantages[step] = advantage
        self.returns = self.advantages + self.values
