"""Turns a GGUF file into a :class:`LanguageModel`: hyper-parameters from its metadata, each matrix in its own format.

Only the header is read. Every tensor must be one that the architecture's graph has work for or no work at all, in the
shape that the metadata ask for; anything else is refused by name, since a graph that lacks an operator would look
faster than the model is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple

from hexenv.errors import ConfigError
from hexenv.kernels.matmul import Weight
from hexenv.workload.formats import Formats
from hexenv.workload.gguf_architectures import (
    ARCHITECTURES,
    MIXER_TENSOR,
    Architecture,
    Matrix,
    Shape,
    matrices,
    outer_tensors,
    vectors,
)
from hexenv.workload.gguf_file import GgufFile, GgufTensor, read_gguf
from hexenv.workload.models import ATTENTION, DELTA_NET, SHORT_CONV, LanguageModel

WEIGHT_KINDS: Mapping[str, Weight] = {
    "F32": "f16",
    "F16": "f16",
    "BF16": "f16",
    "Q4_0": "q4_0",
    "Q4_1": "q4_1",
    "Q5_0": "q5_0",
    "Q5_1": "q5_1",
    "Q8_0": "q8_0",
    "Q2_K": "q2_k",
    "Q3_K": "q3_k",
    "Q4_K": "q4_k",
    "Q5_K": "q5_k",
    "Q6_K": "q6_k",
    "IQ4_NL": "iq4_nl",
    "IQ4_XS": "iq4_xs",
    "MXFP4": "mxfp4",
}
"""GGMLQuantizationType of a matrix to the format whose costs it has. HMX multiplies floats in f16."""
GDN_CHUNK = 64
"""Tokens a chunked delta-net kernel takes at a time: no metadata, the default of the common library."""
EMBEDDING, HEAD = "token_embd.weight", "output.weight"
MOST_LAYERS = 1024


@dataclass(frozen=True, slots=True)
class GgufImport:
    """An imported model."""

    model: LanguageModel
    architecture: str
    file: GgufFile


def import_gguf(path: Path) -> GgufImport:
    """Read the header of a GGUF file (the first one of several) and map it.

    Raises:
        ConfigError: ``gguf`` is not installed; the file is missing, truncated or no GGUF; its architecture, a tensor or
            a quantisation type has no mapping; metadata are missing, or a shape does not fit them.
    """
    file = read_gguf(path)
    name = str(file.metadata.get("general.architecture", "missing"))
    if name not in ARCHITECTURES:
        raise ConfigError(f"{path}: general.architecture = {name}, allowed: {', '.join(sorted(ARCHITECTURES))}")
    architecture = ARCHITECTURES[name]
    model = _hyper_parameters(file, name, architecture)
    return GgufImport(replace(model, formats=_formats(file, architecture, model)), name, file)


@dataclass(frozen=True, slots=True)
class _Metadata:
    """Numbers of one architecture."""

    file: GgufFile
    architecture: str

    def integer(self, key: str, default: int | None = None, low: int = 1, high: int = 1 << 31) -> int:
        """One number. A key with a number a layer must give the same wherever it is not 0."""
        full = f"{self.architecture}.{key}"
        value = self.file.metadata.get(full, default)
        if isinstance(value, list):
            distinct = sorted({v for v in value if v != 0})
            value = distinct[0] if len(distinct) == 1 else value
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            given = "missing" if value is None else value
            raise ConfigError(
                f"{self.file.path}: {full} = {given}, allowed: an integer of at least {low} and at most {high}, "
                "the same in every layer that has one"
            )
        return value


def _hyper_parameters(file: GgufFile, name: str, architecture: Architecture) -> LanguageModel:
    metadata = _Metadata(file, name)
    behind = metadata.integer("nextn_predict_layers", 0, low=0, high=MOST_LAYERS)
    layers = metadata.integer("block_count", low=behind + 1, high=MOST_LAYERS) - behind
    hidden, q_heads = metadata.integer("embedding_length"), metadata.integer("attention.head_count")
    head_dim = metadata.integer("attention.key_length", max(1, hidden // q_heads))
    ffn = metadata.integer("feed_forward_length", 0, low=0)
    experts = metadata.integer("expert_count", 0, low=0)
    shared = metadata.integer("expert_shared_feed_forward_length", 0, low=0) if experts else 0
    mixers = _mixers(file, layers)
    window = metadata.integer("attention.sliding_window", 0, low=0) if architecture.full_every else 0
    recurrence = _recurrence(metadata, mixers)
    model = LanguageModel(
        name=str(file.metadata.get("general.name") or file.path.stem),
        layers=layers,
        hidden=hidden,
        q_heads=q_heads,
        kv_heads=metadata.integer("attention.head_count_kv", q_heads),
        head_dim=head_dim,
        ffn=ffn,
        vocab=_vocabulary(file, hidden),
        glu=architecture.glu,
        qk_norm=_qk_norm(file, head_dim),
        qkv_bias=any(tensor.endswith(("attn_q.bias", "attn_qkv.bias")) for tensor in file.tensors),
        scale_queries=architecture.scale_queries,
        tied=HEAD not in file.tensors,
        causal=architecture.causal,
        output_gate=architecture.output_gate,
        mixers=mixers,
        conv_kernel=recurrence.conv_kernel,
        gdn_qk_heads=recurrence.gdn_qk_heads,
        gdn_v_heads=recurrence.gdn_v_heads,
        gdn_head_dim=recurrence.gdn_head_dim,
        gdn_chunk=recurrence.gdn_chunk,
        dense_layers=metadata.integer("leading_dense_block_count", 0, low=0) if experts else 0,
        experts_total=experts,
        experts_active=metadata.integer("expert_used_count", high=experts) if experts else 0,
        expert_ffn=metadata.integer("expert_feed_forward_length", ffn or None) if experts else 0,
        shared_expert_ffn=shared,
        post_norms="blk.0.post_ffw_norm.weight" in file.tensors,
        window=window,
        full_every=metadata.integer("attention.sliding_window_pattern", architecture.full_every) if window else 0,
        published_parameters=None,
        source=str(file.path),
        confidence="A",
    )
    _check(metadata, model)
    return model


def _check(metadata: _Metadata, model: LanguageModel) -> None:
    """What the record has no room for."""
    if model.q_heads % model.kv_heads:
        raise ConfigError(
            f"{metadata.file.path}: {metadata.architecture}.attention.head_count_kv = {model.kv_heads}, "
            f"allowed: a divisor of head_count = {model.q_heads}"
        )
    metadata.integer("attention.value_length", model.head_dim, low=model.head_dim, high=model.head_dim)
    interval = metadata.integer("full_attention_interval", 0, low=0)
    attention = [bool(interval) and (layer + 1) % interval == 0 for layer in range(model.layers)]
    if interval and attention != [mixer == ATTENTION for mixer in model.mixers]:
        raise ConfigError(
            f"{metadata.file.path}: {metadata.architecture}.full_attention_interval = {interval}, but the tensors make "
            f"the layers {model.mixers} ({ATTENTION} attention, {DELTA_NET} delta net)"
        )


class _Recurrence(NamedTuple):
    """Sizes of delta-net and short-convolution layers, 0 where there are none."""

    conv_kernel: int = 0
    gdn_qk_heads: int = 0
    gdn_v_heads: int = 0
    gdn_head_dim: int = 0
    gdn_chunk: int = 0


def _recurrence(metadata: _Metadata, mixers: str) -> _Recurrence:
    if DELTA_NET in mixers:
        heads, head_dim = metadata.integer("ssm.time_step_rank"), metadata.integer("ssm.state_size")
        metadata.integer("ssm.inner_size", low=heads * head_dim, high=heads * head_dim)
        kernel, qk_heads = metadata.integer("ssm.conv_kernel"), metadata.integer("ssm.group_count")
        return _Recurrence(kernel, qk_heads, heads, head_dim, GDN_CHUNK)
    return _Recurrence(metadata.integer("shortconv.l_cache")) if SHORT_CONV in mixers else _Recurrence()


def _mixers(file: GgufFile, layers: int) -> str:
    """A letter a layer, from the tensors that only one kind of layer has."""

    def mixer(layer: int) -> str:
        found = (mixer for tensor, mixer in MIXER_TENSOR.items() if f"blk.{layer}.{tensor}" in file.tensors)
        return next(found, ATTENTION)

    return "".join(mixer(layer) for layer in range(layers))


def _vocabulary(file: GgufFile, hidden: int) -> int:
    """Rows of the embedding table."""
    shape = file.tensors[EMBEDDING].shape if EMBEDDING in file.tensors else ()
    if len(shape) != 2:
        raise ConfigError(f"{file.path}: tensor {EMBEDDING} has shape {list(shape)}, allowed: [{hidden}, vocabulary]")
    return shape[1]


def _qk_norm(file: GgufFile, head_dim: int) -> str:
    """Norm of queries and keys, from the length of its weights."""
    norms = [tensor for name, tensor in file.tensors.items() if name.endswith("attn_q_norm.weight")]
    if not norms:
        return "none"
    return "head" if norms[0].shape == (head_dim,) else "row"


def _formats(file: GgufFile, architecture: Architecture, model: LanguageModel) -> Formats:
    """Formats of all matrices; checks that every tensor is known, in shape, and that none is missing."""
    pairs: dict[str, Weight] = {}
    left = dict(file.tensors)
    for name, shape in outer_tensors(model).items():
        if name in left:
            _fits(file, left.pop(name), shape)
    pairs["output"] = _weight(file, file.tensors[EMBEDDING if model.tied else HEAD])
    for layer in range(model.layers):
        block = f"blk.{layer}"
        products = matrices(architecture, model, layer)
        for name, product in products.items():
            if (tensor := left.pop(f"{block}.{name}", None)) is not None:
                _fits(file, tensor, product.shape)
                pairs |= dict.fromkeys((f"{block}.{node}" for node in product.nodes), _weight(file, tensor))
        for name, shape in vectors(model, layer).items():
            if (tensor := left.pop(f"{block}.{name}", None)) is not None:
                _fits(file, tensor, shape)
        _complete(file, block, products, pairs)
    _nothing_left(file, left, model.layers)
    return Formats.from_pairs(pairs.items())


def _complete(file: GgufFile, block: str, products: Mapping[str, Matrix], pairs: Mapping[str, Weight]) -> None:
    """Every product of a layer has its matrix."""
    for name, product in products.items():
        if any(f"{block}.{node}" not in pairs for node in product.nodes):
            raise ConfigError(
                f"{file.path}: tensor {block}.{name} is missing, allowed: one of shape {list(product.shape)}"
            )


def _nothing_left(file: GgufFile, left: Mapping[str, GgufTensor], layers: int) -> None:
    """Refuse tensors that stand for work the graph lacks. Layers that only draft later tokens may be there."""
    drafting = tuple(f"blk.{layer}." for layer in range(layers, MOST_LAYERS))
    unknown = [name for name in left if not name.startswith(drafting)]
    if unknown:
        shown = ", ".join(unknown[:3]) + (f" and {len(unknown) - 3} more" if len(unknown) > 3 else "")
        raise ConfigError(
            f"{file.path}: tensors without a mapping: {shown}; allowed: those of "
            f"{file.metadata['general.architecture']!r} models with the operators of docs/import.md"
        )


def _fits(file: GgufFile, tensor: GgufTensor, shape: Shape) -> None:
    if _without_units(tensor.shape) != _without_units(shape):
        raise ConfigError(
            f"{file.path}: tensor {tensor.name} has shape {list(tensor.shape)}, allowed by the metadata: {list(shape)}"
        )


def _without_units(shape: Shape) -> Shape:
    """A shape without the 1s at its end, which ggml keeps or drops."""
    while shape and shape[-1] == 1:
        shape = shape[:-1]
    return shape


def _weight(file: GgufFile, tensor: GgufTensor) -> Weight:
    if tensor.kind not in WEIGHT_KINDS:
        raise ConfigError(
            f"{file.path}: tensor {tensor.name} is {tensor.kind}, allowed for a matrix: {', '.join(WEIGHT_KINDS)}"
        )
    return WEIGHT_KINDS[tensor.kind]
