"""The rollout buffer's time-based advantages, against sums written out by hand."""

from __future__ import annotations

import math

import numpy as np
import torch
from gymnasium import spaces

from train.discount import TimedRolloutBuffer

TAU_US, TRACE_TAU_US = 1000.0, 400.0


def fill(rewards, values, elapsed_us, starts) -> TimedRolloutBuffer:
    """One lane whose steps have these rewards, values, times and episode starts."""
    buffer = TimedRolloutBuffer(
        len(rewards),
        spaces.Dict({"x": spaces.Box(-1, 1, (1,), np.float32)}),
        spaces.Discrete(3),
        device="cpu",
        tau_us=TAU_US,
        trace_tau_us=TRACE_TAU_US,
    )
    for reward, value, elapsed, start in zip(rewards, values, elapsed_us, starts, strict=True):
        buffer.add(
            {"x": np.zeros((1, 1), np.float32)},
            np.zeros((1, 1)),
            np.array([reward]),
            np.array([start]),
            torch.tensor([value]),
            torch.tensor([0.0]),
            action_masks=np.array([[True, False, True]]),
            elapsed_us=np.array([elapsed]),
        )
    return buffer


def test_advantages_by_hand() -> None:
    buffer = fill([1.0, 2.0, 3.0], [0.5, 0.4, 0.3], [0.0, 500.0, 200.0], [True, False, False])
    buffer.compute_returns_and_advantage(torch.tensor([0.7]), np.array([False]))
    gamma_1, gamma_2 = math.exp(-500 / TAU_US), math.exp(-200 / TAU_US)
    lambda_1 = math.exp(-500 / TRACE_TAU_US)
    advantage_2 = 3.0 + gamma_2 * 0.7 - 0.3
    advantage_1 = 2.0 + gamma_1 * 0.3 - 0.4 + gamma_1 * lambda_1 * advantage_2
    advantage_0 = 1.0 + 0.4 - 0.5 + advantage_1  # a zero-time step: no discount, no decay
    np.testing.assert_allclose(buffer.advantages[:, 0], [advantage_0, advantage_1, advantage_2], rtol=1e-5)
    np.testing.assert_allclose(
        buffer.returns[:, 0], [advantage_0 + 0.5, advantage_1 + 0.4, advantage_2 + 0.3], rtol=1e-5
    )


def test_nothing_flows_over_an_episode_end() -> None:
    buffer = fill([1.0, 2.0], [0.5, 0.4], [100.0, 100.0], [True, True])
    buffer.compute_returns_and_advantage(torch.tensor([9.0]), np.array([True]))
    np.testing.assert_allclose(buffer.advantages[:, 0], [1.0 - 0.5, 2.0 - 0.4], rtol=1e-6)


def test_zero_time_picks_do_not_change_the_value_of_a_schedule() -> None:
    direct = fill([1.0, 2.0], [0.0, 0.0], [300.0, 200.0], [True, False])
    picked = fill([0.0, 1.0, 0.0, 0.0, 2.0], [0.0] * 5, [0.0, 300.0, 0.0, 0.0, 200.0], [True] + [False] * 4)
    for buffer in (direct, picked):
        buffer.compute_returns_and_advantage(torch.tensor([5.0]), np.array([False]))
    assert picked.returns[0, 0] == direct.returns[0, 0]


def test_with_an_endless_trace_the_return_is_the_discounted_sum() -> None:
    rng = np.random.default_rng(0)
    rewards, elapsed = rng.normal(size=20), rng.uniform(0, 300, 20)
    buffer = fill(rewards, rng.normal(size=20), elapsed, [True] + [False] * 19)
    buffer.trace_tau_us = math.inf
    buffer.compute_returns_and_advantage(torch.tensor([2.0]), np.array([False]))
    at_us = np.concatenate(([0.0], np.cumsum(elapsed)))
    expected = (rewards * np.exp(-at_us[:-1] / TAU_US)).sum() + 2.0 * math.exp(-at_us[-1] / TAU_US)
    np.testing.assert_allclose(buffer.returns[0, 0], expected, rtol=1e-4)


def test_masks_are_kept_a_step() -> None:
    buffer = fill([0.0, 0.0], [0.0, 0.0], [1.0, 1.0], [True, False])
    buffer.compute_returns_and_advantage(torch.tensor([0.0]), np.array([False]))
    (batch,) = buffer.get(None)
    assert batch.action_masks.tolist() == [[True, False, True]] * 2
