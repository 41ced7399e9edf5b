from __future__ import annotations

import hashlib
import subprocess
import sys
import tomllib
import warnings
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium.error import ResetNeeded
from gymnasium.utils.env_checker import check_env
from stable_baselines3.common.env_checker import check_env as check_sb3

import hexenv
from hexenv.engine import IllegalAction
from hexenv.env import HexagonEnv
from hexenv.errors import ConfigError

IDS = ("hexenv/Hexagon-v0", "hexenv/HexagonMultiDiscrete-v0")
ROOT = Path(hexenv.__file__).resolve().parents[1]


def play(env, steps, seed, reset_seed=None):
    """Random legal play over episode ends; the trajectory as bytes."""
    rng = np.random.default_rng(seed)
    observation, info = env.reset(seed=reset_seed)
    chunks = []
    for _ in range(steps):
        chunks.append(b"".join(value.tobytes() for value in observation.values()) + info["action_mask"].tobytes())
        action = rng.choice(np.flatnonzero(info["action_mask"]))
        observation, reward, terminated, truncated, info = env.step(action)
        chunks.append(np.array([reward, terminated, truncated, info["elapsed_us"], info["credit_ms"]]).tobytes())
        if terminated or truncated:
            observation, info = env.reset()
    return b"".join(chunks)


@pytest.mark.parametrize("env_id", IDS)
def test_both_checkers_are_clean(env_id):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        check_env(gymnasium.make(env_id).unwrapped)
        check_sb3(gymnasium.make(env_id).unwrapped)


@pytest.mark.parametrize("env_id", IDS)
def test_ids_set_no_step_limit_and_their_spec_survives_json(env_id):
    env = gymnasium.make(env_id, scenario="camera_prefill", visible=4, miss_weight=2.0)
    assert env.spec.max_episode_steps is None
    again = gymnasium.make(gymnasium.envs.registration.EnvSpec.from_json(env.spec.to_json()))
    assert again.unwrapped.tables is env.unwrapped.tables
    assert again.action_space == env.action_space


def test_observations_lie_in_the_space_and_time_adds_up(short):
    env = HexagonEnv(**short)
    observation, info = env.reset(seed=5)
    env.action_space.seed(5)
    elapsed, total = info["time_us"], 0.0
    truncated = False
    while not truncated:
        assert observation in env.observation_space
        assert info["action_mask"][0] == 1
        assert (info["action_mask"].astype(bool) == env.action_masks()).all()
        observation, reward, terminated, truncated, info = env.step(env.action_space.sample(info["action_mask"]))
        assert not terminated
        elapsed += info["elapsed_us"]
        total += reward
        assert elapsed == pytest.approx(info["time_us"])
        if info["elapsed_us"] == 0.0:
            assert reward == 0.0
    weight = float(env.tables.config["miss_weight"][0])
    assert total == pytest.approx(info["credit_ms"] - weight * info["charge_ms"], abs=1e-9)
    assert info["time_us"] == short["horizon_us"]


def test_equal_seeds_give_equal_series_of_episodes(short):
    first, second = (play(HexagonEnv(**short), 900, 1, reset_seed=3) for _ in range(2))
    assert first == second
    assert play(HexagonEnv(**short), 900, 1, reset_seed=4) != first


def test_reset_without_seed_goes_on_to_another_episode(short):
    env = HexagonEnv(**short)
    starts = [env.reset(seed=3)[0], env.reset()[0], env.reset()[0], env.reset(seed=3)[0]]
    as_bytes = [b"".join(value.tobytes() for value in start.values()) for start in starts]
    assert as_bytes[0] == as_bytes[3]
    assert len(set(as_bytes)) == 3


def test_environments_without_seed_differ(short):
    assert play(HexagonEnv(**short), 50, 1) != play(HexagonEnv(**short), 50, 1)


def test_same_bytes_in_a_fresh_process(short):
    script = (
        "import sys, hashlib; sys.path.insert(0, sys.argv[1]); import test_env;"
        "from hexenv.env import HexagonEnv;"
        f"print(hashlib.sha256(test_env.play(HexagonEnv(**{short!r}), 300, 1, 3)).hexdigest())"
    )
    done = subprocess.run(
        [sys.executable, "-c", script, str(Path(__file__).parent)],
        capture_output=True,
        text=True,
        cwd=ROOT,
        check=True,
    )
    assert done.stdout.strip() == hashlib.sha256(play(HexagonEnv(**short), 300, 1, 3)).hexdigest()


def test_setting_is_chosen_by_option_for_one_episode(short):
    env = HexagonEnv(**short)
    count = len(env.tables.settings)
    assert [env.reset(seed=0, options={"setting": i})[1]["setting"] for i in range(count)] == list(range(count))
    drawn = {int(env.reset(seed=seed)[1]["setting"]) for seed in range(60)}
    assert len(drawn) > 1


@pytest.mark.parametrize("options", [{"setting": -1}, {"setting": 10**6}, {"setting": "a"}, {"setting": 0.5}, {"x": 1}])
def test_bad_options_are_refused_and_nothing_is_reset(short, options):
    env = HexagonEnv(**short)
    _, info = env.reset(seed=1)
    with pytest.raises(ConfigError, match="allowed"):
        env.reset(seed=2, options=options)
    _, _, _, _, after = env.step(0)
    assert after["setting"] == info["setting"]


def test_illegal_action_explains_and_changes_nothing(short):
    env = HexagonEnv(**short)
    _, info = env.reset(seed=1)
    before = env.simulator.lanes.tobytes()
    illegal = int(np.flatnonzero(info["action_mask"] == 0)[0])
    with pytest.raises(IllegalAction, match=rf"action {illegal} is illegal.*task \d.*version HVX"):
        env.step(illegal)
    for outside in (-1, env.action_space.n):
        with pytest.raises(IllegalAction, match=r"0 to 288"):
            env.step(outside)
    assert env.simulator.lanes.tobytes() == before
    env.step(int(np.flatnonzero(info["action_mask"])[-1]))


@pytest.mark.parametrize("action", [0.0, [0], "0"])
def test_actions_of_another_kind_are_refused(short, action):
    env = HexagonEnv(**short)
    env.reset(seed=1)
    with pytest.raises(ValueError, match="actions"):
        env.step(action)


def test_step_needs_a_reset(short):
    env = HexagonEnv(**short)
    with pytest.raises(ResetNeeded):
        env.step(0)
    env.reset(seed=0)
    truncated = False
    while not truncated:
        truncated = env.step(0)[3]
    with pytest.raises(ResetNeeded):
        env.step(0)


def test_returned_arrays_are_the_callers_own(short):
    env = HexagonEnv(**short)
    twin = HexagonEnv(**short)
    rng = np.random.default_rng(0)
    (observation, info), (expected, expected_info) = env.reset(seed=1), twin.reset(seed=1)
    for _ in range(100):
        assert all((observation[key] == expected[key]).all() for key in expected)
        assert (info["action_mask"] == expected_info["action_mask"]).all()
        action = rng.choice(np.flatnonzero(expected_info["action_mask"]))
        for array in (*observation.values(), info["action_mask"], env.action_masks()):
            array[...] = 1
        observation, _, _, _, info = env.step(action)
        expected, _, _, _, expected_info = twin.step(action)


def test_factored_play_repairs_and_flags(short):
    env = gymnasium.make("hexenv/HexagonMultiDiscrete-v0", **short).unwrapped
    twin = HexagonEnv(**short)
    env.action_space.seed(0)
    env.reset(seed=2)
    expected, flat_info = twin.reset(seed=2)
    repaired = []
    truncated = False
    while not truncated:
        observation, reward, _, truncated, info = env.step(env.action_space.sample())
        assert flat_info["action_mask"][info["executed"]]
        expected, twin_reward, _, _, flat_info = twin.step(info["executed"])
        assert reward == twin_reward
        assert all((observation[key] == expected[key]).all() for key in expected)
        assert info["action_mask"].shape == (9 + 3 + 4 + 3,)
        repaired.append(bool(info["repaired"]))
    assert any(repaired)
    assert not all(repaired)


@pytest.mark.parametrize(
    "arguments",
    [
        {"scenario": "nothing"},
        {"device": "nothing"},
        {"split": "nothing"},
        {"mode": "nothing"},
        {"actions": "nothing"},
        {"render_mode": "human"},
        {"visible": 0},
        {"unheard_of": 1},
    ],
)
def test_bad_arguments_are_refused_with_their_name(arguments):
    ((_, value),) = arguments.items()
    with pytest.raises(ConfigError) as caught:
        HexagonEnv(**arguments)
    assert str(value) in str(caught.value)


def test_overrides_left_at_none_keep_the_scenario():
    assert HexagonEnv(mode=None, miss_weight=None).tables is HexagonEnv().tables
    assert HexagonEnv(mode="serial").tables is not HexagonEnv().tables


def test_import_is_light():
    script = (
        "import sys, hexenv;"
        "import gymnasium; assert 'hexenv/Hexagon-v0' in gymnasium.registry;"
        "print('torch' in sys.modules, 'numba' in sys.modules, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["False", "False", "False"]


def test_environment_needs_neither_torch_nor_matplotlib():
    script = (
        "import sys, gymnasium, hexenv; env = gymnasium.make('hexenv/Hexagon-v0'); env.reset(seed=0); env.step(0);"
        "print('torch' in sys.modules, 'matplotlib' in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=ROOT, check=True)
    assert done.stdout.split() == ["False", "False"]


def test_version_is_the_packages():
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert hexenv.__version__ == project["version"]
