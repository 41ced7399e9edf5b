"""What each published kernel idea changes, in a table."""

from __future__ import annotations

import pandas as pd
import pytest

from hexenv.device import load_device
from hexenv.kernels.families import family_techniques
from hexenv.workload import load_scenario
from hexenv.workload.__main__ import main
from hexenv.workload.ablation import ablation


@pytest.fixture(scope="module")
def table() -> pd.DataFrame:
    return ablation(load_scenario("camera_decode"), load_device("v79"))


def test_every_row_is_a_technique_that_exists_and_concerns_somebody(table: pd.DataFrame) -> None:
    known = family_techniques()
    own = table[table["family"] != "graph"]
    assert len(own) > 0
    for row in own.itertuples():
        technique = known[row.family][row.technique]
        assert technique.accepts(row.value)
        assert row.value != technique.default
        assert row.operators > 0


def test_changes_are_relative_to_the_defaults(table: pd.DataFrame) -> None:
    """A table look-up instead of a polynomial saves vector time of attention and moves no byte more."""
    row = table[(table["family"] == "attention") & (table["technique"] == "exp") & (table["value"] == "table")].iloc[0]
    assert row["hvx"] < 0.0
    assert row["ddr"] == pytest.approx(0.0)


def test_a_fusion_lowers_ddr_traffic(table: pd.DataFrame) -> None:
    fusions = table[table["family"] == "graph"]
    assert len(fusions) > 0
    assert (fusions["ddr"] < 0.0).all()


def test_the_command_shows_it(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["camera_decode", "--techniques"]) == 0
    assert "attention" in capsys.readouterr().out
