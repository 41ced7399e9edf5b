"""Forks: exact ones replay, reseeded ones know no future."""

from __future__ import annotations

import numpy as np
import pytest

from hexenv.action import WAIT
from hexenv.engine import Simulator, TraceLevel, clock
from hexenv.engine.layout import TRACE, Arrival
from hexenv.workload import build
from tests.engine.play import hashed_actions, keys, play_out
from tests.engine.toy import Kernel, Source, action, one, toy_tables


@pytest.fixture
def sim() -> Simulator:
    sim = Simulator(build("camera_decode", "v79", "train", horizon_us=60_000), 4, trace=TraceLevel.ALL)
    sim.reset(keys(4))
    seeds = np.zeros(4)
    for _ in range(60):
        sim.step(hashed_actions(sim, seeds))
    return sim


def test_exact_fork_repeats_the_source(sim: Simulator) -> None:
    sim.fork(0, 1)
    assert sim.lanes[0].tobytes() == sim.lanes[1].tobytes()
    before = sim.lanes["decisions"][0]
    total = play_out(sim, lambda s: hashed_actions(s, np.zeros(4)))
    assert total[0] == total[1]
    assert sim.lanes["decisions"][0] > before
    assert np.array_equal(sim.trace(0), sim.trace(1))


def test_fork_leaves_the_others_alone(sim: Simulator) -> None:
    before = sim.lanes.tobytes()
    sim.fork(0, 1, reseed=5)
    size = sim.lanes.itemsize
    after = sim.lanes.tobytes()
    assert after[:size] == before[:size]
    assert after[2 * size :] == before[2 * size :]
    assert after[size : 2 * size] != before[size : 2 * size]


def test_reseeded_fork_keeps_the_present_and_draws_another_future(sim: Simulator) -> None:
    sim.fork(0, 1, reseed=1)
    sim.fork(0, 2, reseed=2)
    sim.fork(0, 3, reseed=1)
    now = sim.lanes["now_ns"][0]
    assert (sim.lanes["now_ns"] == now).all()
    assert all(np.array_equal(sim.masks[0], sim.masks[i]) for i in range(1, 4))
    assert (sim.lanes["next_arrival_ns"][1:, : len(sim.tables.streams)] > now).all()
    total = play_out(sim, lambda s: hashed_actions(s, np.zeros(4)))
    assert total[1] == total[3]
    assert len({total[0], total[1], total[2]}) == 3


def test_reseeding_changes_the_noise_of_residents(sim: Simulator) -> None:
    held = sim.lanes["slots"]["phase"][0] > 0
    assert held.any()
    sim.fork(0, 1, reseed=9)
    noise = sim.lanes["slots"]["noise"]
    assert (noise[0][held] != noise[1][held]).all()


def arrivals_after(source: Source, seeds: range, until_us: float) -> np.ndarray:
    """The next arrival of a one-stream scenario, us, in reseeded forks of a lane that has waited ``until_us``."""
    sim = Simulator(toy_tables(source, Source((one(Kernel(ddr=1.0)),), times=(until_us,))), len(seeds) + 1)
    sim.reset(keys(len(seeds) + 1))
    for lane in range(1, sim.batch):
        sim.fork(0, lane)
    while (sim.views["now_ns"] < until_us * 1000).any():
        sim.step(np.zeros(sim.batch, np.int64))
    for lane, seed in enumerate(seeds, 1):
        sim.fork(lane, lane, reseed=seed)
    return sim.lanes["next_arrival_ns"][:, 0] / 1000


JOB = (one(Kernel(hmx=50.0)),)


def test_a_reseeded_camera_keeps_its_grid() -> None:
    """A random phase is known once the camera runs; only the jitter is drawn again, and never into the past."""
    camera = Source(JOB, arrival=Arrival.PERIODIC, period=1000.0, jitter=100.0, offset=-0.001, deadline=300.0, queue=2)
    after = arrivals_after(camera, range(1, 40), 5000.0)
    assert (after > 5000.0).all()
    assert np.ptp(after) <= 200.0
    assert len(set(after[1:])) == 39


def test_a_reseeded_poisson_stream_forgets() -> None:
    stream = Source(JOB, arrival=Arrival.POISSON, period=1000.0, deadline=300.0, queue=4)
    after = arrivals_after(stream, range(1, 400), 5000.0)[1:] - 5000.0
    assert (after > 0.0).all()
    assert after.mean() == pytest.approx(1000.0, rel=0.15)


def test_a_reseeded_host_gap_goes_on() -> None:
    """Job 0 ends at 50 us; at 60 us the gap of 10 ms is under way, and its end moves by its jitter only."""
    loop = Source(JOB, arrival=Arrival.CLOSED_LOOP, gap=10_000.0, jitter=200.0)
    sim = Simulator(toy_tables(loop, Source(JOB, times=(60.0,))), 20)
    sim.reset(np.zeros(20, np.uint64))
    sim.step(np.full(20, action(0)))
    assert (sim.views["now_ns"] == 60_000).all()
    for lane in range(1, 20):
        sim.fork(0, lane, reseed=lane)
    after = sim.lanes["next_arrival_ns"][:, 0] / 1000
    assert (abs(after - 10_050.0) <= 200.0).all()
    assert len(set(after)) == 20


def test_a_fork_without_its_trace_writes_nowhere(sim: Simulator) -> None:
    """A lane that was traced is played on with an empty trace, as look-ahead does: memory behind it stays as it is."""
    arrays, behind = sim.tables.arrays, np.zeros(5000, TRACE)
    lanes = sim.lanes[:1].copy()
    resident = (lanes["slots"]["phase"][0] > 0) & (lanes["slots"]["trace_row"][0] > 0)
    assert resident.any()
    for _ in range(50):
        clock.step(arrays, lanes[0], behind[:1], WAIT)
    assert (lanes["slots"]["phase"][0][resident] == 0).all()
    assert not behind.tobytes().strip(b"\0")
