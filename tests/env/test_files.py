import pandas as pd
import pytest

from hexenv.errors import ConfigError
from hexenv.files import csv_text, require_writable, write_all, write_file


def test_floats_are_written_to_twelve_digits_and_gaps_as_nan():
    frame = pd.DataFrame({"a": [1 / 3, float("nan")], "b": ["x", "y"], "c": [1, 2]})
    assert csv_text(frame) == "a,b,c\n0.333333333333,x,1\nnan,y,2\n"


def test_writes_all_files_and_leaves_nothing_else(tmp_path):
    write_all(tmp_path, {"one.csv": "a\n", "two.csv": "ü\n"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "one.csv": b"a\n",
        "two.csv": "ü\n".encode(),
    }


def test_a_failure_replaces_no_file(tmp_path):
    (tmp_path / "one.csv").write_text("old")
    with pytest.raises(UnicodeEncodeError):
        write_all(tmp_path, {"one.csv": "new", "two.csv": "\ud800"})
    assert [(path.name, path.read_text()) for path in tmp_path.iterdir()] == [("one.csv", "old")]


def test_refuses_a_folder_that_cannot_be_made(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(ConfigError, match="file/results' cannot be written: Not a directory"):
        require_writable(tmp_path / "file" / "results")


def test_makes_a_missing_folder_and_leaves_it_empty(tmp_path):
    require_writable(tmp_path / "a" / "b")
    assert list((tmp_path / "a" / "b").iterdir()) == []


def test_one_file_of_bytes_in_a_new_folder(tmp_path):
    write_file(tmp_path / "plots" / "one.png", b"\x89PNG")
    assert [(p.name, p.read_bytes()) for p in (tmp_path / "plots").iterdir()] == [("one.png", b"\x89PNG")]
