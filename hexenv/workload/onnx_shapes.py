"""Shapes and constants of an ONNX graph once its inputs have full shapes, node by node.

ONNX's own whole-model inference stops at shapes that are computed at run time (Shape, Gather, Concat ... Reshape). Here
such nodes are evaluated as soon as their inputs are known, and each other node is inferred with the constants at hand.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from hexenv.errors import ConfigError

FOLD_LIMIT = 1 << 20
"""Constants with more elements are weights: they are not evaluated further."""


@dataclass(frozen=True, slots=True)
class TensorInfo:
    """Shape and element size of a tensor."""

    shape: tuple[int, ...]
    element_type: int
    """ONNX's TensorProto.DataType."""
    element_bytes: int

    @property
    def elements(self) -> int:
        """Number of elements."""
        return prod(self.shape)


@dataclass(slots=True)
class ShapedGraph:
    """What is known about the tensors of a graph, by name."""

    tensors: dict[str, TensorInfo] = field(default_factory=dict)
    weights: dict[str, Any] = field(default_factory=dict)
    """Initializers as TensorProto, values not read."""
    constants: dict[str, np.ndarray] = field(default_factory=dict)
    """Small values known now: initializers, constants, computed shapes."""

    def is_constant(self, name: str) -> bool:
        """Whether the tensor is the same in every run."""
        return name in self.weights or name in self.constants


def infer_shapes(model: Any, shapes: Mapping[str, tuple[int, ...]], file: str) -> ShapedGraph:
    """Walk the model once. ``shapes`` binds inputs with free axes; a missing or wrong one is a ConfigError."""
    known = ShapedGraph()
    for tensor in model.graph.initializer:
        known.weights[tensor.name] = tensor
        known.tensors[tensor.name] = _info(tuple(tensor.dims), tensor.data_type)
    _bind_inputs(model, shapes, file, known)
    opsets = {opset.domain: opset.version for opset in model.opset_import}
    for node in model.graph.node:
        if not _fold(node, opsets, known):
            _infer(node, model, opsets, known)
    return known


def _info(shape: tuple[int, ...], element_type: int) -> TensorInfo:
    from onnx.helper import tensor_dtype_to_np_dtype

    return TensorInfo(shape, element_type, np.dtype(tensor_dtype_to_np_dtype(element_type)).itemsize)


def _bind_inputs(model: Any, shapes: Mapping[str, tuple[int, ...]], file: str, known: ShapedGraph) -> None:
    inputs = [value for value in model.graph.input if value.name not in known.weights]
    names = [value.name for value in inputs]
    for name in shapes:
        if name not in names:
            raise ConfigError(f"{file}: shapes.{name}: no such input, allowed: {', '.join(names)}")
    for value in inputs:
        tensor = value.type.tensor_type
        axes = [axis.dim_value if axis.dim_value > 0 else (axis.dim_param or "?") for axis in tensor.shape.dim]
        shape = shapes.get(value.name, tuple(axes))
        fits = len(shape) == len(axes) and all(isinstance(a, str) or a == s for a, s in zip(axes, shape, strict=True))
        if not fits or any(isinstance(s, str) for s in shape):
            given = list(shapes[value.name]) if value.name in shapes else "missing"
            raise ConfigError(f"{file}: shapes.{value.name} = {given}, allowed: a full shape that fits {axes}")
        known.tensors[value.name] = _info(tuple(int(s) for s in shape), tensor.elem_type)


def _fold(node: Any, opsets: Mapping[str, int], known: ShapedGraph) -> bool:
    """Evaluate the node if its result is the same in every run and small. Returns whether it was."""
    inputs = [name for name in node.input if name]
    if node.op_type in ("Shape", "Size") and not node.domain and inputs and inputs[0] in known.tensors:
        info = known.tensors[inputs[0]]
        values = {inputs[0]: np.broadcast_to(np.zeros((), np.int8), info.shape)}
    elif all(_is_small_constant(name, known) for name in inputs) and not _has_subgraph(node):
        values = {name: _value(name, known) for name in inputs}
    else:
        return False
    if not (results := _evaluate(node, values, opsets)):
        return False
    for name, value in zip(node.output, results, strict=False):
        if name:
            known.constants[name] = value
            known.tensors[name] = _info(value.shape, _element_type(value))
    return True


def _is_small_constant(name: str, known: ShapedGraph) -> bool:
    return known.is_constant(name) and known.tensors[name].elements <= FOLD_LIMIT


def _has_subgraph(node: Any) -> bool:
    return any(attribute.HasField("g") or attribute.graphs for attribute in node.attribute)


def _value(name: str, known: ShapedGraph) -> np.ndarray:
    """A constant's value; initializers are read at first use."""
    from onnx.numpy_helper import to_array

    if name not in known.constants:
        known.constants[name] = to_array(known.weights[name])
    return known.constants[name]


def _evaluate(node: Any, values: Mapping[str, np.ndarray], opsets: Mapping[str, int]) -> list[np.ndarray]:
    """Outputs of one node by ONNX's reference implementation; empty if it has none for this node."""
    import onnx
    from onnx.reference import ReferenceEvaluator

    helper = onnx.helper
    inputs = [helper.make_tensor_value_info(name, _element_type(value), None) for name, value in values.items()]
    outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = helper.make_graph([node], "fold", inputs, outputs)
    imports = [helper.make_opsetid(domain, version) for domain, version in opsets.items()]
    try:
        results = ReferenceEvaluator(helper.make_model(graph, opset_imports=imports)).run(None, dict(values))
    except Exception:  # The reference implementation raises whatever numpy does; such a node is inferred instead.
        return []
    return [np.asarray(result) for result in results]


def _element_type(value: np.ndarray) -> int:
    from onnx.helper import np_dtype_to_tensor_dtype

    return int(np_dtype_to_tensor_dtype(value.dtype))


def _infer(node: Any, model: Any, opsets: Mapping[str, int], known: ShapedGraph) -> None:
    """Shapes of the node's outputs; what ONNX can't tell stays unknown, and the importer reports the node."""
    import onnx

    types, data = {}, {}
    for name in filter(None, node.input):
        if name not in known.tensors:
            return
        info = known.tensors[name]
        types[name] = onnx.helper.make_tensor_type_proto(info.element_type, info.shape)
        if _is_small_constant(name, known):
            data[name] = onnx.numpy_helper.from_array(_value(name, known), name)
    unknown = onnx.defs.SchemaError, onnx.shape_inference.InferenceError, onnx.checker.ValidationError, RuntimeError
    try:
        schema = onnx.defs.get_schema(node.op_type, opsets.get(node.domain, 1), node.domain)
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=list(model.opset_import), ir_version=model.ir_version
        )
    except unknown:
        return
    for name, kind in found.items():
        tensor = kind.tensor_type
        if tensor.HasField("shape") and all(axis.HasField("dim_value") for axis in tensor.shape.dim):
            known.tensors[name] = _info(tuple(axis.dim_value for axis in tensor.shape.dim), tensor.elem_type)
