"""What must hold for every operator, version and tile class."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import Device, load_device
from hexenv.errors import ConfigError
from hexenv.kernels import (
    Conv2d,
    Copy,
    DepthwiseConv2d,
    Elementwise,
    FlashAttention,
    MatMul,
    Operator,
    Reduce,
    Resize,
    RmsNorm,
    Rope,
    Softmax,
    StageCost,
    Stencil,
    Version,
    alone_us,
)
from hexenv.kernels import elementwise as elementwise_module
from hexenv.kernels import stencil as stencil_module
from hexenv.kernels.variants import alone_on, ranges

V79 = load_device("v79")
DEVICES = (V79, V79.with_pipeline("serial"), load_device("v75"))

small = st.integers(1, 64)
side = st.integers(1, 256)
channels = st.integers(1, 512)
kernel = st.integers(1, 7)
stride = st.integers(1, 2)
operators: st.SearchStrategy[Operator] = st.one_of(
    st.builds(
        MatMul,
        weight=st.sampled_from(["q4_0", "q8_0", "f16"]),
        m=st.integers(1, 8192),
        n=st.integers(1, 600),
        k=st.integers(1, 8192),
        batch=st.integers(1, 4),
    ),
    st.builds(
        lambda queries, kv, groups, heads, dim: FlashAttention(queries, kv, groups * heads, heads, dim),
        st.integers(1, 300),
        st.integers(1, 2048),
        st.integers(1, 4),
        st.integers(1, 8),
        st.sampled_from([64, 128, 256]),
    ),
    st.builds(Elementwise, kind=st.sampled_from(sorted(elementwise_module.KINDS)), elements=st.integers(1, 1 << 22)),
    st.builds(Rope, tokens=side, heads=small, head_dim=st.sampled_from([64, 128])),
    st.builds(Copy, elements=st.integers(1, 1 << 22), element_bytes=st.sampled_from([1, 2, 4])),
    st.builds(RmsNorm, rows=st.integers(1, 4096), columns=st.integers(1, 4096)),
    st.builds(Softmax, rows=st.integers(1, 4096), columns=st.integers(1, 4096)),
    st.builds(Reduce, rows=st.integers(1, 4096), columns=st.integers(1, 4096)),
    st.builds(
        Stencil,
        kind=st.sampled_from(sorted(stencil_module.KINDS)),
        height=st.integers(1, 1200),
        width=st.integers(1, 2000),
    ),
    st.builds(Conv2d, side, side, channels, channels, kernel, kernel, stride, stride),
    st.builds(DepthwiseConv2d, side, side, channels, kernel, kernel, stride, stride),
    st.builds(Resize, side, side, st.integers(1, 64)),
)
devices = st.sampled_from(DEVICES)


def of(version: Version, operator: Operator, device: Device) -> list[StageCost]:
    return [cost for cost in operator.costs(device) if cost.version is version]


@given(operators, devices)
def test_costs_are_finite_and_fit_their_budget(operator: Operator, device: Device) -> None:
    for cost in operator.costs(device):
        amounts = dataclasses.astuple(cost)
        assert all(math.isfinite(amount) and amount >= 0 for amount in amounts)
        assert cost.tiles >= 1
        assert 0 < cost.vtcm_bytes <= device.vtcm_bytes * device.tile_fractions[cost.tile_class]
        assert 0.0 <= cost.phi <= 1.0
        assert alone_on(device, cost) > 0.0
        assert (cost.hmx_us > 0.0) == (cost.version is not Version.HVX)


@given(operators, devices)
def test_ddr_traffic_is_no_less_than_the_result(operator: Operator, device: Device) -> None:
    results = {cost.ddr_out_bytes for cost in operator.costs(device)}
    assert min(results, default=1.0) > 0.0
    assert max(results, default=1.0) == pytest.approx(min(results, default=1.0))


@given(operators, devices, st.integers(1, 9))
def test_more_contexts_are_never_slower(operator: Operator, device: Device, contexts: int) -> None:
    for cost in operator.costs(device):
        fewer, more = (
            alone_us(cost, count, device.fork_join_us, device.ddr_bytes_per_us) for count in (contexts, contexts + 1)
        )
        assert more <= fewer * (1 + 1e-12)


@given(operators, st.sampled_from([V79, V79.with_pipeline("serial")]))
def test_more_ddr_bandwidth_is_never_slower(operator: Operator, device: Device) -> None:
    slow, fast = (device.with_values(ddr_bytes_per_us=rate) for rate in (55000, 64400))
    for version in (Version.HVX, Version.HMX):
        for one, other in zip(of(version, operator, slow), of(version, operator, fast), strict=True):
            assert alone_on(fast, other) <= alone_on(slow, one) * (1 + 1e-12)


@given(
    st.sampled_from(["q4_0", "q8_0", "f16"]),
    st.integers(1, 4096),
    st.integers(1, 32),
    st.integers(1, 4096),
)
def test_hmx_time_is_flat_up_to_32_tokens(weight: str, m: int, n: int, k: int) -> None:
    single = of(Version.HMX, MatMul(weight, m, 1, k), V79)  # type: ignore[arg-type]
    several = of(Version.HMX, MatMul(weight, m, n, k), V79)  # type: ignore[arg-type]
    assert [cost.hmx_us for cost in single] == [cost.hmx_us for cost in several]


@given(st.integers(1, 4096), st.integers(1, 512), st.integers(1, 4096))
def test_f16_pads_every_side_to_whole_tiles(m: int, n: int, k: int) -> None:
    def up(size: int) -> int:
        return -(-size // 32) * 32

    exact, whole = (of(Version.HMX, MatMul("f16", *shape), V79) for shape in ((m, n, k), (up(m), up(n), up(k))))
    products = up(m) * up(n) * up(k) / 32**3
    for cost in exact + whole:
        assert cost.hmx_us == pytest.approx(products * V79.hmx_tile_us)


@pytest.mark.parametrize("kind", stencil_module.KINDS)
def test_a_1080p_stencil_never_beats_ddr(kind: str) -> None:
    """4.15 MB in and out at 60 GB/s are 69 us."""
    device = V79.with_values(ddr_bytes_per_us=60000)
    for cost in Stencil(kind, 1080, 1920).costs(device):
        assert alone_on(device, cost) >= 69.0


def test_stencils_balance_as_published() -> None:
    """A 3x3 is balanced between DDR and HVX, a 7x7 bound by HVX (operation counts of uwplse/rake)."""
    for kind, low, high in (("gaussian3x3", 0.6, 1.1), ("gaussian7x7", 1.5, 6.0)):
        cost = of(Version.HVX, Stencil(kind, 1080, 1920), V79)[0]
        ddr_us = (cost.ddr_in_bytes + cost.ddr_out_bytes) / V79.ddr_bytes_per_us
        assert low < cost.hvx_before_us / V79.contexts / ddr_us < high


@pytest.mark.parametrize("kv_rows", [512, 2048])
def test_hybrid_attention_moves_work_from_hvx_to_hmx(kv_rows: int) -> None:
    operator = FlashAttention(512, kv_rows, 16, 8, 128)
    for matrix, hybrid in zip(of(Version.HMX, operator, V79), of(Version.HYBRID, operator, V79), strict=True):
        assert hybrid.hvx_before_us < matrix.hvx_before_us
        assert hybrid.hmx_us > matrix.hmx_us


def test_a_hybrid_moves_less_when_hmx_is_slow() -> None:
    """The best part balances the engines: a five times slower HMX takes less of the softmax."""
    operator = FlashAttention(512, 2048, 16, 8, 128)
    slow = dataclasses.replace(V79, hmx_tile_us=5 * V79.hmx_tile_us)

    def moved(device: Device) -> float:
        matrix, hybrid = (of(version, operator, device)[-1] for version in (Version.HMX, Version.HYBRID))
        return matrix.hvx_before_us - hybrid.hvx_before_us

    assert 0.0 < moved(slow) < moved(V79)


@pytest.mark.parametrize(
    "operator", [Stencil("conv3x3", 1080, 1920), MatMul("q8_0", 2048, 4, 2048)], ids=lambda op: op.name
)
def test_a_split_hybrid_gives_hmx_whole_sixteenths_and_beats_both_engines(operator: Operator) -> None:
    pure = {(c.version, c.tile_class): c for c in operator.costs(V79)}
    hybrids = of(Version.HYBRID, operator, V79)
    assert hybrids
    for hybrid in hybrids:
        step = 16 * hybrid.hmx_us / pure[Version.HMX, hybrid.tile_class].hmx_us
        assert step == pytest.approx(round(step))
        assert 0 < round(step) < 16
        for version in (Version.HVX, Version.HMX):
            assert alone_on(V79, hybrid) <= alone_on(V79, pure[version, hybrid.tile_class])


def test_the_serial_generation_has_one_buffer() -> None:
    def depth(tokens: int, device: Device) -> int:
        return of(Version.HMX, MatMul("q4_0", 2048, tokens, 2048), device)[0].depth

    assert depth(512, V79) == 2
    assert depth(32, V79) == 1
    assert depth(512, V79.with_pipeline("serial")) == 1


@given(st.integers(1, 10000), st.integers(1, 50), st.sampled_from([1, 2, 32, 128]))
def test_ranges_cover_the_total_evenly(total: int, parts: int, step: int) -> None:
    sizes = ranges(total, parts, step)
    assert sum(sizes) == total
    assert len(sizes) == min(parts, -(-total // step))
    assert all(size > 0 for size in sizes)
    assert all(size % step == 0 for size in sizes[:-1])
    assert max(sizes) - min(sizes) < 2 * step


@pytest.mark.parametrize(
    ("build", "words"),
    [
        (lambda: MatMul("iq3_s", 1, 1, 1), "matmul weight = 'iq3_s'; allowed: q4_0, q8_0, f16"),  # type: ignore[arg-type]
        (lambda: Elementwise("cosh", 1), "element-wise kind = 'cosh'; allowed: add"),
        (lambda: Stencil("blur", 1, 1), "stencil kind = 'blur'; allowed: gaussian3x3"),
    ],
)
def test_unknown_kinds_are_refused(build: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        build()  # type: ignore[operator]
