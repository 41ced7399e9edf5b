import json
import subprocess
import sys

import pandas as pd
import pytest

from eval import runner
from eval.__main__ import main, make_parser

FAST = ["--episodes", "2", "--horizon-us", "10000", "--workers", "1"]


def test_evaluates_rules_and_leaves_all_results(tmp_path, capsys):
    out = tmp_path / "results"
    code = main(["--scenario", "camera_decode", "--schedulers", "serial,edf", *FAST, "--out", str(out), "--markdown"])
    assert code == 0
    files = ["episodes.csv", "plan.json", "report.html", "streams.csv", "summary.csv", "units"]
    assert sorted(path.name for path in out.iterdir()) == files
    assert list(pd.read_csv(out / "summary.csv")["scheduler"]) == ["serial", "edf"]
    assert len(pd.read_csv(out / "episodes.csv")) == 4
    printed = capsys.readouterr().out
    assert f"report: {out / 'report.html'}" in printed
    assert "| camera_decode | edf |" in printed


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--scenario", "nowhere"], "nowhere"),
        (["--device", "v1"], "v1"),
        (["--schedulers", "best"], "best"),
        (["--schedulers", "serial,serial"], "twice"),
        (["--scenario", "camera_decode", "--episodes", "0"], "episodes 0"),
        (["--scenario", "camera_decode", "--mode", "fast"], "fast"),
        (["--checkpoint", "missing"], "missing"),
        (["--checkpoint", "missing", "--mode", "fused"], "--mode cannot be given with --checkpoint"),
        (["--no-such-option"], "--no-such-option"),
    ],
)
def test_wrong_input_is_one_line_exit_code_2_and_no_files(tmp_path, monkeypatch, refusal, arguments, words):
    monkeypatch.chdir(tmp_path)
    assert words in refusal(main, arguments)
    assert list(tmp_path.iterdir()) == []


def test_an_unwritable_folder_is_refused_before_the_run(tmp_path, monkeypatch, capsys):
    (tmp_path / "file").write_text("")
    monkeypatch.setattr(runner, "play_all", lambda *_: pytest.fail("played"))
    assert main(["--scenario", "camera_decode", *FAST, "--out", str(tmp_path / "file")]) == 2
    assert "cannot be written" in capsys.readouterr().err


def test_help_explains_every_option():
    for action in make_parser()._actions:
        assert action.help


def test_help_works_as_a_module():
    done = subprocess.run([sys.executable, "-m", "eval", "--help"], capture_output=True, text=True, check=True)
    assert "--checkpoint" in done.stdout


@pytest.mark.parametrize("learner", ["trained", "trained_gate"])
def test_a_run_is_evaluated_from_its_config_alone_and_twice_the_same(learner, request, tmp_path):
    trained = request.getfixturevalue(learner)
    names = ("summary.csv", "streams.csv", "episodes.csv")
    options = ["--checkpoint", str(trained), "--episodes", "2", "--schedulers", "serial,slack_gate", "--workers", "1"]
    assert main(options) == 0
    first = {name: (trained / name).read_bytes() for name in names}
    assert main([*options, "--out", str(tmp_path)]) == 0
    assert {name: (tmp_path / name).read_bytes() for name in names} == first
    summary = pd.read_csv(trained / "summary.csv")
    assert list(summary["scheduler"]) == ["serial", "slack_gate", "learned"]
    episodes = pd.read_csv(trained / "episodes.csv")
    assert (episodes["simulated_ms"] <= 10.0).all()
    returns = episodes["credit_ms"] - 3.0 * episodes["charge_ms"]
    assert (returns - episodes["return"]).abs().max() < 1e-9


def test_a_broken_run_is_refused(trained, tmp_path, capsys):
    config = json.loads((trained / "config.json").read_text())
    config["train"]["colour"] = "red"
    (tmp_path / "config.json").write_text(json.dumps(config))
    assert main(["--checkpoint", str(tmp_path)]) == 2
    assert "colour" in capsys.readouterr().err
    assert [path.name for path in tmp_path.iterdir()] == ["config.json"]
