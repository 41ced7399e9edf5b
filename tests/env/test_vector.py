from __future__ import annotations

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, SyncVectorEnv

from hexenv.engine import IllegalAction
from hexenv.env import HexagonEnv
from hexenv.errors import ConfigError
from hexenv.vector import HexagonVectorEnv

ID = "hexenv/Hexagon-v0"


def choose(mask, seed, step):
    """A legal action that depends on nothing but the sub-environment's seed, its mask and the step."""
    legal = np.flatnonzero(mask)
    return int(legal[(7919 * seed + 104729 * step) % len(legal)])


def as_bytes(observation, info):
    numbers = np.array([info[key] for key in ("elapsed_us", "time_us", "credit_ms", "charge_ms", "setting")])
    return (
        b"".join(value.tobytes() for value in observation.values()) + info["action_mask"].tobytes() + numbers.tobytes()
    )


def row(tree, lane):
    return {key: value[lane] for key, value in tree.items() if not key.startswith("_")}


def single_track(short, seed, steps):
    """Bytes of the single environment under next_step autoreset, an item a step."""
    env = HexagonEnv(**short)
    observation, info = env.reset(seed=seed)
    track, over, ends = [as_bytes(observation, info)], False, 0
    for step in range(steps):
        if over:
            observation, info = env.reset()
            reward, terminated, truncated = 0.0, False, False
        else:
            action = choose(info["action_mask"], seed, step)
            observation, reward, terminated, truncated, info = env.step(action)
        over = terminated or truncated
        ends += over
        track.append(as_bytes(observation, info) + np.array([reward, terminated, truncated]).tobytes())
    assert ends >= 2
    return track


STEPS = 700


@pytest.fixture(scope="module")
def tracks(short):
    return {seed: single_track(short, seed, STEPS) for seed in (40, 43, 46)}


@pytest.mark.parametrize(("batch", "threads"), [(1, 1), (7, 1), (7, 2), (64, 1), (64, 2)])
def test_sub_environment_equals_the_single_one(short, tracks, batch, threads):
    envs = gymnasium.make_vec(ID, num_envs=batch, threads=threads, **short)
    observation, infos = envs.reset(seed=40)
    seen = {
        seed: [as_bytes(row(observation, seed - 40), row(infos, seed - 40))] for seed in tracks if seed - 40 < batch
    }
    for step in range(STEPS):
        actions = np.array([choose(infos["action_mask"][lane], 40 + lane, step) for lane in range(batch)])
        observation, rewards, terminated, truncated, infos = envs.step(actions)
        for seed, track in seen.items():
            lane = seed - 40
            ends = np.array([rewards[lane], terminated[lane], truncated[lane]]).tobytes()
            track.append(as_bytes(row(observation, lane), row(infos, lane)) + ends)
    for seed, track in seen.items():
        assert track == tracks[seed]


def walk(envs, steps, seed=11):
    """Step outcomes of random legal play of three sub-environments."""
    _observation, infos = envs.reset(seed=seed)
    for step in range(steps):
        actions = np.array([choose(mask, lane, step) for lane, mask in enumerate(infos["action_mask"])])
        outcome = envs.step(actions)
        infos = outcome[4]
        yield outcome


def equal(ours, theirs, where=None):
    """Whether two trees of arrays are equal, in the lanes of ``where`` only if it is given."""
    if isinstance(ours, dict):
        return ours.keys() == theirs.keys() and all(
            equal(ours[key], theirs[key], theirs.get(f"_{key}", where)) for key in ours
        )
    if ours is None or theirs is None:
        return ours is theirs
    if isinstance(ours, np.ndarray) and ours.dtype == object:
        return all(equal(a, b) for a, b in zip(ours, theirs, strict=True))
    if where is not None:
        ours, theirs = ours[where], theirs[where]
    return bool(np.all(ours == theirs))


@pytest.mark.parametrize("mode", ["next_step", "same_step"])
def test_autoreset_is_gymnasiums_own(short, mode):
    native = HexagonVectorEnv(3, autoreset_mode=mode, **short)
    makers = [lambda: HexagonEnv(**short)] * 3
    reference = SyncVectorEnv(makers, autoreset_mode=AutoresetMode[mode.upper()])
    assert native.metadata["autoreset_mode"] is AutoresetMode[mode.upper()]
    ends = 0
    for ours, theirs in zip(walk(native, 500), walk(reference, 500), strict=True):
        for a, b in zip(ours, theirs, strict=True):
            assert equal(a, b)
        ends += int((ours[2] | ours[3]).sum())
    assert ends >= 3


def test_same_step_keeps_the_final_observation_and_info(short):
    envs = HexagonVectorEnv(2, autoreset_mode="same_step", **short)
    for observation, _, _, truncated, infos in walk(envs, 600):
        if truncated.any():
            lane = int(np.argmax(truncated))
            assert infos["_final_obs"].tolist() == truncated.tolist()
            assert infos["final_info"]["time_us"][lane] == short["horizon_us"]
            assert infos["time_us"][lane] < short["horizon_us"]
            assert infos["final_obs"][lane] in envs.single_observation_space
            assert any((infos["final_obs"][lane][key] != observation[key][lane]).any() for key in observation)
            return
        assert "final_obs" not in infos
    pytest.fail("no episode ended")


def test_disabled_resets_what_the_mask_says(short):
    envs = HexagonVectorEnv(2, autoreset_mode="disabled", **short)
    track = walk(envs, 2000)
    truncated = np.zeros(2, np.bool_)
    while not truncated.any():
        truncated = next(track)[3]
    with pytest.raises(ResetNeeded, match=str(int(np.argmax(truncated)))):
        envs.step(np.zeros(2, np.int64))
    going_on = int(np.argmin(truncated))
    lane = envs.simulator.lanes[going_on : going_on + 1]  # a view: copies of records leave their padding undefined
    other = lane.tobytes()
    _, infos = envs.reset(options={"reset_mask": truncated})
    assert infos["time_us"][truncated].max() < short["horizon_us"]
    assert lane.tobytes() == other
    envs.step(np.zeros(2, np.int64))


def test_list_of_seeds_seeds_each(short):
    envs = HexagonVectorEnv(3, **short)
    observation, infos = envs.reset(seed=[9, 4, 9])
    single, info = HexagonEnv(**short).reset(seed=4)
    assert as_bytes(row(observation, 1), row(infos, 1)) == as_bytes(single, info)
    assert as_bytes(row(observation, 0), row(infos, 0)) == as_bytes(row(observation, 2), row(infos, 2))


def test_unseeded_reset_goes_on_and_a_seed_in_the_list_may_be_missing(short):
    envs, env = HexagonVectorEnv(2, **short), HexagonEnv(**short)
    envs.reset(seed=[5, 6])
    env.reset(seed=6)
    observation, infos = envs.reset(seed=[5, None])
    assert as_bytes(row(observation, 1), row(infos, 1)) == as_bytes(*env.reset())
    observation, infos = envs.reset()
    assert as_bytes(row(observation, 1), row(infos, 1)) == as_bytes(*env.reset())


def test_no_sub_environment_moves_if_one_action_is_illegal(short):
    envs = HexagonVectorEnv(3, **short)
    _, infos = envs.reset(seed=0)
    before = envs.simulator.lanes.tobytes()
    actions = np.array([int(np.flatnonzero(mask)[-1]) for mask in infos["action_mask"]])
    actions[2] = int(np.flatnonzero(infos["action_mask"][2] == 0)[0])
    with pytest.raises(IllegalAction, match="lane 2"):
        envs.step(actions)
    assert envs.simulator.lanes.tobytes() == before


def test_returned_arrays_are_the_callers_own(short):
    envs, twins = HexagonVectorEnv(3, **short), HexagonVectorEnv(3, **short)
    observation, infos = envs.reset(seed=0)
    expected, expected_infos = twins.reset(seed=0)
    for step in range(200):
        assert equal(observation, expected)
        assert equal(infos, expected_infos)
        actions = np.array([choose(mask, lane, step) for lane, mask in enumerate(expected_infos["action_mask"])])
        for array in (*observation.values(), *infos.values(), envs.action_masks()):
            array[...] = 1
        observation, rewards, terminated, truncated, infos = envs.step(actions)
        expected, *_, expected_infos = twins.step(actions)
        for array in (rewards, terminated, truncated):
            array[...] = 1


def test_batched_sample_with_the_masks_is_legal(short):
    envs = gymnasium.make_vec(ID, num_envs=4, **short)
    _, infos = envs.reset(seed=0)
    envs.action_space.seed(0)
    for _ in range(100):
        assert infos["action_mask"].dtype == np.int8
        assert infos["action_mask"].shape == (4, envs.single_action_space.n)
        assert infos["_action_mask"].all()
        observation, _, _, _, infos = envs.step(envs.action_space.sample(tuple(infos["action_mask"])))
        assert observation in envs.observation_space


def test_factored_batch_equals_the_factored_single_one(short):
    envs = gymnasium.make_vec("hexenv/HexagonMultiDiscrete-v0", num_envs=2, **short)
    env = gymnasium.make("hexenv/HexagonMultiDiscrete-v0", **short)
    envs.action_space.seed(0)
    envs.reset(seed=3)
    env.reset(seed=4)
    for _ in range(100):
        actions = envs.action_space.sample()
        _, rewards, _, _, infos = envs.step(actions)
        _, reward, _, _, info = env.step(actions[1])
        assert rewards[1] == reward
        assert row(infos, 1)["executed"] == info["executed"]
        assert row(infos, 1)["repaired"] == info["repaired"]
        assert (infos["action_mask"][1] == info["action_mask"]).all()


def test_settings_a_sub_environment(short):
    envs = HexagonVectorEnv(2, **short)
    assert envs.reset(seed=0, options={"setting": [1, 0]})[1]["setting"].tolist() == [1, 0]
    assert envs.reset(seed=0, options={"setting": 1})[1]["setting"].tolist() == [1, 1]


@pytest.mark.parametrize(
    "options",
    [
        {"reset_mask": [True, False]},
        {"reset_mask": np.zeros(2, np.bool_)},
        {"reset_mask": np.ones(3, np.bool_)},
        {"setting": [0, 1, 0]},
        {"other": 1},
    ],
)
def test_bad_options_are_refused(short, options):
    envs = HexagonVectorEnv(2, **short)
    envs.reset(seed=0)
    with pytest.raises(ConfigError, match=r"reset_mask|setting|other"):
        envs.reset(options=options)


@pytest.mark.parametrize("arguments", [{"num_envs": 0}, {"threads": 0}, {"autoreset_mode": "never"}])
def test_bad_arguments_are_refused(short, arguments):
    ((name, value),) = arguments.items()
    with pytest.raises(ConfigError, match=f"{name}.*{value}"):
        HexagonVectorEnv(**{"num_envs": 2, **arguments, **short})


def test_step_needs_a_reset_and_the_right_shape(short):
    envs = HexagonVectorEnv(2, **short)
    with pytest.raises(ResetNeeded):
        envs.step(np.zeros(2, np.int64))
    with pytest.raises(ResetNeeded, match="every"):
        envs.reset(options={"reset_mask": np.array([True, False])})
    envs.reset(seed=0)
    with pytest.raises(ValueError, match=r"shape \(3,\)"):
        envs.step(np.zeros(3, np.int64))
    with pytest.raises(ConfigError, match="3 seeds"):
        envs.reset(seed=[1, 2, 3])
