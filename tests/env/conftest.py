from __future__ import annotations

import numpy as np
import pytest

import hexenv  # noqa: F401  (registers the ids)
from hexenv.engine.layout import MAX_SLOTS, NO_DEADLINE, VIEW, Phase
from hexenv.workload import build

SCENARIO = "camera_decode"
HORIZON_US = 20_000.0
"""Short, so that a test sees several episodes."""


@pytest.fixture(scope="session")
def short():
    """Environment arguments for episodes of a few hundred decisions."""
    return {"scenario": SCENARIO, "horizon_us": HORIZON_US}


@pytest.fixture(scope="session")
def tables():
    return build(SCENARIO)


@pytest.fixture
def random_views(tables):
    """VIEW records with everything that may vary varied, shape (200,)."""
    rng = np.random.default_rng(0)
    views = np.zeros(200, VIEW)
    views["now_ns"] = rng.integers(0, 10**11, 200)
    views["n_tasks"] = rng.integers(0, tables.visible + 1, 200)
    tasks = views["tasks"]
    now = views["now_ns"][:, None]
    tasks["op"] = rng.integers(0, len(tables.ops), tasks.shape)
    tasks["stream"] = rng.integers(0, 8, tasks.shape)
    tasks["firm"] = rng.random(tasks.shape) < 0.5
    tasks["head"] = rng.random(tasks.shape) < 0.5
    tasks["arrival_ns"] = now - rng.integers(0, 10**9, tasks.shape)
    tasks["critical_ns"] = rng.integers(0, 10**10, tasks.shape)
    late = rng.random(tasks.shape) < 0.3
    tasks["deadline_ns"] = np.where(late, NO_DEADLINE, tasks["arrival_ns"] + rng.integers(0, 10**10, tasks.shape))
    slack = tasks["deadline_ns"] - now - tasks["critical_ns"]
    tasks["slack_ns"] = np.where(late, NO_DEADLINE, slack)
    tasks["job_ref_ns"] = rng.integers(1, 10**10, tasks.shape)
    tasks["earned_ns"] = rng.integers(0, 10**10, tasks.shape)
    tasks["weight"] = rng.random(tasks.shape) * 100
    for field in ("left_ddr_ns", "left_hvx_ns", "left_hmx_ns"):
        tasks[field] = rng.random(tasks.shape) * 10**10
    residents = views["residents"]
    residents["phase"] = rng.integers(int(Phase.FREE), int(Phase.DRAIN) + 1, residents.shape)
    residents["variant"] = rng.integers(0, len(tables.variants), residents.shape)
    residents["op"] = tables.variants["op"][residents["variant"]]
    residents["contexts"] = rng.integers(0, int(tables.config["contexts"][0]) + 1, residents.shape)
    residents["tiles_left"] = rng.random(residents.shape) * 1000
    residents["left_ns"] = rng.integers(0, 10**8, residents.shape)
    residents["deadline_ns"] = np.where(rng.random(residents.shape) < 0.5, NO_DEADLINE, now)
    residents["slack_ns"] = -rng.integers(0, 10**9, residents.shape)
    total = int(tables.config["vtcm_bytes"][0])
    cut = rng.integers(1, total, 200)
    residents["vtcm_bytes"] = np.stack([cut, total - cut], axis=1)
    residents["vtcm_offset"] = np.stack([np.zeros_like(cut), cut], axis=1)
    assert residents.shape[1] == MAX_SLOTS
    views["vtcm_free_bytes"] = rng.integers(0, total + 1, 200)
    views["vtcm_largest_bytes"] = views["vtcm_free_bytes"] // 2
    streams = views["streams"]
    streams["active"] = rng.random(streams.shape) < 0.5
    streams["backlog"] = rng.integers(0, 16, streams.shape)
    streams["since_arrival_ns"] = rng.integers(0, 10**11, streams.shape)
    streams["period_ns"] = rng.integers(0, 10**9, streams.shape)
    streams["deadline_ns"] = np.where(rng.random(streams.shape) < 0.5, NO_DEADLINE, 10**7)
    return views
