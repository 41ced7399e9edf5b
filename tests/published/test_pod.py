"""POD-Attention (ASPLOS 25): proportional interleave of two kinds of work inside one launch.

The released kernel binds blocks to a role by a counter modulo the target ratio, so each core holds the target mix.
The law: makespan at most max(P, D) and one tile, where running one role after the other takes P + D.
"""

from __future__ import annotations

import numpy as np
import pytest

from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Event, Mode
from tests.engine.toy import Kernel, Source, action, one, toy_tables


def makespan_us(prefill: Kernel, decode: Kernel, mode: Mode) -> float:
    sim = Simulator(toy_tables(Source((one(prefill),)), Source((one(decode),)), mode=mode))
    sim.reset(np.zeros(1, np.uint64))
    while not sim.lanes["over"][0]:
        sim.step(np.array([action(0) if sim.masks[0, action(0)] else 0]))
    return float(sim.views["now_ns"][0]) / 1000


@pytest.mark.parametrize("ratio", [0.25, 0.5, 1.0, 2.0])
@pytest.mark.parametrize("tiles", [4, 16, 64])
def test_interleaved_roles_take_the_longer_and_at_most_one_tile(ratio: float, tiles: int) -> None:
    prefill = Kernel(tiles=tiles, hmx=1000.0, ddr=50.0)
    decode = Kernel(tiles=round(tiles * ratio), ddr=1000.0 * ratio, hmx=20.0 * ratio)
    longer, both = max(1000.0, 1000.0 * ratio), 1000.0 * (1 + ratio)
    tile_us = 1000.0 / tiles
    fused, serial = (makespan_us(prefill, decode, mode) for mode in (Mode.FUSED, Mode.SERIAL))
    # What the two roles ask of the same engine (5 % and 2 %) is served after one another.
    assert longer <= fused <= longer + 50.0 + 20.0 * ratio + tile_us
    assert serial == pytest.approx(both, rel=1e-6)


@pytest.mark.parametrize("tiles", [5, 20, 40])
def test_the_mix_stays_at_the_target_within_one_tile(tiles: int) -> None:
    """Both roles wait for HMX and take turns: when one has done its n tiles, so has the other, within one."""
    first, second = Kernel(tiles=40, hmx=400.0), Kernel(tiles=tiles, hmx=20.0 * tiles)
    sim = Simulator(toy_tables(Source((one(first),)), Source((one(second),))), trace=TraceLevel.ALL)
    sim.reset(np.zeros(1, np.uint64))
    sim.step(np.array([action(0)]))
    sim.step(np.array([action(0)]))
    trace = sim.trace(0)
    done_us = trace[(trace["event"] == Event.FINISH) & (trace["stream"] == 1)]["t_ns"][0] / 1000
    turns = done_us - 20.0 * tiles
    assert turns / 10.0 == pytest.approx(tiles, abs=1.0)
