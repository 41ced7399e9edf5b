"""VFA (arXiv 2604.12798): the row maximum is estimated from key representatives and frozen after the first blocks.

The laws: freezing after f of T blocks saves (1 - f/T) of the maximum, the correction factor and the rescaling on the
vector side, and costs a product of the queries with the samples; with the matrix time halved and the vector time fixed,
the gain saturates at the vector bound. Context only: about 2x for C8V32 and others over C16V32 on other accelerators.
"""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import load_device
from hexenv.kernels.attention import FlashAttention
from hexenv.kernels.cost import StageCost, Version, body_hvx_us, body_us
from hexenv.kernels.online_softmax import pieces

V79 = load_device("v79")
SHAPE = FlashAttention(512, 2048, 16, 8, 128)
ROWS = 512 * 16
SAMPLES = 2048 // 64


def of(version: Version, live: float) -> StageCost:
    return [cost for cost in replace(SHAPE, live_part=live).costs(V79) if cost.version is version][-1]


@given(st.floats(0.0, 0.99))
def test_freezing_saves_the_maximum_the_factor_and_the_rescaling(live: float) -> None:
    kept, frozen = of(Version.HMX, 1.0), of(Version.HMX, live)
    each = pieces(V79, ROWS * 2048, ROWS * kept.tiles // 8)
    estimate = pieces(V79, ROWS * SAMPLES, ROWS).maximum
    saved = kept.hvx_before_us - frozen.hvx_before_us + estimate
    assert saved == pytest.approx((1.0 - live) * (each.maximum + each.alpha + each.rescale))


def test_freezing_costs_a_product_of_the_queries_with_the_samples() -> None:
    """512 x 16 query rows, 32 samples, 128 deep; the diagonals of the frozen blocks fall away."""
    kept, frozen = of(Version.HMX, 1.0), of(Version.HMX, 0.25)
    estimate = ROWS * SAMPLES * 128 / 32**3
    diagonals = ROWS / 32 * (128 / 32) * (kept.tiles // 8)
    products = (frozen.hmx_us - kept.hmx_us) / V79.hmx_tile_us
    assert products == pytest.approx(estimate - 0.75 * diagonals)


def test_the_vector_version_saves_it_too() -> None:
    kept, frozen = of(Version.HVX, 1.0), of(Version.HVX, 0.25)
    each = pieces(V79, ROWS * 2048, ROWS * SAMPLES)
    estimate = pieces(V79, ROWS * SAMPLES, ROWS).maximum + ROWS * SAMPLES * 2 * 128 / V79.hvx_fp16_flop_per_us
    saved = 0.75 * (each.maximum + each.alpha + each.rescale)
    assert kept.hvx_before_us - frozen.hvx_before_us == pytest.approx(saved - estimate)


def test_a_faster_matrix_unit_saturates_at_the_vector_bound() -> None:
    """From a matrix-bound start (HMX slowed down), halving M again and again ends at V, to the microsecond."""
    durations = []
    slow_us = 8 * V79.hmx_tile_us
    for halvings in range(6):
        device = dataclasses.replace(V79, hmx_tile_us=slow_us / 2**halvings)
        cost = [c for c in SHAPE.costs(device) if c.version is Version.HMX][-1]
        durations.append(body_us(cost, 6, V79.fork_join_us, V79.ddr_bytes_per_us)[0])
        vector_us = body_hvx_us(cost, 6, V79.fork_join_us)
    assert durations[0] / durations[1] == pytest.approx(2.0)
    assert durations == sorted(durations, reverse=True)
    assert durations[-1] == durations[-2] == pytest.approx(vector_us)


def test_freezing_moves_the_vector_bound() -> None:
    """With HMX already idle beside the softmax, only the cut of vector work still gains."""
    kept, frozen = (
        body_us(of(Version.HMX, live), 6, V79.fork_join_us, V79.ddr_bytes_per_us)[0] for live in (1.0, 0.25)
    )
    assert frozen < kept
