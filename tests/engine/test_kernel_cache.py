"""Fused kernels built at run time: what the first use of a combination costs, and what later ones do."""

from __future__ import annotations

import numpy as np
import pytest

from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Event, Jit, Mode
from tests.engine.toy import Kernel, Source, action, one, toy_tables

FIRST, HIT = 500_000, 3_000
TIMES = (0.0, 2000.0, 4000.0)


def launch_latencies_us(jit: Jit, mode: Mode = Mode.FUSED, pair: bool = True) -> list[float]:
    """Launch latency of each round of the same pair (or of one stage alone), us."""
    sources = [Source((one(Kernel(tiles=4, hmx=100.0)),), times=TIMES)]
    if pair:
        sources.append(Source((one(Kernel(tiles=4, ddr=100.0)),), times=TIMES))
    tables = toy_tables(*sources, mode=mode, jit=jit, jit_first_ns=FIRST, jit_hit_ns=HIT)
    sim = Simulator(tables, trace=TraceLevel.ALL)
    sim.reset(np.zeros(1, np.uint64))
    while not sim.lanes["over"][0]:
        sim.step(np.array([action(0) if sim.masks[0, action(0)] else 0]))
    trace = sim.trace(0)
    launches = trace[(trace["event"] == Event.LAUNCH) & (trace["stream"] == 0)]
    return [float(value) / 1000 for value in launches["value"]]


def test_cold_pays_for_the_first_use_only() -> None:
    assert launch_latencies_us(Jit.COLD) == [500.0, 3.0, 3.0]


def test_warm_pays_the_look_up() -> None:
    assert launch_latencies_us(Jit.WARM) == [3.0, 3.0, 3.0]


def test_off_and_lone_stages_pay_nothing() -> None:
    assert launch_latencies_us(Jit.OFF) == [0.0, 0.0, 0.0]
    assert launch_latencies_us(Jit.COLD, pair=False) == [0.0, 0.0, 0.0]


def test_unfused_modes_compile_nothing() -> None:
    assert launch_latencies_us(Jit.COLD, mode=Mode.CONCURRENT) == [0.0, 0.0, 0.0]


@pytest.mark.parametrize("order", [(0, 1), (1, 0)])
def test_a_combination_is_the_same_in_either_order(order: tuple[int, int]) -> None:
    kernels = [one(Kernel(tiles=4, hmx=100.0)), one(Kernel(tiles=4, ddr=100.0))]
    sources = [Source((kernel,), times=(0.0, 2000.0)) for kernel in kernels]
    tables = toy_tables(*sources, jit=Jit.COLD, jit_first_ns=FIRST, jit_hit_ns=HIT)
    sim = Simulator(tables, trace=TraceLevel.ALL)
    sim.reset(np.zeros(1, np.uint64))
    picks = [action(0), action(0)]  # round one: stream 0, then 1
    while sim.views["now_ns"][0] < 2_000_000:
        sim.step(np.array([picks.pop(0) if picks else 0]))
    sim.step(np.array([action(order[0])]))
    sim.step(np.array([action(0)]))
    trace = sim.trace(0)
    launches = trace[trace["event"] == Event.LAUNCH]["value"] / 1000
    assert sorted(launches.tolist()) == [3.0, 3.0, 500.0, 500.0]


def test_an_episode_starts_with_an_empty_cache() -> None:
    sources = [Source((one(Kernel(tiles=4, hmx=100.0)),)), Source((one(Kernel(tiles=4, ddr=100.0)),))]
    sim = Simulator(toy_tables(*sources, jit=Jit.COLD, jit_first_ns=FIRST, jit_hit_ns=HIT), trace=TraceLevel.ALL)
    for _ in range(2):
        sim.reset(np.zeros(1, np.uint64))
        sim.step(np.array([action(0)]))
        sim.step(np.array([action(0)]))
        trace = sim.trace(0)
        assert (trace[trace["event"] == Event.LAUNCH]["value"] == FIRST).all()
