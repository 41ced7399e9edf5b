"""HFuse (CGO 22): a fixed split of the threads between two kernels, searched offline.

The law: for known sizes the best static split is the one that lets both kernels end nearest to one another, and it is
no longer the best when the load ratio drifts. The published gains (2.5 to 60.8 % over two streams) are from GPUs.
"""

from __future__ import annotations

import pytest

from hexenv.device import load_device
from hexenv.kernels import Elementwise, MatMul, Operator
from tests.published.pairs import completion_us, tables_of

DEVICE = load_device("v79")
VECTOR = (Elementwise("erf", 2_000_000, 2),)
"""HVX has no second engine for it."""
SHARES = range(3)


def ends(partner: tuple[Operator, ...]) -> list[list[float]]:
    """Completion of both kernels, us, by the share of contexts that the partner gets."""
    return [completion_us(tables_of(DEVICE, VECTOR, partner), share) for share in SHARES]


def best(partner: tuple[Operator, ...]) -> int:
    return min(SHARES, key=lambda share: max(ends(partner)[share]))


def test_the_best_split_balances_the_two_kernels() -> None:
    """Two equal kernels: half of the contexts each; then both end at once, and no split ends sooner."""
    equal = ends(VECTOR)
    gaps = [abs(a - b) for a, b in equal]
    assert min(SHARES, key=lambda share: gaps[share]) == 1
    assert max(equal[1]) == min(max(pair) for pair in equal)


def test_a_split_tuned_for_one_ratio_loses_when_the_ratio_drifts() -> None:
    tuned = best(VECTOR * 3)
    drifted = ends((MatMul("q4_0", 2048, 128, 2048),))
    assert max(drifted[tuned]) > 1.02 * min(max(pair) for pair in drifted)


@pytest.mark.parametrize("share", SHARES)
def test_no_split_of_vector_work_creates_contexts(share: int) -> None:
    """Two kernels bound by HVX take at least the sum of their work on all contexts."""
    alone = completion_us(tables_of(DEVICE, VECTOR))[0]
    assert max(ends(VECTOR)[share]) > 1.9 * alone
