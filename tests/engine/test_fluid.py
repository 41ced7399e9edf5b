"""Hand-computed cases of the fluid model: interference and launch costs are zero where they would blur the law."""

from __future__ import annotations

import numpy as np
import pytest

from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Event, Mode
from tests.engine.toy import Kernel, Source, action, one, toy_tables

KEY = np.zeros(1, np.uint64)


def start(*sources: Source, **settings: object) -> Simulator:
    sim = Simulator(toy_tables(*sources, **settings), trace=TraceLevel.ALL)
    sim.reset(KEY)
    return sim


def play(sim: Simulator, *actions: int) -> None:
    for a in actions:
        sim.step(np.array([a]))


def finish(sim: Simulator) -> None:
    """First come, first served to the end."""
    while not sim.lanes["over"][0]:
        legal = np.flatnonzero(sim.masks[0])
        play(sim, int(legal[1]) if legal.size > 1 else 0)


def ends_us(sim: Simulator) -> dict[int, float]:
    """End of each stream's last job, us."""
    trace = sim.trace(0)
    done = trace[trace["event"] == Event.FINISH]
    return {int(r["stream"]): r["t_ns"] / 1000 for r in done}


def test_pipelined_80_20_gains_a_quarter_over_the_sum() -> None:
    hvx, hmx, tiles = 4 * 8000.0, 2000.0, 1000.0
    overlapped = Kernel(tiles=tiles, hvx=hvx, hmx=hmx, fill=True)
    serial = Kernel(tiles=tiles, hvx=hvx, hmx=hmx, depth=1, fill=True)
    times = []
    for kernel in (serial, overlapped):
        sim = start(Source((one(kernel),)))
        finish(sim)
        times.append(ends_us(sim)[0])
    assert times[0] == pytest.approx(10_000)
    assert times[1] == pytest.approx(8000 + 2000 / tiles)
    assert times[0] / times[1] == pytest.approx(1.25, rel=1e-3)


@pytest.mark.parametrize("engine", ["ddr", "hmx"])
def test_same_engine_pair_gains_nothing(engine: str) -> None:
    kernel = Kernel(tiles=10, **{engine: 1000.0})
    sim = start(Source((one(kernel),)), Source((one(kernel),)))
    play(sim, action(0), action(0))
    finish(sim)
    assert max(ends_us(sim).values()) == pytest.approx(2000, abs=0.01)


def test_same_engine_pair_gains_nothing_on_hvx() -> None:
    kernel = Kernel(tiles=10, hvx=4000.0)
    sim = start(Source((one(kernel),)), Source((one(kernel),)))
    play(sim, action(0), action(0, share=1))
    finish(sim)
    assert max(ends_us(sim).values()) == pytest.approx(2000, abs=0.01)


def test_complementary_pair_runs_in_the_time_of_the_longer() -> None:
    sim = start(Source((one(Kernel(tiles=10, hmx=1000.0)),)), Source((one(Kernel(tiles=10, ddr=900.0)),)))
    play(sim, action(0), action(0))
    finish(sim)
    assert ends_us(sim) == {0: pytest.approx(1000, abs=0.01), 1: pytest.approx(900, abs=0.01)}


def test_hmx_queue_is_first_in_first_out() -> None:
    """5 us x 20 tiles beside 130 us x 10 tiles: each small tile waits for a big one until the big stage ends."""
    small, big = Kernel(tiles=20, hmx=100.0), Kernel(tiles=10, hmx=1300.0)
    sim = start(Source((one(small),)), Source((one(big),)))
    play(sim, action(0), action(0))
    finish(sim)
    ends = ends_us(sim)
    assert ends[1] == pytest.approx(1350, abs=0.1)
    assert ends[0] == pytest.approx(1400, abs=0.1)


def test_deeper_buffers_win_more_of_a_full_queue() -> None:
    deep, shallow = Kernel(tiles=30, hmx=300.0, depth=4), Kernel(tiles=30, hmx=300.0, depth=2)
    sim = start(Source((one(deep),)), Source((one(shallow),)))
    play(sim, action(0), action(0))
    finish(sim)
    assert ends_us(sim) == {0: pytest.approx(450, abs=0.1), 1: pytest.approx(600, abs=0.1)}


def test_shared_ddr_is_less_efficient() -> None:
    kernel = Kernel(tiles=10, ddr=900.0)
    sim = start(Source((one(kernel),)), Source((one(kernel),)), eta_shared=0.9)
    play(sim, action(0), action(0))
    finish(sim)
    assert max(ends_us(sim).values()) == pytest.approx(2000, abs=0.1)


def test_background_traffic_slows_a_ddr_bound_stage() -> None:
    sim = start(Source((one(Kernel(tiles=10, ddr=900.0)),)), ddr_free=0.75)
    finish(sim)
    assert ends_us(sim)[0] == pytest.approx(1200, abs=0.1)


def test_hmx_traffic_slows_vtcm_reads_of_the_other_stage_only() -> None:
    """beta 0.64 at full HMX use and phi 1: the HVX stage takes 1.64 of its time while HMX streams."""
    vector = Kernel(tiles=100, hvx=1000.0, phi=1.0)
    matrix = Kernel(tiles=100, hmx=5000.0, phi=1.0)
    sim = start(Source((one(vector),)), Source((one(matrix),)), beta=0.64)
    play(sim, action(0), action(0))
    finish(sim)
    ends = ends_us(sim)
    assert ends[0] == pytest.approx(410, abs=0.5)
    assert ends[1] == pytest.approx(5000, abs=0.5)


def test_prologue_overlaps_nothing_of_its_own_stage() -> None:
    sim = start(Source((one(Kernel(tiles=4, hmx=100.0, prologue=400.0)),)))
    finish(sim)
    assert ends_us(sim)[0] == pytest.approx(200, abs=0.01)


def test_joining_takes_effect_at_the_residents_tile_boundary() -> None:
    """A resident on 4 contexts gives 2 away when its tile ends, and takes them back when its next one ends."""
    resident = Kernel(tiles=4, hvx=1600.0)
    joining = Kernel(tiles=1, hvx=200.0)
    sim = start(Source((one(resident),)), Source((one(joining),), times=(150.0,)))
    play(sim, action(0))
    assert sim.views["now_ns"][0] == 150_000
    play(sim, action(0, share=1))
    finish(sim)
    # Tile 2 of 4 ends at 200 us; the joining stage runs 100 us on 2 contexts to 300; the resident's tile 3 is forked
    # over 2 contexts and takes 200 us, tile 4 runs on 4 again.
    ends = ends_us(sim)
    assert ends[1] == pytest.approx(300, abs=0.01)
    assert ends[0] == pytest.approx(500, abs=0.01)


@pytest.mark.parametrize(
    ("mode", "expected"),
    [(Mode.SERIAL, 2 * 10 + 300.0), (Mode.FUSED_SERIAL, 10 + 300.0), (Mode.FUSED, 10 + 200.0)],
)
def test_modes_isolate_launch_amortisation(mode: Mode, expected: float) -> None:
    """Same launch cost everywhere: fused_serial saves one launch, fused also overlaps HMX with DDR."""
    costs = {"entry_ns": 10_000, "op_ns": 10_000}
    sim = start(
        Source((one(Kernel(tiles=1000, hmx=200.0)),)), Source((one(Kernel(tiles=1000, ddr=100.0)),)), mode=mode, **costs
    )
    play(sim, action(0))
    play(sim, action(0))
    finish(sim)
    assert max(ends_us(sim).values()) == pytest.approx(expected, abs=0.01)


def test_engine_busy_time_is_the_work_done() -> None:
    kernels = Kernel(tiles=7, ddr=111.0, hvx=222.0, hmx=333.0), Kernel(tiles=3, ddr=500.0, hvx=50.0, prologue=40.0)
    sim = start(Source((one(kernels[0]),)), Source((one(kernels[1]),)))
    finish(sim)
    lane = sim.lanes[0]
    assert lane["busy_ddr_ns"] / 1000 == pytest.approx(611)
    assert lane["busy_hvx_ns"] / 1000 == pytest.approx(312)
    assert lane["busy_hmx_ns"] / 1000 == pytest.approx(333)
