"""The cost model against published measurements (``tests/data``, each row with its source)."""

from __future__ import annotations

import csv
from pathlib import Path

import pytest

from hexenv.device import Device, load_device
from hexenv.kernels import (
    Copy,
    Elementwise,
    FlashAttention,
    MatMul,
    Operator,
    RmsNorm,
    Rope,
    StageCost,
    Version,
    fastest_us,
    offers,
)
from hexenv.kernels.variants import alone_on

DATA = Path(__file__).parents[1] / "data"
LAYERS = 28
"""Of Qwen3-1.7B."""


def rows(name: str) -> list[dict[str, str]]:
    with (DATA / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def fastest_of(version: Version, operator: Operator, device: Device) -> float:
    return min(alone_on(device, cost) for cost in operator.costs(device) if cost.version is version)


@pytest.mark.parametrize("row", rows("measured_matmul.csv"), ids=lambda r: f"{r['weight']}-{r['m']}x{r['n']}x{r['k']}")
def test_matmul_within_15_percent(row: dict[str, str]) -> None:
    device = load_device(row["arch"]).with_pipeline(row["pipeline"])
    operator = MatMul(row["weight"], int(row["m"]), int(row["n"]), int(row["k"]))  # type: ignore[arg-type]
    version = Version.HMX if operator.n > 4 else Version.HVX  # what the measured backend ran
    assert fastest_of(version, operator, device) == pytest.approx(float(row["time_us"]), rel=0.15)


@pytest.mark.parametrize("row", rows("measured_attention.csv"), ids=lambda r: f"{r['queries']}x{r['kv']}")
def test_attention_on_hmx_within_15_percent(row: dict[str, str]) -> None:
    shape = (int(row[key]) for key in ("queries", "kv", "q_heads", "kv_heads", "head_dim"))
    predicted = fastest_of(Version.HMX, FlashAttention(*shape), load_device(row["arch"]))
    assert predicted == pytest.approx(float(row["time_us"]), rel=0.15)


def test_attention_pays_for_small_query_blocks(v79: Device) -> None:
    """Published tax of blocks of 256 / 128 / 64 queries: 1.10 / 1.51 / 1.89; ours comes from small VTCM budgets."""
    costs = [c for c in FlashAttention(512, 512, 16, 8, 128).costs(v79) if c.version is Version.HMX]
    taxes = [alone_on(v79, cost) / alone_on(v79, costs[-1]) for cost in costs]
    assert taxes == sorted(taxes, reverse=True)
    assert 1.2 < taxes[0] < 1.9


def prefill_layer(n: int) -> list[Operator]:
    """One layer of Qwen3-1.7B but its attention, over ``n`` tokens."""
    return [
        *(MatMul("q4_0", m, n, k) for m, k in [(2048, 2048)] * 2 + [(1024, 2048)] * 2),
        *(MatMul("q4_0", m, n, k) for m, k in [(6144, 2048)] * 2 + [(2048, 6144)]),
        *(RmsNorm(n, 2048), RmsNorm(n, 2048), RmsNorm(16 * n, 128), RmsNorm(8 * n, 128)),
        *(Rope(n, 16, 128), Rope(n, 8, 128), Copy(1024 * n, 3), Copy(1024 * n, 3)),
        *(Elementwise("add", 2048 * n), Elementwise("add", 2048 * n), Elementwise("swiglu", 6144 * n)),
    ]


@pytest.mark.parametrize("row", rows("measured_prefill.csv"), ids=lambda r: r["tokens"])
def test_prefill_of_the_overlapped_generation_within_15_percent(row: dict[str, str], v79: Device) -> None:
    layer_us = sum(fastest_us(operator, v79) for operator in prefill_layer(int(row["tokens"])))
    assert LAYERS * layer_us / 1000 == pytest.approx(float(row["time_ms"]), rel=0.15)


def test_the_serial_generation_is_far_slower_in_prefill(v79: Device) -> None:
    old = sum(fastest_us(operator, v79.with_pipeline("serial")) for operator in prefill_layer(1024))
    assert old > 1.3 * sum(fastest_us(operator, v79) for operator in prefill_layer(1024))


def test_decode_attention_takes_the_published_share(v79: Device) -> None:
    """1.6 ms a token over 28 layers (wennitao/llama.cpp heterogeneous-npu-gpu.md); the KV length is not stated."""
    short, long = (LAYERS * fastest_us(FlashAttention(1, kv, 16, 8, 128), v79) / 1000 for kv in (512, 1024))
    assert short < 1.6 < long


def test_hvx_matmul_of_64_tokens(v79: Device) -> None:
    """4925 to 5053 us for 4096 x 64 x 4096 in Q8_0 (ggml-org/llama.cpp issue 18139, v79, HVX only)."""
    assert fastest_of(Version.HVX, MatMul("q8_0", 4096, 64, 4096), v79) == pytest.approx(4925, rel=0.05)


def test_hmx_reaches_its_measured_peak_on_operands_in_vtcm() -> None:
    """12.03 TFLOPS for 1024^3 on v75 (arXiv 2509.23324 Table 2)."""
    cost = next(c for c in MatMul("f16", 1024, 1024, 1024).costs(load_device("v75")) if c.version is Version.HMX)
    assert 2 * 1024**3 / cost.hmx_us / 1e6 == pytest.approx(12.03, rel=0.01)


def test_gemv_is_bound_by_ddr(v79: Device) -> None:
    cost: StageCost = offers(MatMul("q4_0", 6144, 1, 2048), v79)[0]
    ddr_us = (cost.ddr_in_bytes + cost.ddr_out_bytes) / v79.ddr_bytes_per_us
    assert ddr_us / alone_on(v79, cost) > 0.85
