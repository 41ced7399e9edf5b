"""Diffuse (ASPLOS 25) as a scheduler: a window of ready tasks is filled, then its legal prefix is fused.

The law: the gain grows with the window, then flattens, and what waiting costs stays inside the deadline rule.
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.window import window
from hexenv.engine import Simulator
from hexenv.engine.layout import Event
from tests.engine.toy import Kernel, Source, one, toy_tables
from tests.published.policies import HMX, HVX, once, play, times_us

WIDTHS = (1, 2, 3, 4, 6)
BURSTS = tuple(5000.0 * n for n in range(8))


def burst(order: int, vtcm: int, **fields: object) -> Source:
    """A stream that joins each burst a little after the one before it; two big footprints do not fit together."""
    kernel = Kernel(tiles=20, hmx=100.0, vtcm=vtcm) if order % 2 else Kernel(tiles=20, hvx=400.0, vtcm=vtcm)
    times = tuple(t + 40.0 * order for t in BURSTS)
    return Source((one(kernel, version=order % 2),), times=times, queue=2, **fields)  # type: ignore[arg-type]


def bursts_of_four(width: int) -> Simulator:
    """Two big ones come first, then two small ones."""
    sources = [burst(order, vtcm) for order, vtcm in enumerate((5000, 5000, 3000, 3000))]
    return play(window(width, hold_us=600.0), toy_tables(*sources, entry_ns=20_000))


def entries(sim: Simulator) -> int:
    """Device entries: launches at different instants."""
    trace = sim.trace(0)
    return len(np.unique(trace["t_ns"][trace["event"] == Event.LAUNCH]))


def test_the_gain_grows_with_the_window_then_flattens() -> None:
    """Entries of all bursts: a wider window finds the pairs that fit VTCM; four tasks need two entries at least."""
    count = [entries(bursts_of_four(width)) for width in WIDTHS]
    assert all(wider <= narrower for narrower, wider in pairwise(count))
    assert count[0] == 3 * len(BURSTS) > count[2] == count[3] == count[4] == 2 * len(BURSTS)


def test_waiting_costs_the_window_times_the_inter_arrival_time() -> None:
    """The first task of a burst waits for the others, 40 us each, and no longer than the hold."""
    launch = [times_us(bursts_of_four(width), Event.LAUNCH, 0)[0] for width in (1, 2, 3, 4)]
    assert launch == pytest.approx([0.0, 40.0, 80.0, 120.0], abs=1.0)
    assert 400.0 < times_us(bursts_of_four(6), Event.LAUNCH, 0)[0] <= 600.0


@settings(max_examples=30, deadline=None)
@given(
    parts=st.lists(st.tuples(st.sampled_from([HMX, HVX]), st.floats(20.0, 300.0).map(round)), min_size=1, max_size=4),
    spare=st.floats(0.0, 3000.0).map(round),
    width=st.sampled_from(WIDTHS),
    hold=st.sampled_from([0.0, 200.0, 1000.0, 5000.0]),
)
def test_holding_never_costs_a_deadline(parts: list, spare: int, width: int, hold: float) -> None:
    """A job that comes alone is on time whatever the window, and is held no longer than allowed."""
    solo = sum(us for _, us in parts)
    sim = play(window(width, hold), toy_tables(once(*parts, deadline=float(solo + spare))))
    assert sim.lanes["missed"][0, 0] == 0
    assert times_us(sim, Event.FINISH, 0)[0] <= solo + min(hold, spare) + 0.1


def test_the_prefix_is_the_next_task_that_fits() -> None:
    """By deadline: the second of the window does not fit beside the first, the third does."""
    works = [(5000, 1000.0), (5000, 2000.0), (3000, 3000.0)]
    tables = toy_tables(*(Source((one(Kernel(tiles=20, hmx=100.0, vtcm=v)),), deadline=d) for v, d in works))
    sim = play(window(3), tables)
    assert [times_us(sim, Event.LAUNCH, stream)[0] == 0.0 for stream in range(3)] == [True, False, True]
