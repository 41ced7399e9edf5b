"""Which hexenv operator a logged operator of llama.cpp is: one table, one short function a kind.

Shapes are ggml's, fastest dimension first. The first part of a fused operator's name decides; what the backend fuses
behind it costs nothing of its own in the model. Several matmuls fused on one input are one with all their outputs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, get_args

from hexenv.kernels import (
    Copy,
    Elementwise,
    ExpertMatMul,
    FlashAttention,
    GatedDeltaNet,
    L2Norm,
    LayerNorm,
    MatMul,
    Operator,
    Reduce,
    RmsNorm,
    Rope,
    Scan,
    ShortConv,
    Softmax,
)
from hexenv.kernels.elementwise import KINDS
from hexenv.kernels.matmul import Weight
from hexenv.logs import LoggedOp, Tensor
from hexenv.workload.experts import routed_rows

PRODUCT = "MUL_MAT"
FUSED: Mapping[str, tuple[str, ...]] = {
    PRODUCT: (PRODUCT, "ADD"),
    "MUL_MAT_ID": ("ADD_ID",),
    "RMS_NORM": ("MUL",),
    "GATED_DELTA_NET": ("CPY",),
}
"""What may follow an operator's own name."""
OTHER_NAMES = {"CLAMP": "clip", "SWIGLU_OAI": "swiglu", "ADD_ID": "add"}
"""Element-wise operators whose name differs from ours; the others are the lower-case name."""
BYTES = {"f16": 2, "bf16": 2}
"""Of an element; 4 for all others that the backend computes with."""
LARGEST = 1 << 31
"""Elements of a tensor, above which a log is not believed."""


class NoOperator(Exception):
    """A logged operator that the model has no cost for; the text says why."""


def elementwise_kind(name: str) -> str:
    """The element-wise kind of a ggml operator, whether or not there is one (see ``kernels.elementwise.KINDS``)."""
    return OTHER_NAMES.get(name, name.lower())


def map_operator(op: LoggedOp, weight: str | None = None) -> Operator:
    """The operator of a log line; ``weight`` is the format of weights where the log has no types.

    Raises:
        NoOperator: there is none.
    """
    name, *fused = op.name.split("+")
    if any(part not in FUSED.get(name, ()) for part in fused):
        raise NoOperator("a fusion that the model does not know")
    if max(t.elements for t in (*op.inputs, op.output) if t) > LARGEST:
        raise NoOperator(f"a tensor of more than {LARGEST} elements")
    if name in _MAPPING:
        return _MAPPING[name](op, weight)
    kind = elementwise_kind(name)
    if kind in KINDS:
        return Elementwise(kind, op.output.elements, _bytes(op.output))
    raise NoOperator("no cost model")


def _input(op: LoggedOp, index: int) -> Tensor:
    found = op.inputs[index] if index < len(op.inputs) else None
    if found is None:
        raise NoOperator(f"operand {index} is missing")
    return found


def _bytes(tensor: Tensor) -> int:
    return BYTES.get(tensor.type, 4)


def _weight(tensor: Tensor, weight: str | None) -> Any:
    kind = tensor.type or weight
    if not kind:
        raise NoOperator("the log has no types: name the format of the weights")
    if kind not in get_args(Weight):
        raise NoOperator(f"weights {kind} have no cost")
    return kind


def _product(op: LoggedOp, weight: str | None) -> Operator:
    """Weights K:M(:batch), activations K:N(:batch); fused ones bring further weights of the same K."""
    first, activations = _input(op, 0), _input(op, 1)
    inner, tokens, *batch = activations.shape
    count = op.name.split("+").count(PRODUCT)
    weights = [first, *(t for t in op.inputs[2:] if t and t.shape[0] == inner)][:count]
    if first.shape[0] != inner or len(weights) < count:
        raise NoOperator("shapes that do not fit")
    kinds = {_weight(tensor, weight) for tensor in weights}
    if len(kinds) > 1:
        raise NoOperator(f"weights of several formats fused: {', '.join(sorted(kinds))}")
    outputs = sum(tensor.shape[1] for tensor in weights)
    return MatMul(kinds.pop(), outputs, tokens, inner, batch[0] * batch[1])


def _expert_product(op: LoggedOp, weight: str | None) -> Operator:
    """Weights K:M:experts, result M:picks:tokens. The log does not say which experts, so they are the expected ones."""
    inner, outputs, experts, _ = _input(op, 0).shape
    _, picks, tokens, _ = op.output.shape
    if picks > experts:
        raise NoOperator("shapes that do not fit")
    return ExpertMatMul(_weight(_input(op, 0), weight), outputs, inner, routed_rows(tokens, experts, picks))


def _attention(op: LoggedOp, weight: str | None) -> Operator:
    head_dim, queries, q_heads, _ = _input(op, 0).shape
    _, kv, kv_heads, _ = _input(op, 1).shape
    if q_heads % kv_heads:
        raise NoOperator("shapes that do not fit")
    return FlashAttention(queries, kv, q_heads, kv_heads, head_dim)


def _delta_net(op: LoggedOp, weight: str | None) -> Operator:
    head_dim, qk_heads, tokens, sequences = _input(op, 0).shape
    v_heads = _input(op, 2).shape[1]
    if v_heads % qk_heads:
        raise NoOperator("shapes that do not fit")
    return GatedDeltaNet(tokens, v_heads, qk_heads, head_dim, sequences)


def _short_conv(op: LoggedOp, weight: str | None) -> Operator:
    kernel, channels, *_ = _input(op, 1).shape
    return ShortConv(op.output.shape[1] * op.output.shape[2], channels, kernel)


def _rope(op: LoggedOp, weight: str | None) -> Operator:
    head_dim, heads, tokens, sequences = _input(op, 0).shape
    return Rope(tokens * sequences, heads, head_dim)


def _rows(family: Callable[[int, int], Operator]) -> Callable[[LoggedOp, str | None], Operator]:
    def make(op: LoggedOp, weight: str | None) -> Operator:
        source = _input(op, 0)
        return family(source.elements // source.shape[0], source.shape[0])

    return make


def _move(kind: str) -> Callable[[LoggedOp, str | None], Operator]:
    return lambda op, weight: Copy(op.output.elements, _bytes(op.output), kind)


def _set_rows(op: LoggedOp, weight: str | None) -> Operator:
    """What moves is the source; the result stands for the whole tensor written into."""
    return Copy(_input(op, 0).elements, _bytes(op.output), "set_rows")


_MAPPING: Mapping[str, Callable[[LoggedOp, str | None], Operator]] = {
    PRODUCT: _product,
    "MUL_MAT_ID": _expert_product,
    "FLASH_ATTN_EXT": _attention,
    "GATED_DELTA_NET": _delta_net,
    "SSM_CONV": _short_conv,
    "ROPE": _rope,
    "RMS_NORM": _rows(RmsNorm),
    "NORM": _rows(LayerNorm),
    "L2_NORM": _rows(L2Norm),
    "SOFT_MAX": _rows(Softmax),
    "SUM_ROWS": _rows(Reduce),
    "MEAN": _rows(Reduce),
    "CUMSUM": _rows(Scan),
    "SET_ROWS": _set_rows,
    **dict.fromkeys(("CPY", "CONT", "DUP"), _move("copy")),
    **{name.upper(): _move(name) for name in ("get_rows", "repeat", "fill", "concat", "pad", "im2col", "argsort")},
}
"""By ggml's name; element-wise operators are in ``kernels.elementwise``."""
