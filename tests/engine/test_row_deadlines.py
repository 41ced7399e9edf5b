"""Recorded arrivals with deadlines of their own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import NO_DEADLINE, Event, Tables
from tests.engine.play import hashed_actions, keys, play_out
from tests.engine.toy import Kernel, Source, action, one, toy_tables

WORK = (one(Kernel(tiles=4, hmx=100.0)),)


def tightened(tables: Tables, tightness: float) -> Tables:
    changed = tables.settings.copy()
    changed["tightness"] = tightness
    return replace(tables, settings=changed)


def started(tables: Tables, batch: int = 1) -> Simulator:
    sim = Simulator(tables, batch, trace=TraceLevel.JOBS)
    sim.reset(keys(batch))
    return sim


def events(sim: Simulator, event: Event, lane: int = 0) -> np.ndarray:
    trace = sim.trace(lane)
    return trace[trace["event"] == event]


@pytest.mark.parametrize(("tightness", "missed"), [(1.0, [1]), (0.5, [0, 1]), (2.0, [])])
def test_each_job_has_until_its_own_deadline(tightness: float, missed: list[int]) -> None:
    """Jobs of 100 us at 0 and 1000 us, given 180 and 90 us x tightness."""
    tables = tightened(
        toy_tables(Source(WORK, times=(0.0, 1000.0), deadline=180.0, deadlines=(180.0, 90.0))), tightness
    )
    sim = started(tables)
    for due_us in (180.0 * tightness, 1000.0 + 90.0 * tightness):
        assert sim.views["tasks"]["deadline_ns"][0, 0] == due_us * 1000
        sim.step(np.array([action(0)]))
        while not sim.lanes["over"][0] and not sim.masks[0, 1:].any():
            sim.step(np.array([0]))
    assert events(sim, Event.MISS)["job"].tolist() == missed
    assert events(sim, Event.ARRIVE)["value"].tolist() == [180_000 * tightness, 90_000 * tightness]


def test_what_stands_for_the_stream_is_no_jobs_deadline() -> None:
    sim = started(toy_tables(Source(WORK, times=(0.0,), deadline=300.0, deadlines=(180.0,))))
    assert sim.views["streams"]["deadline_ns"][0, 0] == 300_000
    assert sim.views["tasks"]["deadline_ns"][0, 0] == 180_000


def test_a_rejected_job_is_charged_once_under_its_own_deadline() -> None:
    sim = started(toy_tables(Source(WORK, times=(0.0, 10.0), deadline=500.0, deadlines=(500.0, 700.0))))
    sim.step(np.array([action(0)]))
    assert events(sim, Event.REJECT)["value"].tolist() == [700_000]
    assert events(sim, Event.MISS)["job"].tolist() == [1]


rows = st.lists(st.tuples(st.floats(0.0, 600.0), st.sampled_from([60.0, 150.0, 400.0])), min_size=1, max_size=6)
play = st.integers(0, 1 << 20)


def recorded(arrivals: list[tuple[float, float]], firm: bool = True) -> Source:
    times, deadlines = zip(*sorted(arrivals), strict=True)
    return Source(WORK, times=times, deadline=150.0, deadlines=deadlines, firm=firm, queue=2)


@settings(max_examples=30, deadline=None)
@given(rows, rows, st.sampled_from([0.75, 1.0, 1.5]), play)
def test_laws_of_random_play(first, second, tightness, seed) -> None:
    """No firm job outlives its deadline; a soft one misses exactly if it does; equal lanes and forks play alike."""
    sources = (recorded(first), recorded(second, firm=False))
    tables = tightened(toy_tables(*sources, horizon_ns=10_000_000), tightness)
    sim = started(tables, 2)
    for _ in range(3):
        sim.step(np.where(sim.lanes["over"], 0, hashed_actions(sim, np.full(2, seed))), ~sim.lanes["over"])
    sim.fork(0, 1)
    play_out(sim, lambda s: hashed_actions(s, np.full(2, seed)))
    assert sim.lanes[0].tobytes() == sim.lanes[1].tobytes()
    assert np.array_equal(sim.trace(0), sim.trace(1))
    for s, source in enumerate(sources):
        allowed = [round(round(us * 1000) * tightness) for us in source.deadlines]
        own = {event: [r for r in events(sim, event) if r["stream"] == s] for event in Event}
        come = sorted([*own[Event.ARRIVE], *own[Event.REJECT]], key=lambda r: r["job"])
        assert [r["value"] for r in come] == allowed
        late = {r["job"] for r in own[Event.FINISH] if r["value"] > allowed[r["job"]]}
        assert not (late and source.firm)
        lost = {r["job"] for event in (Event.REJECT, Event.DROP) for r in own[event]}
        assert {r["job"] for r in own[Event.MISS]} == late | lost
        assert sim.lanes["due"][0, s] == len(come)


@settings(max_examples=15, deadline=None)
@given(rows, st.booleans(), play)
def test_equal_deadlines_are_the_streams(arrivals, firm, seed) -> None:
    own = recorded([(time, 150.0) for time, _ in arrivals], firm)
    both = [started(toy_tables(source, horizon_ns=10_000_000)) for source in (own, replace(own, deadlines=()))]
    for sim in both:
        play_out(sim, lambda s: hashed_actions(s, np.full(1, seed)))
    assert both[0].lanes.tobytes() == both[1].lanes.tobytes()
    assert both[0].trace(0).tobytes() == both[1].trace(0).tobytes()


def test_no_deadline_is_recorded_as_none() -> None:
    sim = started(toy_tables(Source(WORK, times=(0.0,))))
    assert events(sim, Event.ARRIVE)["value"].tolist() == [NO_DEADLINE]
