"""Operators along rows: products on HMX counted by hand, rows over contexts on HVX, and what must hold for all."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import Device, load_device
from hexenv.errors import ConfigError
from hexenv.kernels.cost import StageCost, Version, body_hvx_us
from hexenv.kernels.exponential import TABLE_BYTES
from hexenv.kernels.operator import Operator
from hexenv.kernels.reduction import L2Norm, LayerNorm, Reduce, RmsNorm, Scan, Softmax
from hexenv.kernels.variants import alone_on

V79 = load_device("v79")
KINDS = (RmsNorm, LayerNorm, L2Norm, Softmax, Reduce, Scan)
sides = st.integers(1, 4096)


def best(version: Version, operator: Operator, device: Device = V79) -> StageCost:
    costs = [cost for cost in operator.costs(device) if cost.version is version]
    return min(costs, key=lambda cost: alone_on(device, cost))


@given(st.sampled_from(KINDS), sides, sides)
def test_costs_are_finite_and_fit_their_budget(kind: type, rows: int, columns: int) -> None:
    operator = kind(rows, columns)
    for cost in operator.costs(V79):
        assert all(math.isfinite(amount) and amount >= 0 for amount in dataclasses.astuple(cost))
        assert 0 < cost.vtcm_bytes <= V79.vtcm_bytes * V79.tile_fractions[cost.tile_class]
        assert 0.0 <= cost.phi <= 1.0
        assert (cost.hmx_us > 0.0) == (cost.version is not Version.HVX)
        assert cost.ddr_in_bytes == pytest.approx(4 * rows * columns)
        assert cost.ddr_out_bytes == pytest.approx(4 * rows * (1 if kind is Reduce else columns))


@pytest.mark.parametrize(
    ("operator", "a_tile", "a_row_tile"),
    [
        (RmsNorm(128, 2048), 2, 0),  # sums of squares, row factors
        (LayerNorm(128, 2048), 4, 0),  # and row sums, mean subtracted
        (L2Norm(128, 2048), 2, 0),
        (Softmax(128, 2048), 2, 0),  # row sums, row factors
        (Reduce(128, 2048), 1, 0),
        (Scan(128, 1024), 3, 1),  # prefix sums, block sums, carries; 32 block sums in one product
        (Scan(128, 2048), 3, 3),  # 64 block sums: a triangle of 2 x 2 tiles
        (Scan(128, 64), 3, 1),
    ],
    ids=lambda value: getattr(value, "name", str(value)),
)
def test_products_on_hmx(operator: RmsNorm, a_tile: int, a_row_tile: int) -> None:
    row_tiles, column_tiles = operator.rows // 32, operator.columns // 32
    expected = row_tiles * (a_tile * column_tiles + a_row_tile)
    assert best(Version.HMX, operator).hmx_us / V79.hmx_tile_us == pytest.approx(expected)


def test_a_row_stays_on_one_context() -> None:
    """llama.cpp splits rows over threads: one row gains nothing from six contexts, six rows all of them."""
    for kind in KINDS:
        one, six = (best(Version.HVX, kind(rows, 4096)) for rows in (1, 6))
        assert body_hvx_us(one, 6, 0.0) == pytest.approx(body_hvx_us(one, 1, 0.0))
        assert body_hvx_us(six, 6, 0.0) == pytest.approx(body_hvx_us(six, 1, 0.0) / 6)


def test_norms_rank_by_their_work() -> None:
    l2, rms, layer = (best(Version.HVX, kind(512, 2048)).hvx_before_us for kind in (L2Norm, RmsNorm, LayerNorm))
    assert l2 < rms < layer


def test_a_prefix_sum_costs_more_than_a_sum() -> None:
    for version in (Version.HVX, Version.HMX):
        whole, prefix = (best(version, kind(512, 2048)) for kind in (Reduce, Scan))
        assert alone_on(V79, prefix) > alone_on(V79, whole)


@pytest.mark.parametrize("version", [Version.HVX, Version.HMX])
def test_the_exponential_of_softmax_is_a_switch(version: Version) -> None:
    costs = {exp: best(version, Softmax(32, 4096, exp=exp)) for exp in ("f32", "f16", "table", "split")}
    assert costs["f16"].hvx_before_us < costs["f32"].hvx_before_us
    assert costs["table"].hvx_before_us < costs["f16"].hvx_before_us
    assert costs["table"].hvx_before_floor_us == pytest.approx(32 * 4096 / 64 * V79.gather_us)
    held = {exp: cost.vtcm_bytes for exp, cost in costs.items()}
    assert held["table"] - held["f16"] == held["split"] - held["f32"] == TABLE_BYTES
    assert Softmax(2048, 1024, exp="table").name == Softmax(2048, 1024).name


def test_an_unknown_exponential_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"softmax.exp = 'fast', allowed: 'f32', 'f16', 'table', 'split'"):
        Softmax(1, 1, exp="fast")


@given(st.sampled_from(KINDS), sides, st.integers(1, 9))
def test_ranges_of_rows_cover_the_operator(kind: type, rows: int, parts: int) -> None:
    pieces = kind(rows, 64).split(parts)
    assert sum(piece.rows for piece in pieces) == rows
    assert {type(piece) for piece in pieces} == {kind}
    assert {piece.columns for piece in pieces} == {64}
