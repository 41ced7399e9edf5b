"""One ONNX node with the shapes and constants of its tensors, as the mapping functions see it."""

from __future__ import annotations

from typing import Any

from hexenv.workload.onnx_shapes import ShapedGraph, TensorInfo

FLOAT_BYTES = 2
"""Activations are f16 on the device."""
_FLOATS = (1, 10, 11, 16)
"""TensorProto.FLOAT, FLOAT16, DOUBLE and BFLOAT16."""


class NoMapping(Exception):
    """The node has a known type but a form that no operator covers; the text says why."""


class OnnxNode:
    """One node with the shapes of its tensors."""

    def __init__(self, node: Any, opset: int, known: ShapedGraph):
        from onnx.helper import get_attribute_value

        self.type: str = node.op_type
        self.opset = opset
        self.inputs: list[TensorInfo | None] = [known.tensors.get(name) for name in node.input]
        self.constant: list[bool] = [known.is_constant(name) for name in node.input]
        self.outputs: list[TensorInfo] = [known.tensors[name] for name in node.output if name in known.tensors]
        self._values = [known.constants.get(name) for name in node.input]
        self._attributes = {a.name: get_attribute_value(a) for a in node.attribute}

    def attribute(self, name: str, default: Any) -> Any:
        """An attribute's value."""
        return self._attributes.get(name, default)

    def input(self, index: int) -> TensorInfo:
        """A tensor that the node must have."""
        info = self.inputs[index] if index < len(self.inputs) else None
        if info is None:
            raise NoMapping(f"shape of input {index} is unknown")
        return info

    def value(self, index: int) -> float | None:
        """The value of a constant with one element, else None."""
        value = self._values[index]
        return float(value.reshape(-1)[0]) if value is not None and value.size == 1 else None

    @property
    def output(self) -> TensorInfo:
        """Its first output."""
        if not self.outputs:
            raise NoMapping("output shape is unknown")
        if not self.outputs[0].elements:
            raise NoMapping("output is empty")
        return self.outputs[0]

    @property
    def element_bytes(self) -> int:
        """Of its first output on the device."""
        return device_bytes(self.output)


def is_float(info: TensorInfo) -> bool:
    """Whether the device holds the tensor as f16."""
    return info.element_type in _FLOATS


def device_bytes(info: TensorInfo) -> int:
    """Bytes of an element on the device."""
    return FLOAT_BYTES if is_float(info) else info.element_bytes
