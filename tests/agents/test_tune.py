"""Tuning: only training episodes, the best of the declared values, and a file that is written whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import agents
from agents import tune
from agents.rule import Parameter, Rule
from agents.tuned import COMMON, FILE, record, tuned_values
from hexenv.errors import ConfigError
from hexenv.workload import build

SHORT = """
description = "two cameras"
[engine]
horizon_us = 4000
[mixes]
all = ["a", "b"]
[train]
first_seed = 5
seeds = 40
loads = [1.0, 1.5]
mixes = ["all"]
[heldout]
first_seed = 1000
seeds = 40
loads = [1.2]
mixes = ["all"]
[[streams]]
name = "a"
arrival = "periodic"
fps = 400
deadline_us = 1500
late = "firm"
[[streams.jobs]]
model = "vision:features"
[[streams]]
name = "b"
arrival = "closed_loop"
gap_us = 0
[[streams.jobs]]
model = "vision:features"
"""


@pytest.fixture
def scenario(tmp_path: Path) -> str:
    path = tmp_path / "short.toml"
    path.write_text(SHORT)
    return str(path)


def test_the_best_candidate_wins_and_the_budget_is_kept(scenario: str) -> None:
    found = tune.tune("tacker", [scenario], episodes=4)
    parameters = agents.rule("tacker").own("tacker")
    scores, decisions = {}, 0
    for values in tune.candidates(parameters):
        scheduler = agents.make("tacker", **values)
        scores[values["guard"]], spent = tune.play(scheduler, tune.training_tables(scenario, "v79", scheduler), 4)
        decisions += spent
    assert found.score == max(scores.values()) == scores[found.values["guard"]]
    assert found.decisions == decisions <= tune.BUDGET
    with pytest.raises(ConfigError, match="more budget or fewer episodes"):
        tune.tune("tacker", [scenario], episodes=4, budget=decisions - 1)


def test_only_training_episodes_are_played(scenario: str, monkeypatch: pytest.MonkeyPatch) -> None:
    played = []

    def spy(name: str, device: str, split: str, **overrides: object) -> object:
        played.append(split)
        return build(name, device, split, **overrides)

    monkeypatch.setattr(tune, "build", spy)
    tune.tune("hfuse", [scenario], episodes=2)
    assert set(played) == {"train"}
    with pytest.raises(ConfigError, match="training split"):
        tune.play(agents.make("edf"), build(scenario, "v79", "heldout"), 2)
    with pytest.raises(ConfigError, match="episodes 41"):
        tune.play(agents.make("edf"), build(scenario), 41)


@pytest.mark.parametrize("rows", [1, 2, 3, 8, 36, 48])
def test_settings_are_spread_evenly(rows: int) -> None:
    counts = np.bincount(tune.spread(3 * rows, rows), minlength=rows)
    assert (counts == 3).all()
    if rows >= 8:  # every quarter of the settings is met early
        assert len(set(tune.spread(8, rows) * 4 // rows)) == 4


def test_the_command_writes_values_that_the_rule_then_takes(scenario: str, tmp_path: Path) -> None:
    out = tmp_path / "tuned.toml"
    record("slack_gate", COMMON, {"values": {"margin_us": 7.0}}, out)
    assert tune.main(["aker", "--scenario", scenario, "--episodes", "2", "--out", str(out)]) == 0
    assert tuned_values("slack_gate", path=out) == {"margin_us": 7.0}
    assert tuned_values("aker", path=out)["guard"] in agents.rule("aker").parameters[0].choices
    assert tune.main(["slack_gate_tuned", "--scenario", scenario, "--episodes", "2", "--out", str(out)]) == 0
    assert tuned_values("slack_gate_tuned", "short", out)["margin_us"] >= 0.0
    first = out.read_bytes()
    tune.main(["aker", "--scenario", scenario, "--episodes", "2", "--out", str(out)])
    assert out.read_bytes() == first


@pytest.mark.parametrize("arguments", [["serial"], ["nobody"], ["aker", "--episodes", "0"], ["aker", "--device", "x"]])
def test_wrong_input_is_one_line(arguments: list[str], tmp_path: Path, refusal: Callable[..., str]) -> None:
    refusal(tune.main, [*arguments, "--out", str(tmp_path / "tuned.toml")])


def test_a_broken_file_is_named(tmp_path: Path) -> None:
    path = tmp_path / "tuned.toml"
    path.write_text("[aker")
    with pytest.raises(ConfigError, match=r"tuned\.toml"):
        tuned_values("aker", path=path)


# ---- the file that ships --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", [name for name in agents.names() if agents.rule(name).own(name)])
def test_every_rule_with_settings_ships_tuned(name: str) -> None:
    scopes = ("camera_decode", "grid") if agents.rule(name).per_scenario else (COMMON,)
    for scope in scopes:
        values = tuned_values(name, scope)
        assert set(values) == {parameter.name for parameter in agents.rule(name).own(name)}
        for parameter in agents.rule(name).own(name):
            assert values[parameter.name] in parameter.choices


def test_a_shared_setting_is_the_owners() -> None:
    gate = agents.make("slack_gate")
    assert gate.pairing.margin == 1000.0 * tuned_values("slack_gate")["margin_us"]
    for name in ("online_serial", "online_unfused", "online_barrier", "online_pairs", "online_versions"):
        assert agents.make(name).pairing.margin == gate.pairing.margin


def test_a_scenario_takes_its_own_margin_and_an_unknown_one_the_common(scenario: str) -> None:
    scheduler = agents.make("slack_gate_tuned")
    for name, values in (("camera_decode", tuned_values("slack_gate_tuned", "camera_decode")), (scenario, None)):
        scheduler.start(build(name), 1, 0)
        expected = values or tuned_values("slack_gate")
        assert scheduler.pairing.margin == 1000.0 * expected["margin_us"]


def test_given_values_win() -> None:
    assert agents.make("slack_gate", margin_us=3.0).pairing.margin == 3000.0
    assert agents.make("slack_gate_tuned", margin_us=3.0).pairing.margin == 3000.0
    with pytest.raises(ConfigError, match="no setting 'margin'; allowed: margin_us"):
        agents.make("slack_gate", margin=3.0)
    with pytest.raises(ConfigError, match="allowed: none"):
        agents.make("serial", order=1)


def test_own_parameters() -> None:
    mine, theirs = Parameter("a", (1,)), Parameter("b", (2,), owner="other")
    rule = Rule(lambda: None, (mine, theirs))
    assert rule.own("me") == (mine,)
    assert rule.own("other") == (mine, theirs)
    assert FILE.name == "tuned.toml"
