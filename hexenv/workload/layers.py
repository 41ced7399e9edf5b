"""Blocks of a language model's layer, as the llama.cpp Hexagon backend runs them: attention, gated feed-forward.

A block appends its operators to a builder and returns the buffer of its result. Layers are numbered from 0; ``x`` is
the buffer of the residual stream, ``tokens`` its rows.
"""

from __future__ import annotations

from hexenv.kernels import Copy, Elementwise, FlashAttention, MatMul, RmsNorm, Rope
from hexenv.kernels.matmul import Weight
from hexenv.workload.builder import GraphBuilder
from hexenv.workload.models import LanguageModel

WEIGHTS: Weight = "q4_0"
"""Format of all weights but the head's."""


def attention_block(
    builder: GraphBuilder, model: LanguageModel, layer: int, x: str, tokens: int, kv: int, residual: tuple[str, ...]
) -> str:
    """Norm, attention over ``kv`` rows of cache and output projection, which adds ``residual`` if there is one."""
    block = f"blk.{layer}"
    q_width, kv_width = model.q_heads * model.head_dim, model.kv_heads * model.head_dim
    normed = builder.add(f"{block}.attn_norm", RmsNorm(tokens, model.hidden), x)
    q = builder.add(f"{block}.q", MatMul(WEIGHTS, q_width, tokens, model.hidden), normed)
    k = builder.add(f"{block}.k", MatMul(WEIGHTS, kv_width, tokens, model.hidden), normed)
    v = builder.add(f"{block}.v", MatMul(WEIGHTS, kv_width, tokens, model.hidden), normed)
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
    attention = FlashAttention(tokens, kv, model.q_heads, model.kv_heads, model.head_dim)
    mixed = builder.add(f"{block}.attention", attention, q, k_cache, v_cache)
    return builder.add(f"{block}.attn_out", MatMul(WEIGHTS, model.hidden, tokens, q_width), mixed, *residual)


def feed_forward_block(builder: GraphBuilder, model: LanguageModel, layer: int, x: str, tokens: int) -> str:
    """Norm and dense gated feed-forward, which adds ``x``."""
    block = f"blk.{layer}"
    normed = builder.add(f"{block}.ffn_norm", RmsNorm(tokens, model.hidden), x)
    gate = builder.add(f"{block}.gate", MatMul(WEIGHTS, model.ffn, tokens, model.hidden), normed)
    up = builder.add(f"{block}.up", MatMul(WEIGHTS, model.ffn, tokens, model.hidden), normed)
    gated = builder.add(f"{block}.glu", Elementwise(model.glu, tokens * model.ffn), gate, up)
    return builder.add(f"{block}.down", MatMul(WEIGHTS, model.hidden, tokens, model.ffn), gated, x)
