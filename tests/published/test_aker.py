"""Aker (IEEE TC 2025): the time of a fused pair is two straight lines in the load ratio, with one knee.

Rule as read from the released code: below the matched ratio the partner hides in the co-run part (small slope), above
it the rest of the partner runs alone (slope 1). Published on NVIDIA GPUs, so only the shape is a law for this machine;
the level at the knee (1.03 to 1.05 of one member for complementary pairs) is context.
"""

from __future__ import annotations

import numpy as np
import pytest

from hexenv.device import load_device
from hexenv.kernels import Copy, MatMul, Operator, Stencil
from tests.published.pairs import alone_us, fused_us

GEMMS = (MatMul("q4_0", 2048, 512, 2048),) * 3
PARTNERS = {"memory": Copy(250_000, 2, "concat"), "vector": Stencil("sobel3x3", 540, 960)}
DEVICE = load_device("v79")


def knee_fit(load: np.ndarray, time: np.ndarray) -> tuple[float, float, float, float]:
    """``(knee, slope below, slope above, largest residual)`` of the best continuous two-piece line."""
    best = (0.0, 0.0, 0.0, np.inf)
    for knee in np.linspace(load[2], load[-3], 200):
        basis = np.stack([np.ones_like(load), load, np.maximum(load - knee, 0.0)], axis=1)
        coefficients, *_ = np.linalg.lstsq(basis, time, rcond=None)
        residual = float(np.abs(basis @ coefficients - time).max())
        if residual < best[3]:
            best = (float(knee), float(coefficients[1]), float(coefficients[1] + coefficients[2]), residual)
    return best


@pytest.mark.parametrize("partner", PARTNERS)
def test_pair_time_is_two_piece_linear_with_one_knee(partner: str) -> None:
    main = alone_us(DEVICE, GEMMS)
    each = alone_us(DEVICE, (PARTNERS[partner],) * 10) / 10
    counts = np.arange(1, int(2.2 * main / each), max(1, int(0.08 * main / each)))
    load = counts * each / main
    time = np.array([fused_us(DEVICE, GEMMS, (PARTNERS[partner],) * int(n)) for n in counts]) / main
    knee, below, above, residual = knee_fit(load, time)
    assert residual < 0.03
    assert 0.3 < knee < 1.3
    assert below < 0.5
    assert above == pytest.approx(1.0, abs=0.06)


@pytest.mark.parametrize(
    "operator", [Copy(2_000_000, 2, "concat"), Stencil("gaussian7x7", 1080, 1920)], ids=["memory", "vector"]
)
def test_pairs_that_saturate_one_engine_gain_nothing(operator: Operator) -> None:
    """Published: same-type pairs cost about 2 of one member (at least 1.9)."""
    one = alone_us(DEVICE, (operator,))
    assert fused_us(DEVICE, (operator,), (operator,)) / one >= 1.9
