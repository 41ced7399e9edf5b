"""Graphs of language models: weights, measured operator counts, order of KV cache and recurrent states."""

import pytest

from hexenv.errors import ConfigError
from hexenv.kernels import Copy, FlashAttention, GatedDeltaNet, MatMul, ShortConv
from hexenv.workload.builder import GraphBuilder
from hexenv.workload.dependencies import ordered, state_links
from hexenv.workload.language import decode_step, prefill_chunk
from hexenv.workload.layers import short_conv_block
from hexenv.workload.models import language_model, language_models

Q4_0_BYTES = 18 / 32
Q8_0_BYTES = 34 / 32
MODELS = tuple(m for m in language_models().values() if not m.experts_total and m.causal)
HYBRIDS = tuple(m for m in MODELS if m.mixers != "A")
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
    own = [node.name for node in graph.nodes]
    before = ordered(graph.nodes, 8)
    needs = {own[i] for i in before[own.index("blk.5.attention")]}
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
    found = {node.name for node in decode_step(language_model(name), 64).nodes}
    assert present in found
    assert absent not in found


HYBRID = language_model("Qwen3.5-0.8B")


def names(graph, layer):
    return [n.name.split(".")[-1] for n in graph.nodes if n.name.startswith(f"blk.{layer}.")]


def test_a_delta_net_layer_has_the_operators_of_llama_cpp():
    """Projections, gates, convolution with its state, unit norms, delta net with its state, gated norm, output."""
    mixer = "attn_norm qkv z beta beta_sigmoid alpha alpha_bias alpha_softplus decay conv_get conv_concat conv_put conv"
    rest = "conv_silu q_l2 k_l2 state_get delta_net state_put out_norm z_silu out_gated delta_out"
    assert names(decode_step(HYBRID, 64), 0) == f"{mixer} {rest} ffn_norm gate up glu down".split()


def test_a_gated_attention_layer_gates_its_output():
    graph = decode_step(HYBRID, 64)
    assert names(graph, 3)[10:15] == ["attention", "attn_gate_rows", "attn_gate", "attn_gated", "attn_out"]
    by_name = {node.name: node for node in graph.nodes}
    assert by_name["blk.3.q"].operator.m == 2 * HYBRID.q_heads * HYBRID.head_dim
    assert by_name["blk.3.attn_gate_rows"].reads == ("blk.3.q",)
    assert by_name["blk.3.attn_gated"].reads == ("blk.3.attention", "blk.3.attn_gate")


@pytest.mark.parametrize("model", HYBRIDS, ids=lambda m: m.name)
def test_every_fourth_layer_attends(model):
    operators = [node.operator for node in prefill_chunk(model, 64).nodes]
    delta_nets = [op for op in operators if isinstance(op, GatedDeltaNet)]
    assert len([op for op in operators if isinstance(op, FlashAttention)]) == model.layers // 4
    assert len(delta_nets) == len([op for op in operators if isinstance(op, ShortConv)]) == model.layers * 3 // 4
    assert {(op.tokens, op.v_heads, op.qk_heads, op.head_dim) for op in delta_nets} == {
        (64, model.gdn_v_heads, model.gdn_qk_heads, model.gdn_head_dim)
    }


def test_recurrent_states_live_across_steps():
    """Each delta-net layer keeps a state and the last three tokens of its convolution; attention keeps its cache."""
    graph = decode_step(HYBRID, 64)
    recurrent = [layer for layer in range(HYBRID.layers) if layer % 4 != 3]
    states = {f"{kind}_state.{layer}" for layer in recurrent for kind in ("delta", "conv")}
    assert graph.state == states | {f"{kind}_cache.{layer}" for layer in range(3, 24, 4) for kind in "kv"}
    copies = {node.name: node.operator for node in graph.nodes if isinstance(node.operator, Copy)}
    assert copies["blk.0.state_put"] == Copy(16 * 128 * 128, 4), "1 MiB a layer"
    assert copies["blk.0.conv_put"] == Copy(3 * 6144, 4)


def test_a_step_waits_for_the_states_of_the_step_before():
    graph = decode_step(HYBRID, 64)
    before = ordered(graph.nodes, 8)
    own = [node.name for node in graph.nodes]
    links = state_links(graph, before, graph, before)
    for first, last in (("state_get", "state_put"), ("conv_get", "conv_put")):
        waits = {own[i] for i in links[own.index(f"blk.0.{first}")]}
        assert f"blk.0.{last}" in waits


def test_a_short_conv_layer_gates_before_and_behind_its_convolution():
    """LFM2: ``c * conv(b * x)`` between two projections; its first two layers are dense short-conv ones."""
    builder = GraphBuilder("lfm2")
    model = language_model("LFM2-8B-A1B")
    short_conv_block(builder, model, 0, "x", 7, residual=("x",))
    graph = builder.build()
    wanted = "conv_norm conv_in conv_bx conv_get conv_concat conv_put conv conv_cx conv_out"
    assert names(graph, 0) == wanted.split()
    operators = {node.name.split(".")[-1]: node.operator for node in graph.nodes}
    assert operators["conv_in"].m == 3 * model.hidden
    assert operators["conv"] == ShortConv(7, model.hidden, 3)
    assert graph.nodes[-1].reads == ("blk.0.conv_cx", "x")
    assert graph.state == {"conv_state.0"}


@pytest.mark.parametrize("model", [m for m in language_models().values() if m.experts_total], ids=lambda m: m.name)
def test_experts_take_the_place_of_the_dense_feed_forward(model):
    graph = decode_step(model, 64)
    for layer in range(model.layers):
        found = names(graph, layer)
        assert ("down" in found) == (layer < model.dense_layers)
        assert ("router" in found) == (layer >= model.dense_layers)


def test_a_diffusion_model_has_no_causal_steps():
    for build in (decode_step, prefill_chunk):
        with pytest.raises(ConfigError, match="LLaDA-8B"):
            build(language_model("LLaDA-8B"), 64)
