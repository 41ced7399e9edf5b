"""Hexagon-MLIR (arXiv 2602.19762, 2602.20204): one fused kernel, fork-join threads, ping-pong DMA buffers.

Laws: T(n) = n / (p r) + o over p threads; double buffering gains at most (D + V) / max(D, V). Context only: vectorised
GELU in fp16 63.9 times a scalar one, RMS norm 46.5, 2.28 to 3.95 times on four threads from 32K to 512K elements.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import Device, load_device
from hexenv.kernels import Chain, Elementwise, StageCost
from hexenv.kernels.cost import body_hvx_us
from hexenv.kernels.elementwise import KINDS
from hexenv.kernels.variants import alone_on

V79 = load_device("v79")
THREADS = 4
kinds = st.sampled_from(sorted(KINDS))


def stage(kind: str, elements: int, device: Device = V79) -> StageCost:
    return next(iter(Elementwise(kind, elements).costs(device)))


def speed_up(cost: StageCost, threads: int) -> float:
    return body_hvx_us(cost, 1, V79.fork_join_us) / body_hvx_us(cost, threads, V79.fork_join_us)


class TestThreads:
    @given(kinds, st.integers(10, 22).map(lambda power: 1 << power), st.integers(2, 6))
    def test_fork_join_law(self, kind: str, elements: int, threads: int) -> None:
        """T = n / (p r) + o, or one thread where that is faster."""
        cost = stage(kind, elements)
        expected = min(cost.hvx_before_us, cost.hvx_before_us / threads + V79.fork_join_us)
        assert body_hvx_us(cost, threads, V79.fork_join_us) == pytest.approx(expected)

    def test_the_published_small_size_implies_the_large_one(self) -> None:
        """2.28 at 32K elements means o = 0.19 n / r there; sixteen times the elements then give about 3.8."""
        size = next(n for n in range(256, 1 << 20, 256) if speed_up(stage("gelu", n), THREADS) >= 2.28)
        overhead = V79.fork_join_us / stage("gelu", size).hvx_before_us
        assert overhead == pytest.approx(0.19, abs=0.01)
        assert speed_up(stage("gelu", 16 * size), THREADS) == pytest.approx(3.8, abs=0.05)

    @given(kinds, st.integers(10, 22))
    def test_more_elements_scale_better_up_to_the_threads(self, kind: str, power: int) -> None:
        gains = [speed_up(stage(kind, 1 << p), THREADS) for p in (power, power + 1, power + 2)]
        assert gains == sorted(gains)
        assert gains[-1] < THREADS

    @pytest.mark.xfail(
        strict=True,
        reason="a fork-join of 1 us gives 3.5 at 32K elements of GELU: 2.28 needs 5 us with our fp32 arithmetic or "
        "2.5 us with fp16, inside and above the constant's range (0.3 to 4 us)",
    )
    def test_the_published_size(self) -> None:
        """2.28 at 32K elements; the operator of that figure is not stated."""
        assert speed_up(stage("gelu", 32 * 1024), THREADS) == pytest.approx(2.28, rel=0.1)


class TestDoubleBuffering:
    @staticmethod
    def gain(ddr_us: float, hvx_us: float) -> float:
        """Time without overlap (one tile) over the time with many tiles, both on one context."""
        device = replace(V79, contexts=1)
        many = replace(
            stage("neg", 1 << 20, device),
            ddr_in_bytes=ddr_us * V79.ddr_bytes_per_us,
            ddr_out_bytes=0.0,
            hvx_before_us=hvx_us,
            tiles=1000,
            fixed_us=0.0,
        )
        return alone_on(device, replace(many, tiles=1)) / alone_on(device, many)

    @given(st.floats(1.0, 1e4), st.floats(1.0, 1e4))
    def test_bound(self, ddr_us: float, hvx_us: float) -> None:
        bound = (ddr_us + hvx_us) / max(ddr_us, hvx_us)
        assert 1.0 <= self.gain(ddr_us, hvx_us) <= bound * (1 + 1e-9)
        assert self.gain(ddr_us, hvx_us) == pytest.approx(bound, rel=0.01)

    @pytest.mark.parametrize(("ratio", "low", "high"), [(1.0, 1.95, 2.0), (4.0, 1.2, 1.25), (50.0, 1.0, 1.03)])
    def test_it_helps_within_a_factor_of_a_few_only(self, ratio: float, low: float, high: float) -> None:
        for ddr_us, hvx_us in ((100.0, 100.0 * ratio), (100.0 * ratio, 100.0)):
            assert low <= self.gain(ddr_us, hvx_us) <= high


class TestOneKernel:
    @pytest.mark.parametrize("length", [2, 4, 8])
    def test_fusing_a_line_of_operators_launches_once_and_moves_the_ends(self, length: int) -> None:
        single = stage("gelu", 1 << 16)
        fused = next(iter(Chain((Elementwise("gelu", 1 << 16),) * length).costs(V79)))
        assert fused.fixed_us == single.fixed_us
        assert fused.ddr_in_bytes + fused.ddr_out_bytes == single.ddr_in_bytes + single.ddr_out_bytes
        assert alone_on(V79, fused) < length * alone_on(V79, single)
