"""Tacker (HPCA 22): a best-effort kernel is fused with a critical one while the query's headroom pays for it.

Rule as read from the released code: fuse iff ``T_fuse - T_lc < T_qos - T_solo - T_queue`` less a guard (4 ms of a 50 ms
target); else the critical kernel runs alone. Its published throughput gain (18.6 %) is from NVIDIA GPUs.
"""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.tacker import GUARD, tacker
from hexenv.engine.layout import Event
from tests.engine.toy import toy_tables
from tests.published.policies import DMA, HMX, HVX, endless, every, once, play, times_us

durations = st.floats(40.0, 400.0).map(lambda us: float(round(us)))
kernels = st.tuples(st.sampled_from([HMX, HVX]), durations)


@settings(max_examples=12, deadline=None)
@given(query=st.lists(kernels, min_size=1, max_size=6), guests=st.lists(kernels, min_size=1, max_size=4))
def test_no_miss_that_solo_execution_would_not_have(query: list, guests: list) -> None:
    """Perfect prediction, one critical stream; the leaf that may hold the device when a query comes is charged."""
    solo, leaf = sum(us for _, us in query), max(us for _, us in guests)
    deadline = solo + leaf + 1.0  # a rounding of every event to ns
    for slack in (0.0, 0.5 * solo):
        period = 1.3 * (deadline + slack) + 13.0
        queries = every(period, deadline + slack, *query)
        tables = toy_tables(queries, endless(*guests), horizon_ns=int(3000 * period))
        lanes = play(tacker(guard=0.0), tables).lanes
        assert lanes["due"][:, 0].min() > 0
        assert lanes["missed"][:, 0].sum() == 0


@pytest.mark.parametrize("headroom", [0.0, 20.0, 60.0, 170.0, 330.0, 520.0, 2000.0])
def test_best_effort_gains_what_the_headroom_pays_for(headroom: float) -> None:
    """Ten critical kernels of 100 us; each guest of 150 us delays the query by 50. No headroom, no gain."""
    tables = toy_tables(once(*[(HMX, 100.0)] * 10, deadline=1000.0 + headroom), endless((HVX, 150.0)))
    sim = play(tacker(guard=0.0), tables)
    finished = times_us(sim, Event.FINISH, 0)[0]
    guests = int((times_us(sim, Event.LAUNCH, 1) < finished - 1.0).sum())
    assert guests == min(10, math.floor(headroom / 50.0))
    assert sim.lanes["missed"][0, 0] == 0


def misses(guard: float, noise: float) -> float:
    query = [(HMX, 100.0)] * 10
    tables = toy_tables(every(3000.0, 1500.0, *query), endless((HVX, 150.0)), noise=noise)
    lanes = play(tacker(guard=guard), tables, 16).lanes
    return lanes["missed"][:, 0].sum() / lanes["due"][:, 0].sum()


def test_without_its_guard_a_wrong_prediction_misses() -> None:
    """10 % noise on every duration; the released code's guard covers it, and without noise none is needed."""
    assert misses(guard=0.0, noise=0.0) == 0.0
    assert misses(guard=0.0, noise=0.1) > 0.02
    assert misses(guard=GUARD, noise=0.1) < 0.2 * misses(guard=0.0, noise=0.1)


@pytest.mark.parametrize("noise", [0.0, 0.05, 0.1, 0.2])
def test_misses_grow_with_the_error_of_the_prediction(noise: float) -> None:
    """Formula 10 of the survey of co-execution systems: both rules rely on prediction."""
    assert misses(0.0, noise) <= misses(0.0, noise + 0.1) + 0.01


def test_a_matrix_kernel_takes_a_vector_kernel_only() -> None:
    for partner, fused in ((HVX, True), (DMA, True), (HMX, False)):
        tables = toy_tables(once((HMX, 100.0), deadline=5000.0), endless((partner, 80.0)))
        launches = times_us(play(tacker(), tables), Event.LAUNCH, 1)
        assert (launches[0] == 0.0) == fused
    tables = toy_tables(once((HVX, 100.0), deadline=5000.0), endless((DMA, 80.0)))
    assert times_us(play(tacker(), tables), Event.LAUNCH, 1)[0] >= 100.0


def test_nothing_joins_a_running_pair_and_the_whole_device_is_left_to_best_effort_afterwards() -> None:
    tables = toy_tables(once((HMX, 100.0), (HMX, 100.0), deadline=5000.0), endless((HVX, 30.0)), horizon_ns=400_000)
    sim = play(tacker(), tables)
    assert times_us(sim, Event.LAUNCH, 1)[:3] == pytest.approx([0.0, 100.0, 200.0], abs=0.1)
    assert times_us(sim, Event.LAUNCH, 1)[3] == pytest.approx(230.0, abs=0.1)
