"""The learned gate: what it plays without weights, what features describe, and what a file of weights must hold."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

import agents
from agents.kernels.adaptive import FEATURES, N_FEATURES, N_SETTINGS, SETTINGS
from agents.learned_gate import SHIPPED, LearnedGate, gate_text, learned_gate, read_gate
from agents.policy import load_policy
from eval.episodes import held_out
from eval.play import run
from hexenv.errors import ConfigError
from hexenv.workload import build
from tests.agents.test_play import outcome, play

from .conftest import HMX, HVX, US, Case, Work

RNG = np.random.default_rng(0)
WEIGHTS = RNG.normal(0.0, 0.5, (N_SETTINGS, N_FEATURES))


@pytest.mark.parametrize("scenario", ["camera_decode", "grid"])
def test_without_weights_it_is_triage_gate(scenario: str) -> None:
    tables = build(scenario, horizon_us=40_000)
    rule = agents.make("triage_gate")
    gate = LearnedGate(np.zeros((N_SETTINGS, N_FEATURES)))
    assert outcome(play(gate, tables, range(4))) == outcome(play(rule, tables, range(4)))
    assert outcome(play(LearnedGate(WEIGHTS), tables, range(4))) != outcome(play(rule, tables, range(4)))


def test_lanes_do_not_depend_on_the_batch() -> None:
    tables = build("grid", horizon_us=20_000)
    together = outcome(play(LearnedGate(WEIGHTS), tables, range(5)))
    for seed in (0, 3):
        assert outcome(play(LearnedGate(WEIGHTS), tables, range(seed, seed + 1))) == together[seed : seed + 1]


def test_features_describe_the_state() -> None:
    """Two jobs of 2 ms due in 4 and 8 ms, one that is late, one best-effort task, beside a best-effort stage."""
    case = Case()
    case.resident(case.op(Work(HMX, hmx=100.0)))
    op = case.op(Work(HVX, hvx=400.0))
    for due in (4000, 8000, -1, None):
        case.task(op, due=due, rest=2000)
    gate = LearnedGate(np.zeros((N_SETTINGS, N_FEATURES)))
    gate.start(case.tables(), 1, 0)
    features, _ = gate.settings(case.view)
    found = dict(zip(FEATURES, features[0], strict=True))
    spare_ns = 2000 * US
    assert list(found.values())[3:7] == pytest.approx([0.5 / 1.5 - 0.5, spare_ns / (spare_ns + 5e6), 0.0, -0.25])
    assert list(found.values())[8:] == [0.5, 0.5]
    assert found["1"] == 1.0


def test_settings_are_weighted_sums_of_features() -> None:
    case = Case()
    case.task(case.op(Work(HVX, hvx=400.0)), due=4000)
    gate = LearnedGate(WEIGHTS)
    gate.start(case.tables(), 1, 0)
    features, settings = gate.settings(np.concatenate([case.view] * 3))
    x = WEIGHTS @ features[0]
    expected = [1.1 * 2 ** (0.7 * x[0]), 1.5 * 2 ** (1.4 * x[1]), 0.97 + 0.1 * x[2], max(0.0, 0.2 * x[3])]
    expected += [1 + 2 * x[4], 1 + 2 * x[5], 3 * x[6], 0.1 * x[7], 0.02 * x[8]]
    assert settings.shape == (3, N_SETTINGS)
    for row in settings:
        assert row.tolist() == pytest.approx(expected)


def test_the_shipped_policy_is_made_by_name_and_is_no_rule() -> None:
    assert "learned_gate" not in agents.names()
    scheduler = agents.make("learned_gate")
    assert isinstance(scheduler, LearnedGate)
    assert scheduler.name == learned_gate().name == "learned_gate"
    assert np.array_equal(scheduler.weights, read_gate(SHIPPED)["weights"])
    with pytest.raises(ConfigError, match="no setting 'margin_us'"):
        agents.make("learned_gate", margin_us=1.0)


def test_a_file_of_weights_gives_them_back_exactly(tmp_path) -> None:
    (tmp_path / "gate.json").write_text(gate_text(WEIGHTS, trained_on="toys"))
    content = read_gate(tmp_path / "gate.json")
    assert np.array_equal(content["weights"], WEIGHTS)
    assert content["trained_on"] == "toys"
    policy = load_policy(tmp_path)
    assert isinstance(policy, LearnedGate)
    assert (policy.name, policy.weights.tolist()) == ("learned", WEIGHTS.tolist())
    assert len(SETTINGS) == N_SETTINGS


def test_a_folder_without_a_policy_is_refused(tmp_path) -> None:
    with pytest.raises(ConfigError, match=r"no policy in .*neither gate\.json nor checkpoint\.zip"):
        load_policy(tmp_path)


def test_a_learned_gate_needs_no_torch(tmp_path) -> None:
    (tmp_path / "gate.json").write_text(gate_text(WEIGHTS))
    code = f"import sys, pathlib, agents.policy as p; p.load_policy(pathlib.Path({str(tmp_path)!r})); "
    code += "import agents; agents.make('learned_gate'); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_shipped_policy_replays_its_held_out_returns() -> None:
    """One episode of each held-out setting of the grid it was trained on."""
    expected = read_gate(SHIPPED)["held_out_returns"]
    tables = build("grid", "v79", "heldout", mode="fused")
    assert len(expected) == len(tables.settings)
    played = run(learned_gate(), tables, held_out(tables, len(expected))).episodes["return"]
    assert played.tolist() == expected
