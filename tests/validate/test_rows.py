from __future__ import annotations

from pathlib import Path

import pytest

from hexenv.errors import ConfigError
from hexenv.validate.rows import bundled_rows, read_rows
from tests.validate.samples import MODEL_HEADER, OPERATOR_HEADER


def test_bundled_files_are_read_whole() -> None:
    rows = bundled_rows()
    assert {row.file for row in rows} == {"measured_ops.csv", "measured_e2e.csv"}
    assert len(rows) == 227 + 83
    assert len({(row.file, row.line) for row in rows}) == len(rows)


def test_both_layouts_and_a_range(tmp_path: Path) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(f"{OPERATOR_HEADER}\nmy log,my phone,v79,MUL_MAT,q4_0,f32,64,1,64,,time,17-29,us,\n")
    (row,) = read_rows(file)
    assert (row.line, row.value, row.unit, row["model"], row.what) == (2, 23.0, "us", "", "MUL_MAT q4_0 64x1x64")
    file.write_text(f"{MODEL_HEADER}\nmy log,my phone,v79,Qwen3-1.7B,Q4_0,pp512,2000,t/s,\n")
    assert read_rows(file)[0].what == "Qwen3-1.7B Q4_0 pp512"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a,b\n1,2\n", r"line 1: columns = 'a,b'; allowed: operator: source,.*whole-model: source,"),
        (f"{MODEL_HEADER}\n", "no rows below the header"),
        (
            f"{MODEL_HEADER}\na,b,v79,m,Q4_0,pp512,fast,t/s,\n",
            "column value = 'fast'; allowed: a number above 0",
        ),
        (f"{MODEL_HEADER}\na,b,v79,m,Q4_0,pp512,-3,t/s,\n", "line 2: column value = '-3'; allowed"),
        (f"{MODEL_HEADER}\na,b,v79,m,Q4_0,pp512,inf,t/s,\n", "line 2: column value = 'inf'; allowed"),
        (f"{MODEL_HEADER}\na,b,v79,m,Q4_0,pp512,3,tok/s,\n", "line 2: column unit = 'tok/s'; allowed: s, ms, us"),
        (f"{MODEL_HEADER}\na,b,v79,m\n", "line 2: 4 values; allowed: 9, one a column"),
        (f"{MODEL_HEADER}\na,b,v79,m,Q4_0,pp512,3,t/s,,x\n", "line 2: 10 values; allowed: 9"),
        (
            f"{OPERATOR_HEADER}\na,b,v79,MUL_MAT,q4_0,f32,64,0,64,,time,3,us,\n",
            "line 2: column n = '0'; allowed: a wh",
        ),
    ],
)
def test_refuses_bad_files_with_place_value_and_what_is_allowed(tmp_path: Path, text: str, message: str) -> None:
    file = tmp_path / "mine.csv"
    file.write_text(text)
    with pytest.raises(ConfigError, match=message) as error:
        read_rows(file)
    assert str(file) in str(error.value)


def test_refuses_a_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.csv: cannot be read \(No such file"):
        read_rows(tmp_path / "none.csv")
