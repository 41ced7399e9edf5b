"""Execution modes: what each one allows, and how their throughputs are ordered."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Event, HmxLock, Mode, Phase, Split
from tests.engine.toy import Kernel, Source, action, one, toy_tables

KEY = np.zeros(1, np.uint64)
COSTS = {"op_ns": 2_000, "entry_ns": 2_000, "handoff_ns": 3_000}
LEGAL = [
    {"hmx_lock": lock, "vtcm_split": vtcm, "context_split": contexts}
    for lock, vtcm, contexts in itertools.product(HmxLock, Split, Split)
]


def makespan_us(*sources: Source, **settings: object) -> float:
    """Time to serve both streams, always starting what is legal, with equal shares."""
    sim = Simulator(toy_tables(*sources, **{**COSTS, **settings}), trace=TraceLevel.ALL)
    sim.reset(KEY)
    while not sim.lanes["over"][0]:
        legal = np.flatnonzero(sim.masks[0])
        half = [a for a in legal if a and (a - 1) % 3 == 1]
        choice = half[0] if half else (legal[1] if legal.size > 1 else 0)
        sim.step(np.array([choice]))
    return float(sim.views["now_ns"][0]) / 1000


def chain(kernel: Kernel, length: int) -> Source:
    return Source(tuple(one(kernel, after=(i - 1,) if i else ()) for i in range(length)))


def test_serial_concurrent_fused_are_ordered_on_a_complementary_mix() -> None:
    mix = chain(Kernel(tiles=20, hmx=300.0, hvx=200.0), 5), chain(Kernel(tiles=20, ddr=100.0, hvx=1000.0), 5)
    serial = makespan_us(*mix, mode=Mode.SERIAL)
    concurrent = min(makespan_us(*mix, mode=Mode.CONCURRENT, **setting) for setting in LEGAL)
    fused = makespan_us(*mix, mode=Mode.FUSED)
    assert serial > 1.2 * concurrent
    assert concurrent >= fused


def test_no_mode_gains_on_a_same_engine_mix() -> None:
    mix = chain(Kernel(tiles=20, hmx=300.0), 5), chain(Kernel(tiles=20, hmx=300.0), 5)
    free = {"op_ns": 0, "entry_ns": 0, "handoff_ns": 0}
    serial = makespan_us(*mix, mode=Mode.SERIAL, **free)
    for mode in (Mode.CONCURRENT, Mode.FUSED_SERIAL, Mode.FUSED):
        assert makespan_us(*mix, mode=mode, **free) == pytest.approx(serial, rel=1e-6)


def residents(sim: Simulator) -> int:
    return int((sim.lanes["slots"]["phase"][0] != Phase.FREE).sum())


def begin(*sources: Source, **settings: object) -> Simulator:
    sim = Simulator(toy_tables(*sources, **settings))
    sim.reset(KEY)
    return sim


HMX = one(Kernel(tiles=10, hmx=100.0))
DDR = one(Kernel(tiles=10, ddr=100.0))


def test_serial_runs_one_stage_at_a_time() -> None:
    sim = begin(Source((HMX,)), Source((DDR,)), mode=Mode.SERIAL)
    sim.step(np.array([action(0)]))
    assert sim.views["now_ns"][0] == 100_000
    assert residents(sim) == 0


def test_fused_serial_takes_partners_at_the_same_instant_only() -> None:
    sim = begin(Source((HMX,)), Source((DDR,), times=(50.0,)), mode=Mode.FUSED_SERIAL)
    sim.step(np.array([action(0)]))
    assert sim.views["now_ns"][0] == 100_000


@pytest.mark.parametrize(("lock", "legal"), [(HmxLock.OP, False), (HmxLock.CHUNK, True)])
def test_op_lock_keeps_a_second_hmx_stage_out(lock: HmxLock, legal: bool) -> None:
    sim = begin(Source((HMX,)), Source((HMX,)), Source((DDR,)), mode=Mode.CONCURRENT, hmx_lock=lock)
    sim.step(np.array([action(0)]))
    assert sim.masks[0, action(0)] == legal
    assert sim.masks[0, action(1)]


def test_batch_lock_is_held_until_the_job_ends() -> None:
    job = Source((HMX, one(Kernel(ddr=10.0), after=(0,)), one(Kernel(hmx=10.0), after=(1,))))
    sim = begin(job, Source((HMX,)), mode=Mode.CONCURRENT, hmx_lock=HmxLock.BATCH)
    sim.step(np.array([action(0)]))
    assert sim.views["now_ns"][0] == 100_000
    assert np.flatnonzero(sim.masks[0]).tolist() == [0, action(0)]


def test_chunk_lock_pays_a_hand_off_a_tile() -> None:
    mix = Source((HMX,)), Source((HMX,))
    base = {"mode": Mode.CONCURRENT, "hmx_lock": HmxLock.CHUNK, "op_ns": 0}
    assert makespan_us(*mix, **base, handoff_ns=0) == pytest.approx(200, abs=0.1)
    assert makespan_us(*mix, **base, handoff_ns=3_000) == pytest.approx(200 + 20 * 3, abs=0.1)


def test_static_splits_give_each_graph_its_half_even_alone() -> None:
    vector = one(Kernel(tiles=10, hvx=400.0, vtcm=4096))
    alone = {"mode": Mode.CONCURRENT, "op_ns": 0}
    assert makespan_us(Source((vector,)), **alone, context_split=Split.STATIC) == pytest.approx(200, abs=0.1)
    assert makespan_us(Source((vector,)), **alone, context_split=Split.SHARED) == pytest.approx(100, abs=0.1)
    wide = one(Kernel(hmx=10.0, vtcm=4097))
    sim = begin(Source((wide,)), Source((vector,)), mode=Mode.CONCURRENT, vtcm_split=Split.STATIC)
    assert np.flatnonzero(sim.masks[0]).tolist() == [0, action(1)]


def test_shares_are_canonical() -> None:
    """Shares count only while two stages with HVX work share the device."""
    vector = one(Kernel(tiles=10, hvx=400.0))
    sim = begin(Source((vector,)), Source((vector,)), Source((HMX,)))
    assert np.flatnonzero(sim.masks[0]).tolist() == [0, action(0), action(1), action(2)]
    sim.step(np.array([action(0)]))
    assert np.flatnonzero(sim.masks[0]).tolist() == [0, *(action(0, share=s) for s in range(3)), action(1)]
    sim.step(np.array([action(0, share=2)]))
    trace = Simulator(sim.tables, trace=TraceLevel.ALL)
    trace.reset(KEY)
    trace.step(np.array([action(0)]))
    trace.step(np.array([action(0, share=2)]))
    launches = trace.trace(0)[trace.trace(0)["event"] == Event.LAUNCH]
    assert launches["contexts"].tolist() == [1, 3]
