"""The tightness of a setting multiplies every deadline, and nothing else."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import NO_DEADLINE, Arrival, Event, Tables
from tests.engine.toy import Kernel, Source, action, one, toy_tables

FRAME = Source((one(Kernel(tiles=4, hmx=400.0)),), times=(0.0,), deadline=500.0)
BEST_EFFORT = Source((one(Kernel(tiles=4, ddr=100.0)),), times=(0.0,))


def at(tightness: float, *sources: Source) -> Tables:
    tables = toy_tables(*sources)
    settings = tables.settings.copy()
    settings["tightness"] = tightness
    return replace(tables, settings=settings)


def started(tables: Tables) -> Simulator:
    sim = Simulator(tables, trace=TraceLevel.JOBS)
    sim.reset(np.zeros(1, np.uint64))
    return sim


@pytest.mark.parametrize(("tightness", "missed"), [(0.75, 1), (0.8, 0), (1.0, 0), (2.0, 0)])
def test_a_frame_is_late_exactly_when_its_scaled_deadline_says_so(tightness: float, missed: int) -> None:
    """400 us of work against 500 us x tightness; completion at the very instant is on time."""
    sim = started(at(tightness, FRAME))
    assert sim.views["tasks"]["deadline_ns"][0, 0] == round(500_000 * tightness)
    assert sim.views["streams"]["deadline_ns"][0, 0] == round(500_000 * tightness)
    sim.step(np.array([action(0)]))
    assert sim.lanes["missed"][0, 0] == missed


def test_no_deadline_stays_no_deadline() -> None:
    sim = started(at(0.5, BEST_EFFORT))
    assert sim.views["tasks"]["deadline_ns"][0, 0] == NO_DEADLINE
    assert sim.views["streams"]["deadline_ns"][0, 0] == NO_DEADLINE


@pytest.mark.parametrize(("tightness", "misses"), [(1.0, 4), (2.0, 2)])
def test_a_late_closed_loop_owes_one_more_miss_a_scaled_period(tightness: float, misses: int) -> None:
    loop = Source((one(Kernel(tiles=1, hmx=100.0)),), arrival=Arrival.CLOSED_LOOP, deadline=200.0, firm=False)
    sim = started(at(tightness, loop))
    while sim.views["now_ns"][0] < 900_000:
        sim.step(np.array([0]))
    trace = sim.trace(0)
    assert (trace[trace["event"] == Event.MISS]["t_ns"] <= 900_000).sum() == misses
