"""Denoising steps: rows of a block, filled or not, and the mapping of the weights."""

from __future__ import annotations

import numpy as np
import pytest

import agents
from hexenv.device import load_device
from hexenv.engine import Simulator, episode_key
from hexenv.errors import ConfigError
from hexenv.kernels import FlashAttention, MatMul, Remap
from hexenv.kernels.variants import alone_on
from hexenv.workload import build
from hexenv.workload.dependencies import ordered
from hexenv.workload.diffusion import denoise_step
from hexenv.workload.graph import Graph
from hexenv.workload.models import language_model

LLADA = language_model("LLaDA-8B")
V79 = load_device("v79")


def matmul_rows(graph: Graph) -> set[int]:
    return {node.operator.n for node in graph.nodes if isinstance(node.operator, MatMul)}


def remap_us(operator: Remap) -> float:
    return min(alone_on(V79, cost) for cost in operator.costs(V79))


@pytest.mark.parametrize("masked", [32, 12, 1])
def test_rows_are_the_masked_tokens_or_with_filling_the_block(masked: int) -> None:
    assert matmul_rows(denoise_step(LLADA, 256, masked)) == {masked}
    assert matmul_rows(denoise_step(LLADA, 256, masked, fill=True)) == {32}


def test_attention_sees_the_prefix_and_the_block() -> None:
    attention = {n.operator for n in denoise_step(LLADA, 250, 4).nodes if isinstance(n.operator, FlashAttention)}
    assert {(op.queries, op.kv) for op in attention} == {(4, 512)}


def test_every_layer_waits_for_its_mapping() -> None:
    graph = denoise_step(LLADA, 256, 8)
    names = [node.name for node in graph.nodes]
    needs = {names[i] for i in ordered(graph.nodes, 8)[names.index("blk.7.attn_norm")]}
    assert needs == {"blk.7.mapped"}
    assert sum(isinstance(node.operator, Remap) for node in graph.nodes) == LLADA.layers + 1


def test_mapped_bytes_are_the_weights() -> None:
    remaps = [n.operator for n in denoise_step(LLADA, 256, 8).nodes if isinstance(n.operator, Remap)]
    weights = sum(LLADA.layer_weights(layer) for layer in range(LLADA.layers)) + LLADA.vocab * LLADA.hidden
    assert sum(op.mapped_bytes for op in remaps) == remaps[0].model_bytes == pytest.approx(weights * 18 / 32)


def test_only_a_model_larger_than_the_window_is_mapped_again() -> None:
    outgrown = Remap(100_000_000, V79.window_bytes + 1)
    assert remap_us(outgrown) == pytest.approx(100e6 / V79.remap_bytes_per_us, rel=0.01)
    assert remap_us(Remap(100_000_000, V79.window_bytes)) < 0.01 * remap_us(outgrown)
    assert remap_us(Remap(100_000_000, V79.window_bytes + 1, mapping="graph_order")) < 0.01 * remap_us(outgrown)


def test_a_remap_splits_into_ranges() -> None:
    parts = Remap(1000, 5000).split(3)
    assert [part.mapped_bytes for part in parts] == [334, 333, 333]
    assert {part.model_bytes for part in parts} == {5000}


def test_a_causal_model_has_no_denoising_steps() -> None:
    with pytest.raises(ConfigError, match=r"'Qwen3-1\.7B' is causal, allowed: a diffusion model"):
        denoise_step(language_model("Qwen3-1.7B"), 0, 1)


@pytest.mark.parametrize("rule", ["edf", "slack_gate"])
def test_an_episode_runs_beside_camera_work(rule: str) -> None:
    scheduler = agents.make(rule)
    tables = build("camera_diffusion", **scheduler.overrides)
    sim = Simulator(tables)
    sim.reset(np.array([episode_key(0, 0)], np.uint64))
    scheduler.start(tables, 1, 0)
    while not sim.lanes["over"][0]:
        sim.step(scheduler.act(sim.views, sim.masks))
    writer = tables.stream_names.index("writer")
    assert sim.lanes["due"][0, writer] >= 1
    assert sim.lanes["credit_ns"][0] > 0.5 * tables.config["horizon_ns"][0]
