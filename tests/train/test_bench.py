"""The training loop over a stand-in that costs nothing: same spaces, same kind of numbers, no engine."""

from __future__ import annotations

import numpy as np

from train.bench import RecordedVecEnv, compare, main
from train.config import PpoConfig
from train.vec_env import SimulatorVecEnv

SMALL = PpoConfig(horizon_us=3000.0, lanes=4, rollout=16, minibatch=32, epochs=1, teacher="none", imitate_steps=0)


def test_the_stand_in_gives_out_what_was_recorded_whatever_is_played() -> None:
    recorded = RecordedVecEnv(SMALL, frames=8)
    live = SimulatorVecEnv(recorded.tables, SMALL.lanes, recorded.tables.seeds[0])
    assert recorded.observation_space == live.observation_space
    assert recorded.action_space == live.action_space
    first, begun = recorded.reset(), live.reset()
    assert all((first[key] == begun[key]).all() for key in begun)
    assert (recorded.action_masks() == live.action_masks()).all()
    rounds = []
    for _ in range(2):
        recorded.reset()
        steps = []
        for i in range(8):
            observation, rewards, dones, infos = recorded.step(np.full(SMALL.lanes, i))
            assert set(observation) == set(begun)
            assert len(infos) == len(dones) == SMALL.lanes
            steps.append(rewards.copy())
        rounds.append(steps)
    assert np.array_equal(rounds[0], rounds[1])
    assert np.any(rounds[0])


def test_both_loops_are_timed_in_every_round() -> None:
    pairs = compare(SMALL, steps=64, rounds=2)
    assert len(pairs) == 2
    assert all(seconds > 0 for pair in pairs for seconds in pair)


def test_nonsense_is_refused_in_one_line(refusal) -> None:
    assert "0 rounds of 64 steps" in refusal(main, ["--rounds", "0", "--steps", "64"])
