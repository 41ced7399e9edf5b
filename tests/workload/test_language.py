"""Graphs of language models: published totals, measured operator counts, order of the KV cache."""

import pytest

from hexenv.kernels import FlashAttention, MatMul
from hexenv.workload.dependencies import ordered
from hexenv.workload.language import decode_step, prefill_chunk
from hexenv.workload.models import language_model, language_models

Q4_0_BYTES = 18 / 32
Q8_0_BYTES = 34 / 32
MODELS = tuple(m for m in language_models().values() if not m.experts_total and m.mixers == "A" and m.causal)
QWEN3 = language_model("Qwen3-1.7B")


def weight_bytes(graph):
    bytes_each = {"q4_0": Q4_0_BYTES, "q8_0": Q8_0_BYTES}
    operators = [node.operator for node in graph.nodes if isinstance(node.operator, MatMul)]
    return sum(op.m * op.k * op.batch * bytes_each[op.weight] for op in operators)


def test_decode_has_the_measured_operators():
    """A v79 phone ran 396 ops a Qwen3-1.7B step: q, k, v and gate, up count there as one fused op each."""
    assert len(decode_step(QWEN3, 512, head=None).nodes) - 3 * QWEN3.layers == 396


@pytest.mark.parametrize("model", MODELS, ids=lambda m: m.name)
def test_weights_of_a_step_are_all_matmul_weights_once(model):
    layers = sum(model.layer_weights(layer) for layer in range(model.layers)) * Q4_0_BYTES
    head = model.vocab * model.hidden
    assert weight_bytes(decode_step(model, 100, head=None)) == layers
    assert weight_bytes(decode_step(model, 100, head="q4_0")) == layers + head * Q4_0_BYTES
    assert weight_bytes(decode_step(model, 100, head="q8_0")) == layers + head * Q8_0_BYTES


def test_chunk_inside_a_prompt_leaves_out_what_nobody_reads():
    """Its last layer ends with attention: three FFN matmuls fewer than a last chunk without its head."""
    ffn = 3 * QWEN3.hidden * QWEN3.ffn * Q4_0_BYTES
    head = QWEN3.vocab * QWEN3.hidden * Q4_0_BYTES
    inside, last = prefill_chunk(QWEN3, 128), prefill_chunk(QWEN3, 128, head="q4_0")
    assert weight_bytes(last) - weight_bytes(inside) == ffn + head
    assert inside.nodes[-1].name == "blk.27.attn_out"


def test_last_chunk_sends_one_row_through_the_last_ffn():
    tokens = {
        node.name: node.operator.n for node in prefill_chunk(QWEN3, 128, head="q4_0").nodes if "gate" in node.name
    }
    assert tokens["blk.26.gate"] == 128
    assert tokens["blk.27.gate"] == 1


@pytest.mark.parametrize(("past", "tokens", "kv"), [(0, 1, 256), (255, 1, 256), (256, 1, 512), (100, 512, 768)])
def test_attention_sees_the_rounded_cache(past, tokens, kv):
    graph = prefill_chunk(QWEN3, tokens, past)
    attention = [node.operator for node in graph.nodes if isinstance(node.operator, FlashAttention)]
    assert len(attention) == QWEN3.layers
    assert {(op.queries, op.kv) for op in attention} == {(tokens, kv)}


def test_attention_waits_for_both_cache_updates():
    graph = decode_step(QWEN3, 64)
    names = [node.name for node in graph.nodes]
    before = ordered(graph.nodes, 8)
    needs = {names[i] for i in before[names.index("blk.5.attention")]}
    assert {"blk.5.k_append", "blk.5.v_append"} <= needs
    assert graph.state == {f"{kind}_cache.{layer}" for kind in "kv" for layer in range(QWEN3.layers)}


@pytest.mark.parametrize(
    ("name", "present", "absent"),
    [
        ("Qwen3-1.7B", "blk.0.q_norm", "blk.0.q_scale"),
        ("Gemma-2B", "blk.0.q_scale", "blk.0.q_norm"),
        ("Llama-3.2-1B", "blk.0.q_rope", "blk.0.q_norm"),
    ],
)
def test_layers_have_the_model_s_own_operators(name, present, absent):
    names = {node.name for node in decode_step(language_model(name), 64).nodes}
    assert present in names
    assert absent not in names
