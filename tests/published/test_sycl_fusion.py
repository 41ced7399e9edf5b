"""SYCL online fusion (TACO 23): kernels fused at run time pay the compiler once and hit a cache afterwards.

Law: the fused kernel pays off after c_jit / (saved launch + saved traffic) calls; cold and warm are reported apart. The
paper's times are not reachable, so no figure of theirs is used.
"""

from __future__ import annotations

import math

import numpy as np
import pytest

from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Event, Jit, Mode
from tests.engine.toy import Kernel, Source, action, one, toy_tables

ROUNDS = 12
PERIOD_US = 10_000.0
LAUNCH_US, HIT_US = 20.0, 2.0
PAIR = (Kernel(tiles=4, hmx=100.0), Kernel(tiles=4, ddr=80.0))


def pair_times_us(mode: Mode, jit: Jit, first_us: float) -> np.ndarray:
    """Time from arrival to the end of the later of two stages, by call, us: (ROUNDS,).

    The unfused pair is launched twice (``op_ns``), the fused one once (``entry_ns``); both launches cost the same.
    """
    times = tuple(PERIOD_US * i for i in range(ROUNDS))
    tables = toy_tables(
        *(Source((one(kernel),), times=times) for kernel in PAIR),
        mode=mode,
        jit=jit,
        jit_first_ns=round(first_us * 1e3),
        jit_hit_ns=round(HIT_US * 1e3),
        entry_ns=round(LAUNCH_US * 1e3),
        op_ns=round(LAUNCH_US * 1e3),
        horizon_ns=10**9,
    )
    sim = Simulator(tables, trace=TraceLevel.ALL)
    sim.reset(np.zeros(1, np.uint64))
    while not sim.lanes["over"][0]:
        sim.step(np.array([action(0) if sim.masks[0, action(0)] else 0]))
    trace = sim.trace(0)
    ends = trace[trace["event"] == Event.FINISH]["t_ns"].astype(float) / 1e3
    return np.array([ends[2 * i : 2 * i + 2].max() - times[i] for i in range(ROUNDS)])


@pytest.mark.parametrize("first_us", [250.0, 500.0, 900.0])
def test_break_even_calls(first_us: float) -> None:
    apart = pair_times_us(Mode.SERIAL, Jit.OFF, first_us)
    cold = pair_times_us(Mode.FUSED, Jit.COLD, first_us)
    saved_us = apart[-1] - cold[-1]
    assert saved_us == pytest.approx(LAUNCH_US + 80.0 - HIT_US)  # one launch, and the traffic hidden behind HMX
    calls = math.ceil((first_us - HIT_US) / saved_us)
    ahead = np.cumsum(apart) >= np.cumsum(cold)
    assert int(np.argmax(ahead)) + 1 == calls
    assert ahead[calls - 1 :].all()


def test_warm_pays_from_the_first_call() -> None:
    apart = pair_times_us(Mode.SERIAL, Jit.OFF, 500.0)
    warm = pair_times_us(Mode.FUSED, Jit.WARM, 500.0)
    assert (warm < apart).all()


def test_cold_and_warm_differ_by_the_compiler_alone() -> None:
    cold, warm = (pair_times_us(Mode.FUSED, jit, 500.0) for jit in (Jit.COLD, Jit.WARM))
    assert cold[0] - warm[0] == pytest.approx(500.0 - HIT_US)
    np.testing.assert_allclose(cold[1:], warm[1:])


def test_a_slow_compiler_never_pays_off_in_a_short_run() -> None:
    apart = pair_times_us(Mode.SERIAL, Jit.OFF, 5000.0)
    cold = pair_times_us(Mode.FUSED, Jit.COLD, 5000.0)
    assert cold.sum() > apart.sum()
