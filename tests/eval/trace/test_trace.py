"""Trace files: they keep the rules of the format, and they say what the engine and the tile simulator did."""

from __future__ import annotations

import copy
import gzip
import json
from collections import Counter, defaultdict
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from jsonschema import Draft202012Validator

import agents
from eval.episodes import held_out
from eval.play import play
from eval.runner import Plan
from eval.trace.__main__ import build, main
from eval.trace.events import TraceFile
from eval.trace.recording import record, vtcm_levels
from eval.trace.tiles import replay
from hexenv.device import load_device
from hexenv.engine import TraceLevel
from hexenv.engine.layout import Event
from hexenv.tilesim import chip_of
from tests.eval.trace.rules import complaints, ns

SCHEMA = Draft202012Validator(json.loads((Path(__file__).parent / "trace_event.schema.json").read_text()))
PLACE = 1


MODES = ("slack_gate", "serial", "concurrent", "random", "online_barrier")
"""Rules of all execution modes."""


def recording_of(name, horizon_us=20_000.0, **settings):
    scheduler = agents.make(name)
    plan = Plan(("camera_decode",), "v79", (scheduler,), settings={"horizon_us": horizon_us, **settings})
    tables = plan.tables("camera_decode", scheduler)
    return record(scheduler, tables, held_out(tables, PLACE + 1)[PLACE], PLACE)


@pytest.fixture(scope="module")
def recordings():
    return {name: recording_of(name) for name in MODES}


@pytest.fixture(scope="module")
def traces(recordings):
    return {name: json.loads(build([recording], "v79", False).text()) for name, recording in recordings.items()}


@pytest.fixture(scope="module")
def short():
    return recording_of("slack_gate", horizon_us=3_000.0)


@pytest.fixture(scope="module")
def tiled(short):
    return json.loads(build([short], "v79", True).text())


def of(trace, phase, **fields):
    return [
        e for e in trace["traceEvents"] if e["ph"] == phase and all(e[key] == value for key, value in fields.items())
    ]


def thread(trace, name, pid=1):
    return next(e["tid"] for e in of(trace, "M", name="thread_name", pid=pid) if e["args"]["name"] == name)


def integral(trace, name, series, end_us):
    """Value x time of a counter, us."""
    samples = [e for e in of(trace, "C", name=name, pid=1) if series in e["args"]]
    ends = [e["ts"] for e in samples[1:]] + [end_us]
    return sum(e["args"][series] * (end - e["ts"]) for e, end in zip(samples, ends, strict=True))


# ---- rules of the format -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", MODES)
def test_traces_of_all_modes_keep_the_rules(traces, name):
    assert complaints(traces[name]) == []


def test_traces_keep_the_schema(traces, tiled):
    """All kinds of events: those of jobs that end and of misses come late in a trace."""
    events = traces["serial"]["traceEvents"]
    some = [e for e in events if e["ph"] in "Mbe" or e.get("cat") == "deadline"] + events[:100]
    SCHEMA.validate({"traceEvents": some, "otherData": traces["serial"]["otherData"]})
    assert {e["ph"] for e in some} == set("MXiCbesf")
    kinds = {(e["ph"], e.get("cat")): e for e in tiled["traceEvents"]}
    SCHEMA.validate({"traceEvents": list(kinds.values()), "otherData": tiled["otherData"]})


def test_a_trace_with_tiles_keeps_the_rules(tiled):
    assert complaints(tiled) == []
    assert len(of(tiled, "M", name="process_name")) == 2


def spoil(trace, how):
    events = trace["traceEvents"]
    slices = [e for e in events if e["ph"] == "X" and e["cat"] == "stage"]
    if how == "1 ns of overlap":
        starts = {(e["tid"], ns(e["ts"])) for e in slices}
        followed = next(e for e in slices if (e["tid"], ns(e["ts"]) + ns(e["dur"])) in starts)
        followed["dur"] += 0.001
    elif how == "unnamed thread":
        slices[0]["tid"] = 999
    elif how == "unbalanced":
        events.remove(next(e for e in events if e["ph"] == "e"))
    elif how == "time runs back":
        events.append(events.pop(len(events) // 2))
    elif how == "two values":
        events.insert(events.index(counter := next(e for e in events if e["ph"] == "C")), dict(counter))
    elif how == "loose flow":
        events.remove(next(e for e in events if e["ph"] == "f"))
    elif how == "unit":
        trace["displayTimeUnit"] = "ns"
    return trace


@pytest.mark.parametrize(
    ("how", "complaint"),
    [
        ("1 ns of overlap", "overlaps"),
        ("unnamed thread", "no name"),
        ("unbalanced", "never ends"),
        ("time runs back", "order"),
        ("two values", "two values"),
        ("loose flow", "not one pair"),
        ("unit", "displayTimeUnit"),
    ],
)
def test_the_rules_find_what_is_wrong(traces, how, complaint):
    assert any(complaint in line for line in complaints(spoil(copy.deepcopy(traces["slack_gate"]), how)))


@pytest.mark.parametrize("change", [{"ts": "0"}, {"ts": -1}, {"ph": "Z"}, {"pid": 0}, {"args": [1]}, {"colour": 1}])
def test_the_schema_refuses(traces, change):
    event = traces["serial"]["traceEvents"][-1]
    about = traces["serial"]["otherData"]
    assert SCHEMA.is_valid({"traceEvents": [event], "otherData": about})
    assert not SCHEMA.is_valid({"traceEvents": [event | change], "otherData": about})


def test_times_survive_truncation_to_ns():
    """Back to back slices whose times have no exact double: the importer must see no gap and no overlap."""
    file = TraceFile()
    process = file.process("p")
    one = process.thread("t")
    edges = [*np.cumsum(np.arange(1, 400) * 37 % 1009 + 1).tolist(), 200_000_003_001, 200_000_003_008]
    for start, end in pairwise(edges):
        process.slice(one, "s", "stage", start, end, {})
    slices = of(json.loads(file.text()), "X")
    assert [(ns(e["ts"]), ns(e["ts"]) + ns(e["dur"])) for e in slices] == list(pairwise(edges))


# ---- what they say -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["slack_gate", "serial", "concurrent", "online_barrier"])
def test_engine_counters_add_up_to_the_busy_times(recordings, traces, name):
    recording, end_us = recordings[name], recordings[name].end_ns / 1e3
    lane = recording.lane
    for counter, series, field in (
        ("HVX", "contexts busy", "busy_hvx_ns"),
        ("HMX", "busy", "busy_hmx_ns"),
        ("DMA", "busy", "busy_ddr_ns"),
    ):
        assert integral(traces[name], counter, series, end_us) == pytest.approx(float(lane[field]) / 1e3, rel=1e-6)
    assert min(lane["busy_hvx_ns"], lane["busy_ddr_ns"]) > 0.0


def test_slots_hold_every_launch_for_its_time(recordings, traces):
    recording, trace = recordings["slack_gate"], traces["slack_gate"]
    launches = recording.of(Event.LAUNCH)
    for slot in (0, 1):
        own = launches[launches["slot"] == slot]
        ends = np.where(own["end_ns"] > own["t_ns"], own["end_ns"], recording.end_ns)
        slices = of(trace, "X", tid=thread(trace, f"slot {slot}"), cat="stage")
        assert [(ns(e["ts"]), ns(e["dur"])) for e in slices] == list(
            zip(own["t_ns"].tolist(), (ends - own["t_ns"]).tolist(), strict=True)
        )
    outcomes = Counter(e["args"]["outcome"] for e in of(trace, "X", cat="stage"))
    assert outcomes["credited"] == len(recording.of(Event.COMPLETE))


def test_each_pick_says_what_is_launched(recordings, traces):
    recording = recordings["random"]
    assert len(recording.decisions) == len(recording.of(Event.DECIDE)) == len(of(traces["random"], "i", cat="decision"))
    assert [d.t_ns for d in recording.decisions] == recording.of(Event.DECIDE)["t_ns"].tolist()
    keys = ("stream", "operator", "version", "tile_class")
    picked, launched = defaultdict(list), defaultdict(list)
    for decision in recording.decisions:
        if decision.action:
            picked[decision.t_ns].append(tuple(decision.args[key] for key in keys))
    for stage in recording.stages:
        launched[stage.start_ns].append(tuple(stage.args[key] for key in keys))
    assert {t: sorted(picks) for t, picks in picked.items()} == {t: sorted(own) for t, own in launched.items()}
    assert {"task", "share"} <= next(d.args for d in recording.decisions if d.action).keys()


@pytest.mark.parametrize("name", ["slack_gate", "serial"])
def test_deadlines_met_and_missed_are_those_that_fell_due(recordings, traces, name):
    lane = recordings[name].lane
    marks = Counter(e["name"].split(":")[0] for e in of(traces[name], "i", cat="deadline"))
    missed, due = int(lane["missed"].sum()), int(lane["due"].sum())
    assert (marks["MISSED"], marks["met"]) == (missed, due - missed)
    assert due > 0


def test_serial_misses_deadlines(traces):
    """So that the marks of misses are tested on some."""
    assert any(e["name"].startswith("MISSED") for e in of(traces["serial"], "i"))


@pytest.mark.parametrize("settings", [{}, {"mode": "concurrent", "vtcm_split": "static"}])
def test_vtcm_counter_is_the_allocator(settings):
    """A wait is the last decision of its instant: what it sees of VTCM is what is held from then on."""
    recording = recording_of("random", **settings)
    scheduler = agents.make("random")
    seen = {}

    class Watcher(type(scheduler)):
        def act(self, views, masks):
            actions = super().act(views, masks)
            if actions[0] == 0:
                view = views[0]
                seen[int(view["now_ns"])] = int(view["vtcm_free_bytes"]), int(view["vtcm_largest_bytes"])
            return actions

    scheduler.__class__ = Watcher
    play(scheduler, recording.tables, [recording.episode], PLACE, TraceLevel.NONE)
    total = int(recording.tables.config["vtcm_bytes"][0])
    levels = vtcm_levels(recording.stages, recording.tables.config[0])
    times = [level[0] for level in levels]
    for t, (free, largest) in seen.items():
        _, used, block = levels[int(np.searchsorted(times, t, side="right")) - 1]
        assert (total - used, block) == (free, largest)
    assert len(set(seen.values())) >= 5


def test_flows_follow_a_jobs_stages(recordings, traces):
    """Each arrow joins two stages of one job, and the first ended by the time the second was launched."""
    trace = traces["slack_gate"]
    stages = {(e["tid"], e["ts"]): e for e in of(trace, "X", cat="stage")}
    starts = {e["id"]: stages[e["tid"], e["ts"]] for e in of(trace, "s")}
    for end in of(trace, "f"):
        source, target = starts[end["id"]], stages[end["tid"], end["ts"]]
        assert source["args"]["stream"] == target["args"]["stream"] == end["name"]
        assert source["args"]["job"] == target["args"]["job"]
        assert ns(source["ts"]) + ns(source["dur"]) <= ns(target["ts"])
    roots = sum(e["ph"] == "X" and e["cat"] == "stage" for e in trace["traceEvents"]) - len(starts)
    assert 0 < roots < len(starts)


def test_jobs_live_from_arrival_to_their_end(recordings, traces):
    recording, trace = recordings["serial"], traces["serial"]
    ends = Counter(e["args"]["outcome"] for e in of(trace, "e"))
    assert len(of(trace, "b")) == len(recording.of(Event.ARRIVE))
    assert ends["finished"] == len(recording.of(Event.FINISH))
    assert ends["dropped"] == len(recording.of(Event.DROP)) > 0


def test_tiles_add_up_to_the_busy_times_of_the_tile_simulator(short, tiled):
    recording = short
    tiles = replay(recording, chip_of(load_device("v79"), recording.tables.config[0]))
    spent = {name: sum(e["dur"] for e in of(tiled, "X", pid=2, tid=thread(tiled, name, 2))) for name in ("HMX", "DMA")}
    rounding_us = 1e-3 * len(tiles.records)
    assert spent["HMX"] == pytest.approx(tiles.busy_us["hmx"], abs=rounding_us)
    moved = sum(r.end_us - r.start_us for r in tiles.records if r.engine == "ddr")
    assert spent["DMA"] == pytest.approx(moved, abs=rounding_us)
    phases = of(tiled, "X", cat="hvx")
    contexts_us = sum(e["dur"] * e["args"]["contexts"] for e in phases)
    assert tiles.busy_us["hvx"] <= contexts_us + rounding_us
    counted = of(tiled, "C", pid=2)
    area = sum(e["args"]["contexts forked over"] * (after["ts"] - e["ts"]) for e, after in pairwise(counted))
    assert area == pytest.approx(contexts_us, rel=1e-4)
    assert max(e["args"]["contexts forked over"] for e in counted) <= int(recording.tables.config["contexts"][0])


# ---- the command ---------------------------------------------------------------------------------------------------

SHORT = ["--scenario", "camera_decode", "--horizon-us", "3000"]


def test_compare_puts_two_schedulers_on_the_same_episode(tmp_path):
    out = tmp_path / "two.json"
    assert main([*SHORT[:2], "--horizon-us", "12000", "--compare", "slack_gate,serial", "-o", str(out)]) == 0
    trace = json.loads(out.read_text())
    assert complaints(trace) == []
    names = [e["args"]["name"] for e in of(trace, "M", name="process_name")]
    assert names == ["slack_gate: engine", "serial: engine"]
    first, second = (
        [(e["name"], e["ts"]) for e in of(trace, "b", pid=pid) if "chat" not in e["name"]] for pid in (1, 2)
    )
    timed = [arrival for arrival in first if "filler" not in arrival[0]]
    assert timed == [arrival for arrival in second if "filler" not in arrival[0]] != []


def test_equal_commands_give_equal_bytes(tmp_path):
    files = [tmp_path / "a.json.gz", tmp_path / "b.json.gz"]
    for out in files:
        assert main([*SHORT, "--scheduler", "slack_gate", "--tiles", "-o", str(out)]) == 0
    assert files[0].read_bytes() == files[1].read_bytes()
    assert complaints(json.loads(gzip.decompress(files[0].read_bytes()))) == []


def test_a_policy_is_traced_from_its_run(trained, tmp_path):
    out = tmp_path / "policy.json"
    assert main(["--checkpoint", str(trained), "--compare", "learned,serial", "-o", str(out)]) == 0
    trace = json.loads(out.read_text())
    assert complaints(trace) == []
    assert trace["otherData"]["schedulers"] == "learned, serial"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--scheduler", "slack_gat", "-o", "x.json"], "slack_gat"),
        (["--scheduler", "serial", "-o", "x.txt"], ".json"),
        (["--scheduler", "serial", "--episode", "-1", "-o", "x.json"], "--episode -1"),
        (["--scheduler", "serial", "--scenario", "nowhere", "-o", "x.json"], "nowhere"),
        (["--scheduler", "concurrent", "--tiles", *SHORT, "-o", "x.json"], "--tiles"),
        (["-o", "x.json"], "--scheduler"),
        (["--checkpoint", "nowhere", "-o", "x.json"], "nowhere"),
        (["--checkpoint", "nowhere", "--noise", "0", "-o", "x.json"], "--noise"),
    ],
)
def test_wrong_input_is_one_line_and_no_file(options, words, capsys, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert main(options) == 2
    error = capsys.readouterr().err
    assert words in error
    assert error.count("\n") == 1
    assert not list(tmp_path.iterdir())
