"""The table of decision times: measured for every scheduler, while the simulation charges a constant."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from agents import make
from agents.scheduler import Scheduler
from eval.decision_cost import decision_costs, main
from eval.episodes import held_out
from eval.play import run
from hexenv.engine.layout import Tables
from hexenv.workload import build


class Slow(Scheduler):
    """Sleeps before it decides as ``edf`` does."""

    def __init__(self) -> None:
        self._edf = make("edf")
        self.name, self.overrides = "slow", {"mode": "serial"}

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        self._edf.start(tables, batch, seed)

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        time.sleep(0.0005)
        return self._edf.act(views, masks)


def test_a_slow_scheduler_is_seen_and_not_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eval.decision_cost.LANES", 4)
    monkeypatch.setattr("eval.decision_cost.build", lambda *args, **how: build(*args, horizon_us=2000, **how))
    frame = decision_costs([make("edf"), Slow()], "camera_decode").set_index("scheduler")
    assert frame.loc["slow", "single_us"] > 500.0 > frame.loc["slow", "batched_us"] > 125.0
    assert frame.loc["slow", "charged_us"] == frame.loc["edf", "charged_us"] > 0.0
    tables = build("camera_decode", split="heldout", horizon_us=2000, mode="serial")
    returns = [run(s, tables, held_out(tables, 2)).episodes["return"].tolist() for s in (make("edf"), Slow())]
    assert returns[0] == returns[1]


def test_command(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("eval.decision_cost.build", lambda *args, **how: build(*args, horizon_us=2000, **how))
    out = tmp_path / "cost.csv"
    assert main(["--schedulers", "edf,tacker", "--out", str(out)]) == 0
    assert list(pd.read_csv(out)["scheduler"]) == ["edf", "tacker"]
    assert "| tacker |" in capsys.readouterr().out
    assert main(["--schedulers", "nobody"]) == 2
    assert "nobody" in capsys.readouterr().err
