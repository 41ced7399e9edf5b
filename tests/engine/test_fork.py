"""Forks: exact ones replay, reseeded ones know no future."""

from __future__ import annotations

import numpy as np
import pytest

from hexenv.engine import Simulator, TraceLevel
from hexenv.workload import build
from tests.engine.play import hashed_actions, keys, play_out


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
