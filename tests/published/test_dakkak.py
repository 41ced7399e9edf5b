"""Dakkak et al. (ICS 19, arXiv 1811.09736): sums and prefix sums of rows as products with ones and triangular matrices.

The laws: a sum on the matrix unit takes 32 times the arithmetic minimum, since one of 32 columns is useful; no rate is
above that of a copy; the matrix version wins only where HVX is the bottleneck and HMX is idle. Context only (V100): 89
to 98 % of the rate of a copy.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from hexenv.device import load_device
from hexenv.engine import Simulator
from hexenv.kernels import Operator, Version
from hexenv.kernels.cost import StageCost, body_hvx_us
from hexenv.kernels.reduction import Reduce, Scan
from hexenv.kernels.variants import alone_on
from tests.engine.toy import Kernel, Source, action, one, toy_tables

V79 = load_device("v79")
sides = st.integers(1, 4096)
kinds = st.sampled_from([Reduce, Scan])


def best(version: Version, operator: Operator) -> StageCost:
    costs = [cost for cost in operator.costs(V79) if cost.version is version]
    return min(costs, key=lambda cost: alone_on(V79, cost))


@given(st.integers(1, 64), st.integers(1, 64))
def test_a_sum_on_hmx_takes_32_times_the_arithmetic_minimum(row_tiles: int, column_tiles: int) -> None:
    rows, columns = 32 * row_tiles, 32 * column_tiles
    multiply_adds_per_us = 32**3 / V79.hmx_tile_us
    minimum_us = rows * columns / multiply_adds_per_us
    assert best(Version.HMX, Reduce(rows, columns)).hmx_us == pytest.approx(32 * minimum_us)


@given(st.integers(1, 64), st.integers(1, 32))
def test_a_prefix_sum_takes_two_passes(row_tiles: int, column_tiles: int) -> None:
    """Three products a tile (within blocks, block sums, carries spread) and the triangle over up to 32 block sums."""
    cost = best(Version.HMX, Scan(32 * row_tiles, 32 * column_tiles))
    assert cost.hmx_us / V79.hmx_tile_us == pytest.approx(row_tiles * (3 * column_tiles + 1))


@given(kinds, sides, sides)
def test_no_version_is_faster_than_a_copy(kind: type, rows: int, columns: int) -> None:
    operator = kind(rows, columns)
    for cost in operator.costs(V79):
        moved = cost.ddr_in_bytes + cost.ddr_out_bytes
        assert alone_on(V79, cost) >= moved / V79.ddr_bytes_per_us


def test_large_operators_come_close_to_a_copy() -> None:
    for operator in (Reduce(8192, 2048), Scan(8192, 2048)):
        cost = best(Version.HMX, operator)
        moved_us = (cost.ddr_in_bytes + cost.ddr_out_bytes) / V79.ddr_bytes_per_us
        assert moved_us / alone_on(V79, cost) > 0.89


@example(Reduce, 65536, 32)
@example(Reduce, 4096, 1024)
@given(kinds, sides, sides)
def test_the_matrix_version_wins_only_where_hvx_is_the_bottleneck(kind: type, rows: int, columns: int) -> None:
    operator = kind(rows, columns)
    vector, matrix = (best(version, operator) for version in (Version.HVX, Version.HMX))
    ddr_us = (vector.ddr_in_bytes + vector.ddr_out_bytes) / V79.ddr_bytes_per_us
    bound_by_hvx = body_hvx_us(vector, V79.contexts, V79.fork_join_us) > ddr_us
    assert bound_by_hvx or alone_on(V79, matrix) > alone_on(V79, vector)


SHORT_ROWS = Reduce(65536, 32)
"""Bound by HVX there, by DDR on HMX."""


def beside_hmx_us(version: Version, hmx_us: float) -> float:
    """Makespan of the sums in one version, beside a stage that only needs HMX."""
    cost = best(version, SHORT_ROWS)
    ddr_us = (cost.ddr_in_bytes + cost.ddr_out_bytes) / V79.ddr_bytes_per_us
    hvx_us = cost.hvx_before_us + cost.hvx_after_us
    sums = Kernel(tiles=100, ddr=ddr_us, hvx=hvx_us, hmx=cost.hmx_us)
    sources = (Source((one(kernel),)) for kernel in (sums, Kernel(tiles=100, hmx=hmx_us)))
    sim = Simulator(toy_tables(*sources, contexts=V79.contexts))
    sim.reset(np.zeros(1, np.uint64))
    while not sim.lanes["over"][0]:
        sim.step(np.array([action(0) if sim.masks[0, action(0)] else 0]))
    return float(sim.views["now_ns"][0]) / 1000


def test_the_matrix_version_wins_where_hmx_is_idle() -> None:
    assert alone_on(V79, best(Version.HMX, SHORT_ROWS)) < alone_on(V79, best(Version.HVX, SHORT_ROWS))
    assert beside_hmx_us(Version.HMX, 100.0) < beside_hmx_us(Version.HVX, 100.0)


def test_the_matrix_version_loses_where_hmx_is_busy() -> None:
    """Beside 1000 us of HMX work the vector version is free, the products of the matrix version are not."""
    assert beside_hmx_us(Version.HVX, 1000.0) == pytest.approx(1000.0)
    extra_us = best(Version.HMX, SHORT_ROWS).hmx_us
    assert extra_us > 1.0
    assert beside_hmx_us(Version.HMX, 1000.0) == pytest.approx(1000.0 + extra_us, rel=1e-4)
