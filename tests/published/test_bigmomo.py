"""BigMoMo (arXiv 2609.14643): experts of a verification window grouped, computed in ready order, two buffers.

Published on a v81 phone, so context: exposed stall 237.86 (on demand), 142.41 (best baseline), 13.62 ms a token;
pruning 29 % of the requests saves 23 % of the time a token. The laws behind them are what is checked.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hexenv.device import load_device
from hexenv.kernels import ExpertMatMul
from hexenv.kernels.variants import alone_on
from hexenv.workload.experts import distinct_experts, routed_rows
from hexenv.workload.graph import Graph, Node
from hexenv.workload.models import language_model
from hexenv.workload.verification import kept_tokens, verified_tokens, verify_step
from tests.published.stages import Given, run

V79 = load_device("v79")
QWEN = language_model("Qwen3-30B-A3B")
LAYER = ExpertMatMul("q4_0", 768, 2048, routed_rows(4, 128, 8))


def alone_us(operator: ExpertMatMul) -> float:
    return min(alone_on(V79, cost) for cost in operator.costs(V79))


def stalls_us(operator: ExpertMatMul) -> tuple[float, float, float, float]:
    """``(load, compute, stall in routed order, stall in ready order)``: what paging adds to the time from DDR."""
    paged = replace(operator, paging="storage")
    compute = alone_us(replace(operator, paging="resident"))
    routed, ready = (alone_us(replace(paged, order=order)) - compute for order in ("routed", "ready"))
    return paged.loaded_bytes / V79.storage_bytes_per_us, compute, routed, ready


def pipeline(load_us: float, compute_us: float, experts: int, buffers: int) -> float:
    """Time of loads and computes of experts through alternating buffers, on the engine, us."""
    nodes: list[Node] = []
    for expert in range(experts):
        buffer = f"buffer {expert % buffers}"
        nodes.append(Node(f"{expert}.load", Given("load", storage=load_us), (), (buffer, "storage queue")))
        nodes.append(Node(f"{expert}.compute", Given("compute", hmx=compute_us), (buffer, "rows"), ("rows",)))
    return run(V79, Graph("experts", tuple(nodes))).us


@pytest.mark.parametrize(("window", "experts"), [(1, 8.0), (4, 29.1), (8, 51.6)])
def test_distinct_experts_of_a_window(window: int, experts: float) -> None:
    assert distinct_experts(window, 128, 8) == pytest.approx(experts, abs=0.05)
    assert len(routed_rows(window, 128, 8)) == round(experts)


def test_bytes_a_token_fall_as_distinct_experts_do() -> None:
    """Weights from storage for each token of a window of 1, 4, 8: 8, 7.3, 6.5 experts a layer."""

    def bytes_a_token(window: int) -> float:
        graph = verify_step(QWEN, window, 512, acceptance=0.7)
        experts = [replace(n.operator, paging="storage") for n in graph.nodes if isinstance(n.operator, ExpertMatMul)]
        return sum(operator.loaded_bytes for operator in experts) / window

    one = bytes_a_token(1)
    for window in (4, 8):
        assert bytes_a_token(window) / one == pytest.approx(distinct_experts(window, 128, 8) / (8 * window), rel=0.01)


def test_a_window_loads_less_than_its_tokens_one_by_one() -> None:
    window = replace(LAYER, paging="storage")
    token = replace(window, grouping="token")
    assert window.loaded_bytes / token.loaded_bytes == pytest.approx(29 / 32)
    assert alone_us(window) < alone_us(token)


@pytest.mark.parametrize(("load", "compute"), [(100.0, 100.0), (60.0, 100.0), (100.0, 30.0)])
def test_two_buffers_hide_the_shorter_of_load_and_compute(load: float, compute: float) -> None:
    """On the engine: one buffer adds loads and computes up, two leave a single one of the shorter exposed."""
    experts = 24
    assert pipeline(load, compute, experts, buffers=1) == pytest.approx(experts * (load + compute), rel=1e-3)
    expected = experts * max(load, compute) + min(load, compute)
    assert pipeline(load, compute, experts, buffers=2) == pytest.approx(expected, rel=1e-3)


@pytest.mark.parametrize(
    "operator",
    [
        replace(LAYER, cached=0.97),
        ExpertMatMul("q4_0", 768, 2048, routed_rows(512, 128, 8), cached=0.9),
        ExpertMatMul("q4_0", 768, 2048, (1500,) * 16),
    ],
    ids=["window of 4", "prompt of 512", "many rows, nothing cached"],
)
def test_ready_order_leaves_a_tenth_of_the_stall_when_compute_covers_the_loads(operator: ExpertMatMul) -> None:
    """Published ratio 13.62 / 142.41 = 9.6 %. In routed order every load is exposed."""
    load, compute, routed, ready = stalls_us(operator)
    assert load <= compute
    assert routed == pytest.approx(load, rel=1e-6)
    assert ready <= 0.10 * routed


def test_loads_beyond_the_compute_stay_exposed() -> None:
    load, compute, routed, ready = stalls_us(LAYER)
    assert load > 5 * compute
    assert ready >= load - compute
    assert ready < routed


def test_pruning_drafts_cuts_loads_more_than_kept_tokens() -> None:
    """At an acceptance of 0.7, a window of 8 without drafts reached in less than 3 of 10 cases."""
    tokens = verified_tokens(8, 0.7, prune=0.3)
    loads = distinct_experts(tokens, 128, 8) / distinct_experts(8, 128, 8)
    kept = kept_tokens(tokens, 0.7) / kept_tokens(8, 0.7)
    assert loads < kept < 1.0
