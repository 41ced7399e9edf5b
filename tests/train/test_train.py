"""``python -m train --learner ppo`` on short episodes: files, resume, signals, errors and reproducibility."""

from __future__ import annotations

import json
import signal
import zipfile
from pathlib import Path

import numpy as np
import pytest

from agents.learned import Learned
from hexenv import workload
from hexenv.engine import Simulator, episode_key
from hexenv.errors import ConfigError
from tests.train.stopping import last_line_after
from train import checkpoint
from train.__main__ import main
from train.config import PpoConfig
from train.loop import PpoTrainer, discount_tau_us
from train.run_folder import create_run, read_config

SMALL = {"horizon_us": 3000.0, "lanes": 4, "rollout": 16, "minibatch": 32, "epochs": 1, "imitate_steps": 64}
SHORT = ["--learner", "ppo"]
SHORT += [text for name, value in SMALL.items() for text in (f"--{name.replace('_', '-')}", str(value))]

pytestmark = pytest.mark.filterwarnings("ignore:.*:DeprecationWarning:tensorboard")


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A finished run of 192 steps: a warm start of 64 and two updates of PPO."""
    folder = tmp_path_factory.mktemp("runs") / "run"
    assert main([*SHORT, "--steps", "192", "--out", str(folder), "--no-eval"]) == 0
    return folder


def scalars(folder: Path, name: str) -> list[tuple[int, float]]:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    return [(event.step, event.value) for event in events.Scalars(name)]


def test_a_run_leaves_config_checkpoint_and_curves(run) -> None:
    saved = json.loads((run / "config.json").read_text())
    assert saved["train"]["steps"] == 192
    assert {"hexenv", "torch", "stable-baselines3", "python"} <= set(saved["versions"])
    counters = checkpoint.read_counters(run)
    assert counters["num_timesteps"] == 192
    assert len(counters["lane_episodes"]) == SMALL["lanes"]
    assert [step for step, _ in scalars(run, "time/fps")] == [64, 128, 192]
    assert sorted(path.name for path in run.iterdir()) == ["checkpoint.zip", "config.json", "tensorboard"]


def test_equal_runs_end_in_equal_weights(run, tmp_path) -> None:
    assert main([*SHORT, "--steps", "192", "--out", str(tmp_path / "twin"), "--no-eval"]) == 0
    assert main([*SHORT, "--steps", "192", "--seed", "1", "--out", str(tmp_path / "other"), "--no-eval"]) == 0
    weights, twin, other = (Learned(folder)._weights for folder in (run, tmp_path / "twin", tmp_path / "other"))
    assert all((weights[name] == twin[name]).all() for name in weights)
    assert any((weights[name] != other[name]).any() for name in weights)


def test_resume_goes_on_with_counters_weights_and_curves(tmp_path, capsys) -> None:
    folder = tmp_path / "run"
    assert main([*SHORT, "--steps", "128", "--out", str(folder), "--no-eval"]) == 0
    before = checkpoint.read_counters(folder)
    trainer = PpoTrainer(read_config(folder), folder)
    assert trainer.model.num_timesteps == 128
    assert trainer.model.policy.optimizer.state_dict()["state"], "Adam's moments must come back"
    assert (trainer.env.episodes == before["lane_episodes"]).all()

    assert main(["--resume", str(folder), "--no-eval"]) == 0
    assert "finished" in capsys.readouterr().out
    assert main(["--resume", str(folder), "--steps", "256", "--no-eval"]) == 0
    after = checkpoint.read_counters(folder)
    assert after["num_timesteps"] == 256
    assert after["_n_updates"] == 2 * before["_n_updates"]
    assert all(new > old for new, old in zip(after["lane_episodes"], before["lane_episodes"], strict=True))
    assert [step for step, _ in scalars(folder, "time/fps")] == [64, 128, 192, 256]
    assert read_config(folder).steps == 256


def trained_steps(folder: Path) -> int:
    """Steps in the folder's checkpoint, 0 before the first one."""
    return checkpoint.read_counters(folder)["num_timesteps"] if (folder / "checkpoint.zip").exists() else 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_leaves_a_run_that_can_go_on(tmp_path, number) -> None:
    folder = tmp_path / "run"
    options = [*SHORT, "--steps", "100000000", "--out", str(folder), "--checkpoint-s", "0"]
    last = last_line_after(number, options, lambda: trained_steps(folder) > 0)
    assert last.endswith(f"python -m train --resume {folder}")
    steps = trained_steps(folder)
    assert steps > 0
    assert steps % (SMALL["lanes"] * SMALL["rollout"]) == 0, "only whole rollouts count"
    assert PpoTrainer(read_config(folder), folder).model.num_timesteps == steps


def test_a_failing_save_leaves_the_old_checkpoint(run, tmp_path, monkeypatch) -> None:
    folder = tmp_path / "run"
    config = PpoConfig(**SMALL)
    trainer = PpoTrainer(config)
    create_run(folder, config)
    trainer.save(folder)
    old = (folder / "checkpoint.zip").read_bytes()

    def die_halfway(path: Path) -> None:
        Path(path).write_bytes(old[: len(old) // 2])
        raise KeyboardInterrupt

    monkeypatch.setattr(trainer.model, "save", die_halfway)
    with pytest.raises(KeyboardInterrupt):
        trainer.save(folder)
    assert (folder / "checkpoint.zip").read_bytes() == old
    assert sorted(path.name for path in folder.iterdir()) == ["checkpoint.zip", "config.json"]


def play(scheduler: Learned, batch: int, **overrides) -> np.ndarray:
    tables = workload.build("camera_decode", horizon_us=3000.0, **overrides)
    simulator = Simulator(tables, batch)
    simulator.reset(np.array([episode_key(seed, 0) for seed in range(batch)], np.uint64))
    scheduler.start(tables, batch, 0)
    while not (over := simulator.lanes["over"]).all():
        simulator.step(scheduler.act(simulator.views, simulator.masks), where=~over)
    return simulator.lanes.copy()


@pytest.mark.parametrize("visible", [1, 8, 12])
def test_the_learned_scheduler_plays_with_any_k(run, visible) -> None:
    lanes = play(Learned(run), 3, visible=visible)
    assert (lanes["decisions"] > 10).all()


def test_the_learned_scheduler_does_not_depend_on_the_batch(run) -> None:
    together = play(Learned(run), 6)
    for batch in (1, 3):
        assert (play(Learned(run / "checkpoint.zip"), batch) == together[:batch]).all()


def test_the_checkpoint_is_stock_sb3s(run) -> None:
    from stable_baselines3.common.save_util import load_from_zip_file

    _, params, _ = load_from_zip_file(run / "checkpoint.zip", load_data=False)
    assert {"policy", "policy.optimizer"} <= set(params)


def test_warm_start_learns_the_teachers_choices(tmp_path) -> None:
    config = PpoConfig(
        **{**SMALL, "imitate_steps": 6000, "steps": 6000, "rollout": 64, "epochs": 4}, learning_rate=2e-3
    )
    trainer = PpoTrainer(config)
    before = trainer.model.policy.state_dict()
    losses = []
    record = trainer.model._imitate

    def watched() -> None:
        record()
        losses.append(trainer.model.logger.name_to_value["train/imitation_loss"])

    trainer.model._imitate = watched
    trainer.model.learn(config.steps)
    assert losses[-1] < 0.6 * losses[0]
    assert before.keys() == trainer.model.policy.state_dict().keys()


def test_a_folder_that_cannot_be_written_is_refused(tmp_path, capsys) -> None:
    (tmp_path / "file").write_text("")
    assert main([*SHORT, "--out", str(tmp_path / "file" / "run")]) == 2
    assert str(tmp_path / "file") in capsys.readouterr().err


def test_a_run_is_never_overwritten(run, capsys) -> None:
    assert main([*SHORT, "--out", str(run)]) == 2
    assert "--resume" in capsys.readouterr().err


@pytest.mark.parametrize("damage", ["missing", "truncated", "other spaces", "other file"])
def test_a_bad_checkpoint_is_explained(run, tmp_path, damage) -> None:
    path = tmp_path / "checkpoint.zip"
    whole = (run / "checkpoint.zip").read_bytes()
    if damage == "truncated":
        path.write_bytes(whole[: len(whole) // 2])
    elif damage == "other file":
        path.write_text("hello")
    elif damage == "other spaces":
        import io

        import torch

        state = {f"actor.{name}": tensor for name, tensor in Learned(run)._weights.items()}
        state["actor.encoder.task.0.weight"] = state["actor.encoder.task.0.weight"][:, 1:].clone()
        buffer = io.BytesIO()
        torch.save(state, buffer)
        with zipfile.ZipFile(path, "w") as archive:
            archive.writestr("policy.pth", buffer.getvalue())
    with pytest.raises(ConfigError, match="checkpoint"):
        Learned(path).start(workload.build("camera_decode"), 1, 0)


def test_discount_lasts_at_least_five_deadlines() -> None:
    tables = workload.build("camera_decode")
    deadlines = tables.streams["deadline_ns"]
    longest_us = deadlines[deadlines < 1 << 61].max() / 1e3
    assert discount_tau_us(PpoConfig(), tables) == pytest.approx(5 * longest_us)
    with pytest.raises(ConfigError, match="discount_deadlines"):
        PpoConfig(discount_deadlines=4.0)
