"""The jobs a bound knows of: open-loop arrivals to the ns, closed loops never later than they can come."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.bounds.demand import Engine, demands_of
from eval.bounds.jobs import episode_jobs
from eval.episodes import Episode
from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Arrival, Event, Mode
from hexenv.workload import build
from tests.engine.toy import Kernel, Source, one, toy_tables
from tests.eval.bounds.small import EPISODE, noises, scenarios


@settings(max_examples=60, deadline=None)
@given(scenarios(streams=3, max_stages=3, arrivals=tuple(Arrival)), st.integers(0, 1 << 40), noises)
def test_nothing_arrives_or_ends_before_it_is_known_to(tables, seed, noise):
    tables.config["noise"] = noise
    episode = Episode(0, seed)
    jobs = {(job.stream, job.index): job for job in episode_jobs(tables, episode, demands_of(tables))}
    simulator, rng = Simulator(tables, trace=TraceLevel.ALL), np.random.default_rng(seed)
    simulator.reset(np.array([episode.key], np.uint64), settings=np.zeros(1, np.int64))
    while not simulator.lanes["over"][0]:
        simulator.step(rng.choice(np.flatnonzero(simulator.masks[0]), 1))
    for record in simulator.trace(0):
        if record["event"] in (Event.ARRIVE, Event.REJECT) and record["t_ns"] < tables.config["horizon_ns"][0]:
            job = jobs[int(record["stream"]), int(record["job"])]
            if tables.streams["arrival"][job.stream] == Arrival.CLOSED_LOOP:
                assert job.release_ns <= record["t_ns"]
            else:
                assert job.release_ns == record["t_ns"]
        elif record["event"] == Event.COMPLETE:
            job = jobs[int(record["stream"]), int(record["job"])]
            assert job.end_ns[record["stage"]] <= record["t_ns"] + 1.0


def test_a_closed_loop_runs_at_its_fastest():
    """20 us of work and 10 us of host gap from 5 us on: jobs at 5, 35, 65 us of 90."""
    loop = Source((one(Kernel(hmx=20.0), version=1),), arrival=Arrival.CLOSED_LOOP, gap=10.0, offset=5.0)
    tables = toy_tables(loop, horizon_ns=90_000)
    jobs = episode_jobs(tables, EPISODE, demands_of(tables))
    assert [job.release_ns for job in jobs] == [5_000, 35_000, 65_000]


def test_a_stage_costs_at_least_its_launch_and_its_fastest_phases():
    kernel = Kernel(hvx=80.0, ddr=10.0, prologue=8.0)
    tables = toy_tables(Source((one(kernel),)), mode=Mode.FUSED, entry_ns=3000, decision_ns=1000, eta_shared=0.8)
    demands = demands_of(tables)
    work = demands.work[0] / 1000
    assert demands.launch_ns == demands.slot_launch_ns == 4000
    assert work[Engine.SLOT] == pytest.approx(80 / 4 + 8 / 4)
    assert work[Engine.HVX] == pytest.approx(80 + 8)
    assert work[Engine.DDR] == pytest.approx(10 / 0.8)


@pytest.mark.parametrize("mode", ["serial", "concurrent", "fused_serial", "fused"])
def test_no_variant_is_faster_than_its_least_demand(mode):
    tables = build("camera_decode", mode=mode)
    demands = demands_of(tables)
    alone = tables.variants["alone_ns"][:, tables.config["contexts"][0]]
    assert (demands.work[:, Engine.SLOT] <= alone + 1.0).all()
    assert (demands.work[:, Engine.HMX] <= alone + 1.0).all()
