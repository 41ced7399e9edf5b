"""The options of ``python -m train``: learners, presets, refusals, and what a resumed run may change."""

from __future__ import annotations

import dataclasses
import json
import subprocess
import sys

import pytest

from hexenv import workload
from hexenv.errors import ConfigError
from train.__main__ import main
from train.config import LEARNERS, PRESETS, GateConfig, PpoConfig
from train.run_folder import create_run, read_config
from train.trainer import first_seed

PPO = ["--learner", "ppo"]


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["--scenario", "no_such"], "no_such"),
        (["--device", "no_such"], "no_such"),
        (["--mode", "no_such"], "no_such"),
        (["--no-such-option"], "--no-such-option"),
        (["--learner", "dqn"], "dqn"),
        (["--preset", "huge"], "huge"),
        ([*PPO, "--preset", "full"], "preset full is one of learner gate"),
        (["--lanes", "8"], "option --lanes is one of learner ppo; this run's is gate"),
        ([*PPO, "--population", "8"], "option --population is one of learner gate; this run's is ppo"),
        (["--preset", "full", "--clip", "0.1"], "option --clip is one of learner ppo; this run's is gate"),
        ([*PPO, "--teacher", "no_such"], "no_such"),
        ([*PPO, "--lanes", "0"], "lanes is 0"),
        ([*PPO, "--clip", "nan"], "clip"),
        ([*PPO, "--steps", "many"], "many"),
        ([*PPO, "--lanes", "8", "--seed", "999999999"], "needs 8000000000 training seeds"),
        (["--episodes", "8", "--seed", "999999999"], "needs 8000000000 training seeds"),
        (["--population", "3"], "population is 3"),
        (["--visible", "17"], "visible"),
        (["--eval-episodes", "0"], "episodes"),
        (["--eval-episodes", "1000000000"], "episodes"),
        (["--resume", "no/such/run"], "no/such/run"),
        (["--resume", "x", "--out", "y"], "--out"),
        (["--resume", "x", *PPO], "--learner"),
        (["--resume", "x", "--preset", "full"], "--preset"),
    ],
)
def test_wrong_input_is_one_line_and_exit_code_2(tmp_path, refusal, arguments, text) -> None:
    folder = tmp_path / "run"
    out = [] if "--resume" in arguments else ["--out", str(folder)]
    assert text in refusal(main, [*arguments, *out, "--no-eval"])
    assert not folder.exists(), "nothing half-written"


@pytest.mark.parametrize(
    ("config", "arguments", "text"),
    [
        (PpoConfig(), ["--clip", "0.1"], "only --steps can change; given: --clip"),
        (GateConfig(), ["--episodes", "8", "--seed", "1"], "only --generations can change; given: --episodes, --seed"),
        (GateConfig(), ["--steps", "8"], "option --steps is one of learner ppo"),
    ],
)
def test_a_resumed_run_keeps_its_settings(tmp_path, refusal, config, arguments, text) -> None:
    create_run(tmp_path / "run", config)
    assert text in refusal(main, ["--resume", str(tmp_path / "run"), *arguments])
    assert read_config(tmp_path / "run") == config


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], GateConfig(generations=1, horizon_us=2000.0)),
        (["--preset", "full"], PRESETS["full"]),
        (["--preset", "full", "--learner", "gate", "--step", "0.2"], PRESETS["full"]),
    ],
)
def test_options_replace_those_of_the_preset_and_the_rest_stays(tmp_path, arguments, expected) -> None:
    small = ["--generations", "1", "--population", "4", "--episodes", "2", "--horizon-us", "2000", "--no-eval"]
    assert main([*arguments, *small, "--out", str(tmp_path / "run")]) == 0
    config = read_config(tmp_path / "run")
    assert (config.learner, config.scenario, config.eval_episodes) == (
        "gate",
        expected.scenario,
        expected.eval_episodes,
    )
    assert (config.generations, config.population, config.episodes, config.horizon_us) == (1, 4, 2, 2000.0)
    assert config.step == (0.2 if "--step" in arguments else expected.step)


@pytest.mark.parametrize("config", [GateConfig(seed=3), PpoConfig(lanes=5), PRESETS["full"]])
def test_a_config_comes_back_as_it_was_written(tmp_path, config) -> None:
    create_run(tmp_path / "run", config)
    assert read_config(tmp_path / "run") == config


def test_a_broken_config_is_explained(tmp_path) -> None:
    with pytest.raises(ConfigError, match="no training run"):
        read_config(tmp_path)
    broken = ({}, {"learner": "dqn", "train": {}}, {"learner": "gate"}, {"learner": "gate", "train": {"speed": 1}})
    for text in ("{", *map(json.dumps, broken)):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(ConfigError, match="config"):
            read_config(tmp_path)


def test_help_explains_every_option(capsys) -> None:
    with pytest.raises(SystemExit) as stop:
        main(["--help"])
    assert stop.value.code == 0
    text = capsys.readouterr().out
    for learner, config in LEARNERS.items():
        assert f"options of learner {learner}" in text
        for field in dataclasses.fields(config):
            assert f"--{field.name.replace('_', '-')} " in text


def test_runs_of_different_seeds_share_no_training_seed() -> None:
    tables = workload.build("camera_decode")
    lanes = PpoConfig().lanes
    starts = [first_seed(PpoConfig(seed=seed), tables, "lanes") for seed in range(3)]
    taken = [set(range(start, start + lanes)) for start in starts]
    assert not taken[0] & taken[1]
    assert not taken[1] & taken[2]
    assert min(taken[0]) >= tables.seeds[0]


def test_a_learned_gate_is_trained_and_evaluated_without_torch() -> None:
    code = "import sys, train.__main__, train.evolution, eval.runner, eval.plan_file; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
