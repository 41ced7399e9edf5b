"""FlashAttention-4 (arXiv 2603.05451): rescale only when the maximum grows, and exponentials on two units.

The laws: the cost of rescaling is linear in the part p of the blocks that rescale, on both engines; with p = 0 an
output tile takes Bc / 32 products a block instead of 1 + Bc / 32; two units of rates a and b give a + b at best, when
the second takes b / (a + b). Context only (B200): 1613 TFLOPS, 71 % of peak.
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import load_device
from hexenv.kernels.attention import FlashAttention
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.exponential import exponentials

V79 = load_device("v79")
HEADS, DEPTH_TILES = 8, 128 // 32


def hmx(shape: FlashAttention) -> StageCost:
    return [cost for cost in shape.costs(V79) if cost.version is Version.HMX][-1]


def shape(kv: int) -> FlashAttention:
    return FlashAttention(512, kv, 16, HEADS, 128, query_block=512)


@given(st.sampled_from([512, 1024, 2048]), st.floats(0.0, 1.0))
def test_rescaling_is_linear_in_the_part_that_rescales(kv: int, part: float) -> None:
    none, some, every = (hmx(replace(shape(kv), rescale_part=p)) for p in (0.0, part, 1.0))
    for amount in ("hvx_before_us", "hmx_us"):
        low, middle, high = (getattr(cost, amount) for cost in (none, some, every))
        assert middle == pytest.approx(low + part * (high - low))
        assert high > low


@pytest.mark.parametrize("kv", [512, 1024, 2048])
@pytest.mark.parametrize(("part", "diagonals"), [(1.0, 1), (0.0, 0)])
def test_products_of_an_output_update(kv: int, part: float, diagonals: int) -> None:
    cost = hmx(replace(shape(kv), rescale_part=part))
    kv_blocks = cost.tiles // HEADS
    output_tiles = HEADS * (512 * 2 // 32) * DEPTH_TILES
    scores_and_normalising = output_tiles * (kv / 32 + 1)
    updates = cost.hmx_us / V79.hmx_tile_us - scores_and_normalising
    assert updates / (output_tiles * kv_blocks) == pytest.approx(diagonals + kv / kv_blocks / 32)


@given(st.floats(1.0, 1e4), st.floats(0.05, 20.0))
def test_two_units_add_their_rates_at_the_best_share(polynomial_us: float, ratio: float) -> None:
    """``ratio`` is the gather's time over the polynomial's, both for all the work; shares around the best one lose."""
    elapsed_us = polynomial_us / V79.contexts
    count = ratio * elapsed_us / V79.gather_us * 64
    both = exponentials("split", polynomial_us, count, V79)
    a, b = count / (ratio * elapsed_us), count / elapsed_us
    best_us = max(both.hvx_us / V79.contexts, both.gather_us)
    assert count / best_us == pytest.approx(a + b)
    assert both.hvx_us / polynomial_us == pytest.approx(b / (a + b))
    for share in (0.9, 1.1):
        polynomials = min(1.0, share * b / (a + b))
        assert max(polynomials * elapsed_us, (1.0 - polynomials) * ratio * elapsed_us) > best_us


def test_the_split_beats_either_unit_where_exponentials_bind() -> None:
    times = {kind: exponentials(kind, 1000.0, 1e6, V79) for kind in ("f16", "table", "split")}
    elapsed = {kind: max(exp.hvx_us / V79.contexts, exp.gather_us) for kind, exp in times.items()}
    assert elapsed["split"] < min(elapsed["f16"], elapsed["table"])
