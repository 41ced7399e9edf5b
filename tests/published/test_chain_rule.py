"""On time iff T_queue + T_wait for a partner + T_corun + T_rest of the chain <= deadline.

The admission rule that Tacker (HPCA 22) and Aker (IEEE TC 2025) share, with the wait for a partner and the rest of a
frame's chain added: the engine must charge each of the four terms.
"""

from __future__ import annotations

import numpy as np
import pytest

from hexenv.engine import Simulator
from tests.engine.toy import Kernel, Source, action, one, toy_tables

QUEUE, WAIT, OWN, OTHER, REST = 40.0, 60.0, 100.0, 50.0, 30.0
"""Resident work ahead, then waiting for a partner, co-run of two stages that share HMX, the frame's last stage; us."""
CORUN = OWN + OTHER
EARLY, PARTNER, FRAME = 0, 1, 2
"""Streams: what occupies the device first, the partner that arrives later, the frame."""


def stage(hmx_us: float) -> Kernel:
    return Kernel(tiles=1000, hmx=hmx_us)


def start(deadline_us: float) -> Simulator:
    frame = (one(stage(OWN)), one(stage(REST), after=(0,)))
    sim = Simulator(
        toy_tables(
            Source((one(stage(QUEUE)),)),
            Source((one(stage(OTHER)),), times=(QUEUE + WAIT,)),
            Source(frame, deadline=deadline_us),
            slots=2,
        )
    )
    sim.reset(np.zeros(1, np.uint64))
    return sim


def pick(sim: Simulator, stream: int) -> None:
    streams = list(sim.views["tasks"]["stream"][0, : int(sim.views["n_tasks"][0])])
    sim.step(np.array([action(streams.index(stream))]))


def wait_until(sim: Simulator, time_us: float) -> None:
    while not sim.lanes["over"][0] and sim.views["now_ns"][0] < time_us * 1000:
        sim.step(np.zeros(1, np.int64))


@pytest.mark.parametrize(("margin_us", "missed"), [(0.5, 0), (-0.5, 1)])
def test_waiting_for_a_partner_counts_against_the_deadline(margin_us: float, missed: int) -> None:
    sim = start(QUEUE + WAIT + CORUN + REST + margin_us)
    pick(sim, EARLY)
    wait_until(sim, QUEUE + WAIT)
    pick(sim, PARTNER)
    pick(sim, FRAME)
    wait_until(sim, QUEUE + WAIT + CORUN)
    pick(sim, FRAME)
    wait_until(sim, 1000.0)
    assert sim.lanes["missed"][0, FRAME] == missed


@pytest.mark.parametrize(("margin_us", "missed"), [(0.5, 0), (-0.5, 1)])
def test_without_a_partner_the_frame_may_run_at_once(margin_us: float, missed: int) -> None:
    """Running alone is always allowed: the wait and the partner's part fall away."""
    sim = start(QUEUE + OWN + REST + margin_us)
    pick(sim, EARLY)
    wait_until(sim, QUEUE)
    pick(sim, FRAME)
    wait_until(sim, QUEUE + OWN)
    pick(sim, FRAME)
    wait_until(sim, 1000.0)
    assert sim.lanes["missed"][0, FRAME] == missed
