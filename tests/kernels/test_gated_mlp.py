"""The gated feed-forward layer as one operator."""

from __future__ import annotations

import dataclasses
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexenv.device import Device, load_device
from hexenv.errors import ConfigError
from hexenv.kernels import Elementwise, GatedMlp, MatMul, StageCost, Version, fastest_us
from hexenv.kernels import leaves as leaves_of
from hexenv.kernels.variants import alone_on

V79 = load_device("v79")
DEVICES = (V79, V79.with_pipeline("serial"), load_device("v75"))
layers = st.builds(
    GatedMlp,
    weight=st.sampled_from(["q4_0", "q8_0", "f16"]),
    glu=st.sampled_from(["swiglu", "geglu"]),
    tokens=st.integers(1, 600),
    hidden=st.integers(1, 4096),
    ffn=st.integers(1, 14336),
)


def best(version: Version, operator: MatMul | Elementwise | GatedMlp, device: Device = V79) -> StageCost:
    costs = (cost for cost in operator.costs(device) if cost.version is version)
    return min(costs, key=lambda cost: alone_on(device, cost))


def unfused(layer: GatedMlp) -> tuple[MatMul, MatMul, Elementwise, MatMul]:
    inner = MatMul(layer.weight, layer.ffn, layer.tokens, layer.hidden)
    glu = Elementwise(layer.glu, layer.tokens * layer.ffn)
    return inner, inner, glu, MatMul(layer.weight, layer.hidden, layer.tokens, layer.ffn)


@settings(max_examples=50)
@given(layers, st.sampled_from(DEVICES))
def test_costs_are_sound_and_fit_their_budget(layer: GatedMlp, device: Device) -> None:
    for cost in layer.costs(device):
        assert all(math.isfinite(amount) and amount >= 0 for amount in dataclasses.astuple(cost))
        assert 0 < cost.vtcm_bytes <= device.vtcm_bytes * device.tile_fractions[cost.tile_class]
        assert cost.phi <= 1.0
        assert cost.tiles >= 1


@settings(max_examples=50)
@given(layers)
def test_the_product_is_in_vtcm(layer: GatedMlp) -> None:
    """All of it on HVX (fp32), a block of at least 32 tokens on HMX (fp16)."""
    for cost in layer.costs(V79):
        hvx = cost.version is Version.HVX
        assert cost.vtcm_bytes > (4 * layer.tokens * layer.ffn if hvx else 2 * 32 * layer.ffn)


@pytest.mark.parametrize("tokens", [1, 4, 32, 128, 256])
def test_hmx_work_and_results_are_those_of_the_parts(tokens: int) -> None:
    layer = GatedMlp("q4_0", "swiglu", tokens, 2048, 6144)
    gate, up, _, down = unfused(layer)
    cost = best(Version.HMX, layer)
    assert cost.hmx_us == pytest.approx(sum(best(Version.HMX, part).hmx_us for part in (gate, up, down)))
    assert cost.ddr_out_bytes == best(Version.HMX, down).ddr_out_bytes


def test_weights_stream_once_while_the_product_fits() -> None:
    def streams(tokens: int) -> float:
        layer = GatedMlp("q4_0", "swiglu", tokens, 2048, 6144)
        return best(Version.HMX, layer).ddr_in_bytes / (3 * 2048 * 6144 / 1024 * 576)

    assert [streams(tokens) for tokens in (1, 32, 128, 256)] == [1.0] * 4
    assert streams(512) == 2.0  # 6.3 MB of product beside 2 MB of inputs


def test_a_small_vtcm_takes_fewer_tokens_at_a_time() -> None:
    layer = GatedMlp("q4_0", "swiglu", 256, 2048, 6144)
    by_class = [cost for cost in layer.costs(V79) if cost.version is Version.HMX]
    reads = [cost.ddr_in_bytes for cost in by_class]
    assert reads == sorted(reads, reverse=True)
    assert reads[0] > reads[-1]


@pytest.mark.parametrize(("tokens", "parts"), [(1, 3), (512, 6)])
def test_leaves_over_ffn_add_up(tokens: int, parts: int) -> None:
    """They stream each weight once; what the split costs is the sum, read and written again, and the inputs."""
    layer = GatedMlp("q4_0", "swiglu", tokens, 2048, 6144)
    leaves = layer.split(parts)
    assert [leaf.adds for leaf in leaves] == [False] + [True] * (parts - 1)
    assert sum(leaf.ffn for leaf in leaves) == 6144
    costs = [best(Version.HMX, leaf) for leaf in leaves]
    weight_bytes = 3 * 2048 * 6144 / 1024 * 576
    assert sum(cost.ddr_in_bytes for cost in costs) == weight_bytes + (parts - 1) * 4 * 2048 * tokens
    assert sum(cost.ddr_out_bytes for cost in costs) == parts * 4 * 2048 * tokens
    assert sum(cost.hmx_us for cost in costs) == pytest.approx(best(Version.HMX, layer).hmx_us)


def test_leaves_over_tokens_where_the_sums_outweigh_the_weights() -> None:
    leaves = GatedMlp("q4_0", "swiglu", 4096, 2048, 512).split(3)
    assert [leaf.tokens for leaf in leaves] == [1376, 1376, 1344]
    assert not any(leaf.adds for leaf in leaves)


@pytest.mark.parametrize("tokens", [32, 128, 512])
def test_leaves_are_short_and_beat_those_of_the_parts(tokens: int) -> None:
    layer = GatedMlp("q4_0", "swiglu", tokens, 2048, 6144)
    fused = [fastest_us(leaf, V79) for leaf in leaves_of(layer, V79)]
    apart = [fastest_us(leaf, V79) for part in unfused(layer) for leaf in leaves_of(part, V79)]
    assert max(fused) <= 500.0
    assert sum(fused) < sum(apart)


def test_the_layout_of_weights_counts_here_too() -> None:
    slow, usual = (
        best(Version.HMX, GatedMlp("q4_0", "swiglu", 64, 2048, 6144, dequant=d)) for d in ("scatter", "coalesced")
    )
    assert slow.hvx_before_us / usual.hvx_before_us == pytest.approx(V79.dequant_scatter_ratio, rel=0.01)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"glu": "relu"}, "gated mlp glu = 'relu'; allowed: swiglu, geglu"),
        ({"weight": "q3"}, "gated mlp weight = 'q3'"),
    ],
)
def test_unknown_kinds_are_refused(wrong: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        dataclasses.replace(GatedMlp("q4_0", "swiglu", 1, 64, 128), **wrong)  # type: ignore[arg-type]
