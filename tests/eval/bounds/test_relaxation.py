"""The linear program: no schedule exceeds it, and it is exact where nothing was relaxed."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agents
from eval.bounds.gaps import ceilings
from eval.bounds.relaxation import return_bound
from eval.episodes import Episode, held_out
from eval.play import run
from hexenv.engine.layout import Arrival, Mode
from hexenv.workload import build, scenario_names
from tests.engine.toy import Kernel, Source, one, toy_tables
from tests.eval.bounds.small import EPISODE, HMX, noises, play_randomly, scenarios, with_deadlines

OPEN = (Arrival.TRACE, Arrival.PERIODIC, Arrival.POISSON)
HORIZON_US = 8_000.0


def hmx(us: float):
    """A stage of so much HMX time and nothing else."""
    return one(Kernel(hmx=us), version=HMX)


@settings(max_examples=80, deadline=None)
@given(scenarios(streams=3, max_stages=4, arrivals=tuple(Arrival)), st.integers(0, 1 << 40), noises)
def test_no_random_schedule_exceeds_it(tables, seed, noise):
    tables.config["noise"] = noise
    episode, rng = Episode(0, seed), np.random.default_rng(seed)
    best = max(play_randomly(tables, episode, rng) for _ in range(8))
    assert best <= return_bound(tables, episode)


@pytest.mark.parametrize("scenario", scenario_names())
def test_no_rule_exceeds_it(scenario):
    """Every registered scheduler on the same episodes, each in its own mode."""
    outcomes = []
    for name in agents.names():
        scheduler = agents.make(name)
        tables = build(scenario, split="heldout", horizon_us=HORIZON_US, **scheduler.overrides)
        outcomes.append(run(scheduler, tables, held_out(tables, 1)))
    bounds = ceilings(outcomes, held_out(outcomes[0].tables, 1))
    for outcome in outcomes:
        assert (outcome.episodes["return"].to_numpy() <= bounds).all(), outcome.scheduler


@settings(max_examples=50, deadline=None)
@given(scenarios(streams=3, max_stages=3, arrivals=OPEN), st.sampled_from([1.1, 1.7, 3.0]))
def test_a_longer_deadline_never_lowers_it(tables, factor):
    assert return_bound(tables, EPISODE) <= return_bound(with_deadlines(tables, factor), EPISODE) + 1e-5


@pytest.mark.parametrize(("deadline", "bound"), [(100.0, 0.1), (99.0, -0.2)], ids=["just in time", "too late"])
def test_a_chain_that_cannot_be_in_time_is_a_miss(deadline, bound):
    chain = (hmx(40.0), one(Kernel(hmx=60.0), version=HMX, after=(0,)))
    tables = toy_tables(Source(chain, deadline=deadline), miss_weight=2.0, horizon_ns=1_000_000)
    assert return_bound(tables, EPISODE) == pytest.approx(bound, abs=1e-5)


@pytest.mark.parametrize(("arrival", "own"), [(Arrival.TRACE, (50.0,)), (Arrival.PERIODIC, ())])
def test_deadlines_are_as_tight_as_the_setting_says(arrival, own):
    """100 us of work, due after 50 us x tightness."""
    source = Source((hmx(100.0),), arrival=arrival, period=5_000.0, deadline=50.0, deadlines=own)
    tables = toy_tables(source, miss_weight=2.0, horizon_ns=1_000_000)
    assert return_bound(with_deadlines(tables, 1.9), EPISODE) == pytest.approx(-0.2, abs=1e-5)
    assert return_bound(with_deadlines(tables, 2.0), EPISODE) == pytest.approx(0.1, abs=1e-5)


def test_one_engine_serves_what_is_due():
    """Three jobs of 40 us of HMX due at 100 us: two and a half in time, half a miss, whatever the slots."""
    jobs = [Source((hmx(40.0),), deadline=100.0) for _ in range(3)]
    tables = toy_tables(*jobs, miss_weight=1.0, horizon_ns=1_000_000)
    assert return_bound(tables, EPISODE) == pytest.approx(0.040 * (2.5 - 0.5), abs=1e-5)


def test_stages_before_the_horizon_earn_without_their_job():
    chain = (hmx(40.0), one(Kernel(hmx=60.0), version=HMX, after=(0,)))
    for deadline in (None, 500.0):
        tables = toy_tables(Source(chain, deadline=deadline), horizon_ns=90_000)
        assert return_bound(tables, EPISODE) == pytest.approx(0.040, abs=1e-5)


def test_a_closed_loop_unlocks_only_what_its_cycle_allows():
    """Jobs end at 20, 50 and 80 us; the fourth comes at 90 us."""
    loop = Source((hmx(20.0),), arrival=Arrival.CLOSED_LOOP, gap=10.0)
    assert return_bound(toy_tables(loop, horizon_ns=95_000), EPISODE) == pytest.approx(0.060, abs=1e-5)


def test_a_starved_loop_is_charged_for_every_period():
    """The job ends at 400 us at best; it is late at 100, 200 and 300 us, at half a reference job each."""
    loop = Source((hmx(400.0),), arrival=Arrival.CLOSED_LOOP, gap=10_000.0, deadline=100.0, firm=False, weight=0.5)
    late = return_bound(toy_tables(loop, horizon_ns=399_000), EPISODE)
    assert late == pytest.approx(-0.5 * 0.4 * (399 / 100 - 1), abs=1e-5)


def test_serial_launches_fill_the_only_slot():
    """Ten stages of 5 us HMX, 5 us to launch each: 100 us serial, half of that on two slots."""
    many = [Source((hmx(5.0),), deadline=60.0) for _ in range(8)]
    bounds = {
        mode: return_bound(
            toy_tables(*many, mode=mode, op_ns=5000, entry_ns=5000, miss_weight=0.0, horizon_ns=1_000_000), EPISODE
        )
        for mode in (Mode.SERIAL, Mode.FUSED)
    }
    assert bounds[Mode.SERIAL] == pytest.approx(0.030, abs=1e-5)
    assert bounds[Mode.FUSED] == pytest.approx(0.040, abs=1e-5)
