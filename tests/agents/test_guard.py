"""The guard of a gate: a part of the time that each job was given."""

from __future__ import annotations

import numpy as np
import pytest

from agents.kernels.deadlines import DUE, SPARE, known_deadlines, nothing_known
from agents.kernels.predict import costs_of
from hexenv.engine import Simulator
from tests.engine.toy import Kernel, Source, action, one, toy_tables


@pytest.mark.parametrize("waiting", [True, False], ids=["visible", "resident"])
def test_a_gates_guard_is_a_part_of_the_jobs_own_deadline(waiting: bool) -> None:
    """Half of 600 us must stay of the 590 us left, less the rest of the job, 100 us (90 us at work)."""
    work = (one(Kernel(tiles=4, hmx=100.0)),)
    own = Source(work, times=(0.0,), deadline=300.0, deadlines=(600.0,))
    tables = toy_tables(own, Source(work, times=(10.0,), deadline=900.0))
    sim = Simulator(tables)
    sim.reset(np.zeros(1, np.uint64))
    sim.step(np.array([0 if waiting else action(0)]))
    assert sim.views["now_ns"][0] == 10_000
    known = known_deadlines(sim.views[0], costs_of(tables), nothing_known(), 0.5)
    spare_us = known.rows[known.rows[: known.n, DUE].argmin(), SPARE] / 1000
    assert spare_us == pytest.approx(590.0 - 0.5 * 600.0 - (100.0 if waiting else 90.0))
