"""Mixture-of-experts feed-forward: how many rows each expert gets, and the operators of one layer.

A job's graph is fixed before it runs, so routing enters as expected counts: the expected number of distinct experts
under independent, uniform routing, and a spread of popularity over them.
"""

from __future__ import annotations

import math
from functools import cache
from statistics import NormalDist

from hexenv.kernels import Copy, Elementwise, ExpertMatMul, RmsNorm, Softmax
from hexenv.workload.builder import GraphBuilder
from hexenv.workload.layers import project
from hexenv.workload.models import LanguageModel

F32 = 4
POPULARITY_SIGMA = 0.55
"""Spread of a log-normal popularity of experts. It gives the 43 blocks of 64 rows that 444 tokens filled on 32 experts,
4 a token, in a log of LFM2-8B-A1B (nntrainer HTP design note 46); even counts would give 32."""


def distinct_experts(tokens: int, total: int, active: int) -> float:
    """Expected number of experts that ``tokens`` visit, ``active`` out of ``total`` each, drawn independently.

    ``total * (1 - (1 - active / total) ** tokens)``: 8, 29.1, 51.6 of 128 for 1, 4, 8 tokens with 8 each.
    """
    return total * (1.0 - (1.0 - active / total) ** tokens)


@cache
def routed_rows(tokens: int, total: int, active: int) -> tuple[int, ...]:
    """Expected rows of each visited expert, rising: ``tokens * active`` in all, at most ``tokens`` each.

    Every visited expert has one row; the others go by popularity, the quantiles of a log-normal distribution.
    """
    visited = max(active, round(distinct_experts(tokens, total, active)))
    quantiles = [NormalDist().inv_cdf((i + 0.5) / visited) for i in range(visited)]
    popularity = [math.exp(POPULARITY_SIGMA * z) for z in quantiles]
    free = tokens * active - visited
    rows = [min(tokens, 1 + int(free * p / sum(popularity))) for p in popularity]
    left = tokens * active - sum(rows)
    while left:
        for i in reversed(range(visited)):
            if left and rows[i] < tokens:
                rows[i] += 1
                left -= 1
    return tuple(sorted(rows))


def moe_feed_forward(builder: GraphBuilder, model: LanguageModel, layer: int, x: str, tokens: int) -> str:
    """Norm, router, routed and shared experts of one layer and their sum with ``x``; returns the buffer of the sum.

    As llama.cpp builds it: router matmul, softmax, sort (the first of a row are its picks), the picked weights, gate
    and up on the rows of each expert (the kernel gathers them), GLU, down, weights, sum over a token's experts.
    """
    block, experts = f"blk.{layer}", model.experts_total
    rows = routed_rows(tokens, experts, model.experts_active)
    routed = tokens * model.experts_active
    normed = builder.add(f"{block}.ffn_norm", RmsNorm(tokens, model.hidden), x)
    logits = project(builder, model, f"{block}.router", (experts, tokens, model.hidden), normed, usual="f16")
    scores = builder.add(f"{block}.scores", Softmax(tokens, experts), logits)
    picks = builder.add(f"{block}.top_k", Copy(tokens * experts, F32, "argsort"), scores)
    weights = builder.add(f"{block}.weights", Copy(routed, F32, "get_rows"), scores, picks)
    gate = _multiply(builder, model, f"{block}.gate_experts", (model.expert_ffn, model.hidden), rows, normed, picks)
    up = _multiply(builder, model, f"{block}.up_experts", (model.expert_ffn, model.hidden), rows, normed, picks)
    gated = builder.add(f"{block}.glu_experts", Elementwise(model.glu, routed * model.expert_ffn), gate, up)
    down = _multiply(builder, model, f"{block}.down_experts", (model.hidden, model.expert_ffn), rows, gated, picks)
    weighted = builder.add(f"{block}.weighted", Elementwise("mul", routed * model.hidden), down, weights)
    shared = (_shared_expert(builder, model, layer, normed, tokens),) if model.shared_expert_ffn else ()
    return builder.add(f"{block}.ffn_sum", Elementwise("add", routed * model.hidden), weighted, x, *shared)


def _multiply(
    builder: GraphBuilder, model: LanguageModel, name: str, shape: tuple[int, int], rows: tuple[int, ...], *reads: str
) -> str:
    """Rows of each expert times its (outputs x inner) matrix, in the format the model stores it in."""
    return builder.add(name, ExpertMatMul(model.formats.of(name), *shape, rows), *reads)


def _shared_expert(builder: GraphBuilder, model: LanguageModel, layer: int, normed: str, tokens: int) -> str:
    """The expert that every token visits, behind its sigmoid gate; returns its buffer."""
    block, width = f"blk.{layer}.shared", model.shared_expert_ffn
    gate = project(builder, model, f"{block}_gate", (width, tokens, model.hidden), normed)
    up = project(builder, model, f"{block}_up", (width, tokens, model.hidden), normed)
    gated = builder.add(f"{block}_glu", Elementwise(model.glu, tokens * width), gate, up)
    down = project(builder, model, f"{block}_down", (model.hidden, tokens, width), gated)
    share = project(builder, model, f"{block}_share", (1, tokens, model.hidden), normed, usual="f16")
    share = builder.add(f"{block}_sigmoid", Elementwise("sigmoid", tokens), share)
    return builder.add(f"{block}_gated", Elementwise("mul", tokens * model.hidden), down, share)
