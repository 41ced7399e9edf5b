"""The fluid engine against tiles on a small sample, and the command line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from hexenv.errors import EXIT_CODE
from hexenv.tilesim import Arbitration
from hexenv.tilesim.__main__ import compare, main
from hexenv.tilesim.cases import Measure

SCENARIOS = ("camera_decode", "dual_camera_llm")


@pytest.fixture(scope="module")
def measures() -> list[Measure]:
    return compare(SCENARIOS, "v79", Arbitration.FIFO, n_pairs=60, n_episodes=3, horizon_ms=6.0, seed=0)


def errors(measures: list[Measure], kinds: tuple[str, ...], quantity: str) -> np.ndarray:
    found = [abs(m.error) for m in measures if m.kind in kinds and m.quantity == quantity]
    assert found
    return np.array(found)


def test_variants_alone_take_the_predicted_time(measures: list[Measure]) -> None:
    alone = errors(measures, ("alone",), "end")
    assert np.median(alone) <= 0.02
    assert np.percentile(alone, 95) <= 0.12


def test_pairs_end_when_the_fluid_engine_says(measures: list[Measure]) -> None:
    makespan = errors(measures, ("composite", "join"), "makespan")
    assert makespan.size == 60
    assert np.median(makespan) <= 0.05
    assert np.percentile(makespan, 95) <= 0.15
    assert np.median(errors(measures, ("composite", "join"), "end")) <= 0.06


def test_both_models_do_the_same_work(measures: list[Measure]) -> None:
    for engine, tolerance in (("ddr", 1e-3), ("hmx", 1e-3), ("hvx", 0.05)):
        assert errors(measures, ("composite", "join"), f"busy {engine}").max() <= tolerance


def test_whole_episodes_last_as_long(measures: list[Measure]) -> None:
    assert errors(measures, ("episode",), "makespan").max() <= 0.15
    assert np.median(errors(measures, ("stage of an episode",), "end")) <= 0.1


def test_equal_seeds_give_equal_measures() -> None:
    def few(seed: int) -> list[Measure]:
        return compare(SCENARIOS[:1], "v79", Arbitration.FIFO, n_pairs=3, n_episodes=1, horizon_ms=2.0, seed=seed)

    assert few(1) == few(1)
    assert few(1) != few(2)


def test_command_line_prints_and_writes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, plot = tmp_path / "measures.csv", tmp_path / "errors.svg"
    few = ["--pairs", "2", "--episodes", "1", "--horizon-ms", "2", "--scenario", "camera_decode"]
    assert main([*few, "--arbitration", "rings", "--csv", str(table), "--plot", str(plot)]) == 0
    printed = capsys.readouterr()
    assert "| composite | makespan | " in printed.out or "| join | makespan | " in printed.out
    assert "Largest errors:" in printed.out
    assert "2 of 2 pairs" in printed.err
    assert table.read_text().startswith("kind,quantity,case,fluid_us,tiles_us,error,cause\n")
    assert plot.read_text().startswith("<?xml")


@pytest.mark.parametrize("bad", [["--scenario", "nowhere"], ["--device", "v0"], ["--plot", "errors.pdf"]])
def test_bad_arguments_are_explained(bad: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    few = ["--pairs", "0", "--episodes", "0", "--scenario", "camera_decode"]
    assert main([*few, *bad]) == EXIT_CODE
    assert capsys.readouterr().err.startswith("error: ")
