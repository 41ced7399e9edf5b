"""Hyper-parameters of the language models, from ``models.csv``."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from hexenv.errors import ConfigError
from hexenv.workload.formats import USUAL_FORMATS, Formats

TABLE = "models.csv"
ATTENTION = "A"
DELTA_NET = "G"
SHORT_CONV = "C"
F16, F32 = 2, 4


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A decoder-only model: layers of a token mixer and a gated feed-forward, which may be a mixture of experts.

    Numbers that a model has no use for are 0.
    """

    name: str
    layers: int
    hidden: int
    q_heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    """Width of the dense gated feed-forward layers."""
    vocab: int
    glu: str
    """``swiglu`` or ``geglu``."""
    qk_norm: str
    """RMS norm of queries and keys: ``none``, on every ``head`` (Qwen3) or on the whole ``row`` (OLMoE)."""
    qkv_bias: bool
    """Biases on the q, k and v projections (Qwen2.5): fused into the matmul."""
    scale_queries: bool
    """A separate op scales the embeddings once and the queries in each layer (Gemma)."""
    tied: bool
    """The head uses the embedding table."""
    causal: bool
    """False for a diffusion model, whose tokens see both sides."""
    output_gate: bool
    """A sigmoid gate on the attention's output, projected beside the queries (Qwen3-Next)."""
    mixers: str
    """Token mixer of each layer, repeated over the layers: ``A`` attention, ``G`` gated delta net, ``C`` short conv."""
    conv_kernel: int
    """Taps of the causal depthwise convolution of ``G`` and ``C`` layers."""
    gdn_qk_heads: int
    gdn_v_heads: int
    gdn_head_dim: int
    gdn_chunk: int
    """Tokens a chunked delta-net kernel takes at a time."""
    dense_layers: int
    """So many first layers have a dense feed-forward in a mixture-of-experts model."""
    experts_total: int
    """Routed experts of a layer; 0 = no mixture of experts."""
    experts_active: int
    """Routed experts a token visits."""
    expert_ffn: int
    """Width of one routed expert."""
    shared_expert_ffn: int
    """Width of the expert that every token visits, behind a sigmoid gate of its own; 0 = none."""
    published_parameters: int | None
    """Total from the source, to as many digits as given, to check :attr:`parameters` against; None = not known."""
    source: str
    confidence: str
    """A to D, as in the device files."""
    post_norms: bool = False
    """Norms behind attention and feed-forward too, before their residual sums (Gemma 3)."""
    window: int = 0
    """Tokens that the attention of most layers sees (Gemma 3); 0 = all."""
    full_every: int = 0
    """Every so many-th layer sees all tokens in spite of the window."""
    formats: Formats = USUAL_FORMATS
    """How each matrix is stored."""

    @property
    def conv_channels(self) -> int:
        """Channels through the convolution of a delta-net layer: queries, keys and values."""
        return (2 * self.gdn_qk_heads + self.gdn_v_heads) * self.gdn_head_dim

    def mixer(self, layer: int) -> str:
        """Token mixer of a layer, one letter of :attr:`mixers`."""
        return self.mixers[layer % len(self.mixers)]

    def has_window(self, layer: int) -> bool:
        """Whether the layer's attention sees the last :attr:`window` tokens only."""
        return self.window > 0 and (layer + 1) % self.full_every != 0

    def has_experts(self, layer: int) -> bool:
        """Whether the layer's feed-forward is a mixture of experts."""
        return self.experts_total > 0 and layer >= self.dense_layers

    @property
    def _kv_row_bytes(self) -> int:
        """A token's keys and values in one layer, f16."""
        return 2 * F16 * self.kv_heads * self.head_dim

    @property
    def kv_bytes_per_token(self) -> int:
        """What a token adds to the f16 KV cache of the layers that keep all tokens."""
        growing = [self.mixer(layer) == ATTENTION and not self.has_window(layer) for layer in range(self.layers)]
        return self._kv_row_bytes * sum(growing)

    @property
    def state_bytes(self) -> int:
        """What does not grow with the context: fp32 states of delta nets and convolutions, f16 KV of windows."""
        delta = F32 * (self.gdn_v_heads * self.gdn_head_dim**2 + (self.conv_kernel - 1) * self.conv_channels)
        each = {DELTA_NET: delta, SHORT_CONV: F32 * (self.conv_kernel - 1) * self.hidden, ATTENTION: 0}
        windows = sum(self.has_window(layer) for layer in range(self.layers))
        return sum(each[self.mixer(layer)] for layer in range(self.layers)) + windows * self.window * self._kv_row_bytes

    def layer_weights(self, layer: int) -> int:
        """Matmul weights of one layer, all experts counted."""
        if self.has_experts(layer):
            shared = 3 * self.shared_expert_ffn + (1 if self.shared_expert_ffn else 0)
            feed_forward = self.experts_total * (3 * self.expert_ffn + 1) + shared
        else:
            feed_forward = 3 * self.ffn
        return self.hidden * (self._mixer_columns(layer) + feed_forward)

    def _mixer_columns(self, layer: int) -> int:
        """Weight columns of length ``hidden`` in the token mixer's projections."""
        if self.mixer(layer) == DELTA_NET:
            value_width = self.gdn_v_heads * self.gdn_head_dim
            return self.conv_channels + 2 * value_width + 2 * self.gdn_v_heads
        if self.mixer(layer) == SHORT_CONV:
            return 4 * self.hidden
        return ((3 if self.output_gate else 2) * self.q_heads + 2 * self.kv_heads) * self.head_dim

    def _layer_vectors(self, layer: int) -> int:
        """Norm weights, biases, convolution taps and decay rates of one layer."""
        router_bias = self.experts_total if SHORT_CONV in self.mixers and self.has_experts(layer) else 0
        common = (4 if self.post_norms else 2) * self.hidden + router_bias
        if self.mixer(layer) == DELTA_NET:
            return common + self.conv_channels * self.conv_kernel + 2 * self.gdn_v_heads + self.gdn_head_dim
        if self.mixer(layer) == SHORT_CONV:
            return common + self.hidden * self.conv_kernel
        norms = {"none": 0, "head": 2, "row": self.q_heads + self.kv_heads}[self.qk_norm]
        biases = self.q_heads + 2 * self.kv_heads if self.qkv_bias else 0
        return common + (norms + biases) * self.head_dim

    @property
    def parameters(self) -> int:
        """All weights, a tied embedding table counted once."""
        layers = sum(self.layer_weights(layer) + self._layer_vectors(layer) for layer in range(self.layers))
        return layers + self.hidden + (1 if self.tied else 2) * self.vocab * self.hidden


@cache
def language_models() -> dict[str, LanguageModel]:
    """All models of the table by name."""
    text = resources.files("hexenv.workload").joinpath(TABLE).read_text(encoding="utf-8")
    return {row["model"]: _model(row) for row in csv.DictReader(text.splitlines())}


def language_model(name: str) -> LanguageModel:
    """One model. An unknown name is a ConfigError that lists the known ones."""
    models = language_models()
    if name not in models:
        raise ConfigError(f"unknown language model {name!r}, allowed: {', '.join(models)} ({TABLE})")
    return models[name]


def _model(row: dict[str, str]) -> LanguageModel:
    def number(column: str) -> int:
        return int(row[column] or 0)

    return LanguageModel(
        name=row["model"],
        layers=number("layers"),
        hidden=number("hidden"),
        q_heads=number("q_heads"),
        kv_heads=number("kv_heads"),
        head_dim=number("head_dim"),
        ffn=number("ffn"),
        vocab=number("vocab"),
        glu=row["glu"],
        qk_norm=row["qk_norm"],
        qkv_bias=row["qkv_bias"] == "1",
        scale_queries=row["scale_queries"] == "1",
        tied=row["tied"] == "1",
        causal=row["causal"] == "1",
        output_gate=row["output_gate"] == "1",
        mixers=row["mixers"],
        conv_kernel=number("conv_kernel"),
        gdn_qk_heads=number("gdn_qk_heads"),
        gdn_v_heads=number("gdn_v_heads"),
        gdn_head_dim=number("gdn_head_dim"),
        gdn_chunk=number("gdn_chunk"),
        dense_layers=number("dense_layers"),
        experts_total=number("experts_total"),
        experts_active=number("experts_active"),
        expert_ffn=number("expert_ffn"),
        shared_expert_ffn=number("shared_expert_ffn"),
        published_parameters=number("parameters") or None,
        source=row["source"],
        confidence=row["confidence"],
    )
