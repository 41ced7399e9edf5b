from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pandas as pd
import pytest

from hexenv.validate.__main__ import main
from tests.validate.samples import OPERATOR_HEADER

OWN_ROW = "my log,my phone,v79,MUL_MAT,q4_0,f32,2048,1,2048,,time,43,us,\n"


@pytest.fixture
def own_rows(tmp_path: Path) -> Path:
    file = tmp_path / "mine.csv"
    file.write_text(f"{OPERATOR_HEADER}\n{OWN_ROW}")
    return file


def test_a_file_of_ones_own(own_rows: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    table, summary, plot = tmp_path / "out" / "rows.csv", tmp_path / "out" / "all.json", tmp_path / "plot.svg"
    arguments = ["--rows", str(own_rows), "--csv", str(table), "--json", str(summary), "--plot", str(plot)]
    assert main(arguments) == 0
    text = capsys.readouterr().out
    assert "MUL_MAT q4_0 2048x1x2048" in text
    assert "1 row used, 0 left out" in text
    (row,) = pd.read_csv(table).to_dict("records")
    assert (row["family"], row["device"], row["measured"]) == ("gemv", "v79", 43)
    assert row["error"] == pytest.approx(row["predicted"] / 43 - 1, abs=1e-5)
    content = json.loads(summary.read_text())
    assert list(content) == ["rows", "target", "target_at_sustained_clock", "families", "devices", "excluded", "fits"]
    assert content["families"]["gemv"]["rows"] == 1
    assert content["families"]["gemv"]["median"] == pytest.approx(abs(row["error"]), abs=1e-5)
    assert set(content["target"]) >= {"rows", "median", "p90", "median_limit", "p90_limit", "met"}
    assert plot.read_text().startswith("<?xml")


def test_another_device(own_rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rows", str(own_rows), "--device", "v75", "--markdown"]) == 0
    assert "| v75 | gemv |" in capsys.readouterr().out


def test_own_rows_that_cannot_be_used_are_listed(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(f"{OPERATOR_HEADER}\n{OWN_ROW.replace('MUL_MAT', 'MAGIC')}")
    assert main(["--rows", str(file), "--markdown"]) == 0
    text = capsys.readouterr().out
    assert "mine.csv line 2" in text
    assert "operator 'MAGIC' has no cost model" in text


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--rows", "nowhere.csv"], "rows file nowhere.csv: cannot be read"),
        (["--device", "v99"], "unknown device 'v99'"),
        (["--plot", "here.pdf"], "plot file 'here.pdf'; allowed: a name that ends in .svg or .png"),
        (["--clock", "0"], "--clock = 0; allowed: above 0, at most 1"),
        (["--csv", "."], "output file '.' is a folder"),
        (["--sensitivity", "--fit"], "--fit cannot be given with --sensitivity"),
        (["--rows-file", "x"], "unrecognized arguments: --rows-file x"),
    ],
)
def test_refuses_bad_input_on_one_line(arguments: list[str], message: str, refusal: Callable[..., str]) -> None:
    assert message in refusal(main, arguments)


def test_refuses_a_folder_that_cannot_be_made(own_rows: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--rows", str(own_rows), "--csv", str(own_rows / "rows.csv")]) == 2
    assert "cannot be written: File exists" in capsys.readouterr().err


def test_the_tables_of_a_document(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "page.md"
    file.write_text("Before.\n\n<!-- begin devices -->\nold\n<!-- end -->\n\nAfter.\n")
    assert main(["--document", str(file)]) == 0
    text = file.read_text()
    assert text.startswith("Before.\n\n<!-- begin devices -->\n**Errors by device**")
    assert "| v79, overlapped | 16 |" in text
    assert "old" not in text
    assert text.endswith("<!-- end -->\n\nAfter.\n")
    file.write_text("<!-- begin weather -->\n<!-- end -->\n")
    assert main(["--document", str(file)]) == 2
    assert "section 'weather'; allowed: verdict, rows, families" in capsys.readouterr().err
