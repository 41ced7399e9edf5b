"""The Stable-Baselines3 VecEnv over the engine: its contract, its episodes and its bookkeeping."""

from __future__ import annotations

import numpy as np
import pytest
from stable_baselines3.common.vec_env import VecEnv

from hexenv import workload
from hexenv.engine import Simulator, episode_key
from train.vec_env import SimulatorVecEnv

LANES, SEED = 5, 40


@pytest.fixture(scope="module")
def tables():
    return workload.build("camera_decode", horizon_us=3000.0)


def legal_actions(env: VecEnv, rng: np.random.Generator) -> np.ndarray:
    masks = np.stack(env.env_method("action_masks"))
    return np.array([rng.choice(np.flatnonzero(row)) for row in masks])


def play(env: VecEnv, steps: int):
    """Random legal play; a list of (observation, rewards, dones, infos), the reset first."""
    rng = np.random.default_rng(0)
    history = [(env.reset(), None, None, None)]
    for _ in range(steps):
        history.append(env.step(legal_actions(env, rng)))
    return history


def test_shapes_and_types(tables) -> None:
    env = SimulatorVecEnv(tables, LANES, SEED)
    (observation, *_), (_, rewards, dones, infos) = play(env, 1)
    for key, box in env.observation_space.items():
        assert observation[key].dtype == np.float32
        assert observation[key].shape == (LANES, *box.shape)
        assert all(box.contains(row) for row in observation[key])
    assert (rewards.dtype, dones.dtype) == (np.float32, bool)
    assert rewards.shape == dones.shape == (LANES,)
    assert len({id(info) for info in infos}) == LANES
    masks = env.env_method("action_masks")
    assert masks.dtype == bool
    assert masks.shape == (LANES, env.action_space.n)
    assert masks[:, 0].all()
    assert env.env_method("action_masks", indices=[1, 3]).shape == (2, env.action_space.n)
    assert env.has_attr("action_masks")
    assert not env.has_attr("no_such_attribute")
    assert env.get_attr("render_mode") == [None] * LANES
    with pytest.raises(AttributeError, match="no_such_method"):
        env.env_method("no_such_method")


def test_lanes_play_the_episodes_of_their_seeds(tables) -> None:
    """Rewards, ends and statistics equal those of a simulator of one lane that is reset by hand."""
    env = SimulatorVecEnv(tables, LANES, SEED)
    rng = np.random.default_rng(1)
    env.reset()
    single, lane, episode = Simulator(tables, 1), 3, 0
    single.reset(np.array([episode_key(SEED + lane, 0)], np.uint64))
    total, length = 0.0, 0
    while episode < 3:
        actions = legal_actions(env, rng)
        assert (np.stack(env.env_method("action_masks"))[lane] == single.masks[0]).all()
        _, rewards, dones, infos = env.step(actions)
        single.step(actions[[lane]])
        total, length = total + single.rewards[0], length + 1
        assert rewards[lane] == np.float32(single.rewards[0])
        assert infos[lane]["elapsed_us"] == single.elapsed_ns[0] / 1e3
        assert dones[lane] == single.lanes["over"][0]
        if dones[lane]:
            assert infos[lane]["episode"] == {"r": pytest.approx(total), "l": length}
            assert infos[lane]["TimeLimit.truncated"] is True
            episode, total, length = episode + 1, 0.0, 0
            single.reset(np.array([episode_key(SEED + lane, episode)], np.uint64))
        else:
            assert "terminal_observation" not in infos[lane]


def test_terminal_observation_is_the_end_and_not_the_next_start(tables) -> None:
    env = SimulatorVecEnv(tables, LANES, SEED)
    for observation, _, dones, infos in play(env, 400)[1:]:
        for lane in np.flatnonzero(dones):
            final = infos[lane]["terminal_observation"]
            assert {key: array.shape for key, array in final.items()} == {
                key: array.shape[1:] for key, array in observation.items()
            }
            assert any((final[key] != observation[key][lane]).any() for key in final)
            return
    raise AssertionError("no episode ended")


def test_returned_arrays_are_never_overwritten(tables) -> None:
    env = SimulatorVecEnv(tables, LANES, SEED)
    observation, masks = env.reset(), env.env_method("action_masks")
    _, rewards, dones, _ = env.step(np.zeros(LANES, int))
    kept = [observation["vtcm"], observation["tasks"], masks, rewards, dones]
    copies = [array.copy() for array in kept]
    rng = np.random.default_rng(0)
    for _ in range(400):
        env.step(legal_actions(env, rng))
    for array, copy in zip(kept, copies, strict=True):
        np.testing.assert_array_equal(array, copy)


def test_a_resumed_env_goes_on_with_new_episodes(tables) -> None:
    env = SimulatorVecEnv(tables, LANES, SEED)
    play(env, 400)
    assert (env.episodes > 1).all()
    resumed = SimulatorVecEnv(tables, LANES, SEED, env.episodes)
    observation = resumed.reset()
    single = Simulator(tables, 1)
    single.reset(np.array([episode_key(SEED, int(env.episodes[0]))], np.uint64))
    assert (resumed.views[0] == single.views[0]).all()
    assert any((observation[key] != array).any() for key, array in SimulatorVecEnv(tables, LANES, SEED).reset().items())


def test_seed_starts_over(tables) -> None:
    env = SimulatorVecEnv(tables, LANES, SEED)
    first = env.reset()
    play(env, 50)
    env.seed(SEED)
    again = env.reset()
    for key, array in first.items():
        np.testing.assert_array_equal(array, again[key])
