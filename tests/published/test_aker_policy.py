"""Aker (IEEE TC 25): a guest is split so that it ends with the kernel it joins, at the knee of the pair's time.

The blocks of the released code are leaves here. Its published pair times (1.03 to 1.05 of one member) are from GPUs.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.tacker import aker, tacker
from hexenv.engine.layout import Event
from tests.engine.toy import Kernel, Source, one, toy_tables
from tests.published.policies import DMA, HMX, HVX, endless, once, play, times_us

durations = st.floats(20.0, 400.0).map(lambda us: float(round(us)))
kernels = st.tuples(st.sampled_from([HMX, HVX, DMA]), durations)
SPLITS = 20


@settings(max_examples=25, deadline=None)
@given(query=st.lists(kernels, min_size=1, max_size=6), guests=st.lists(kernels, min_size=1, max_size=4))
def test_a_guest_at_the_knee_delays_no_query(query: list, guests: list) -> None:
    """However long the guests: one that would leave a tail is not taken."""
    solo = sum(us for _, us in query)
    sim = play(aker(guard=0.0), toy_tables(once(*query, deadline=10 * solo), endless(*guests), horizon_ns=20_000_000))
    assert times_us(sim, Event.FINISH, 0)[0] == pytest.approx(solo, abs=0.1)


@settings(max_examples=25, deadline=None)
@given(
    query=st.lists(st.tuples(st.sampled_from([HMX, HVX]), durations), min_size=1, max_size=6),
    engine=st.sampled_from([HMX, HVX]),
    lengths=st.lists(durations, min_size=1, max_size=4),
)
def test_splitting_to_the_knee_never_loses_to_whole_partners(query: list, engine: str, lengths: list) -> None:
    """Free splits: the same work is done no later, but for one part of a guest a critical kernel."""
    guests = [(engine, us) for us in lengths]
    parts = [(engine, us / SPLITS) for engine, us in guests for _ in range(SPLITS)]
    deadline = 20 * sum(us for _, us in (*query, *guests))
    whole = play(tacker(guard=0.0), toy_tables(once(*query, deadline=deadline), once(*guests)))
    split = play(aker(guard=0.0), toy_tables(once(*query, deadline=deadline), once(*parts)))
    ends = [max(times_us(sim, Event.FINISH, s)[0] for s in (0, 1)) for sim in (whole, split)]
    assert ends[1] <= ends[0] + len(query) * max(us for _, us in parts) + 0.1
    assert times_us(split, Event.FINISH, 0)[0] <= times_us(whole, Event.FINISH, 0)[0] + 0.1


def test_parts_follow_one_another_up_to_the_knee() -> None:
    """A kernel of 100 us takes four parts of 24 us, not five."""
    tables = toy_tables(once((HMX, 100.0), deadline=5000.0), endless((HVX, 24.0)))
    launches = times_us(play(aker(), tables), Event.LAUNCH, 1)
    assert launches[:5] == pytest.approx([0.0, 24.0, 48.0, 72.0, 100.0], abs=0.1)


@pytest.mark.parametrize(
    ("critical", "guest", "paired"), [(HVX, DMA, True), (DMA, HVX, True), (DMA, DMA, False), (HVX, HVX, False)]
)
def test_memory_kernels_pair_with_vector_kernels(critical: str, guest: str, paired: bool) -> None:
    """What Aker adds to the matrix with vector pairs of Tacker, which makes none of these."""
    tables = toy_tables(once((critical, 100.0), deadline=5000.0), endless((guest, 50.0)))
    assert (times_us(play(aker(), tables), Event.LAUNCH, 1)[0] == 0.0) == paired
    assert times_us(play(tacker(), tables), Event.LAUNCH, 1)[0] > 0.0


def test_a_guest_that_delays_must_fit_the_headroom() -> None:
    """Both stream DDR a little, so the pair takes longer than its critical member; the guard decides."""
    critical = Source((one(Kernel(tiles=20, hmx=100.0, ddr=80.0), version=1),), deadline=200.0)
    guest = Source((one(Kernel(tiles=20, hvx=4 * 70.0, ddr=60.0)),))
    for guard, paired in ((0.0, True), (0.4, False)):
        launches = times_us(play(aker(guard=guard), toy_tables(critical, guest)), Event.LAUNCH, 1)
        assert (launches[0] == 0.0) == paired
