"""ONNX nodes that become several operators one after another: recurrent layers, attention, transforms, sampling."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import prod

from hexenv.kernels import Copy, Elementwise, FlashAttention, LayerNorm, MatMul, Pool, Reduce, RmsNorm, Rope
from hexenv.kernels.operator import Operator
from hexenv.workload.onnx_node import FLOAT_BYTES, NoMapping, OnnxNode

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4, "DynamicQuantizeLSTM": 4}
"""Gates of a recurrent cell."""
SORT_ROW = 128
"""Elements that one argsort of the cost model orders."""

Operators = tuple[Operator, ...]


def _recurrent(node: OnnxNode) -> Operators:
    """Input projection of all steps at once, then step by step the recurrent product and the gates.

    The recurrent weights are streamed again for every step: an upper bound where they would stay in VTCM.
    """
    shape = node.input(0).shape
    steps, batch = (shape[1], shape[0]) if node.attribute("layout", 0) else shape[:2]
    hidden, directions = node.attribute("hidden_size", 0), _directions(node)
    rows = GATES[node.type] * hidden
    gates = directions * steps * batch * hidden
    return (
        MatMul("f16", directions * rows, steps * batch, shape[2]),
        MatMul("f16", rows, batch, hidden, batch=directions * steps),
        Elementwise("sigmoid", (GATES[node.type] - 1) * gates or gates, FLOAT_BYTES),
        Elementwise("tanh", gates, FLOAT_BYTES),
        Elementwise("mul", gates, FLOAT_BYTES),
    )


def _directions(node: OnnxNode) -> int:
    return 2 if node.attribute("direction", b"forward") == b"bidirectional" else 1


def _einsum(node: OnnxNode) -> Operators:
    """A contraction of two tensors: axes of both and the result are the batch, axes of both alone are summed."""
    equation = node.attribute("equation", b"").decode().replace(" ", "")
    inputs, arrow, result = equation.partition("->")
    left, comma, right = inputs.partition(",")
    letters = left + right + result
    if not (arrow and comma and letters.isalpha()) or "," in right or len(set(left)) < len(left):
        raise NoMapping(f"equation {equation!r}, allowed: two tensors and a result, one letter an axis")
    sizes = dict(zip(left + right, node.input(0).shape + node.input(1).shape, strict=True))

    def size(axes: set[str]) -> int:
        return prod(sizes[axis] for axis in axes)

    both = set(left) & set(right)
    batch, inner = both & set(result), both - set(result)
    rows, columns = (set(left) & set(result)) - both, (set(right) & set(result)) - both
    if node.constant[1] and not batch:
        return (MatMul("f16", size(columns), size(rows), size(inner)),)
    return (MatMul("f16", size(columns), size(rows), size(inner), batch=size(batch)),)


def _attention(node: OnnxNode) -> Operators:
    """Attention of (batch, heads, tokens, size), or of (batch, tokens, heads * size) with the heads as attributes."""
    query, key = node.input(0).shape, node.input(1).shape
    if len(query) == 4:
        batch, q_heads, tokens, size = query
        kv_heads, kv = key[1], key[2]
    else:
        q_heads, kv_heads = node.attribute("q_num_heads", 0), node.attribute("kv_num_heads", 0)
        if not q_heads or not kv_heads:
            raise NoMapping("no number of heads")
        batch, tokens, size, kv = query[0], query[1], query[2] // q_heads, key[1]
    return (FlashAttention(tokens, kv, q_heads, kv_heads, size),) * batch


def _rotary(node: OnnxNode) -> Operators:
    """Heads as in :func:`_attention`."""
    shape = node.input(0).shape
    heads = shape[1] if len(shape) == 4 else node.attribute("num_heads", 1) or 1
    tokens = shape[0] * shape[-2]
    return (Rope(tokens, heads, prod(shape) // (tokens * heads)),)


def _fourier(node: OnnxNode) -> Operators:
    """As a product with the table of sines and cosines, all lines of the axis or all windows at once."""
    result = node.output.shape
    if node.type == "STFT":
        window = node.inputs[2].elements if len(node.inputs) > 2 and node.inputs[2] else node.value(3)
        if not window:
            raise NoMapping("length of the window is unknown")
        return (MatMul("f16", 2 * result[2], result[0] * result[1], int(window)),)
    axis = int(node.value(2) or 0) if len(node.inputs) > 2 else node.attribute("axis", 1)
    length, parts = node.input(0).shape[axis], node.input(0).shape[-1]
    lines = node.input(0).elements // (length * parts)
    return (MatMul("f16", 2 * result[axis], lines, length * parts),)


def _local_response(node: OnnxNode) -> Operators:
    """Squares, their mean over neighbouring channels, a power, and the quotient."""
    elements = node.output.elements
    pool = Pool("average", 1, elements, 1, 1, node.attribute("size", 1), 1, 1, FLOAT_BYTES)
    return (_each("sqr", elements), pool, _each("softplus", elements), _each("div", elements))


def _sampled(node: OnnxNode) -> Operators:
    """GridSample and RoiAlign: four neighbours of every sample gathered, and their weighted sum."""
    samples = node.output.elements * max(1, int(node.attribute("sampling_ratio", 1))) ** 2
    return (Copy(4 * samples, FLOAT_BYTES, "gather"), _each("hardswish", samples))


def _top_k(node: OnnxNode) -> Operators:
    """A sort in rows of the cost model's network, as often as merging them takes."""
    elements = node.input(0).elements
    row = node.input(0).shape[node.attribute("axis", -1)]
    passes = max(1, (-(-row // SORT_ROW) - 1).bit_length() + 1)
    return (Copy(elements, 4, "argsort"),) * passes


def _dynamic_quantise(node: OnnxNode) -> Operators:
    """Largest and smallest value, then scale and round."""
    elements = node.input(0).elements
    return (Reduce(1, elements), Reduce(1, elements), _each("clip", elements))


def _skip_norm(node: OnnxNode) -> Operators:
    """The sum of two streams, normalised."""
    shape = node.input(0).shape
    kind = RmsNorm if "Simplified" in node.type else LayerNorm
    return (_each("add", prod(shape)), kind(prod(shape[:-1]), shape[-1]))


def _quantised_product(node: OnnxNode) -> Operators:
    """MatMulNBits: blocks of 4-bit weights with scales, and zero points if it has them."""
    bits, outputs, inner = (node.attribute(name, 0) for name in ("bits", "N", "K"))
    if bits not in (4, 8):
        raise NoMapping(f"{bits} bits, allowed: 4 and 8")
    tokens = node.input(0).elements // inner
    with_zeros = len(node.inputs) > 3 and node.inputs[3] is not None
    weight = "q8_0" if bits == 8 else "q4_1" if with_zeros else "q4_0"
    return (MatMul(weight, outputs, tokens, inner),)  # type: ignore[arg-type]


def _each(kind: str, elements: int) -> Elementwise:
    return Elementwise(kind, elements, FLOAT_BYTES)


COMPOUND: Mapping[str, Callable[[OnnxNode], Operators]] = {
    **dict.fromkeys(GATES, _recurrent),
    "Einsum": _einsum,
    "Attention": _attention,
    "RotaryEmbedding": _rotary,
    "DFT": _fourier,
    "STFT": _fourier,
    "LRN": _local_response,
    "GridSample": _sampled,
    "RoiAlign": _sampled,
    "TopK": _top_k,
    "DynamicQuantizeLinear": _dynamic_quantise,
    "SkipLayerNormalization": _skip_norm,
    "SkipSimplifiedLayerNormalization": _skip_norm,
    "MatMulNBits": _quantised_product,
}
"""ONNX operator type to the function that makes its operators."""
