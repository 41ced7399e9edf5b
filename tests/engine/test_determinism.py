"""Same key, setting and actions: same bytes, whatever the batch size, the thread count or the process."""

from __future__ import annotations

import hashlib
import subprocess
import sys

import numpy as np
import pytest

from hexenv.engine import Simulator, TraceLevel, episode_key
from hexenv.engine.layout import Tables
from hexenv.workload import build
from tests.engine.play import hashed_actions, keys, play_out

OVERRIDES = {"horizon_us": 40_000}


@pytest.fixture(scope="module")
def tables() -> Tables:
    return build("dual_camera_llm", "v79", "train", **OVERRIDES)


def digest(sim: Simulator, lane: int, total: float) -> str:
    """Everything an episode leaves: its trace, final state, last view and mask, and return."""
    state = hashlib.sha256(sim.trace(lane).tobytes())
    for array in (sim.lanes[lane : lane + 1], sim.views[lane : lane + 1], sim.masks[lane], np.float64(total)):
        state.update(array.tobytes())
    return state.hexdigest()


def episode_digests(tables: Tables, batch: int, threads: int = 1, first: int = 0) -> list[str]:
    sim = Simulator(tables, batch, threads=threads, trace=TraceLevel.ALL)
    sim.reset(keys(batch, first))
    total = play_out(sim, lambda s: hashed_actions(s, np.arange(first, first + batch)))
    return [digest(sim, i, total[i]) for i in range(batch)]


def test_lanes_do_not_depend_on_batch_or_threads(tables: Tables) -> None:
    alone = [episode_digests(tables, 1, first=i)[0] for i in range(7)]
    assert len(set(alone)) == 7
    assert episode_digests(tables, 7) == alone
    assert episode_digests(tables, 64)[:7] == alone
    assert episode_digests(tables, 64, threads=2)[:7] == alone


def test_a_used_simulator_repeats_a_fresh_one(tables: Tables) -> None:
    sim = Simulator(tables, 2, trace=TraceLevel.ALL)
    for first in (5, 0):
        sim.reset(keys(2, first))
        total = play_out(sim, lambda s: hashed_actions(s, np.arange(2)))
    fresh = Simulator(tables, 2, trace=TraceLevel.ALL)
    fresh.reset(keys(2))
    assert play_out(fresh, lambda s: hashed_actions(s, np.arange(2))).tobytes() == total.tobytes()
    assert all(np.array_equal(sim.trace(i), fresh.trace(i)) for i in range(2))


def test_a_fresh_process_repeats(tables: Tables) -> None:
    code = (
        "from tests.engine.test_determinism import OVERRIDES, build, episode_digests;"
        "print(episode_digests(build('dual_camera_llm', 'v79', 'train', **OVERRIDES), 1)[0])"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == episode_digests(tables, 1)[0]


def test_episode_keys_differ_and_repeat() -> None:
    drawn = {int(episode_key(seed, episode)) for seed in range(100) for episode in range(100)}
    assert len(drawn) == 10_000
    assert episode_key(3, 4) == episode_key(3, 4)
    assert episode_key(-1, 0) == episode_key((1 << 64) - 1, 0)


def test_noise_does_not_depend_on_dispatch_order(tables: Tables) -> None:
    """Two different schedules of one episode see the same arrivals."""
    arrivals = []
    for offset in (0, 1):
        sim = Simulator(tables, 1, trace=TraceLevel.JOBS)
        sim.reset(keys(1))
        play_out(sim, lambda s, o=offset: hashed_actions(s, np.array([o])))
        trace = sim.trace(0)
        came = trace[np.isin(trace["event"], (0, 1))]
        periodic = tables.streams["arrival"][came["stream"]] == 0
        arrivals.append(came[["stream", "job", "t_ns"]][periodic].tolist())
    assert arrivals[0] == arrivals[1]
