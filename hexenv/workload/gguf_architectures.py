"""Which GGUF architectures map onto :class:`LanguageModel`, and which tensor is which matrix of the graph.

Sources: tensor names and metadata keys of the package ``gguf`` (its constants) and logs of llama.cpp's model loader.
What tensors show (biases, norms of queries and keys, a tied head, the mixer of a layer) is read from them; the table
holds what they do not.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hexenv.workload.models import ATTENTION, DELTA_NET, SHORT_CONV, LanguageModel

Shape = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Architecture:
    """What sets an architecture apart from a llama."""

    glu: str = "swiglu"
    scale_queries: bool = False
    causal: bool = True
    output_gate: bool = False
    gate_in_up: bool = False
    """``ffn_up`` holds gate and up behind one another."""
    full_every: int = 0
    """Every so many-th layer has no window, unless the metadata say another number."""


_GATED = Architecture(output_gate=True)
ARCHITECTURES: Mapping[str, Architecture] = {
    **dict.fromkeys(("llama", "mistral3", "internlm2", "exaone", "smollm3", "seed_oss", "ernie4_5"), Architecture()),
    **dict.fromkeys(("qwen2", "qwen2moe", "qwen3", "qwen3moe", "hunyuan-dense", "olmoe"), Architecture()),
    **dict.fromkeys(("lfm2", "lfm2moe"), Architecture()),
    **dict.fromkeys(("qwen3next", "qwen35", "qwen35moe"), _GATED),
    **dict.fromkeys(("llada", "dream"), Architecture(causal=False)),
    "gemma": Architecture(glu="geglu", scale_queries=True),
    "gemma3": Architecture(glu="geglu", scale_queries=True, full_every=6),
    **dict.fromkeys(("phi3", "glm4"), Architecture(gate_in_up=True)),
}
"""By the name in ``general.architecture``."""

MIXER_TENSOR = {"ssm_conv1d.weight": DELTA_NET, "shortconv.conv.weight": SHORT_CONV}
"""A tensor that tells the mixer of a layer; a layer with none of them has attention."""


@dataclass(frozen=True, slots=True)
class Matrix:
    """A tensor that the graph multiplies with."""

    nodes: tuple[str, ...]
    """The nodes of its layer that do; several where the file fuses what the graph keeps apart."""
    shape: Shape
    """Inner size, outputs and, for experts, their number."""


def matrices(architecture: Architecture, model: LanguageModel, layer: int) -> dict[str, Matrix]:
    """Every matrix that a layer of the model may have, by tensor name behind ``blk.N.``; fused forms included."""
    mixer = {ATTENTION: _attention, DELTA_NET: _delta_net, SHORT_CONV: _short_conv}[model.mixer(layer)]
    found = {**mixer(model), **(_experts(model) if model.has_experts(layer) else _dense(architecture, model))}
    return {f"{tensor}.weight": matrix for tensor, matrix in found.items()}


def vectors(model: LanguageModel, layer: int) -> dict[str, Shape]:
    """Everything else a layer may have: norms, biases, convolutions, decay rates. By tensor name behind ``blk.N.``."""
    hidden, head_dim = model.hidden, model.head_dim
    found: dict[str, Shape] = dict.fromkeys(
        ("attn_norm.weight", "ffn_norm.weight", "post_attention_norm.weight", "post_ffw_norm.weight"), (hidden,)
    )
    if model.has_experts(layer):
        found["exp_probs_b.bias"] = (model.experts_total,)
    if model.mixer(layer) == DELTA_NET:
        found["ssm_conv1d.weight"] = (model.conv_kernel, model.conv_channels)
        found |= dict.fromkeys(("ssm_a", "ssm_dt.bias"), (model.gdn_v_heads,))
        found["ssm_norm.weight"] = (model.gdn_head_dim,)
    elif model.mixer(layer) == SHORT_CONV:
        found["shortconv.conv.weight"] = (model.conv_kernel, hidden)
    else:
        for name, heads in (("attn_q", model.q_heads), ("attn_k", model.kv_heads), ("attn_v", model.kv_heads)):
            found[f"{name}.bias"] = (heads * head_dim,)
            found[f"{name}_norm.weight"] = (heads * head_dim,) if model.qk_norm == "row" else (head_dim,)
        found["attn_output.bias"] = (hidden,)
        found["attn_qkv.bias"] = ((model.q_heads + 2 * model.kv_heads) * head_dim,)
        found["rope_freqs.weight"] = (head_dim // 2,)
    return found


def outer_tensors(model: LanguageModel) -> dict[str, Shape]:
    """Tensors outside the layers, by name. The head is missing where it is tied."""
    return {
        "token_embd.weight": (model.hidden, model.vocab),
        "output.weight": (model.hidden, model.vocab),
        "output_norm.weight": (model.hidden,),
        "token_embd_norm.weight": (model.hidden,),
        **dict.fromkeys(
            ("rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"), (model.head_dim // 2,)
        ),
    }


def _attention(model: LanguageModel) -> dict[str, Matrix]:
    q_width, kv_width = model.q_heads * model.head_dim, model.kv_heads * model.head_dim
    return {
        "attn_q": Matrix(("q",), (model.hidden, q_width * (2 if model.output_gate else 1))),
        "attn_k": Matrix(("k",), (model.hidden, kv_width)),
        "attn_v": Matrix(("v",), (model.hidden, kv_width)),
        "attn_qkv": Matrix(("q", "k", "v"), (model.hidden, q_width + 2 * kv_width)),
        "attn_output": Matrix(("attn_out",), (q_width, model.hidden)),
    }


def _delta_net(model: LanguageModel) -> dict[str, Matrix]:
    hidden, heads, width = model.hidden, model.gdn_v_heads, model.gdn_v_heads * model.gdn_head_dim
    return {
        "attn_qkv": Matrix(("qkv",), (hidden, model.conv_channels)),
        "attn_gate": Matrix(("z",), (hidden, width)),
        "ssm_in": Matrix(("qkv", "z"), (hidden, model.conv_channels + width)),
        "ssm_beta": Matrix(("beta",), (hidden, heads)),
        "ssm_alpha": Matrix(("alpha",), (hidden, heads)),
        "ssm_ba": Matrix(("beta", "alpha"), (hidden, 2 * heads)),
        "ssm_out": Matrix(("delta_out",), (width, hidden)),
    }


def _short_conv(model: LanguageModel) -> dict[str, Matrix]:
    return {
        "shortconv.in_proj": Matrix(("conv_in",), (model.hidden, 3 * model.hidden)),
        "shortconv.out_proj": Matrix(("conv_out",), (model.hidden, model.hidden)),
    }


def _dense(architecture: Architecture, model: LanguageModel) -> dict[str, Matrix]:
    down = {"ffn_down": Matrix(("down",), (model.ffn, model.hidden))}
    if architecture.gate_in_up:
        return {"ffn_up": Matrix(("gate", "up"), (model.hidden, 2 * model.ffn)), **down}
    return {
        "ffn_gate": Matrix(("gate",), (model.hidden, model.ffn)),
        "ffn_up": Matrix(("up",), (model.hidden, model.ffn)),
        **down,
    }


def _experts(model: LanguageModel) -> dict[str, Matrix]:
    hidden, width, count, shared = model.hidden, model.expert_ffn, model.experts_total, model.shared_expert_ffn
    found = {
        "ffn_gate_inp": Matrix(("router",), (hidden, count)),
        "ffn_gate_exps": Matrix(("gate_experts",), (hidden, width, count)),
        "ffn_up_exps": Matrix(("up_experts",), (hidden, width, count)),
        "ffn_gate_up_exps": Matrix(("gate_experts", "up_experts"), (hidden, 2 * width, count)),
        "ffn_down_exps": Matrix(("down_experts",), (width, hidden, count)),
    }
    if shared:
        found["ffn_gate_inp_shexp"] = Matrix(("shared_share",), (hidden,))
        found["ffn_gate_shexp"] = Matrix(("shared_gate",), (hidden, shared))
        found["ffn_up_shexp"] = Matrix(("shared_up",), (hidden, shared))
        found["ffn_down_shexp"] = Matrix(("shared_down",), (shared, hidden))
    return found
