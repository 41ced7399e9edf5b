"""Orion (EuroSys 24): best-effort operators run beside high-priority ones only where they do not interfere.

Rule as read from the released code: admit if the class differs or is unknown, the units fit, and the best-effort time
outstanding is within DUR_THRESHOLD, else drain. No fusion: mode ``concurrent``. Up to 7.3 times the throughput of one
client a GPU (V100) is context only.
"""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.orion import Orion
from hexenv.engine import Simulator
from hexenv.engine.layout import Event, Mode
from tests.engine.toy import Kernel, Source, one, toy_tables
from tests.published.policies import DMA, HMX, HVX, endless, every, latencies_us, play, times_us

CRITICAL = ((HMX, 150.0), (HMX, 90.0), (HMX, 210.0))
SOLO_US = sum(us for _, us in CRITICAL)


def orion_on(*sources: Source, rule: Orion | None = None, seeds: int = 1) -> Simulator:
    tables = toy_tables(*sources, mode=Mode.CONCURRENT, horizon_ns=10_000_000)
    return play(rule or Orion(), tables, seeds)


def shares_of_time(sim: Simulator) -> tuple[float, float]:
    """``(during, outside)``: best-effort credit per us of high-priority jobs, and per us without one."""
    trace = sim.trace(0)
    high = trace[trace["stream"] == 0]
    arrive, finish = (high["t_ns"][high["event"] == event] / 1000 for event in (Event.ARRIVE, Event.FINISH))
    spans = list(zip(arrive, finish, strict=False))
    starts = times_us(sim, Event.LAUNCH, 1)
    during = sum(any(a <= t < f for a, f in spans) for t in starts)
    return during, len(starts) - during


@settings(max_examples=25, deadline=None)
@given(
    operators=st.lists(st.floats(4.0, 300.0).map(round), min_size=1, max_size=5),
    duration=st.sampled_from([0.0, 0.025, 0.2, 0.5]),
)
def test_the_tail_grows_by_at_most_the_threshold_and_one_operator(operators: list[int], duration: float) -> None:
    """Two best-effort clients of another engine: what is left is the wait for a slot."""
    clients = [endless(*((DMA, float(us)) for us in part)) for part in (operators, operators[::-1])]
    high = every(1000.0, 900.0, *CRITICAL, jitter=300.0)
    sim = orion_on(high, *clients, rule=Orion(duration=duration), seeds=2)
    # Two clients of one engine halve one another's speed while both run.
    bound = SOLO_US + 2 * (duration * SOLO_US + max(operators))
    assert latencies_us(sim, 0).max() <= bound + 0.1
    assert sim.lanes["finished"][:, 0].min() >= 8


@pytest.mark.parametrize("engine", [HMX, HVX, DMA])
def test_with_one_class_best_effort_gets_only_idle_time(engine: str) -> None:
    high = every(1000.0, 900.0, *((engine, us) for _, us in CRITICAL), jitter=300.0)
    during, outside = shares_of_time(orion_on(high, endless((engine, 40.0))))
    assert during == 0
    assert outside > 50


def test_a_mix_of_classes_overlaps_more_than_one_class() -> None:
    """MobileNet alternates compute and memory operators, BERT is mostly compute: the former leaves more room."""
    guest = endless((DMA, 30.0))
    mobile = every(1000.0, 900.0, (HMX, 100.0), (DMA, 100.0), (HMX, 100.0), (DMA, 100.0))
    memory = every(1000.0, 900.0, *[(DMA, 100.0)] * 4)
    compute = every(1000.0, 900.0, *[(HMX, 100.0)] * 4)
    during = [shares_of_time(orion_on(high, guest))[0] for high in (memory, mobile, compute)]
    assert during[0] == 0 < during[1] < during[2]


def test_an_operator_of_no_class_runs_beside_anything() -> None:
    """Below 60 % of every engine a kernel is unknown."""
    mixed = Kernel(tiles=20, hmx=50.0, ddr=50.0, prologue=4 * 50.0)
    high = every(1000.0, 900.0, (DMA, 100.0), (DMA, 100.0))
    for kernel, runs in ((mixed, True), (Kernel(tiles=20, ddr=100.0), False)):
        guest = Source((one(kernel, version=1),), arrival=endless((DMA, 1.0)).arrival)
        assert (shares_of_time(orion_on(high, guest))[0] > 0) == runs


def test_best_effort_never_holds_more_than_its_contexts_beside_high_priority() -> None:
    high, guest = every(1000.0, 900.0, *CRITICAL), endless((HVX, 40.0))
    assert shares_of_time(orion_on(high, guest, rule=Orion(contexts=1.0)))[0] > 0
    assert shares_of_time(orion_on(high, guest, rule=Orion(contexts=0.25)))[0] == 0  # it would get half of them


@pytest.mark.parametrize(("duration", "beside"), [(0.0, False), (0.1, False), (0.2, True)])
def test_the_duration_brake_drains(duration: float, beside: bool) -> None:
    """A second best-effort operator of 60 us enters only while at most DUR_THRESHOLD of 450 us is outstanding."""
    idle = every(5000.0, 4000.0, *CRITICAL)
    sim = orion_on(idle, endless((DMA, 60.0)), endless((HMX, 60.0)), rule=Orion(duration=duration))
    first, second = times_us(sim, Event.LAUNCH, 1), times_us(sim, Event.LAUNCH, 2)
    gaps = [min(abs(second - t)) for t in first[20:30]]
    assert (min(gaps) < 59.0) == beside
