"""Convolutions: the window's geometry, implicit GEMM and diagonal products."""

from __future__ import annotations

import pytest

from hexenv.device import load_device
from hexenv.kernels import Conv2d, DepthwiseConv2d, StageCost, Version
from hexenv.kernels.windows import input_bytes, input_lines, input_width, lines_bytes

V79 = load_device("v79")


def of(version: Version, conv: Conv2d | DepthwiseConv2d) -> list[StageCost]:
    return [cost for cost in conv.costs(V79) if cost.version is version]


def test_a_window_reads_its_strides_and_one_kernel_more() -> None:
    conv = Conv2d(56, 28, 64, 128, 3, 5, 2, 1)
    assert (input_lines(conv, 56), input_lines(conv, 1), input_width(conv)) == (113, 3, 32)
    assert input_bytes(conv, 128) == 113 * 32 * 128
    assert lines_bytes(conv, 128, 256, 2) == 2 * (5 * 32 * 128 + 2 * 28 * 256)


def test_implicit_gemm_multiplies_every_tap_once() -> None:
    """64 x 64 pixels, 64 channels and 3 x 3 taps into 128: 128 pixel blocks, 4 channel blocks, 18 inner blocks."""
    for cost in of(Version.HMX, Conv2d(64, 64, 64, 128, 3, 3, 1, 1)):
        assert cost.hmx_us == pytest.approx(128 * 4 * 18 * V79.hmx_tile_us)


def test_a_depthwise_tap_is_a_diagonal_product() -> None:
    for cost in of(Version.HMX, DepthwiseConv2d(64, 64, 96, 3, 3, 1, 1)):
        assert cost.hmx_us == pytest.approx(128 * 3 * 9 * V79.hmx_tile_us)


@pytest.mark.parametrize("conv", [Conv2d(56, 56, 64, 64, 3, 3, 1, 1), DepthwiseConv2d(56, 56, 64, 3, 3, 1, 1)])
def test_input_comes_in_once_whatever_the_version(conv: Conv2d | DepthwiseConv2d) -> None:
    least = 58 * 58 * 64 * 2
    assert all(least <= cost.ddr_in_bytes < 1.5 * least for cost in conv.costs(V79))
