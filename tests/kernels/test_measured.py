"""Laws of the published measurements that no single row shows; the rows themselves are in ``tests/validate``."""

from __future__ import annotations

from hexenv.device import Device
from hexenv.kernels import FlashAttention, MatMul, StageCost, Version, fastest_us, offers
from hexenv.kernels.variants import alone_on

LAYERS = 28
"""Of Qwen3-1.7B."""


def test_attention_pays_for_small_query_blocks(v79: Device) -> None:
    """Published tax of blocks of 256 / 128 / 64 queries: 1.10 / 1.51 / 1.89; ours comes from small VTCM budgets."""
    costs = [c for c in FlashAttention(512, 512, 16, 8, 128).costs(v79) if c.version is Version.HMX]
    taxes = [alone_on(v79, cost) / alone_on(v79, costs[-1]) for cost in costs]
    assert taxes == sorted(taxes, reverse=True)
    assert 1.2 < taxes[0] < 1.9


def test_the_serial_generation_is_far_slower_in_prefill(v79: Device) -> None:
    for m, k in ((2048, 2048), (6144, 2048), (2048, 6144)):
        operator = MatMul("q4_0", m, 1024, k)
        assert fastest_us(operator, v79.with_pipeline("serial")) > 1.3 * fastest_us(operator, v79)


def test_decode_attention_takes_the_published_share(v79: Device) -> None:
    """1.6 ms a token over 28 layers (wennitao/llama.cpp heterogeneous-npu-gpu.md); the KV length is not stated."""
    short, long = (LAYERS * fastest_us(FlashAttention(1, kv, 16, 8, 128), v79) / 1000 for kv in (512, 1024))
    assert short < 1.6 < long


def test_gemv_is_bound_by_ddr(v79: Device) -> None:
    cost: StageCost = offers(MatMul("q4_0", 6144, 1, 2048), v79)[0]
    ddr_us = (cost.ddr_in_bytes + cost.ddr_out_bytes) / v79.ddr_bytes_per_us
    assert ddr_us / alone_on(v79, cost) > 0.85
