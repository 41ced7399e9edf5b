"""Verification windows: what acceptance makes of a window, and the graph of a step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.kernels import ExpertMatMul, MatMul
from hexenv.workload.language import decode_step
from hexenv.workload.models import language_model
from hexenv.workload.verification import kept_tokens, verified_tokens, verify_step

OLMOE = language_model("OLMoE-1B-7B")


@given(st.integers(1, 64), st.floats(0.0, 0.99))
def test_kept_tokens_are_a_geometric_sum(tokens: int, acceptance: float) -> None:
    kept = kept_tokens(tokens, acceptance)
    assert kept == pytest.approx((1 - acceptance**tokens) / (1 - acceptance))
    assert 1.0 <= kept <= tokens


def test_pruning_leaves_out_unlikely_drafts() -> None:
    """Chances 0.7, 0.49, 0.34, 0.24 ... of the drafts of a window of 8."""
    assert verified_tokens(8, 0.7) == 8
    assert verified_tokens(8, 0.7, prune=0.3) == 4
    assert verified_tokens(8, 0.7, prune=1.0) == 1


def test_a_window_of_one_is_a_decode_step() -> None:
    assert verify_step(OLMOE, 1, 500, 0.7).nodes == decode_step(OLMOE, 500).nodes


def test_all_tokens_of_a_window_get_logits_and_share_experts() -> None:
    graph = verify_step(OLMOE, 4, 500, 0.7)
    assert graph.name == "OLMoE-1B-7B verify 4@500, keeps 2.5"
    head = graph.nodes[-1].operator
    assert isinstance(head, MatMul)
    assert (head.m, head.n) == (OLMOE.vocab, 4)
    visited = {len(node.operator.rows) for node in graph.nodes if isinstance(node.operator, ExpertMatMul)}
    assert visited == {26}
