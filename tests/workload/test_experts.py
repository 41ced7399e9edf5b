"""Routing counts and the operators of a mixture-of-experts layer."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import agents
from hexenv.engine import Simulator, episode_key
from hexenv.kernels import ExpertMatMul, MatMul
from hexenv.workload import build
from hexenv.workload.builder import GraphBuilder
from hexenv.workload.experts import distinct_experts, moe_feed_forward, routed_rows
from hexenv.workload.graph import Graph
from hexenv.workload.models import language_model, language_models

Q4_0_BYTES = 18 / 32
MODELS = tuple(model for model in language_models().values() if model.experts_total)


def layer_graph(name: str, tokens: int) -> Graph:
    builder = GraphBuilder("layer")
    model = language_model(name)
    moe_feed_forward(builder, model, model.layers - 1, "x", tokens)
    return builder.build()


@given(st.integers(1, 4096), st.integers(1, 512), st.integers(1, 512))
def test_rows_are_conserved_and_no_expert_sees_a_token_twice(tokens: int, total: int, active: int) -> None:
    active = min(active, total)
    rows = routed_rows(tokens, total, active)
    assert sum(rows) == tokens * active
    assert 1 <= min(rows) <= max(rows) <= tokens
    assert active <= len(rows) <= total


def test_tokens_share_experts() -> None:
    """Two tokens never visit more than twice one token's experts, and many visit all."""
    assert distinct_experts(1, 64, 8) == pytest.approx(8)
    assert 8 < distinct_experts(2, 64, 8) < 16
    assert distinct_experts(1000, 64, 8) == pytest.approx(64)


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_one_token_streams_the_weights_of_its_active_experts(model) -> None:
    experts = [node.operator for node in layer_graph(model.name, 1).nodes if isinstance(node.operator, ExpertMatMul)]
    bytes_moved = sum(len(op.rows) * op.m * op.k * Q4_0_BYTES for op in experts)
    assert bytes_moved == model.experts_active * 3 * model.hidden * model.expert_ffn * Q4_0_BYTES


def test_a_shared_expert_is_part_of_the_sum() -> None:
    plain, shared = layer_graph("Qwen3-30B-A3B", 4), layer_graph("Qwen3-Next-80B-A3B", 4)
    assert not any("shared" in node.name for node in plain.nodes)
    assert "blk.47.shared_gated" in shared.nodes[-1].reads
    dense = [n.operator for n in shared.nodes if isinstance(n.operator, MatMul) and n.operator.weight == "q4_0"]
    assert [(op.m, op.k) for op in dense] == [(512, 2048), (512, 2048), (2048, 512)]


def test_experts_wait_for_the_router() -> None:
    graph = layer_graph("OLMoE-1B-7B", 4)
    for node in graph.nodes:
        if isinstance(node.operator, ExpertMatMul):
            assert "blk.15.top_k" in node.reads
    assert graph.nodes[-1].reads[:2] == ("blk.15.weighted", "x")


@pytest.mark.parametrize("rule", ["edf", "slack_gate"])
def test_an_episode_loads_experts_beside_camera_work(rule: str) -> None:
    scheduler = agents.make(rule)
    tables = build("camera_experts", horizon_us=150_000, **scheduler.overrides)
    sim = Simulator(tables)
    sim.reset(np.array([episode_key(0, 0)], np.uint64))
    scheduler.start(tables, 1, 0)
    while not sim.lanes["over"][0]:
        sim.step(scheduler.act(sim.views, sim.masks))
    assert sim.lanes["credit_ns"][0] > 0
    assert 0.0 < sim.lanes["busy_storage_ns"][0] < 150e6
    assert sim.lanes["busy_hmx_ns"][0] > 0.0
