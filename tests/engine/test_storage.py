"""Flash storage as a fourth engine: shared like DDR and HMX, and overlapped with them."""

from __future__ import annotations

import numpy as np
import pytest

from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Event
from tests.engine.toy import Kernel, Source, action, one, toy_tables


def pair_ends_us(*kernels: Kernel) -> list[float]:
    """When each stage of a composite that starts at 0 is done, us; also checks the booked storage time."""
    sim = Simulator(toy_tables(*(Source((one(kernel),)) for kernel in kernels)), trace=TraceLevel.ALL)
    sim.reset(np.zeros(1, np.uint64))
    for _ in kernels:
        sim.step(np.array([action(0)]))
    while not sim.lanes["over"][0]:
        sim.step(np.array([0]))
    trace = sim.trace(0)
    loaded = sum(kernel.storage for kernel in kernels)
    assert sim.lanes["busy_storage_ns"][0] / 1000 == pytest.approx(loaded)
    assert trace[trace["event"] == Event.SEGMENT]["value4"].sum() / 1000 == pytest.approx(loaded)
    done = trace[trace["event"] == Event.FINISH]
    return [float(done[done["stream"] == s]["t_ns"][0]) / 1000 for s in range(len(kernels))]


def test_loads_hide_behind_compute_of_their_own_stage() -> None:
    assert pair_ends_us(Kernel(tiles=10, storage=800.0, hmx=1000.0)) == [pytest.approx(1000, abs=0.01)]
    assert pair_ends_us(Kernel(tiles=10, storage=1000.0, hmx=800.0)) == [pytest.approx(1000, abs=0.01)]


def test_two_loading_stages_share_the_storage() -> None:
    ends = pair_ends_us(Kernel(tiles=10, storage=600.0), Kernel(tiles=10, storage=600.0))
    assert ends == [pytest.approx(1200, abs=0.01)] * 2


def test_a_loading_stage_leaves_the_other_engines_free() -> None:
    ends = pair_ends_us(Kernel(tiles=10, storage=1000.0), Kernel(tiles=10, hmx=900.0))
    assert ends == [pytest.approx(1000, abs=0.01), pytest.approx(900, abs=0.01)]


def test_depth_one_still_overlaps_the_next_load() -> None:
    assert pair_ends_us(Kernel(tiles=10, depth=1, storage=500.0, hmx=300.0, hvx=800.0)) == [
        pytest.approx(500, abs=0.01)
    ]
