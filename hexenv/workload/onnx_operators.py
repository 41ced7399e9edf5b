"""Which hexenv operators an ONNX node becomes: one table, one short function a kind.

Activations are f16 on the device, whatever the file says; weights become f16 too, also those of integer products, since
HMX's integer mode is not in the cost model. A batch is folded into the height of an image or into the rows of a matrix.
Nodes of several operators are in ``onnx_compound.py``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields
from math import prod

from hexenv.errors import ConfigError
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
    Scan,
    Softmax,
)
from hexenv.kernels.operator import Operator
from hexenv.kernels.techniques import techniques
from hexenv.workload.onnx_compound import COMPOUND
from hexenv.workload.onnx_node import FLOAT_BYTES, NoMapping, OnnxNode, is_float

FREE = frozenset(
    (
        *("Reshape", "Squeeze", "Unsqueeze", "Flatten", "Identity", "Dropout", "Shape", "Size", "Constant"),
        "ConstantOfShape",
    )
)
"""They only rename or reshape: no work on the device."""
CONTROL_FLOW = ("If", "Loop", "Scan")


def map_node(node: OnnxNode) -> tuple[Operator, ...]:
    """The operators of a node, one after another. :class:`NoMapping` says why there are none."""
    if node.type in COMPOUND or node.type in MAPPING:
        try:
            operators = COMPOUND[node.type](node) if node.type in COMPOUND else (MAPPING[node.type](node),)
        except (ConfigError, IndexError, ValueError, ZeroDivisionError) as error:
            raise NoMapping(f"its shapes or attributes do not fit ({error})") from error
        if any(_is_empty(operator) for operator in operators):
            raise NoMapping("its shapes or attributes do not fit (a size is 0)")
        return operators
    if node.type in CONTROL_FLOW:
        raise NoMapping("which way it goes depends on the input, allowed: an If whose condition follows from values")
    raise NoMapping("unknown operator")


def _is_empty(operator: Operator) -> bool:
    """Whether one of the operator's sizes is 0."""
    own = techniques(type(operator))
    sizes = [getattr(operator, field.name) for field in fields(operator) if field.name not in own]  # type: ignore[arg-type]
    return any(size < 1 for size in sizes if isinstance(size, int) and not isinstance(size, bool))


def is_free(node: OnnxNode) -> bool:
    """Whether the node leaves the data where it is."""
    if node.type == "Transpose":
        return only_moves_unit_axes(node)
    if node.type in ("Cast", "CastLike") and node.inputs[0] is not None and node.outputs:
        return is_float(node.inputs[0]) and is_float(node.outputs[0])
    return node.type in FREE


def only_moves_unit_axes(node: OnnxNode) -> bool:
    """Whether a Transpose leaves the data where it is."""
    shape = node.input(0).shape
    order = node.attribute("perm", list(reversed(range(len(shape)))))
    if sorted(order) != list(range(len(shape))):
        raise NoMapping(f"perm {list(order)} does not fit {len(shape)} axes")
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
    weight = node.input(3 if node.type == "QLinearConv" else 1).shape
    height, width, channels = _image(node.output.shape)
    kernel = _window(list(weight[2:]), 1)
    stride = _window(node.attribute("strides", [1] * len(weight[2:])), 1)
    if node.attribute("group", 1) > 1 and weight[1] == 1:
        return DepthwiseConv2d(height, width, channels, *kernel, *stride)
    return Conv2d(height, width, weight[1], channels, *kernel, *stride)


def _conv_transpose(node: OnnxNode) -> Operator:
    """As the convolution over its input that makes all stride_h x stride_w output phases as channels.

    A group with one input channel is depthwise, over the output; others as in :func:`_conv`.
    """
    weight, groups = node.input(1).shape, node.attribute("group", 1)
    kernel = _window(list(weight[2:]), 1)
    stride = _window(node.attribute("strides", [1] * len(weight[2:])), 1)
    taps = -(-kernel[0] // stride[0]), -(-kernel[1] // stride[1])
    if groups > 1 and weight[0] == groups:
        return DepthwiseConv2d(*_image(node.output.shape), *taps, 1, 1)
    height, width, _ = _image(node.input(0).shape)
    outputs = weight[1] * groups * stride[0] * stride[1]
    return Conv2d(height, width, weight[0] // groups, outputs, *taps, 1, 1)


def _matmul(node: OnnxNode) -> Operator:
    """Weights are the constant side. Two dynamic sides make a batched product."""
    places = (0, 3) if node.type == "QLinearMatMul" else (0, 1)
    left, right = (_matrix(node.input(i).shape, column=i > 0) for i in places)
    left = left[::-1] if node.attribute("transA", 0) else left
    right = right[::-1] if node.attribute("transB", 0) else right
    tokens, inner, outputs = left[-2], left[-1], right[-1]
    batch = prod(node.output.shape) // (tokens * outputs)
    left_batch, right_batch = prod(left[:-2]), prod(right[:-2])
    if node.constant[places[1]] and right_batch == 1:
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
    """A constant or broadcast operand stays in VTCM, so that one input streams, as for a scaling.

    More than two streams (Sum, Mean, Max, Min) are joined two at a time: as many elements as there are joints.
    """

    def map_binary(node: OnnxNode) -> Operator:
        elements = node.output.elements
        whole = [info is not None and info.elements == elements for info in node.inputs]
        streams = sum(w and not c for w, c in zip(whole, node.constant, strict=True))
        joints = max(1, streams - 1)
        return Elementwise(kind if streams > 1 else "scale", joints * elements, FLOAT_BYTES)

    return map_binary


def _pow(node: OnnxNode) -> Operator:
    """Squares, square roots and cubes by a constant exponent; any other power is an exponential of a logarithm."""
    kinds = {2.0: "sqr", 0.5: "sqrt", 3.0: "clip", -1.0: "sqrt", -0.5: "sqrt"}
    exponent = node.value(1)
    kind = "softplus" if exponent is None else kinds.get(exponent, "softplus")
    return Elementwise(kind, node.output.elements, FLOAT_BYTES)


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
    elif node.type == "MeanVarianceNormalization":
        columns = prod(shape[axis] for axis in node.attribute("axes", [0, 2, 3]))
    else:
        axis = node.attribute("axis", -1)
        columns = prod(shape[axis:])
    kinds = {"LpNormalization": L2Norm, "RMSNormalization": RmsNorm, "SimplifiedLayerNormalization": RmsNorm}
    kind = kinds.get(node.type, LayerNorm)
    return kind(prod(shape) // columns, columns)


def _scan(node: OnnxNode) -> Operator:
    shape = node.input(0).shape
    columns = shape[int(node.value(1) or 0)]
    return Scan(prod(shape) // columns, columns)


def _resize(node: OnnxNode) -> Operator:
    height, width, channels = _image(node.output.shape)
    return Resize(height, width, channels, FLOAT_BYTES)


def _move(kind: str) -> Callable[[OnnxNode], Operator]:
    def map_move(node: OnnxNode) -> Operator:
        return Copy(sum(output.elements for output in node.outputs) or node.output.elements, node.element_bytes, kind)

    return map_move


ELEMENTWISE = {
    "relu": ("Relu",),
    "neg": ("Neg",),
    "abs": ("Abs", "Sign", "Floor", "Ceil", "Round", "Not", "BitwiseNot", "IsNaN", "IsInf"),
    "scale": ("DequantizeLinear", "Cast", "CastLike"),
    "clip": (*("LeakyRelu", "PRelu", "Clip", "BatchNormalization", "ThresholdedRelu", "Shrink", "QuantizeLinear"),),
    "hardsigmoid": ("HardSigmoid",),
    "hardswish": ("HardSwish",),
    "sigmoid": ("Sigmoid",),
    "silu": ("Swish", "QuickGelu"),
    "softplus": ("Softplus", "Mish", "Asinh", "Acosh", "Atanh"),
    "erf": ("Erf",),
    "tanh": ("Tanh", "Sinh", "Cosh", "Atan", "Asin", "Acos", "Tan"),
    "gelu": ("Gelu", "FastGelu", "BiasGelu"),
    "exp": ("Exp", "Log", "Sin", "Cos", "Elu", "Selu", "Celu"),
    "sqrt": ("Sqrt", "Reciprocal", "Softsign"),
}
"""Kinds of one stream, and the ONNX operators that do about as many operations of each sort."""
BINARY = {
    "add": ("Add", "Sum", "Mean", "QLinearAdd"),
    "sub": ("Sub",),
    "mul": ("Mul", "QLinearMul"),
    "div": ("Div", "Mod"),
    "min": ("Min", "And", "BitwiseAnd", "BitShift"),
    "max": (
        *("Max", "Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"),
        *("Or", "Xor", "BitwiseOr", "BitwiseXor", "Where"),
    ),
}
"""The same for operators that join streams."""
POOLS = {
    "max": ("MaxPool",),
    "average": ("AveragePool", "LpPool", "QLinearAveragePool"),
}
REDUCTIONS = (
    *("GlobalAveragePool", "GlobalMaxPool", "GlobalLpPool", "QLinearGlobalAveragePool"),
    *("ReduceMean", "ReduceSum", "ReduceMax", "ReduceMin", "ReduceL1", "ReduceL2", "ReduceProd", "ReduceSumSquare"),
    *("ReduceLogSum", "ReduceLogSumExp", "ArgMax", "ArgMin"),
)
NORMS = (
    *("LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization", "InstanceNormalization"),
    *("GroupNormalization", "LpNormalization", "MeanVarianceNormalization"),
)
MOVES = {
    "copy": (
        *("Concat", "Transpose", "Slice", "Pad", "Split", "Gather", "Expand", "Tile", "DepthToSpace", "SpaceToDepth"),
        *("CenterCropPad", "ReverseSequence", "Trilu", "QLinearConcat"),
    ),
    "gather": ("GatherElements", "GatherND", "OneHot", "MaxUnpool"),
    "scatter": ("Scatter", "ScatterElements", "ScatterND", "Col2Im"),
    "fill": ("Range", "EyeLike", "RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"),
}
"""Kinds of :class:`Copy`, and the ONNX operators that move data so."""


def _each(
    kinds: Mapping[str, tuple[str, ...]], make: Callable[[str], Callable[[OnnxNode], Operator]]
) -> dict[str, Callable[[OnnxNode], Operator]]:
    """A function for every operator of a table of kinds."""
    return {name: make(kind) for kind, names in kinds.items() for name in names}


MAPPING: Mapping[str, Callable[[OnnxNode], Operator]] = {
    **dict.fromkeys(("Conv", "FusedConv", "ConvInteger", "QLinearConv"), _conv),
    "ConvTranspose": _conv_transpose,
    **dict.fromkeys(("MatMul", "Gemm", "FusedMatMul", "MatMulInteger", "QLinearMatMul", "QGemm"), _matmul),
    **dict.fromkeys(("Softmax", "LogSoftmax", "Hardmax"), _softmax),
    **dict.fromkeys(("Resize", "Upsample"), _resize),
    "Pow": _pow,
    "CumSum": _scan,
    **_each(ELEMENTWISE, _elementwise),
    **_each(BINARY, _binary),
    **_each(POOLS, _pool),
    **dict.fromkeys(REDUCTIONS, _reduce),
    **dict.fromkeys(NORMS, _norm),
    **_each(MOVES, _move),
}
"""ONNX operator type to the function that makes the hexenv operator."""
