"""Hyper-parameters of the language models, from ``models.csv``."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources

from hexenv.errors import ConfigError

TABLE = "models.csv"


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """A dense decoder-only transformer with grouped-query attention and tied embeddings."""

    name: str
    layers: int
    hidden: int
    q_heads: int
    kv_heads: int
    head_dim: int
    ffn: int
    """Width of the gated feed-forward layer."""
    vocab: int
    glu: str
    """``swiglu`` or ``geglu``."""
    qk_norm: bool
    """RMS norm on every query and key head (Qwen3)."""
    qkv_bias: bool
    """Biases on the q, k and v projections (Qwen2.5): fused into the matmul."""
    scale_queries: bool
    """A separate op scales the embeddings once and the queries in each layer (Gemma)."""
    published_parameters: int
    """Total from the source, to check :attr:`parameters` against."""
    source: str
    confidence: str
    """A to D, as in the device files."""

    @property
    def layer_weights(self) -> int:
        """Matmul weights of one layer: q, k, v, o, gate, up, down."""
        attention = 2 * self.q_heads * self.head_dim + 2 * self.kv_heads * self.head_dim
        return self.hidden * (attention + 3 * self.ffn)

    @property
    def parameters(self) -> int:
        """All weights, the tied embedding table counted once."""
        norms = 2 * self.hidden + (2 * self.head_dim if self.qk_norm else 0)
        biases = (self.q_heads + 2 * self.kv_heads) * self.head_dim if self.qkv_bias else 0
        return self.layers * (self.layer_weights + norms + biases) + self.hidden + self.vocab * self.hidden


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
    return LanguageModel(
        name=row["model"],
        layers=int(row["layers"]),
        hidden=int(row["hidden"]),
        q_heads=int(row["q_heads"]),
        kv_heads=int(row["kv_heads"]),
        head_dim=int(row["head_dim"]),
        ffn=int(row["ffn"]),
        vocab=int(row["vocab"]),
        glu=row["glu"],
        qk_norm=row["qk_norm"] == "1",
        qkv_bias=row["qkv_bias"] == "1",
        scale_queries=row["scale_queries"] == "1",
        published_parameters=int(row["parameters"]),
        source=row["source"],
        confidence=row["confidence"],
    )
