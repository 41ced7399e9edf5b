from __future__ import annotations

import json

import numpy as np

from hexenv import bench


def test_json_holds_every_figure_with_machine_and_versions(tmp_path, capsys):
    path = tmp_path / "bench.json"
    assert bench.main(["--seconds", "0.01", "--envs", "4", "--json", str(path)]) == 0
    figures = json.loads(path.read_text())
    assert figures.keys() == {*bench.LABELS, "unit", "machine", "versions"}
    assert all(figures[key] > 0 for key in bench.LABELS)
    assert figures["versions"].keys() == {"python", "hexenv", "gymnasium", "numpy", "numba"}
    assert figures["machine"]["cores"] >= 1
    printed = capsys.readouterr().out
    assert all(label in printed for label in bench.LABELS.values())
    assert figures["machine"]["processor"] in printed


def test_bad_input_is_one_line_and_exit_code_2(tmp_path, refusal):
    assert "nothing" in refusal(bench.main, ["--scenario", "nothing"])
    path = tmp_path / "missing" / "bench.json"
    assert str(path) in refusal(bench.main, ["--seconds", "0.01", "--envs", "2", "--json", str(path)])


def test_sampler_draws_every_legal_action_and_no_other():
    masks = np.zeros((2, 10), np.int8)
    masks[0, [0, 4, 9]] = 1
    masks[1, 0] = 1
    actions = np.zeros(2, np.int64)
    drawn = []
    for step in range(100):
        bench.random_actions(masks, step, actions)
        drawn.append(actions.tolist())
    assert {first for first, _ in drawn} == {0, 4, 9}
    assert {second for _, second in drawn} == {0}


class OneOfTwoEnds:
    """A vector environment whose first sub-environment ends at every second step."""

    def __init__(self):
        self.steps = 0

    def reset(self, seed):
        return None, {}

    def step(self, actions):
        self.steps += 1
        return None, None, np.array([self.steps % 2 == 1, False]), np.zeros(2, np.bool_), {}


def test_steps_that_only_reset_are_no_decisions(monkeypatch):
    clock = iter(np.arange(0.0, 1000.0, 0.5))
    monkeypatch.setattr(bench.time, "perf_counter", lambda: next(clock))
    # A step takes 0.5 s; three of the four sub-environment steps of two steps are decisions.
    assert bench.measure(OneOfTwoEnds(), 2, 49.9, lambda *_: None) == 3.0
