"""What a GGUF file holds and how long its steps take, as text for ``python -m hexenv.workload --gguf``."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

import pandas as pd

from hexenv.device import Device
from hexenv.kernels.dequantise import BACKEND_WEIGHTS
from hexenv.workload.diffusion import BLOCK, denoise_step
from hexenv.workload.gguf_architectures import ARCHITECTURES, matrices
from hexenv.workload.gguf_import import EMBEDDING, HEAD, WEIGHT_KINDS, GgufImport
from hexenv.workload.graph import Graph
from hexenv.workload.language import decode_step, prefill_chunk
from hexenv.workload.models import ATTENTION, DELTA_NET, SHORT_CONV, LanguageModel
from hexenv.workload.prediction import graph_us

MIXER_NAMES = {ATTENTION: "attention", DELTA_NET: "gated delta net", SHORT_CONV: "short convolution"}


def gguf_report(imported: GgufImport, device: Device, context: int, prompt: int) -> str:
    """Architecture, layers, bytes by quantisation type and by matrix, KV cache, and predicted times on a device."""
    model, tensors = imported.model, imported.file.tensors.values()
    weights, stored = sum(t.elements for t in tensors), sum(t.stored_bytes for t in tensors)
    parts = [
        f"{imported.file.path}: {model.name}, architecture {imported.architecture}",
        _layers(model),
        f"{weights:,} weights in {len(tensors)} tensors, {stored / 1e9:.3f} GB",
        f"KV cache {model.kv_bytes_per_token:,} bytes a token (f16), {model.state_bytes:,} bytes of other states",
        "",
        types(imported).round(1).to_string(index=False),
        "",
        roles(imported).to_string(index=False),
        "",
        times(model, device, context, prompt).round(2).to_string(index=False),
        *_remarks(imported),
    ]
    return "\n".join(parts)


def types(imported: GgufImport) -> pd.DataFrame:
    """A row a quantisation type: ``tensors``, ``weights``, ``MB``, ``percent`` of all bytes."""
    groups = defaultdict(list)
    for tensor in imported.file.tensors.values():
        groups[tensor.kind].append(tensor)
    total = sum(tensor.stored_bytes for tensor in imported.file.tensors.values())
    rows = []
    for kind, tensors in groups.items():
        stored = sum(tensor.stored_bytes for tensor in tensors)
        rows.append(
            {
                "type": kind,
                "tensors": len(tensors),
                "weights": sum(tensor.elements for tensor in tensors),
                "MB": stored / 1e6,
                "percent": 100.0 * stored / total,
            }
        )
    return pd.DataFrame(rows).sort_values("MB", ascending=False)


def roles(imported: GgufImport) -> pd.DataFrame:
    """A row a kind of matrix: how many tensors have which type."""
    rows = [{"matrix": name, "types": _counted(kinds)} for name, kinds in _matrix_kinds(imported).items()]
    return pd.DataFrame(rows)


def times(model: LanguageModel, device: Device, context: int, prompt: int) -> pd.DataFrame:
    """A row a step: its predicted time alone on the device, one operator after another, and token rows a second."""
    steps: list[tuple[str, Graph, int]]
    head = model.formats.of("output")
    if model.causal:
        steps = [
            (f"decode after {context}", decode_step(model, context, head), 1),
            (f"prefill of {prompt}", prefill_chunk(model, prompt), prompt),
        ]
    else:
        steps = [
            (f"denoise {BLOCK} after {context}", denoise_step(model, context, BLOCK, head=head), BLOCK),
            (f"denoise 1 after {context}", denoise_step(model, context, 1, head=head), 1),
        ]
    rows = []
    for name, graph, tokens in steps:
        us = graph_us(graph, device)
        rows.append(
            {f"on {device.name}": name, "operators": len(graph.nodes), "ms": us / 1e3, "rows/s": tokens / us * 1e6}
        )
    return pd.DataFrame(rows)


def _layers(model: LanguageModel) -> str:
    mixers = Counter(model.mixer(layer) for layer in range(model.layers))
    kinds = ", ".join(f"{count} {MIXER_NAMES[mixer]}" for mixer, count in mixers.items())
    text = (
        f"{model.layers} layers ({kinds}), hidden {model.hidden}, {model.q_heads} query and {model.kv_heads} KV heads "
        f"of {model.head_dim}, feed-forward {model.ffn}, vocabulary {model.vocab}{', tied head' if model.tied else ''}"
    )
    if model.experts_total:
        count = sum(model.has_experts(layer) for layer in range(model.layers))
        text += f"\n{count} layers with {model.experts_active} of {model.experts_total} experts of {model.expert_ffn}"
        text += f", and a shared one of {model.shared_expert_ffn}" if model.shared_expert_ffn else ""
    return text


def _matrix_kinds(imported: GgufImport) -> dict[str, Counter[str]]:
    """Quantisation types of each kind of matrix, the head last."""
    model, tensors = imported.model, imported.file.tensors
    found: dict[str, Counter[str]] = defaultdict(Counter)
    for layer in range(model.layers):
        for name in matrices(ARCHITECTURES[imported.architecture], model, layer):
            if (tensor := tensors.get(f"blk.{layer}.{name}")) is not None:
                found[name.removesuffix(".weight")][tensor.kind] += 1
    found["head"][tensors[EMBEDDING if model.tied else HEAD].kind] += 1
    return found


def _remarks(imported: GgufImport) -> Iterator[str]:
    """What to know about the times."""
    kinds = set().union(*_matrix_kinds(imported).values())
    used = [kind for kind in WEIGHT_KINDS if kind in kinds]
    missing = [kind for kind in used if WEIGHT_KINDS[kind] not in BACKEND_WEIGHTS]
    if missing:
        yield (
            f"llama.cpp's Hexagon backend leaves {', '.join(missing)} to the CPU; the times are those of NPU kernels "
            "that nobody has published"
        )
    wide = [kind for kind in used if kind in ("F32", "BF16")]
    if wide:
        yield f"matrices in {', '.join(wide)} are counted as f16, in which HMX multiplies"


def _counted(kinds: Counter[str]) -> str:
    """For example ``Q4_K 14, Q6_K 14``."""
    return ", ".join(f"{kind} {count}" for kind, count in kinds.most_common())
