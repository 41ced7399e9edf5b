"""Blocks of a language model's layer, as the llama.cpp Hexagon backend runs them: token mixers and the feed-forward.

A block appends its operators to a builder and returns the buffer of its result. Layers are numbered from 0; ``x`` is
the buffer of the residual stream, ``tokens`` its rows. ``residual`` names what the last projection adds, if anything.

Recurrent layers keep state buffers. llama.cpp gathers a state into a buffer of the job and copies the new one back: two
operators, each of which reads and writes the whole state in DDR.
"""

from __future__ import annotations

from hexenv.kernels import Copy, Elementwise, FlashAttention, GatedDeltaNet, L2Norm, MatMul, RmsNorm, Rope, ShortConv
from hexenv.kernels.matmul import Weight
from hexenv.workload.builder import GraphBuilder
from hexenv.workload.formats import WEIGHTS
from hexenv.workload.models import LanguageModel

F32 = 4
KV_STEP = 256
"""The runtime rounds the KV length that attention sees up to this many rows."""


def project(
    builder: GraphBuilder,
    model: LanguageModel,
    name: str,
    shape: tuple[int, int, int],
    *reads: str,
    usual: Weight = WEIGHTS,
) -> str:
    """Append the product with the matrix of node ``name`` in its format.

    ``shape`` is (outputs, tokens, inner), ``usual`` the format where the model says nothing else.
    """
    return builder.add(name, MatMul(model.formats.of(name, usual), *shape), *reads)


def attention_block(
    builder: GraphBuilder, model: LanguageModel, layer: int, x: str, tokens: int, kv: int, residual: tuple[str, ...]
) -> str:
    """Norm, attention over ``kv`` rows of cache and output projection.

    Rope reads and writes whole heads, also where it turns only a part of them (a quarter in Qwen3.5). An output gate
    comes out of the query projection, a row of it beside each query.
    """
    block = f"blk.{layer}"
    q_width, kv_width = model.q_heads * model.head_dim, model.kv_heads * model.head_dim
    normed = builder.add(f"{block}.attn_norm", RmsNorm(tokens, model.hidden), x)
    projected = 2 * q_width if model.output_gate else q_width
    q = gate = project(builder, model, f"{block}.q", (projected, tokens, model.hidden), normed)
    k = project(builder, model, f"{block}.k", (kv_width, tokens, model.hidden), normed)
    v = project(builder, model, f"{block}.v", (kv_width, tokens, model.hidden), normed)
    if model.qk_norm == "head":
        q = builder.add(f"{block}.q_norm", RmsNorm(tokens * model.q_heads, model.head_dim), q)
        k = builder.add(f"{block}.k_norm", RmsNorm(tokens * model.kv_heads, model.head_dim), k)
    elif model.qk_norm == "row":
        q = builder.add(f"{block}.q_norm", RmsNorm(tokens, q_width), q)
        k = builder.add(f"{block}.k_norm", RmsNorm(tokens, kv_width), k)
    q = builder.add(f"{block}.q_rope", Rope(tokens, model.q_heads, model.head_dim), q)
    k = builder.add(f"{block}.k_rope", Rope(tokens, model.kv_heads, model.head_dim), k)
    if model.scale_queries:
        q = builder.add(f"{block}.q_scale", Elementwise("mul", tokens * q_width), q)
    append = Copy(tokens * kv_width, 2)
    k_cache = builder.update(f"{block}.k_append", append, f"k_cache.{layer}", k)
    v_cache = builder.update(f"{block}.v_append", append, f"v_cache.{layer}", v)
    seen = min(kv, -(-(model.window + tokens) // KV_STEP) * KV_STEP) if model.has_window(layer) else kv
    attention = FlashAttention(tokens, seen, model.q_heads, model.kv_heads, model.head_dim)
    mixed = builder.add(f"{block}.attention", attention, q, k_cache, v_cache)
    if model.output_gate:
        gate = builder.add(f"{block}.attn_gate_rows", Copy(tokens * q_width, F32), gate)
        gate = builder.add(f"{block}.attn_gate", Elementwise("sigmoid", tokens * q_width), gate)
        mixed = builder.add(f"{block}.attn_gated", Elementwise("mul", tokens * q_width), mixed, gate)
    return _close(builder, model, f"{block}.attn", f"{block}.attn_out", tokens, q_width, mixed, residual)


def delta_net_block(
    builder: GraphBuilder, model: LanguageModel, layer: int, x: str, tokens: int, residual: tuple[str, ...]
) -> str:
    """Norm, projections, short convolution, gated delta net, gated norm and output projection (Qwen3.5, Qwen3-Next)."""
    block = f"blk.{layer}"
    heads, dim, channels = model.gdn_v_heads, model.gdn_head_dim, model.conv_channels
    width = heads * dim
    normed = builder.add(f"{block}.attn_norm", RmsNorm(tokens, model.hidden), x)
    qkv = project(builder, model, f"{block}.qkv", (channels, tokens, model.hidden), normed)
    z = project(builder, model, f"{block}.z", (width, tokens, model.hidden), normed)
    beta = project(builder, model, f"{block}.beta", (heads, tokens, model.hidden), normed)
    beta = builder.add(f"{block}.beta_sigmoid", Elementwise("sigmoid", tokens * heads), beta)
    decay = project(builder, model, f"{block}.alpha", (heads, tokens, model.hidden), normed)
    decay = builder.add(f"{block}.alpha_bias", Elementwise("add", tokens * heads), decay)
    decay = builder.add(f"{block}.alpha_softplus", Elementwise("softplus", tokens * heads), decay)
    decay = builder.add(f"{block}.decay", Elementwise("mul", tokens * heads), decay)
    qkv = _short_conv(builder, layer, qkv, tokens, channels, model.conv_kernel)
    qkv = builder.add(f"{block}.conv_silu", Elementwise("silu", tokens * channels), qkv)
    q = builder.add(f"{block}.q_l2", L2Norm(tokens * model.gdn_qk_heads, dim), qkv)
    k = builder.add(f"{block}.k_l2", L2Norm(tokens * model.gdn_qk_heads, dim), qkv)
    state_copy = Copy(heads * dim * dim, F32)
    state = builder.add(f"{block}.state_get", state_copy, f"delta_state.{layer}")
    delta_net = GatedDeltaNet(tokens, heads, model.gdn_qk_heads, dim, chunk=model.gdn_chunk)
    mixed = builder.add(f"{block}.delta_net", delta_net, q, k, qkv, decay, beta, state)
    builder.update(f"{block}.state_put", state_copy, f"delta_state.{layer}", mixed)
    mixed = builder.add(f"{block}.out_norm", RmsNorm(tokens * heads, dim), mixed)
    z = builder.add(f"{block}.z_silu", Elementwise("silu", tokens * width), z)
    mixed = builder.add(f"{block}.out_gated", Elementwise("mul", tokens * width), mixed, z)
    return project(builder, model, f"{block}.delta_out", (model.hidden, tokens, width), mixed, *residual)


def short_conv_block(
    builder: GraphBuilder, model: LanguageModel, layer: int, x: str, tokens: int, residual: tuple[str, ...]
) -> str:
    """Norm, input projection (b, c, x), ``c * conv(b * x)`` and output projection (LFM2)."""
    block, elements = f"blk.{layer}", tokens * model.hidden
    normed = builder.add(f"{block}.conv_norm", RmsNorm(tokens, model.hidden), x)
    bcx = project(builder, model, f"{block}.conv_in", (3 * model.hidden, tokens, model.hidden), normed)
    bx = builder.add(f"{block}.conv_bx", Elementwise("mul", elements), bcx)
    mixed = _short_conv(builder, layer, bx, tokens, model.hidden, model.conv_kernel)
    mixed = builder.add(f"{block}.conv_cx", Elementwise("mul", elements), mixed, bcx)
    return project(builder, model, f"{block}.conv_out", (model.hidden, tokens, model.hidden), mixed, *residual)


def _short_conv(builder: GraphBuilder, layer: int, x: str, tokens: int, channels: int, kernel: int) -> str:
    """Convolution over the last tokens of the step before and these; keeps the last for the next step."""
    block, state = f"blk.{layer}", f"conv_state.{layer}"
    kept = Copy((kernel - 1) * channels, F32)
    history = builder.add(f"{block}.conv_get", kept, state)
    window = builder.add(f"{block}.conv_concat", Copy((tokens + kernel - 1) * channels, F32), history, x)
    builder.update(f"{block}.conv_put", kept, state, window)
    return builder.add(f"{block}.conv", ShortConv(tokens, channels, kernel), window)


def feed_forward_block(builder: GraphBuilder, model: LanguageModel, layer: int, x: str, tokens: int) -> str:
    """Norm and dense gated feed-forward, which adds ``x``."""
    block = f"blk.{layer}"
    normed = builder.add(f"{block}.ffn_norm", RmsNorm(tokens, model.hidden), x)
    gate = project(builder, model, f"{block}.gate", (model.ffn, tokens, model.hidden), normed)
    up = project(builder, model, f"{block}.up", (model.ffn, tokens, model.hidden), normed)
    gated = builder.add(f"{block}.glu", Elementwise(model.glu, tokens * model.ffn), gate, up)
    return _close(builder, model, f"{block}.ffn", f"{block}.down", tokens, model.ffn, gated, (x,))


def _close(
    builder: GraphBuilder,
    model: LanguageModel,
    half: str,
    name: str,
    tokens: int,
    inner: int,
    x: str,
    residual: tuple[str, ...],
) -> str:
    """Last product of a layer's half, which adds the residual; behind a norm of its own the sum is an operator too."""
    shape = (model.hidden, tokens, inner)
    if not model.post_norms:
        return project(builder, model, name, shape, x, *residual)
    x = builder.add(f"{half}_post_norm", RmsNorm(tokens, model.hidden), project(builder, model, name, shape, x))
    return builder.add(f"{half}_residual", Elementwise("add", tokens * model.hidden), x, *residual) if residual else x
