"""Rake (ASPLOS 22): its image and network kernels as a workload; what they ask of DDR and HVX, and how they pair.

Source: uwplse/rake. The repository publishes no run times; simulator profiles in its history (v66, one 1920 x 1080 u8
image) give HVX packets a vector: gaussian3x3 38.5 as Halide compiles it, a general 3x3 6.5 hand-written.
"""

from __future__ import annotations

import numpy as np
import pytest

from hexenv.device import Device, load_device
from hexenv.engine import Simulator
from hexenv.engine.layout import Mode
from hexenv.kernels import (
    Conv2d,
    DepthwiseConv2d,
    Elementwise,
    MatMul,
    Operator,
    Pool,
    Reduce,
    Softmax,
    StageCost,
    Stencil,
    Version,
    offers,
)
from hexenv.kernels.stencil import KINDS
from hexenv.kernels.variants import alone_on
from tests.engine.toy import Kernel, Source, action, one, toy_tables
from tests.published.pairs import alone_us, fused_us

V79 = load_device("v79")
FULL_HD = (1080, 1920)
NONLINEAR = ("median3x3", "dilate3x3", "camera_pipe")
KERNELS: dict[str, Operator] = {
    "gaussian3x3": Stencil("gaussian3x3", *FULL_HD),
    "gaussian5x5": Stencil("gaussian5x5", *FULL_HD),
    "gaussian7x7": Stencil("gaussian7x7", *FULL_HD),
    "conv3x3a16": Stencil("conv3x3a16", *FULL_HD),
    "conv3x3a32": Stencil("conv3x3", *FULL_HD),
    "dilate3x3": Stencil("dilate3x3", *FULL_HD),
    "median3x3": Stencil("median3x3", *FULL_HD),
    "sobel3x3": Stencil("sobel3x3", *FULL_HD),
    "blur3x3": Stencil("box3x3", *FULL_HD),
    "camera_pipe": Stencil("camera_pipe", *FULL_HD),
    "average_pool": Pool("average", 56, 56, 256, 3, 3, 1, 1),
    "max_pool": Pool("max", 56, 56, 64, 2, 2, 2, 2),
    "mean": Reduce(1280, 49),
    "softmax": Softmax(1024, 1024),
    "add": Elementwise("add", 1 << 20, 2),
    "mul": Elementwise("mul", 1 << 20, 2),
    "depthwise_conv": DepthwiseConv2d(56, 56, 144, 3, 3, 1, 1),
    "conv_nn": Conv2d(56, 56, 64, 128, 3, 3, 1, 1),
    "fully_connected": MatMul("q8_0", 1000, 1, 1280),
    "matmul": MatMul("q8_0", 1024, 1024, 1024),
}
"""Rake's kernels as operators here; its l2norm is a row operator beside ``mean``."""


def hvx_cost(operator: Operator, device: Device = V79) -> StageCost:
    return next(cost for cost in operator.costs(device) if cost.version is Version.HVX)


def hvx_over_ddr(operator: Operator, device: Device = V79) -> float:
    cost = hvx_cost(operator, device)
    ddr_us = (cost.ddr_in_bytes + cost.ddr_out_bytes) / device.ddr_bytes_per_us
    return cost.hvx_before_us / device.contexts / ddr_us


@pytest.mark.parametrize("name", KERNELS)
def test_every_kernel_is_offered(name: str) -> None:
    assert offers(KERNELS[name], V79)


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "camera_pipe"])
def test_full_hd_moves_two_bytes_a_pixel_and_takes_69_us_at_60_gb_a_second(kind: str) -> None:
    """4.15 MB of u8 in and out; the halo of a strip is read again."""
    device = V79.with_values(ddr_bytes_per_us=60000)
    for cost in Stencil(kind, *FULL_HD).costs(device):
        moved = cost.ddr_in_bytes + cost.ddr_out_bytes
        assert 4.147e6 <= moved < 1.1 * 4.147e6
        assert alone_on(device, cost) >= 69.0


def test_the_camera_pipe_reads_two_bytes_and_writes_three() -> None:
    """The larger its tile class, the fewer rows of its halo it reads again."""
    pixels = FULL_HD[0] * FULL_HD[1]
    costs = list(Stencil("camera_pipe", *FULL_HD).costs(V79))
    assert {cost.ddr_out_bytes for cost in costs} == {3 * pixels}
    assert 2 * pixels < costs[-1].ddr_in_bytes < 2.3 * pixels < costs[0].ddr_in_bytes < 3 * pixels


@pytest.mark.parametrize("kind", NONLINEAR)
def test_nonlinear_kernels_have_no_hmx_work(kind: str) -> None:
    assert all(cost.hmx_us == 0.0 for cost in Stencil(kind, *FULL_HD).costs(V79))


@pytest.mark.parametrize("kind", KINDS)
def test_without_the_matrix_form_the_profile_is_hvx_only(kind: str) -> None:
    """Rake emits vector code only."""
    assert all(cost.hmx_us == 0.0 for cost in Stencil(kind, *FULL_HD, matrix="off").costs(V79))


def test_a_3x3_is_balanced_and_a_7x7_is_bound_by_hvx() -> None:
    """Balanced: HVX and DDR time within a factor of 1.5 of one another."""
    assert 1 / 1.5 < hvx_over_ddr(Stencil("gaussian3x3", *FULL_HD)) < 1.5
    assert hvx_over_ddr(Stencil("gaussian7x7", *FULL_HD)) > 1.5


def test_balance_holds_for_compiled_code_and_not_for_the_best_hand_written_code() -> None:
    """38.5 packets a vector as Halide compiles a gaussian3x3, 6.5 as people write a 3x3: then DDR alone decides."""
    compiled, written = (V79.with_values(gaussian3x3_packets=packets) for packets in (38.5, 6.5))
    stencil = Stencil("gaussian3x3", *FULL_HD)
    assert hvx_over_ddr(stencil, compiled) == pytest.approx(1.5, abs=0.05)
    assert hvx_over_ddr(stencil, written) < 0.3


class TestPairing:
    """A stencil beside a GEMM bound by HMX approaches max(V, M)."""

    @pytest.mark.parametrize(("mode", "expected_us"), [(Mode.SERIAL, 100.0 + 120.0), (Mode.FUSED, 120.0)])
    def test_pure_work_takes_the_sum_or_the_longer(self, mode: Mode, expected_us: float) -> None:
        vector, matrix = Kernel(tiles=50, hvx=4 * 100.0), Kernel(tiles=50, hmx=120.0)
        sim = Simulator(toy_tables(Source((one(vector),)), Source((one(matrix),)), contexts=4, mode=mode))
        sim.reset(np.zeros(1, np.uint64))
        while not sim.lanes["over"][0]:
            sim.step(np.array([action(0) if sim.masks[0, action(0)] else 0]))
        assert sim.views["now_ns"][0] / 1000 == pytest.approx(expected_us)

    @pytest.mark.parametrize(
        "stencil",
        [Stencil("median3x3", 2160, 1920), Stencil("gaussian7x7", *FULL_HD, matrix="off")],
        ids=lambda stencil: stencil.name,
    )
    def test_a_gemm_hides_most_of_a_stencil(self, stencil: Stencil) -> None:
        gemm = MatMul("q4_0", 2560, 512, 2560)
        alone = alone_us(V79, (gemm,)), alone_us(V79, (stencil,))
        fused = min(fused_us(V79, (gemm,), (stencil,), share=share) for share in range(3))
        assert max(alone) <= fused < 1.15 * max(alone)
        assert sum(alone) - fused > 0.6 * min(alone)
