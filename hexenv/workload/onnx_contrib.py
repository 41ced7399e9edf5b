"""Shapes of what ONNX Runtime's own operators (domain ``com.microsoft``) make: ONNX has no schema for them."""

from __future__ import annotations

from typing import Any

Shape = tuple[int, ...]

SAME_SHAPE = frozenset(
    (
        *("Gelu", "FastGelu", "BiasGelu", "QuickGelu", "SkipLayerNormalization", "SkipSimplifiedLayerNormalization"),
        *("SimplifiedLayerNormalization", "RotaryEmbedding", "QLinearAdd", "QLinearMul"),
    )
)
"""Their first output has the shape of their first input."""
STANDARD = {"FusedConv": "Conv"}
"""ONNX operators whose outputs have the same shapes."""


def output_shapes(node: Any, first: Shape) -> list[Shape]:
    """Shapes of the node's outputs as far as they follow from its first input's, else none."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    if not first:
        return []
    if node.op_type in SAME_SHAPE:
        return [first]
    if node.op_type == "MatMulNBits" and "N" in attributes:
        return [(*first[:-1], attributes["N"].i)]
    if node.op_type == "DynamicQuantizeLSTM" and len(first) == 3 and "hidden_size" in attributes:
        steps, batch, _ = first
        directions = 2 if "direction" in attributes and attributes["direction"].s == b"bidirectional" else 1
        state = (directions, batch, attributes["hidden_size"].i)
        return [(steps, directions, *state[1:]), state, state]
    return []
