"""Diffusion language models: a denoising step over a block of masked tokens, behind a cached prefix.

Source: llada.cpp (arXiv 2606.13740). A block of tokens starts masked; every step runs the masked ones through the model
and fixes some, so the rows shrink towards 1 while a step still streams all weights. Filling puts speculative tokens of
later blocks into the free rows. An 8B model outgrows the address space of an NPU session, so that each layer's buffers
are mapped again in every step (``Remap``).
"""

from __future__ import annotations

from hexenv.errors import ConfigError
from hexenv.kernels import MatMul, Remap, RmsNorm
from hexenv.kernels.dequantise import DDR_TILE_BYTES
from hexenv.kernels.matmul import Weight
from hexenv.workload.builder import GraphBuilder
from hexenv.workload.formats import WEIGHTS
from hexenv.workload.graph import Graph
from hexenv.workload.layers import KV_STEP, attention_block, feed_forward_block
from hexenv.workload.models import LanguageModel

BLOCK = 32
"""Tokens of a block: the rows of an HMX tile."""


def denoise_step(
    model: LanguageModel,
    context: int,
    masked: int,
    block: int = BLOCK,
    fill: bool = False,
    head: Weight | None = WEIGHTS,
) -> Graph:
    """One step with ``masked`` tokens of a block left to fix, after ``context`` tokens in the cache.

    With ``fill`` the block's other rows carry tokens of later blocks. Every row's logits are wanted.

    Raises:
        ConfigError: a model that is not a diffusion model.
    """
    if model.causal:
        raise ConfigError(f"language model {model.name!r} is causal, allowed: a diffusion model")
    rows = block if fill else masked
    builder = GraphBuilder(f"{model.name} denoise {masked} of {block}{' filled' if fill else ''}@{context}")
    kv = -(-(context + block) // KV_STEP) * KV_STEP
    output = MatMul(head, model.vocab, rows, model.hidden) if head else None
    layers = [_layer_bytes(model, layer) for layer in range(model.layers)]
    last = _weight_bytes(output) if output else 0
    total = sum(layers) + last
    x = "embeddings"
    for layer, layer_bytes in enumerate(layers):
        x = builder.add(f"blk.{layer}.mapped", Remap(layer_bytes, total), x)
        x = _layer(builder, model, layer, x, rows, kv)
    x = builder.add("output_norm", RmsNorm(rows, model.hidden), x)
    if output:
        x = builder.add("output.mapped", Remap(last, total), x)
        builder.add("output", output, x)
    return builder.build()


def _layer(builder: GraphBuilder, model: LanguageModel, layer: int, x: str, rows: int, kv: int) -> str:
    mixed = attention_block(builder, model, layer, x, rows, kv, residual=(x,))
    return feed_forward_block(builder, model, layer, mixed, rows)


def _layer_bytes(model: LanguageModel, layer: int) -> int:
    """Weights of a layer in DDR, as its matrix products read them."""
    builder = GraphBuilder("layer")
    _layer(builder, model, layer, "x", 1, KV_STEP)
    operators = [node.operator for node in builder.build().nodes]
    return sum(_weight_bytes(operator) for operator in operators if isinstance(operator, MatMul))


def _weight_bytes(product: MatMul) -> int:
    return product.weight_tiles * DDR_TILE_BYTES[product.weight]
