"""Writes GGUF files for tests: the header by the package's own writer, the weights as a hole in the file."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, GGUFWriter

from hexenv.workload.models import ATTENTION, DELTA_NET, SHORT_CONV, LanguageModel

ALIGNMENT = 32
Tensors = dict[str, tuple[tuple[int, ...], str]]
"""Shape in ggml's order and type, by name."""


def write_gguf(path: Path, architecture: str, metadata: Mapping[str, Any], tensors: Tensors) -> Path:
    """A whole file. Keys without a dot get the architecture's prefix."""
    writer = GGUFWriter(path, architecture)
    for key, value in metadata.items():
        _add(writer, key if key.startswith(("general.", "tokenizer.", "split.")) else f"{architecture}.{key}", value)
    size = 0
    for name, (shape, kind) in tensors.items():
        dtype = GGMLQuantizationType[kind]
        block, block_bytes = GGML_QUANT_SIZES[dtype]
        stored = (shape[0] // block * block_bytes, *shape[1:])
        nbytes = int(np.prod(stored))
        writer.add_tensor_info(name, tuple(reversed(stored)), np.dtype(np.uint8), nbytes, raw_dtype=dtype)
        size += -(-nbytes // ALIGNMENT) * ALIGNMENT
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_ti_data_to_file()
    writer.close()
    header = path.stat().st_size
    with path.open("r+b") as file:
        file.truncate(-(-header // ALIGNMENT) * ALIGNMENT + size)
    return path


def _add(writer: GGUFWriter, key: str, value: Any) -> None:
    if isinstance(value, str):
        writer.add_string(key, value)
    elif isinstance(value, list):
        writer.add_array(key, value)
    else:
        writer.add_uint32(key, value)


def described(model: LanguageModel) -> dict[str, Any]:
    """Metadata that llama.cpp's converter would write for a model."""
    kv_heads: Any = model.kv_heads
    if SHORT_CONV in model.mixers:
        kv_heads = [model.kv_heads if model.mixer(i) == ATTENTION else 0 for i in range(model.layers)]
    values = {
        "general.name": model.name,
        "block_count": model.layers,
        "embedding_length": model.hidden,
        "feed_forward_length": model.ffn,
        "attention.head_count": model.q_heads,
        "attention.head_count_kv": kv_heads,
        "attention.key_length": model.head_dim,
        "attention.value_length": model.head_dim,
    }
    if model.experts_total:
        values["expert_count"], values["expert_used_count"] = model.experts_total, model.experts_active
        values["expert_feed_forward_length"] = model.expert_ffn
        values["leading_dense_block_count"] = model.dense_layers
        values["expert_shared_feed_forward_length"] = model.shared_expert_ffn
    if DELTA_NET in model.mixers:
        values["ssm.conv_kernel"], values["ssm.state_size"] = model.conv_kernel, model.gdn_head_dim
        values["ssm.group_count"], values["ssm.time_step_rank"] = model.gdn_qk_heads, model.gdn_v_heads
        values["ssm.inner_size"] = model.gdn_v_heads * model.gdn_head_dim
        values["full_attention_interval"] = len(model.mixers)
    if model.window:
        values["attention.sliding_window"] = model.window
    if SHORT_CONV in model.mixers:
        values["shortconv.l_cache"] = model.conv_kernel
    return values


def tensors_of(model: LanguageModel, kind: str = "Q4_0") -> Tensors:
    """Tensors that a converted model has: matrices of one type, the router and all vectors in F32."""
    hidden, q_width, kv_width = model.hidden, model.q_heads * model.head_dim, model.kv_heads * model.head_dim
    found: Tensors = {"token_embd.weight": ((hidden, model.vocab), kind), "output_norm.weight": ((hidden,), "F32")}
    if not model.tied:
        found["output.weight"] = ((hidden, model.vocab), kind)

    def matrix(name: str, *shape: int) -> None:
        found[f"{block}.{name}.weight"] = (shape, kind)

    def floats(name: str, *shape: int) -> None:
        found[f"{block}.{name}"] = (shape, "F32")

    for layer in range(model.layers):
        block = f"blk.{layer}"
        floats("attn_norm.weight", hidden)
        floats("post_attention_norm.weight" if DELTA_NET in model.mixers else "ffn_norm.weight", hidden)
        if model.post_norms:
            floats("post_attention_norm.weight", hidden)
            floats("post_ffw_norm.weight", hidden)
        if model.mixer(layer) == ATTENTION:
            matrix("attn_q", hidden, q_width * (2 if model.output_gate else 1))
            matrix("attn_k", hidden, kv_width)
            matrix("attn_v", hidden, kv_width)
            matrix("attn_output", q_width, hidden)
            if model.qkv_bias:
                for name, width in (("attn_q", q_width), ("attn_k", kv_width), ("attn_v", kv_width)):
                    floats(f"{name}.bias", width)
            if model.qk_norm != "none":
                row = model.qk_norm == "row"
                floats("attn_q_norm.weight", q_width if row else model.head_dim)
                floats("attn_k_norm.weight", kv_width if row else model.head_dim)
        elif model.mixer(layer) == DELTA_NET:
            heads, width = model.gdn_v_heads, model.gdn_v_heads * model.gdn_head_dim
            matrix("attn_qkv", hidden, model.conv_channels)
            matrix("attn_gate", hidden, width)
            matrix("ssm_beta", hidden, heads)
            matrix("ssm_alpha", hidden, heads)
            matrix("ssm_out", width, hidden)
            floats("ssm_conv1d.weight", model.conv_kernel, model.conv_channels)
            floats("ssm_a", heads)
            floats("ssm_dt.bias", heads)
            floats("ssm_norm.weight", model.gdn_head_dim)
        else:
            matrix("shortconv.in_proj", hidden, 3 * hidden)
            matrix("shortconv.out_proj", hidden, hidden)
            floats("shortconv.conv.weight", model.conv_kernel, hidden)
        if model.has_experts(layer):
            _experts(model, matrix, floats)
        else:
            matrix("ffn_gate", hidden, model.ffn)
            matrix("ffn_up", hidden, model.ffn)
            matrix("ffn_down", model.ffn, hidden)
    return found


def _experts(model: LanguageModel, matrix: Any, floats: Any) -> None:
    hidden, count, shared = model.hidden, model.experts_total, model.shared_expert_ffn
    floats("ffn_gate_inp.weight", hidden, count)
    matrix("ffn_gate_exps", hidden, model.expert_ffn, count)
    matrix("ffn_up_exps", hidden, model.expert_ffn, count)
    matrix("ffn_down_exps", model.expert_ffn, hidden, count)
    if SHORT_CONV in model.mixers:
        floats("exp_probs_b.bias", count)
    if shared:
        floats("ffn_gate_inp_shexp.weight", hidden)
        matrix("ffn_gate_shexp", hidden, shared)
        matrix("ffn_up_shexp", hidden, shared)
        matrix("ffn_down_shexp", shared, hidden)
