"""FlashAttention-T (PPoPP 26): pieces of the softmax as matrix products, V' = V - x V_mig and M' = M + k x V_mig.

The laws: the best x makes V' and M' equal, or hits its limit; where HMX has no slack and k = 1 the version never helps;
moving fraction x pays iff max(V - x V_mig, M + k x V_mig + M_other) < max(V, M + M_other), so it raises the joint
makespan where another stage saturates HMX. Context only: 1.17 to 2.18x shorter vector intervals on A100, Orin and H100.
"""

from __future__ import annotations

import dataclasses

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import Device, load_device
from hexenv.engine import Simulator
from hexenv.kernels.attention import FlashAttention
from hexenv.kernels.cost import StageCost, Version, body_hvx_us
from tests.engine.toy import Kernel, Source, action, one, toy_tables

V79 = load_device("v79")
SHAPE = FlashAttention(512, 2048, 16, 8, 128)
STEP = 1 / 16
CONTEXTS = 4


def of(version: Version, device: Device) -> StageCost:
    return [cost for cost in SHAPE.costs(device) if cost.version is version][-1]


@given(st.floats(0.2, 8.0))
def test_the_best_part_equalises_the_engines_or_hits_its_limit(slower: float) -> None:
    device = dataclasses.replace(V79, hmx_tile_us=slower * V79.hmx_tile_us)
    matrix, hybrid = of(Version.HMX, device), of(Version.HYBRID, device)
    moved_us = 512 * 16 * 2048 / 32**2 * 2 * device.hmx_tile_us
    part = (hybrid.hmx_us - matrix.hmx_us) / moved_us
    vector_us, before_us = (body_hvx_us(cost, 6, V79.fork_join_us) for cost in (hybrid, matrix))
    step_us = STEP * (moved_us + (before_us - vector_us) / part)  # how far one step closes the gap between the engines
    gap_us = vector_us - hybrid.hmx_us
    balanced = abs(gap_us) <= step_us
    assert balanced or (part == pytest.approx(1.0) and gap_us > 0) or (part == pytest.approx(STEP) and gap_us < 0)


def test_both_ends_of_the_best_part_occur() -> None:
    """HMX as it is takes all that may move; eight times slower, it takes the least."""
    moved = []
    for slower in (1.0, 3.0, 8.0):
        device = dataclasses.replace(V79, hmx_tile_us=slower * V79.hmx_tile_us)
        extra = of(Version.HYBRID, device).hmx_us - of(Version.HMX, device).hmx_us
        moved.append(extra / (512 * 16 * 2048 / 32**2 * 2 * device.hmx_tile_us))
    assert moved[0] == pytest.approx(1.0)
    assert STEP < moved[1] < 1.0
    assert moved[2] == pytest.approx(STEP)


def makespan_us(vector_us: float, matrix_us: float, other_us: float = 0.0) -> float:
    """On the engine: a stage of ``vector_us`` on all contexts and ``matrix_us``, beside ``other_us`` of HMX alone."""
    kernels = [Kernel(tiles=100, hvx=CONTEXTS * vector_us, hmx=matrix_us)]
    if other_us > 0.0:
        kernels.append(Kernel(tiles=100, hmx=other_us))
    sim = Simulator(toy_tables(*(Source((one(kernel),)) for kernel in kernels), contexts=CONTEXTS))
    sim.reset(np.zeros(1, np.uint64))
    while not sim.lanes["over"][0]:
        sim.step(np.array([action(0) if sim.masks[0, action(0)] else 0]))
    return float(sim.views["now_ns"][0]) / 1000


@pytest.mark.parametrize("part", [0.1, 0.5, 1.0])
def test_without_slack_moving_at_par_never_helps(part: float) -> None:
    """k = 1 and M = V: HMX is as busy as HVX, whatever moves there makes it longer."""
    vector_us = matrix_us = 1000.0
    movable_us = 400.0
    moved = makespan_us(vector_us - part * movable_us, matrix_us + part * movable_us)
    assert moved == pytest.approx(1000.0 + part * movable_us)
    assert moved > makespan_us(vector_us, matrix_us)


def test_moving_raises_the_joint_makespan_where_another_stage_saturates_hmx() -> None:
    """Alone the hybrid wins (800 against 1000 us); beside 900 us of HMX work it loses by what it moved."""
    plain, hybrid = (1000.0, 300.0), (800.0, 500.0)
    assert makespan_us(*hybrid) < makespan_us(*plain)
    assert makespan_us(*plain, other_us=900.0) == pytest.approx(1200.0)
    assert makespan_us(*hybrid, other_us=900.0) == pytest.approx(1400.0)


@pytest.mark.parametrize("part", [0.25, 0.5, 1.0])
@pytest.mark.parametrize("k", [0.5, 1.0, 2.0])
@pytest.mark.parametrize(("matrix_us", "other_us"), [(300.0, 0.0), (300.0, 500.0), (300.0, 690.0), (300.0, 900.0)])
def test_moving_pays_exactly_where_the_formula_says(part: float, k: float, matrix_us: float, other_us: float) -> None:
    vector_us, movable_us = 1000.0, 300.0
    after = (vector_us - part * movable_us, matrix_us + k * part * movable_us)
    said = max(after[0], after[1] + other_us) < max(vector_us, matrix_us + other_us)
    seen = makespan_us(*after, other_us) < makespan_us(vector_us, matrix_us, other_us) - 0.01
    assert seen == said
