"""FlashAttention-V (arXiv 2608.18656): attention without a matrix unit, several heads packed into one long register.

The law: a head of 64 fp16 fills a 128-byte vector; one of 32 fills half, all of it once two heads are packed. Context
only (a RISC-V CPU): 22 to 42x over scalar code in prefill.
"""

from __future__ import annotations

from dataclasses import astuple, replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import load_device
from hexenv.kernels.attention import FlashAttention
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.online_softmax import pieces

V79 = load_device("v79")


def hvx(shape: FlashAttention) -> StageCost:
    return next(cost for cost in shape.costs(V79) if cost.version is Version.HVX)


def lane_fill(head_dim: int, packed: bool) -> float:
    """Useful multiply-adds over those the vectors have room for."""
    shape = FlashAttention(16, 1024, 16, 8, head_dim, pack_heads=packed)
    scores = 16 * 16 * 1024
    softmax_us = sum(astuple(pieces(V79, scores, 16 * 16 * 16)))
    return scores * 4 * head_dim / V79.hvx_fp16_flop_per_us / (hvx(shape).hvx_before_us - softmax_us)


@pytest.mark.parametrize(
    ("head_dim", "alone", "packed"),
    [(32, 0.5, 1.0), (64, 1.0, 1.0), (96, 0.75, 1.0), (128, 1.0, 1.0)],
)
def test_heads_fill_the_lanes(head_dim: int, alone: float, packed: float) -> None:
    assert lane_fill(head_dim, packed=False) == pytest.approx(alone)
    assert lane_fill(head_dim, packed=True) == pytest.approx(packed)


@given(st.integers(1, 64), st.sampled_from([16, 32, 48, 64, 80, 128]), st.integers(1, 2048))
def test_packing_never_costs(heads: int, head_dim: int, kv: int) -> None:
    alone, packed = (hvx(FlashAttention(1, kv, heads, heads, head_dim, pack_heads=pack)) for pack in (False, True))
    assert packed.hvx_before_us <= alone.hvx_before_us
    assert replace(packed, hvx_before_us=0.0, phi=0.0) == replace(alone, hvx_before_us=0.0, phi=0.0)


def test_the_matrix_version_has_no_lanes_to_fill() -> None:
    """HMX pads a head to whole tiles of 32, packed or not."""
    shape = FlashAttention(512, 1024, 16, 8, 32)
    alone, packed = (
        [c for c in replace(shape, pack_heads=pack).costs(V79) if c.version is Version.HMX] for pack in (False, True)
    )
    assert alone == packed
