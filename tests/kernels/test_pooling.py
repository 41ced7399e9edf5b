"""Pools: one HVX operation a tap, and the average as a banded product."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import Device, load_device
from hexenv.errors import ConfigError
from hexenv.kernels import Pool, StageCost, Version
from hexenv.kernels.variants import alone_on

V79 = load_device("v79")
small = st.integers(1, 5)
pools = st.builds(
    Pool,
    kind=st.sampled_from(["max", "average"]),
    height=st.integers(1, 200),
    width=st.integers(1, 200),
    channels=st.integers(1, 300),
    kernel_h=small,
    kernel_w=small,
    stride_h=small,
    stride_w=small,
    element_bytes=st.sampled_from([1, 2]),
)


def of(version: Version, pool: Pool, device: Device = V79) -> list[StageCost]:
    return [cost for cost in pool.costs(device) if cost.version is version]


@given(pools)
def test_costs_are_finite_and_fit_their_budget(pool: Pool) -> None:
    for cost in pool.costs(V79):
        assert all(math.isfinite(amount) and amount >= 0 for amount in dataclasses.astuple(cost))
        assert 0 < cost.vtcm_bytes <= V79.vtcm_bytes * V79.tile_fractions[cost.tile_class]
        assert 0.0 <= cost.phi <= 1.0
        assert alone_on(V79, cost) > 0.0
        assert cost.ddr_out_bytes == pool.height * pool.width * pool.channels * pool.element_bytes


@given(pools, st.integers(2, 5))
def test_parts_cover_the_output(pool: Pool, parts: int) -> None:
    pieces = pool.split(parts)
    assert sum(piece.height * piece.channels for piece in pieces) == pool.height * pool.channels
    assert all((piece.kind, piece.width) == (pool.kind, pool.width) for piece in pieces)


def test_hvx_work_grows_by_one_operation_a_tap() -> None:
    """128 channels of u8 are one vector; the average has three more operations at its end."""
    one, four = (of(Version.HVX, Pool("max", 56, 56, 128, k, k, 1, 1))[0].hvx_before_us for k in (1, 2))
    vectors = 56 * 56
    assert four - one == pytest.approx(3 * vectors * V79.arithmetic_packets * V79.packet_us)
    average = of(Version.HVX, Pool("average", 56, 56, 128, 2, 2, 1, 1))[0].hvx_before_us
    assert average - four == pytest.approx(3 * vectors * V79.arithmetic_packets * V79.packet_us)


def test_a_maximum_has_no_matrix_form_and_an_average_has() -> None:
    assert {cost.version for cost in Pool("max", 56, 56, 128, 3, 3, 1, 1).costs(V79)} == {Version.HVX}
    assert of(Version.HMX, Pool("average", 56, 56, 128, 3, 3, 1, 1))


@pytest.mark.parametrize(("kernel", "stride", "input_tiles"), [(1, 1, 1), (3, 1, 2), (2, 2, 2), (4, 4, 4)])
def test_an_average_is_a_banded_product_for_each_kernel_row(kernel: int, stride: int, input_tiles: int) -> None:
    pool = Pool("average", 10, 64, 96, kernel, kernel, stride, stride)
    for cost in of(Version.HMX, pool):
        assert cost.hmx_us == pytest.approx(10 * 2 * 3 * kernel * input_tiles * V79.hmx_tile_us)


def test_fp16_moves_twice_the_bytes() -> None:
    narrow, wide = (of(Version.HVX, Pool("max", 56, 56, 64, 2, 2, 2, 2, size))[0] for size in (1, 2))
    assert (wide.ddr_in_bytes, wide.ddr_out_bytes) == (2 * narrow.ddr_in_bytes, 2 * narrow.ddr_out_bytes)


def test_labels_tell_the_kind_and_the_window() -> None:
    assert Pool("max", 56, 48, 64, 2, 3, 2, 2).name == "max_pool 2x3 56x48x64"


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: Pool("median", 1, 1, 1, 1, 1, 1, 1), "pool kind = 'median'; allowed: max, average"),
        (lambda: Pool("max", 1, 1, 1, 1, 1, 1, 1, 4), "pool element_bytes = 4; allowed: 1, 2"),
    ],
)
def test_unknown_kinds_and_sizes_are_refused(build: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build()  # type: ignore[operator]
