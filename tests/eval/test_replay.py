import json

import pandas as pd
import pytest

from eval.__main__ import main
from eval.plan_file import PLAN
from eval.replay import replay
from hexenv.errors import ConfigError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Results of three rules on six episodes, one of them random, beside their plan."""
    out = tmp_path_factory.mktemp("results")
    options = ["--scenario", "camera_decode", "--schedulers", "serial,random,slack_gate", "--episodes", "6"]
    assert main([*options, "--horizon-us", "10000", "--workers", "1", "--out", str(out)]) == 0
    return out


@pytest.fixture
def results(folder, tmp_path):
    for name in ("episodes.csv", PLAN):
        (tmp_path / name).write_bytes((folder / name).read_bytes())
    return tmp_path / "episodes.csv"


def damage(path, row, column, value):
    frame = pd.read_csv(path, dtype=str, keep_default_na=False)
    before, frame.loc[row - 1, column] = frame.loc[row - 1, column], value
    frame.to_csv(path, index=False, lineterminator="\n")
    return before


@pytest.mark.parametrize("rows", [None, 7, 1, 100])
def test_rows_come_out_as_they_are_in_the_file(results, rows):
    found = replay(results, rows)
    assert found.rows == min(rows or 18, 18)
    assert found.differences == []
    assert found.changed == []


def test_a_difference_is_named_and_fails(results, capsys):
    before = damage(results, 8, "return", "1.25")
    assert main(["--replay", str(results), "--workers", "1"]) == 1
    printed = capsys.readouterr().out
    expected = f"row 8 (random on camera_decode, episode 1), column return: 1.25 in the file, {before} replayed"
    assert expected in printed.splitlines()
    assert "18 rows replayed, 1 with a difference" in printed


def test_a_difference_in_the_last_digit_counts(results):
    value = pd.read_csv(results, dtype=str)["hvx_busy"][17]
    damage(results, 18, "hvx_busy", value[:-1] + str((int(value[-1]) + 1) % 10))
    (difference,) = replay(results).differences
    assert (difference.row, difference.column) == (18, "hvx_busy")
    assert replay(results, 1).differences == []


def test_a_column_too_many_is_a_difference(results):
    frame = pd.read_csv(results, dtype=str, keep_default_na=False)
    frame.assign(energy="1").to_csv(results, index=False)
    (difference,) = replay(results, 1).differences
    assert (difference.column, difference.played) == ("energy", "(no such column)")


def test_says_what_changed_since(results):
    plan = json.loads((results.parent / PLAN).read_text())
    plan["code"], plan["schedulers"][2]["hash"] = "0", "0"
    (results.parent / PLAN).write_text(json.dumps(plan))
    scheduler, code = replay(results, 1).changed
    assert "scheduler slack_gate" in scheduler
    assert "code of engine" in code


def test_wrong_files_are_refused(results, tmp_path, capsys):
    with pytest.raises(ConfigError, match=r"rows 0 is not allowed"):
        replay(results, 0)
    damage(results, 3, "episode", "77")
    with pytest.raises(ConfigError, match=r"row 3 \(serial on camera_decode, episode 77\) is not in .*plan.json"):
        replay(results)
    results.write_text("a,b\n1,2\n")
    with pytest.raises(ConfigError, match="has no column scheduler"):
        replay(results)
    (tmp_path / PLAN).write_text("{}")
    assert main(["--replay", str(tmp_path / "nothing.csv")]) == 2
    assert "nothing.csv: cannot be read as CSV (No such file or directory)" in capsys.readouterr().err


def test_a_missing_or_broken_plan_is_refused(results):
    for text, words in (("[]", "holds no table"), ("{", "is not a plan"), ("{}", "is not a plan: KeyError")):
        (results.parent / PLAN).write_text(text)
        with pytest.raises(ConfigError, match=words):
            replay(results)
    (results.parent / PLAN).unlink()
    with pytest.raises(ConfigError, match="written beside the results"):
        replay(results)
