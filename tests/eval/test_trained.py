import io
import json
import shutil
import zipfile

import numpy as np
import pandas as pd
import pytest
import torch

from agents.learned import CHECKPOINT, POLICY
from eval.__main__ import main
from eval.identity import scheduler_hash
from eval.plan_file import PLAN
from eval.runner import check, one_run_each, plan_of_runs, play_all
from eval.summary import episode_frame, stream_frame, summary_frame
from eval.table import trade_off_markdown
from eval.trained import Trained, train_seed_of, trained_runs
from eval.verdict import verdict
from hexenv.errors import ConfigError


@pytest.fixture(scope="module")
def runs(trained, tmp_path_factory):
    """A folder with three runs that differ in their seed, and in their weights as different seeds make them differ."""
    folder = tmp_path_factory.mktemp("seeds")
    for seed in range(3):
        run = folder / f"seed{seed}"
        run.mkdir()
        config = json.loads((trained / "config.json").read_text())
        config["train"]["seed"] = seed
        (run / "config.json").write_text(json.dumps(config))
        with zipfile.ZipFile(trained / CHECKPOINT) as old, zipfile.ZipFile(run / CHECKPOINT, "w") as new:
            for name in old.namelist():
                new.writestr(name, disturbed(old.read(name), seed) if name == POLICY else old.read(name))
    return folder


def disturbed(policy, seed):
    """The weights in ``policy.pth`` with noise on them."""
    state = torch.load(io.BytesIO(policy), weights_only=True)
    generator, buffer = torch.Generator().manual_seed(seed), io.BytesIO()
    torch.save(
        {name: value + 0.3 * torch.randn(value.shape, generator=generator) for name, value in state.items()}, buffer
    )
    return buffer.getvalue()


@pytest.fixture(scope="module")
def played(runs):
    plan = plan_of_runs([runs], 4, ["serial", "edf"])
    return plan, play_all(plan, check(plan))


def test_runs_are_one_learned_scheduler_with_seeds(played):
    plan, outcomes = played
    assert [train_seed_of(scheduler) for scheduler in plan.schedulers] == [None, None, 0, 1, 2]
    summary = summary_frame(outcomes).set_index("scheduler")
    assert list(summary.index) == ["serial", "edf", "learned"]
    assert list(summary["train_seeds"]) == [0, 0, 3]
    assert (summary["episodes"] == 4).all()
    returns = np.array([outcome.episodes["return"] for outcome in outcomes[2:]])
    assert summary.loc["learned", "return_mean"] == pytest.approx(returns.mean())
    assert summary.loc["learned", "decisions"] == sum(outcome.episodes["decisions"].sum() for outcome in outcomes[2:])
    episodes = episode_frame(outcomes)
    assert list(episodes["train_seed"].fillna(-1)) == [-1] * 8 + [0] * 4 + [1] * 4 + [2] * 4
    assert episodes["config"].nunique() == 1


def test_rates_of_streams_do_not_grow_with_the_number_of_runs(played):
    _, outcomes = played
    one, all_runs = stream_frame([outcomes[2]]), stream_frame(outcomes[2:])
    lowest, highest = one["jobs_per_s"] * 0, one["jobs_per_s"] * 0
    rates = np.array([stream_frame([outcome])["jobs_per_s"] for outcome in outcomes[2:]])
    lowest, highest = rates.min(axis=0), rates.max(axis=0)
    assert ((all_runs["jobs_per_s"] >= lowest - 1e-9) & (all_runs["jobs_per_s"] <= highest + 1e-9)).all()
    assert list(all_runs["stream"]) == list(one["stream"])


def test_tables_say_on_how_many_seeds_they_stand(played):
    _, outcomes = played
    line = trade_off_markdown(summary_frame(outcomes)).splitlines()[-1]
    assert "4 episodes a scheduler and scenario (a published table has at least 100)" in line
    assert "learned: 3 training seeds, intervals over seeds and episodes (a published table has at least 5)" in line
    assert "over 3 training seeds x 4 episodes" in verdict(summary_frame(outcomes))


def test_one_seed_has_no_interval_over_seeds(played):
    _, outcomes = played
    summary = summary_frame(outcomes[:3])
    *rows, _, line = trade_off_markdown(summary).splitlines()
    assert "learned: 1 training seed: no interval over seeds (a published table has at least 5)" in line
    assert "[" in rows[3]
    assert "[" not in rows[4]
    assert "1 training seed: no interval over seeds" in verdict(summary)


def test_the_report_shows_the_run_in_the_middle(played):
    plan, outcomes = played
    shown, kept = one_run_each(plan, outcomes)
    means = {o.train_seed: o.episodes["return"].mean() for o in outcomes[2:]}
    assert [o.scheduler for o in kept] == [s.name for s in shown.schedulers] == ["serial", "edf", "learned"]
    assert train_seed_of(shown.schedulers[-1]) == kept[-1].train_seed == sorted(means, key=means.__getitem__)[1]


def test_runs_that_are_not_seeds_of_one_policy_are_refused(runs, tmp_path):
    first = runs / "seed0"
    with pytest.raises(ConfigError, match=r"seed0 and .*seed0 were both trained with seed 0"):
        trained_runs([first, first])
    other = tmp_path / "other"
    other.mkdir()
    config = json.loads((runs / "seed1" / "config.json").read_text())
    config["train"] |= {"steps": 99, "eval_episodes": 7}
    (other / "config.json").write_text(json.dumps(config))
    (other / "checkpoint.zip").write_bytes((runs / "seed1" / "checkpoint.zip").read_bytes())
    with pytest.raises(ConfigError, match=r"seed0 and .*other differ in steps \(128 and 99\): runs of one policy"):
        trained_runs([first, other])
    with pytest.raises(ConfigError, match="no training run in"):
        trained_runs([tmp_path / "nowhere"])


def test_learned_results_are_replayed_from_their_checkpoints_alone(runs, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--checkpoint", *(str(runs / f"seed{i}") for i in (0, 2)), "--schedulers", "serial"]
    assert main([*options, "--episodes", "2", "--workers", "1", "--out", str(out)]) == 0
    assert list(pd.read_csv(out / "summary.csv")["train_seeds"]) == [0, 2]
    assert main(["--replay", str(out / "episodes.csv"), "--workers", "1"]) == 0
    assert "6 rows replayed, none with a difference" in capsys.readouterr().out
    plan = json.loads((out / PLAN).read_text())
    plan["schedulers"][1]["sha256"] = "0" * 64
    (out / PLAN).write_text(json.dumps(plan))
    assert main(["--replay", str(out / "episodes.csv")]) == 2
    assert "checkpoint.zip has SHA-256" in capsys.readouterr().err


def test_a_learned_gate_is_replayed_from_its_run_alone(trained_gate, tmp_path, capsys):
    out = tmp_path / "out"
    options = ["--checkpoint", str(trained_gate), "--schedulers", "learned_gate", "--episodes", "2", "--workers", "1"]
    assert main([*options, "--out", str(out)]) == 0
    names = [entry["name"] for entry in json.loads((out / PLAN).read_text())["schedulers"]]
    assert names == ["learned_gate", "learned"]
    assert main(["--replay", str(out / "episodes.csv"), "--workers", "1"]) == 0
    assert "4 rows replayed, none with a difference" in capsys.readouterr().out


def test_only_weights_and_mode_tell_runs_apart(trained_gate, tmp_path):
    copy = shutil.copytree(trained_gate, tmp_path / "copy")
    one, moved = Trained(trained_gate), Trained(copy)
    assert scheduler_hash(one) == scheduler_hash(moved)
    moved.policy.weights[0, 0] += 1e-6
    assert scheduler_hash(one) != scheduler_hash(moved)


def test_runs_of_two_learners_are_refused(runs, trained_gate):
    with pytest.raises(ConfigError, match=r"differ in learner \((gate and ppo|ppo and gate)\)"):
        trained_runs([trained_gate, runs / "seed1"])


def test_a_run_without_a_policy_says_so(trained_gate, tmp_path):
    (tmp_path / "config.json").write_text((trained_gate / "config.json").read_text())
    with pytest.raises(ConfigError, match=r"no policy in .*stopped before its first save"):
        trained_runs([tmp_path])


def test_explaining_takes_one_run(runs, capsys):
    assert main(["--explain", "--checkpoint", str(runs / "seed0"), str(runs / "seed1")]) == 2
    assert "--explain takes one --checkpoint" in capsys.readouterr().err
