"""A language model's decode step and prefill chunk as the operators that the llama.cpp Hexagon backend runs.

A layer mixes tokens (attention, gated delta net or short convolution, see ``layers.py``), then every token goes
through a gated feed-forward, dense or a mixture of experts (``experts.py``). After the host's fusions (RMS_NORM+MUL,
MUL_MAT+ADD) a dense attention layer is: norm, q, k, v, q / k norm (Qwen3), rope on q and k, KV append twice, flash
attention, output projection with the residual, norm, gate, up, GLU, down with the residual. The last layer keeps only
the rows whose logits are wanted (GET_ROWS twice, and its residual sum is then an op of its own), then final norm and
head.

The backend also fuses q+k+v and gate+up of a one-token step into one HVX op each. Here they stay separate, since
that fusion would fix the version for all of them. So a Qwen3-1.7B step without head has 480 stages: the 396 ops a
step measured on a v79 phone plus 3 for each of the 28 layers.

Weights are Q4_0, the KV cache is f16, recurrent states are fp32. By default the head is Q4_0 and runs on the NPU. With
``head=None`` it stays on the CPU, as for the usual GGUF files, whose tied head is a K-quant that the backend does not
take; the host gap of about 15 ms between two steps, measured on that phone, contains it.
"""

from __future__ import annotations

from hexenv.errors import ConfigError
from hexenv.kernels import Copy, Elementwise, MatMul, RmsNorm
from hexenv.kernels.matmul import Weight
from hexenv.workload.builder import GraphBuilder
from hexenv.workload.experts import moe_feed_forward
from hexenv.workload.formats import WEIGHTS
from hexenv.workload.graph import Graph
from hexenv.workload.layers import (
    KV_STEP,
    attention_block,
    delta_net_block,
    feed_forward_block,
    short_conv_block,
)
from hexenv.workload.models import DELTA_NET, SHORT_CONV, LanguageModel

HEADS: tuple[Weight, ...] = ("q4_0", "q8_0")
"""Weight formats of the head that the backend takes (K-quants stay on the CPU)."""


def decode_step(model: LanguageModel, context: int, head: Weight | None = WEIGHTS) -> Graph:
    """One token after ``context`` earlier ones. Streams run it closed loop: step t+1 follows step t."""
    name = f"{model.name} decode@{context}"
    return forward_pass(model, name, tokens=1, past=context, outputs=1, head=head)


def prefill_chunk(model: LanguageModel, tokens: int, past: int = 0, head: Weight | None = None) -> Graph:
    """``tokens`` prompt tokens after ``past`` earlier ones.

    Without a head it is a chunk inside the prompt: nobody wants its logits, so the last layer ends with its attention.
    With a head it is the prompt's last chunk, and one row goes through the last feed-forward layer and the head.
    """
    name = f"{model.name} prefill {tokens}@{past}"
    return forward_pass(model, name, tokens=tokens, past=past, outputs=0 if head is None else 1, head=head)


def forward_pass(model: LanguageModel, name: str, tokens: int, past: int, outputs: int, head: Weight | None) -> Graph:
    """``tokens`` rows after ``past`` earlier ones; ``outputs`` of them through the last feed-forward and the head."""
    if not model.causal:
        raise ConfigError(f"language model {model.name!r} sees both sides: it has denoising steps, not {name!r}")
    builder = GraphBuilder(name)
    kv = -(-(past + tokens) // KV_STEP) * KV_STEP
    x = "embeddings"
    if model.scale_queries:
        x = builder.add("scale", Elementwise("mul", tokens * model.hidden), x)
    for layer in range(model.layers - 1):
        x = _mixer(builder, model, layer, x, tokens, kv, residual=(x,))
        x = _feed_forward(builder, model, layer, x, tokens)
    last = model.layers - 1
    mixed = _mixer(builder, model, last, x, tokens, kv, residual=())
    if outputs:
        x = _add_kept_rows(builder, model, last, mixed, x, outputs)
        x = _feed_forward(builder, model, last, x, outputs)
        x = builder.add("output_norm", RmsNorm(outputs, model.hidden), x)
    if head is not None:
        builder.add("output", MatMul(head, model.vocab, outputs, model.hidden), x)
    return builder.build()


def _add_kept_rows(builder: GraphBuilder, model: LanguageModel, layer: int, mixed: str, x: str, outputs: int) -> str:
    """Residual sum of the last layer over the rows whose logits are wanted; returns its buffer."""
    block, elements = f"blk.{layer}", outputs * model.hidden
    kept = builder.add(f"{block}.get_rows", Copy(elements, 4), mixed)
    kept_residual = builder.add(f"{block}.get_rows_residual", Copy(elements, 4), x)
    return builder.add(f"{block}.attn_residual", Elementwise("add", elements), kept, kept_residual)


def _feed_forward(builder: GraphBuilder, model: LanguageModel, layer: int, x: str, tokens: int) -> str:
    """Feed-forward of one layer with its residual; returns the buffer of the sum."""
    if model.has_experts(layer):
        return moe_feed_forward(builder, model, layer, x, tokens)
    return feed_forward_block(builder, model, layer, x, tokens)


def _mixer(
    builder: GraphBuilder, model: LanguageModel, layer: int, x: str, tokens: int, kv: int, residual: tuple[str, ...]
) -> str:
    """Token mixer of one layer; its output projection adds ``residual`` if there is one."""
    if model.mixer(layer) == DELTA_NET:
        return delta_net_block(builder, model, layer, x, tokens, residual)
    if model.mixer(layer) == SHORT_CONV:
        return short_conv_block(builder, model, layer, x, tokens, residual)
    return attention_block(builder, model, layer, x, tokens, kv, residual)
