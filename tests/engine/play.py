"""Random legal play, for the tests that must hold whatever the scheduler does."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hexenv.engine import Simulator, episode_key


def keys(batch: int, first: int = 0) -> np.ndarray:
    """Keys of episode 0 of seeds first, first + 1, ..., uint64 (batch,)."""
    return np.array([episode_key(first + i, 0) for i in range(batch)], np.uint64)


def random_actions(sim: Simulator, rng: np.random.Generator) -> np.ndarray:
    """A uniformly random legal action a lane, int64 (batch,)."""
    return np.where(sim.masks, rng.random(sim.masks.shape, np.float32), -1.0).argmax(axis=1)


def hashed_actions(sim: Simulator, seeds: np.ndarray) -> np.ndarray:
    """A legal action a lane that depends on nothing but the lane's seed and decision number, int64 (batch,)."""
    mixed = (
        seeds.astype(np.uint64) * np.uint64(7919) + sim.lanes["decisions"].astype(np.uint64) * np.uint64(104729)
    ) % 9973
    legal = sim.masks.cumsum(axis=1)
    nth = (mixed.astype(np.int64) % legal[:, -1]) + 1
    return (legal >= nth[:, None]).argmax(axis=1)


def play_out(sim: Simulator, choose: Callable[[Simulator], np.ndarray]) -> np.ndarray:
    """Play every lane to its end; returns the sums of rewards, float64 (batch,)."""
    total = np.zeros(sim.batch)
    live = ~sim.lanes["over"]
    while live.any():
        sim.step(np.where(live, choose(sim), 0), live)
        total += np.where(live, sim.rewards, 0.0)
        live &= ~sim.lanes["over"]
    return total
