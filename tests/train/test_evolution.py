"""The evolution strategy: it repeats itself, goes on where it stopped, stops when told, and finds better weights."""

from __future__ import annotations

import json
import signal
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from agents.kernels.adaptive import N_FEATURES, N_SETTINGS
from agents.learned_gate import GATE, LearnedGate, read_gate
from agents.policy import load_policy
from eval.episodes import Episode
from eval.play import play
from hexenv.engine import TraceLevel, episode_key
from hexenv.errors import ConfigError
from hexenv.workload import build
from tests.train.stopping import last_line_after
from train.__main__ import main
from train.config import GateConfig
from train.evolution import Arena, GateTrainer, new_search
from train.run_folder import create_run, read_config

SMALL = GateConfig(horizon_us=3000.0, generations=4, population=4, episodes=4, step=1.0)


def options(config: GateConfig, out: Path) -> list[str]:
    given = {name: value for name, value in vars(config).items() if value is not None}
    words = [text for name, value in given.items() for text in (f"--{name.replace('_', '-')}", str(value))]
    return [*words, "--out", str(out), "--no-eval"]


def trained(config: GateConfig, out: Path) -> bytes:
    """What a whole run leaves."""
    assert main(options(config, out)) == 0
    return (out / GATE).read_bytes()


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("runs") / "run"
    trained(SMALL, folder)
    return folder


def test_a_run_leaves_config_and_weights(run) -> None:
    assert sorted(path.name for path in run.iterdir()) == ["config.json", GATE]
    assert read_config(run) == SMALL
    content = read_gate(run / GATE)
    assert np.shape(content["returns"]) == (SMALL.generations, SMALL.population)
    policy = load_policy(run)
    assert isinstance(policy, LearnedGate)
    assert policy.name == "learned"
    assert np.array_equal(policy.weights, content["weights"])
    assert policy.weights.any()


@pytest.mark.parametrize("threads", [1, 2])
def test_equal_runs_leave_equal_bytes_whatever_the_threads(run, tmp_path, threads) -> None:
    assert trained(replace(SMALL, threads=threads), tmp_path / "twin") == (run / GATE).read_bytes()


def test_another_seed_plays_other_episodes(run, tmp_path) -> None:
    trained(replace(SMALL, seed=1), tmp_path / "other")
    mine, theirs = (read_gate(folder / GATE)["returns"] for folder in (run, tmp_path / "other"))
    assert not set(np.ravel(mine)) & set(np.ravel(theirs))


def test_a_resumed_run_ends_as_one_that_never_stopped(run, tmp_path, capsys) -> None:
    folder = tmp_path / "run"
    trained(replace(SMALL, generations=2), folder)
    assert main(["--resume", str(folder), "--no-eval"]) == 0
    assert "is finished: go on with" in capsys.readouterr().out
    assert main(["--resume", str(folder), "--generations", "4", "--no-eval"]) == 0
    assert (folder / GATE).read_bytes() == (run / GATE).read_bytes()
    assert read_config(folder) == SMALL


def generations(folder: Path) -> int:
    """Those in the folder's weights, 0 before they are first written."""
    return len(read_gate(folder / GATE)["returns"]) if (folder / GATE).exists() else 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_run_that_can_go_on(tmp_path, number) -> None:
    folder = tmp_path / "run"
    endless = options(replace(SMALL, generations=10**6, checkpoint_s=0.0), folder)
    last = last_line_after(number, endless, lambda: generations(folder) > 0)
    done = generations(folder)
    assert last == f"stopped after {done:,} generations; go on with: python -m train --resume {folder}"
    assert GateTrainer(read_config(folder), folder).done == done > 0


def test_no_two_episodes_are_the_same_in_any_generation_or_seed() -> None:
    keys = []
    for seed in (0, 1):
        trainer = GateTrainer(replace(SMALL, seed=seed))
        first = trainer.tables.seeds[0] + seed * SMALL.episodes
        for generation in range(3):
            own, settings = trainer._episodes()
            assert own.tolist() == [episode_key(first + i, generation) for i in range(SMALL.episodes)]
            assert settings.tolist() == [
                (generation * SMALL.episodes + i) % len(trainer.tables.settings) for i in range(SMALL.episodes)
            ]
            keys += own.tolist()
            trainer._tell(trainer._search.ask(), [float(i) for i in range(SMALL.population)])
    assert len(set(keys)) == len(keys)


def test_the_arena_plays_as_the_evaluation_does() -> None:
    tables = build("camera_decode", horizon_us=5000.0, mode="fused")
    weights = np.random.default_rng(0).normal(0.0, 0.5, (3, N_SETTINGS, N_FEATURES))
    episodes = [Episode(i % len(tables.settings), tables.seeds[0] + i) for i in range(5)]
    keys = np.array([episode.key for episode in episodes], np.uint64)
    settings = np.array([episode.setting for episode in episodes])
    for own, returns in zip(weights, Arena(tables, 2).play(weights, keys, settings), strict=True):
        lanes = play(LearnedGate(own), tables, episodes, 0, TraceLevel.NONE)[0].lanes
        charge = float(tables.config["miss_weight"][0]) * lanes["charge_ns"]
        np.testing.assert_allclose(returns, (lanes["credit_ns"] - charge) / 1e6)


def test_a_few_generations_find_better_weights(tmp_path) -> None:
    """Misses cost nothing here, so the settings that the search starts with guard deadlines for no gain."""
    config = GateConfig(
        scenario="camera_decode",
        miss_weight=0.0,
        horizon_us=60_000.0,
        generations=12,
        population=8,
        episodes=12,
        step=0.5,
    )
    trained(config, tmp_path / "run")
    tables = GateTrainer(config).tables
    keys = np.array([episode_key(tables.seeds[0] + 5000 + i, 0) for i in range(64)], np.uint64)
    weights = read_gate(tmp_path / "run" / GATE)["weights"]
    start, end = Arena(tables, 2).play(np.array([0.0 * weights, weights]), keys, np.arange(64) % len(tables.settings))
    gain = end - start
    assert gain.mean() > 3.0 * gain.std(ddof=1) / np.sqrt(len(gain))


def test_the_search_starts_at_triage_gate_and_repeats_itself() -> None:
    one, other = new_search(SMALL), new_search(SMALL)
    assert not np.array(one.mean).any()
    np.testing.assert_array_equal(one.ask(), other.ask())
    assert not np.array_equal(one.ask(), new_search(replace(SMALL, seed=1)).ask())


def test_features_that_are_left_out_keep_no_weight(tmp_path) -> None:
    trained(replace(SMALL, features=1), tmp_path / "run")
    weights = read_gate(tmp_path / "run" / GATE)["weights"]
    assert weights[:, 0].any()
    assert not weights[:, 1:].any()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"features": ["1", "the weather"]}, "its features are not those of this version"),
        ({"settings": ["mood"]}, "its settings are not those of this version"),
        ({"weights": [[0.0]]}, "its weights are not"),
        ({"weights": [[float("nan")] * N_FEATURES] * N_SETTINGS}, "its weights are not"),
        ({"weights": "heavy"}, "does not hold the weights"),
        ({"returns": [[1.0, 2.0]]}, "its returns are not lists of 4"),
        ({"returns": None}, "its returns are not lists of 4"),
    ],
)
def test_weights_that_do_not_fit_are_refused(run, tmp_path, refusal, change, words) -> None:
    folder = tmp_path / "run"
    create_run(folder, SMALL)
    (folder / GATE).write_text(json.dumps(json.loads((run / GATE).read_text()) | change))
    error = refusal(main, ["--resume", str(folder), "--generations", "9"])
    assert words in error
    assert str(folder / GATE) in error


def test_a_run_without_weights_is_refused(tmp_path, refusal) -> None:
    create_run(tmp_path / "run", SMALL)
    assert "no weights of a learned gate" in refusal(main, ["--resume", str(tmp_path / "run")])


def test_too_few_training_seeds_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"seed 7 with 999999 episodes needs 7999992 training seeds"):
        GateTrainer(replace(SMALL, seed=7, episodes=999_999))
