"""Diffuse (ASPLOS 25): fuse the legal prefix of a window of tasks; intermediates that die inside become locals.

Law: the gain grows with the window, then flattens. Context only (many GPUs): mean 1.86, at most 10.7 times.
"""

from __future__ import annotations

from itertools import pairwise

import pytest

from hexenv.device import load_device
from hexenv.kernels import Chain, Elementwise, fastest_us
from hexenv.workload.builder import GraphBuilder
from hexenv.workload.fusion import megakernel
from hexenv.workload.graph import Graph
from hexenv.workload.language import prefill_chunk
from hexenv.workload.models import language_model

V79 = load_device("v79")
WINDOWS = (1, 2, 3, 4, 6, 8, 16, 32)


def streams(length: int) -> Graph:
    builder, buffer = GraphBuilder("stream"), "input"
    for i in range(length):
        buffer = builder.add(f"n{i}", Elementwise("add", 1 << 16), buffer, f"operand{i}")
    return builder.build()


def time_us(graph: Graph) -> float:
    return sum(fastest_us(node.operator, V79) + V79.op_us for node in graph.nodes)


@pytest.mark.parametrize("length", [8, 20])
def test_the_gain_grows_with_the_window_then_flattens(length: int) -> None:
    graph = streams(length)
    gains = [time_us(graph) / time_us(megakernel(graph, window)) for window in WINDOWS]
    assert gains[0] == 1.0
    assert all(wider > 0.99 * narrower for narrower, wider in pairwise(gains))
    first, last = gains[1] - gains[0], (gains[-1] - gains[-3]) / (WINDOWS[-1] - WINDOWS[-3])
    assert first > 10 * last >= 0.0  # a task
    assert gains[-1] == time_us(graph) / time_us(megakernel(graph))  # no window is wider than its work


def test_in_a_language_model_a_window_of_a_few_operators_finds_all_there_is() -> None:
    graph = prefill_chunk(language_model("Qwen3-1.7B"), 128)
    left = [len(megakernel(graph, window).nodes) for window in WINDOWS]
    assert left == sorted(left, reverse=True)
    assert left[0] == len(graph.nodes) > left[-1] == len(megakernel(graph).nodes)
    assert left[WINDOWS.index(8)] == left[-1]


@pytest.mark.parametrize("window", [2, 3, 5])
def test_a_chain_is_no_longer_than_its_window(window: int) -> None:
    chains = [n.operator for n in megakernel(streams(16), window).nodes if isinstance(n.operator, Chain)]
    assert max(len(chain.operators) for chain in chains) == window
