from __future__ import annotations

import sys
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.engine import Simulator, TraceLevel, episode_key
from hexenv.engine.layout import Arrival, Event
from hexenv.errors import ConfigError
from hexenv.workload import build, load_scenario
from hexenv.workload.arrivals import Arrivals, read_arrivals
from hexenv.workload.summary import streams

STREAMS = ("camera", "text")
RECORDED = ("fps = 60\ndeadline_us = 8000", 'arrival = "trace"\ntrace = "times.csv"')


def read(tmp_path: Path, text: str, stream: str = "camera") -> Arrivals:
    path = tmp_path / "times.csv"
    path.write_text(text, encoding="utf-8")
    return read_arrivals(path, stream, STREAMS)


def test_one_column_is_enough(tmp_path: Path) -> None:
    assert read(tmp_path, "time_us\n0\n1500.5\n9000\n") == Arrivals((0.0, 1500.5, 9000.0), ())


def test_each_stream_takes_its_own_rows(tmp_path: Path) -> None:
    text = "time_us,stream,deadline_us\n5,camera,700\n3,text,\n5,camera,900.5\n8,text,\n"
    assert read(tmp_path, text) == Arrivals((5.0, 5.0), (700.0, 900.5))
    assert read(tmp_path, text, "text") == Arrivals((3.0, 8.0), ())


MISTAKES = [
    ("time\n1\n", r"times\.csv: columns time; allowed: time_us, stream, deadline_us, all but the first optional"),
    ("time_us,colour\n1,red\n", r"columns time_us, colour; allowed"),
    ("", r"columns none; allowed"),
    ("time_us\n1\nx\n", r"times\.csv row 2: column time_us = 'x'; allowed: a number from 0 to 3\.6e\+09"),
    ("time_us\n-1\n", r"row 1: column time_us = '-1'; allowed"),
    ("time_us\nnan\n", r"row 1: column time_us = 'nan'; allowed"),
    ("time_us\n5\n3\n", r"row 2: column time_us = '3'; allowed: at least 5, the arrival before it"),
    ("time_us,stream\n1,camera\n2,sound\n", r"row 2: column stream = 'sound'; allowed: one of camera, text"),
    ("time_us,deadline_us\n1,0\n", r"row 1: column deadline_us = '0'; allowed: a number above 0"),
    (
        "time_us,stream,deadline_us\n1,camera,700\n1,text,\n2,camera,\n",
        r"row 3: column deadline_us = ''; allowed: a number, as in the rows of camera before it",
    ),
    (
        "time_us,deadline_us\n1,\n2,700\n",
        r"row 2: column deadline_us = '700'; allowed: nothing, as in the rows of camera before it",
    ),
    ("time_us,stream\n1,camera\n2\n", r"row 2: more or fewer values than the 2 columns"),
    ("time_us\n1,2\n", r"row 1: more or fewer values than the 1 columns"),
    ('time_us\n"1\n', r"not a CSV or Parquet file \(unexpected end of data\)"),
    ("time_us,stream\n1,text\n", r"times\.csv: no arrival of stream camera"),
]


@pytest.mark.parametrize(("text", "message"), MISTAKES)
def test_mistakes_name_file_row_and_column(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        read(tmp_path, text)


def test_missing_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"none\.csv: cannot be read"):
        read_arrivals(tmp_path / "none.csv", "camera", STREAMS)


@given(st.lists(st.floats(0, 3.6e9), min_size=1, max_size=20).map(sorted))
def test_parquet_says_the_same_as_csv(tmp_path_factory: pytest.TempPathFactory, times: list[float]) -> None:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    folder = tmp_path_factory.mktemp("arrivals")
    streams = ["camera", *(["text", "camera"] * len(times))[: len(times) - 1]]
    deadlines = [700.0 + i for i in range(len(times))]
    table = {"time_us": times, "stream": streams, "deadline_us": deadlines}
    parquet.write_table(pa.table(table), folder / "times.parquet")
    lines = [f"{time!r},{stream},{due!r}" for time, stream, due in zip(times, streams, deadlines, strict=True)]
    (folder / "times.csv").write_text("\n".join(["time_us,stream,deadline_us", *lines]) + "\n", encoding="utf-8")
    both = [read_arrivals(folder / name, "camera", STREAMS) for name in ("times.parquet", "times.csv")]
    assert both[0] == both[1]


def test_bad_parquet_and_missing_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "times.parquet"
    path.write_bytes(b"no parquet")
    pytest.importorskip("pyarrow")
    with pytest.raises(ConfigError, match=r"times\.parquet: not a CSV or Parquet file"):
        read_arrivals(path, "camera", STREAMS)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ConfigError, match=r"need the package pyarrow: pip install 'hexenv\[parquet\]'"):
        read_arrivals(path, "camera", STREAMS)


def test_deadlines_of_the_file_and_their_median(write, tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text("time_us,deadline_us\n0,900\n5,400\n7,500\n", encoding="utf-8")
    stream = load_scenario(write(RECORDED)).streams[0]
    assert (stream.arrival, stream.trace_us, stream.deadline_us) == (Arrival.TRACE, (0.0, 5.0, 7.0), 500.0)
    assert stream.trace_deadlines_us == (900.0, 400.0, 500.0)
    twice = ("fps = 60", 'arrival = "trace"\ntrace = "times.csv"')
    with pytest.raises(
        ConfigError, match=r"deadline_us = 8000, allowed: no deadline here, since the arrivals have their own"
    ):
        load_scenario(write(twice))


def test_jobs_arrive_when_the_file_says(write, tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text("time_us,deadline_us\n100,9000\n4000,9000\n12000.5,7000.5\n", encoding="utf-8")
    simulator = Simulator(build(write(RECORDED)), batch=1, trace=TraceLevel.JOBS)
    simulator.reset(np.array([episode_key(0, 0)], np.uint64))
    while not simulator.lanes["over"][0]:
        simulator.step(np.array([simulator.masks[0].nonzero()[0][-1]]))
    trace = simulator.trace(0)
    arrived = trace[(trace["event"] == Event.ARRIVE) & (trace["stream"] == 0)]
    assert arrived["t_ns"].tolist() == [100_000, 4_000_000, 12_000_500]
    assert arrived["value"].tolist() == [9_000_000, 9_000_000, 7_000_500]


def test_one_deadline_may_stand_in_the_file_or_in_the_scenario(write, tmp_path: Path) -> None:
    (tmp_path / "times.csv").write_text("time_us,deadline_us\n0,900\n5,900\n", encoding="utf-8")
    in_file = build(write(RECORDED)).arrays
    (tmp_path / "times.csv").write_text("time_us\n0\n5\n", encoding="utf-8")
    in_scenario = build(write(("fps = 60\ndeadline_us = 8000", RECORDED[1] + "\ndeadline_us = 900"))).arrays
    assert all(a.tobytes() == b.tobytes() for a, b in zip(in_file, in_scenario, strict=True))


def test_use_of_a_recorded_stream_counts_the_jobs_of_an_episode(write, tmp_path: Path) -> None:
    """Two of three jobs come within the 20 ms; their median deadline says nothing about it."""
    (tmp_path / "times.csv").write_text("time_us,deadline_us\n0,700\n10,900\n20000,900\n", encoding="utf-8")
    camera = streams(build(write(RECORDED))).iloc[0]
    assert camera["deadline_us"] == 900.0
    assert camera["utilisation"] == pytest.approx(2 * camera["chain_us"] / 20_000)
