"""Matmul: weight formats, layouts, unfused unpacking, batches and the engine that the backend picks."""

from __future__ import annotations

from dataclasses import replace
from typing import get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import Device, load_device
from hexenv.errors import ConfigError
from hexenv.kernels import MatMul, StageCost, Version, backend_version
from hexenv.kernels.matmul import F16_TILE_BYTES, Weight
from hexenv.kernels.variants import alone_on

V79 = load_device("v79")
WEIGHTS: tuple[Weight, ...] = get_args(Weight)
sides = st.integers(1, 4096)


def of(version: Version, operator: MatMul, device: Device = V79) -> list[StageCost]:
    return [cost for cost in operator.costs(device) if cost.version is version]


@pytest.mark.parametrize(
    ("weight", "tile_bytes"),
    [("q4_0", 576), ("iq4_nl", 576), ("q4_1", 640), ("q8_0", 1088), ("mxfp4", 544), ("f16", 2048)],
)
def test_bytes_of_a_weight_tile(weight: Weight, tile_bytes: int) -> None:
    """llama.cpp ``htp/matmul-ops.h``."""
    cost = of(Version.HMX, MatMul(weight, 64, 32, 96))[0]
    assert cost.ddr_in_bytes == 6 * tile_bytes


@given(st.sampled_from(WEIGHTS), sides, st.integers(1, 64), sides)
def test_every_format_runs_on_both_engines(weight: Weight, m: int, n: int, k: int) -> None:
    versions = {cost.version for cost in MatMul(weight, m, n, k).costs(V79)}
    assert {Version.HVX, Version.HMX} <= versions


def test_formats_unpack_in_the_order_of_their_instructions() -> None:
    """Counted in llama.cpp ``hmx-mm-kernels-tiled.h``: iq4_nl 82, mxfp4 90, q4_0 98, q4_1 108."""
    unpacking = [of(Version.HMX, MatMul(w, 32, 32, 32))[0].hvx_before_us for w in ("iq4_nl", "mxfp4", "q4_0", "q4_1")]  # type: ignore[arg-type]
    assert unpacking == sorted(unpacking)
    assert unpacking[2] == pytest.approx(V79.dequant_q4_0_us)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"weight": "iq2_xxs"}, "matmul weight = 'iq2_xxs'; allowed: q4_0, .*mxfp4"),
        ({"dequant": "gathered"}, "matmul.dequant = 'gathered', allowed: 'coalesced'"),
        ({"fusion": "half"}, "matmul.fusion = 'half', allowed: 'fused', 'unfused'"),
        ({"gemv": "two"}, "matmul.gemv = 'two', allowed: 'all_contexts', 'one_context'"),
    ],
)
def test_what_nobody_offers_is_refused(wrong: dict[str, str], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        replace(MatMul("q4_0", 32, 1, 32), **wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("dequant", ["none", "hmx_layout", "scatter"])
def test_the_layout_changes_unpacking_alone(dequant: str) -> None:
    operator = MatMul("q4_0", 2048, 64, 2048)
    for usual, other in zip(
        of(Version.HMX, operator), of(Version.HMX, replace(operator, dequant=dequant)), strict=True
    ):
        assert (other.hvx_before_us < usual.hvx_before_us) == (dequant == "none")
        assert replace(other, hvx_before_us=0.0, phi=0.0) == replace(usual, hvx_before_us=0.0, phi=0.0)


def test_fp16_weights_have_nothing_to_unpack_or_fuse() -> None:
    operator = MatMul("f16", 2048, 64, 2048)
    for change in ({"dequant": "scatter"}, {"fusion": "unfused"}):
        assert list(replace(operator, **change).costs(V79)) == list(operator.costs(V79))  # type: ignore[arg-type]


@given(st.sampled_from(WEIGHTS[:2] + WEIGHTS[3:]), sides, st.integers(1, 64), sides)
def test_a_pass_of_its_own_writes_fp16_tiles_and_reads_them_back(weight: Weight, m: int, n: int, k: int) -> None:
    operator = MatMul(weight, m, n, k)
    tile_bytes = F16_TILE_BYTES * operator.weight_tiles
    for fused, unfused in zip(
        of(Version.HMX, operator)[-1:], of(Version.HMX, replace(operator, fusion="unfused"))[-1:], strict=True
    ):
        moved = [c.ddr_in_bytes + c.ddr_out_bytes + c.prologue_bytes for c in (fused, unfused)]
        assert moved[1] - moved[0] == pytest.approx(2 * tile_bytes)
        hvx_us = [c.hvx_before_us + c.prologue_hvx_us for c in (fused, unfused)]
        assert hvx_us[0] == pytest.approx(hvx_us[1])


def test_a_pass_of_its_own_unpacks_once_for_all_token_blocks() -> None:
    """What it gains: two token blocks unpack the weights twice when fused."""
    operator = MatMul("q4_0", 2048, 512, 6144)
    fused, unfused = (of(Version.HMX, o)[-1] for o in (operator, replace(operator, fusion="unfused")))
    once_us = operator.weight_tiles * V79.dequant_q4_0_us
    assert fused.hvx_before_us == pytest.approx(2 * once_us)
    assert unfused.prologue_hvx_us == pytest.approx(once_us + fused.prologue_hvx_us)


@pytest.mark.parametrize(("m", "k"), [(2048, 2048), (6144, 2048), (2048, 6144)])
def test_one_context_takes_a_gemv_alone(m: int, k: int) -> None:
    spread, narrow = (of(Version.HVX, MatMul("q4_0", m, 1, k, gemv=g))[0] for g in ("all_contexts", "one_context"))
    assert narrow.hvx_before_floor_us == pytest.approx(narrow.hvx_before_us)
    assert alone_on(V79, narrow) > alone_on(V79, spread)


@given(st.sampled_from(["overlapped", "serial"]), st.integers(1, 128), st.integers(2, 16))
def test_the_products_of_a_batch_follow_one_another(pipeline: str, n: int, batch: int) -> None:
    """Twice the heads take twice the time, but for the fixed part: nothing overlaps between them."""
    device = V79.with_pipeline(pipeline)
    one, many = (of(Version.HMX, MatMul("f16", 512, n, 128, batch=b), device)[-1] for b in (batch, 2 * batch))
    times = [alone_on(device, cost) - cost.fixed_us for cost in (one, many)]
    assert times[1] == pytest.approx(2 * times[0], rel=0.1)
    assert many.ddr_in_bytes == 2 * one.ddr_in_bytes


SCORES = "wennitao/llama.cpp docs/backend/snapdragon/xattn-scoring.md (SM8750), eight heads, head size 128"
MEASURED_SCORES = {
    (512, 16): 80.3,
    (512, 32): 90.5,
    (512, 64): 116.7,
    (512, 128): 172.9,
    (2048, 16): 216.9,
    (2048, 32): 243.0,
    (2048, 64): 307.3,
    (2048, 128): 449.1,
    (512, 256): 191.1,
    (2048, 256): 691.6,
}
STRIDED = "20.05 % too fast: what a strided query row costs beyond its bytes is missing, 0.27 us for eight heads"


@pytest.mark.parametrize(
    ("kv", "n"),
    [
        pytest.param(*shape, marks=pytest.mark.xfail(strict=True, reason=STRIDED) if shape == (512, 128) else ())
        for shape in MEASURED_SCORES
    ],
)
def test_batched_scores_of_the_serial_generation_within_20_percent(kv: int, n: int) -> None:
    """One head after another, its K fetched, then brought into tile order by one thread: :data:`SCORES`."""
    device = V79.with_pipeline("serial")
    cost = of(Version.HMX, MatMul("f16", kv, n, 128, batch=8), device)[-1]
    assert alone_on(device, cost) == pytest.approx(MEASURED_SCORES[kv, n], rel=0.20)


ROWS = "an output of the fp16 HVX kernel costs its own row reduction and a short row fetch: about 0.2 us of a context, "
ROWS += "which the model lacks; 3 to 5 times too fast"


@pytest.mark.parametrize(
    ("what", "kv", "time_us"),
    [
        *(("av", *row) for row in ((512, 103.0), (2048, 394.0), (4096, 734.0))),
        *(
            pytest.param("qk", *row, marks=pytest.mark.xfail(strict=True, reason=ROWS))
            for row in ((512, 242.0), (2048, 1551.0), (4096, 3092.0))
        ),
    ],
)
def test_batched_decode_is_bound_by_hvx_loads(what: str, kv: int, time_us: float) -> None:
    """16 heads of 128, one token, on HVX: wennitao/llama.cpp gemm-latency-qwen3-1.7b.md (SM8750)."""
    m, k = (128, kv) if what == "av" else (kv, 128)
    cost = of(Version.HVX, MatMul("f16", m, 1, k, batch=16))[0]
    assert alone_on(V79, cost) == pytest.approx(time_us, rel=0.15)


@pytest.mark.parametrize(
    ("operator", "version"),
    [
        (MatMul("q4_0", 2048, 4, 2048), Version.HVX),
        (MatMul("q4_0", 2048, 5, 2048), Version.HMX),
        (MatMul("q4_0", 2048, 287, 2048), Version.HMX),
        (MatMul("q4_0", 2040, 64, 2048), Version.HMX),  # repacked tiles pad the outputs
        (MatMul("f16", 2040, 64, 2048), Version.HVX),
        (MatMul("q4_0", 2048, 64, 2040), Version.HVX),
        (MatMul("f16", 512, 16, 128, batch=8), Version.HMX),
        (MatMul("q8_0", 512, 16, 128, batch=8), Version.HVX),
    ],
    ids=lambda value: getattr(value, "name", None),
)
def test_the_engine_that_the_backend_picks(operator: MatMul, version: Version) -> None:
    """``ggml_hexagon_matmul_is_hmx_eligible`` of llama.cpp."""
    assert backend_version(operator) is version
