"""Which hexenv operator an ONNX node becomes: one table, one short function a kind.

Activations are f16 on the device, whatever the file says; weights become f16 too. A batch is folded into the height
of an image or into the rows of a matrix.
"""

from __future__ import annotations

from collections.abc import Callable
from math import prod
from typing import Any

from hexenv.kernels import (
    Conv2d,
    Copy,
    DepthwiseConv2d,
    Elementwise,
    L2Norm,
    LayerNorm,
    MatMul,
    Pool,
    Reduce,
    Resize,
    RmsNorm,
    Softmax,
)
from hexenv.kernels.operator import Operator
from hexenv.workload.onnx_shapes import ShapedGraph, TensorInfo

FREE = frozenset(
    (
        "Reshape",
        "Squeeze",
        "Unsqueeze",
        "Flatten",
        "Identity",
        "Dropout",
        "Shape",
        "Size",
        "Constant",
        "ConstantOfShape",
    )
)
"""They only rename or reshape: no work on the device."""
FLOAT_BYTES = 2
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


def map_node(node: OnnxNode) -> Operator:
    """The operator of a node. :class:`NoMapping` says why there is none."""
    if node.type not in MAPPING:
        raise NoMapping("unknown operator")
    return MAPPING[node.type](node)


def only_moves_unit_axes(node: OnnxNode) -> bool:
    """Whether a Transpose leaves the data where it is."""
    shape = node.input(0).shape
    order = node.attribute("perm", list(reversed(range(len(shape)))))
    long_axes = [axis for axis in order if shape[axis] > 1]
    return long_axes == sorted(long_axes)


def _image(shape: tuple[int, ...]) -> tuple[int, int, int]:
    """Height (batch folded in), width and channels of an NCHW image or an NCW sequence."""
    if len(shape) == 4:
        return shape[0] * shape[2], shape[3], shape[1]
    if len(shape) == 3:
        return shape[0], shape[2], shape[1]
    raise NoMapping(f"{len(shape)}-dimensional images, allowed: 3 or 4 dimensions")


def _window(values: list[int], default: int) -> tuple[int, int]:
    """Height and width of a kernel or stride; sequences have height 1."""
    values = list(values) or [default, default]
    return (values[0], values[1]) if len(values) == 2 else (1, values[0])


def _conv(node: OnnxNode) -> Operator:
    """Depthwise if each group has one input channel. Other groups: every output sees the channels of its own group.

    MACs and weights of a grouped convolution are then exact; its input is counted once a group narrower.
    """
    weight = node.input(1).shape
    height, width, channels = _image(node.output.shape)
    kernel = _window(list(weight[2:]), 1)
    stride = _window(node.attribute("strides", [1] * len(weight[2:])), 1)
    if node.attribute("group", 1) > 1 and weight[1] == 1:
        return DepthwiseConv2d(height, width, channels, *kernel, *stride)
    return Conv2d(height, width, weight[1], channels, *kernel, *stride)


def _conv_transpose(node: OnnxNode) -> Operator:
    """As the convolution over its input that makes all stride_h x stride_w output phases as channels."""
    if node.attribute("group", 1) != 1:
        raise NoMapping("grouped ConvTranspose")
    weight = node.input(1).shape
    height, width, _ = _image(node.input(0).shape)
    kernel = _window(list(weight[2:]), 1)
    stride = _window(node.attribute("strides", [1] * len(weight[2:])), 1)
    phases = stride[0] * stride[1]
    taps = -(-kernel[0] // stride[0]), -(-kernel[1] // stride[1])
    return Conv2d(height, width, weight[0], weight[1] * phases, *taps, 1, 1)


def _matmul(node: OnnxNode) -> Operator:
    """Weights are the constant side. Two dynamic sides make a batched product."""
    left, right = (_matrix(node.input(i).shape, column=i == 1) for i in (0, 1))
    if node.type == "Gemm":
        left = left[::-1] if node.attribute("transA", 0) else left
        right = right[::-1] if node.attribute("transB", 0) else right
    tokens, inner, outputs = left[-2], left[-1], right[-1]
    batch = prod(node.output.shape) // (tokens * outputs)
    left_batch, right_batch = prod(left[:-2]), prod(right[:-2])
    if node.constant[1] and right_batch == 1:
        return MatMul("f16", outputs, tokens * batch, inner)
    if node.constant[0] and left_batch == 1:
        return MatMul("f16", tokens, outputs * batch, inner)
    return MatMul("f16", outputs, tokens, inner, batch=batch)


def _matrix(shape: tuple[int, ...], column: bool) -> tuple[int, ...]:
    """A vector counts as one row on the left, one column on the right."""
    if len(shape) == 1:
        return (shape[0], 1) if column else (1, shape[0])
    return shape


def _elementwise(kind: str) -> Callable[[OnnxNode], Operator]:
    return lambda node: Elementwise(kind, node.output.elements, FLOAT_BYTES)


def _binary(kind: str) -> Callable[[OnnxNode], Operator]:
    """A constant or broadcast operand stays in VTCM, so that one input streams, as for a scaling."""

    def map_binary(node: OnnxNode) -> Operator:
        elements = node.output.elements
        whole = [info is not None and info.elements == elements for info in node.inputs]
        streams = [w and not c for w, c in zip(whole, node.constant, strict=True)]
        return Elementwise(kind if all(streams) else "scale", elements, FLOAT_BYTES)

    return map_binary


def _pow(node: OnnxNode) -> Operator:
    """Squares and square roots; their exponent is a constant."""
    exponent = node.value(1)
    kinds = {2.0: "sqr", 0.5: "sqrt"}
    if exponent not in kinds:
        raise NoMapping(f"exponent {exponent}, allowed: the constants 2 and 0.5")
    return Elementwise(kinds[exponent], node.output.elements, FLOAT_BYTES)


def _pool(kind: str) -> Callable[[OnnxNode], Operator]:
    def map_pool(node: OnnxNode) -> Operator:
        height, width, channels = _image(node.output.shape)
        size = node.attribute("kernel_shape", [1])
        kernel, stride = _window(size, 1), _window(node.attribute("strides", [1] * len(size)), 1)
        return Pool(kind, height, width, channels, *kernel, *stride, FLOAT_BYTES)

    return map_pool


def _reduce(node: OnnxNode) -> Operator:
    rows = node.output.elements
    return Reduce(rows, node.input(0).elements // rows)


def _softmax(node: OnnxNode) -> Operator:
    shape = node.input(0).shape
    if node.opset >= 13:
        columns = shape[node.attribute("axis", -1)]
    else:
        columns = prod(shape[node.attribute("axis", 1) :])
    return Softmax(prod(shape) // columns, columns)


def _norm(node: OnnxNode) -> Operator:
    """Normalisation along the last axes: with a mean (layer, instance, group), without one (RMS) or by length (Lp)."""
    shape = node.input(0).shape
    if node.type == "InstanceNormalization":
        columns = prod(shape[2:])
    elif node.type == "GroupNormalization":
        columns = prod(shape[1:]) // node.attribute("num_groups", 1)
    elif node.type == "LpNormalization":
        columns = shape[node.attribute("axis", -1)]
    else:
        axis = node.attribute("axis", -1)
        columns = prod(shape[axis:])
    kind = {"LpNormalization": L2Norm, "RMSNormalization": RmsNorm}.get(node.type, LayerNorm)
    return kind(prod(shape) // columns, columns)


def _resize(node: OnnxNode) -> Operator:
    height, width, channels = _image(node.output.shape)
    return Resize(height, width, channels, FLOAT_BYTES)


def _copy(node: OnnxNode) -> Operator:
    info = node.output
    element_bytes = FLOAT_BYTES if info.element_type in _FLOATS else info.element_bytes
    return Copy(sum(output.elements for output in node.outputs), element_bytes)


def _table() -> dict[str, Callable[[OnnxNode], Operator]]:
    table: dict[str, Callable[[OnnxNode], Operator]] = {
        "Conv": _conv,
        "ConvTranspose": _conv_transpose,
        "MatMul": _matmul,
        "Gemm": _matmul,
        "Softmax": _softmax,
        "LogSoftmax": _softmax,
        "Resize": _resize,
        "Upsample": _resize,
        "Pow": _pow,
    }
    table |= {name: _elementwise(kind) for name, kind in ELEMENTWISE.items()}
    table |= {name: _binary(kind) for name, kind in BINARY.items()}
    table |= {"MaxPool": _pool("max"), "AveragePool": _pool("average"), "LpPool": _pool("average")}
    table |= dict.fromkeys(REDUCTIONS, _reduce)
    table |= dict.fromkeys(NORMS, _norm)
    table |= dict.fromkeys(COPIES, _copy)
    return table


ELEMENTWISE = {
    "Relu": "relu",
    "LeakyRelu": "clip",
    "PRelu": "clip",
    "Clip": "clip",
    "BatchNormalization": "clip",
    "Sigmoid": "sigmoid",
    "HardSigmoid": "hardsigmoid",
    "HardSwish": "hardswish",
    "Swish": "silu",
    "Softplus": "softplus",
    "Erf": "erf",
    "Tanh": "tanh",
    "Gelu": "gelu",
    "Exp": "exp",
    "Log": "exp",
    "Sqrt": "sqrt",
    "Reciprocal": "sqrt",
    "Neg": "neg",
    "Abs": "abs",
    "Sign": "abs",
    "Floor": "abs",
    "Ceil": "abs",
    "Round": "abs",
    "Not": "abs",
}
"""ONNX operators of one stream and the kind that does the same number of operations of each sort."""
BINARY = {
    "Add": "add",
    "Sub": "sub",
    "Mul": "mul",
    "Div": "div",
    "Max": "max",
    "Min": "min",
    "Equal": "max",
    "Greater": "max",
    "GreaterOrEqual": "max",
    "Less": "max",
    "LessOrEqual": "max",
    "And": "min",
    "Or": "max",
    "Where": "max",
}
"""The same for operators that join streams."""
REDUCTIONS = (
    "GlobalAveragePool",
    "GlobalMaxPool",
    "ReduceMean",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "ReduceL1",
    "ReduceL2",
    "ReduceProd",
    "ReduceSumSquare",
    "ArgMax",
    "ArgMin",
)
NORMS = (
    "LayerNormalization",
    "RMSNormalization",
    "InstanceNormalization",
    "GroupNormalization",
    "LpNormalization",
)
COPIES = (
    "Concat",
    "Transpose",
    "Slice",
    "Pad",
    "Split",
    "Gather",
    "GatherElements",
    "Expand",
    "Tile",
    "Cast",
    "DepthToSpace",
    "SpaceToDepth",
)
MAPPING = _table()
"""ONNX operator type to the function that makes the hexenv operator."""
