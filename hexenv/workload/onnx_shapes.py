"""Shapes and constants of an ONNX graph once its inputs have full shapes, node by node.

ONNX's own whole-model inference stops at shapes that are computed at run time (Shape, Gather, Concat ... Reshape). Here
such nodes are evaluated as soon as their inputs are known, and each other node is inferred with the constants at hand.
An ``If`` whose condition is then known is replaced by the branch that is taken.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np

from hexenv.errors import ConfigError
from hexenv.workload.onnx_contrib import STANDARD, output_shapes
from hexenv.workload.onnx_inline import inlined


@dataclass(frozen=True, slots=True)
class Inputs:
    """What the user says about a model's inputs."""

    shapes: tuple[tuple[str, tuple[int, ...]], ...] = ()
    """Full shapes, by input name."""
    axes: tuple[tuple[str, int], ...] = ()
    """Sizes of free axes, by the name that the file gives them."""
    batch: int | None = None
    """Size of the first axis of inputs where it is free."""
    values: tuple[tuple[str, float], ...] = ()
    """Values of inputs with one element that decide which way the model goes, for example a sample rate."""


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
    nodes: list[Any] = field(default_factory=list)
    """All nodes in order, those of branches that are taken among them."""

    def is_constant(self, name: str) -> bool:
        """Whether the tensor is the same in every run."""
        return name in self.weights or name in self.constants


def infer_shapes(model: Any, inputs: Inputs, file: str) -> ShapedGraph:
    """Walk the model once. An input that stays open or does not fit is a ConfigError."""
    known = ShapedGraph()
    _add_weights(model.graph, known)
    _bind_inputs(model, inputs, file, known)
    opsets = {opset.domain: opset.version for opset in model.opset_import}
    for node in model.graph.node:
        _visit(node, model, opsets, known)
    return known


def _add_weights(graph: Any, known: ShapedGraph) -> None:
    for tensor in graph.initializer:
        known.weights[tensor.name] = tensor
        known.tensors[tensor.name] = _info(tuple(tensor.dims), tensor.data_type)


def _visit(node: Any, model: Any, opsets: Mapping[str, int], known: ShapedGraph) -> None:
    if node.op_type == "If" and (branch := _taken(node, known)) is not None:
        _add_weights(branch, known)
        for inner in branch.node:
            _visit(inner, model, opsets, known)
        return
    known.nodes.append(node)
    if not _fold(node, opsets, known):
        _infer(node, model, opsets, known)


def _taken(node: Any, known: ShapedGraph) -> Any:
    """The branch of an If whose condition is known, under names of its own; None if it isn't."""
    if not node.input or not _is_small_constant(node.input[0], known):
        return None
    name = "then_branch" if _value(node.input[0], known).reshape(-1)[0] else "else_branch"
    branch = next(attribute.g for attribute in node.attribute if attribute.name == name)
    return inlined(branch, node.output, prefix=node.output[0])


def _info(shape: tuple[int, ...], element_type: int) -> TensorInfo:
    from onnx.helper import tensor_dtype_to_np_dtype

    return TensorInfo(shape, element_type, np.dtype(tensor_dtype_to_np_dtype(element_type)).itemsize)


def _bind_inputs(model: Any, inputs: Inputs, file: str, known: ShapedGraph) -> None:
    """Give every input its shape, and those with a value their value."""
    values = {value.name: value.type.tensor_type for value in model.graph.input if value.name not in known.weights}
    axes = {name: _axes(tensor) for name, tensor in values.items()}
    _check_names(inputs, axes, file)
    shapes: dict[str, tuple[int | str, ...]] = dict(inputs.shapes)
    for name, tensor in values.items():
        shape = shapes.get(name, _filled(axes[name], inputs))
        fits = len(shape) == len(axes[name]) and all(
            isinstance(axis, str) or axis == size for axis, size in zip(axes[name], shape, strict=True)
        )
        if not fits or any(isinstance(size, str) for size in shape):
            given = list(shapes[name]) if name in shapes else "missing"
            raise ConfigError(
                f"{file}: shapes.{name} = {given}, allowed: a full shape that fits {list(axes[name])}, "
                "or sizes of its free axes (axes, batch)"
            )
        known.tensors[name] = _info(tuple(int(size) for size in shape), tensor.elem_type)
    for name, number in inputs.values:
        if known.tensors[name].elements != 1:
            held = list(known.tensors[name].shape)
            raise ConfigError(f"{file}: values.{name} = {number:g}, allowed: an input with one element, not {held}")
        known.constants[name] = _number(number, known.tensors[name])


def _axes(tensor: Any) -> tuple[int | str, ...]:
    """Sizes of an input's axes; the name of a free one, ``?`` if it has none."""
    return tuple(axis.dim_value if axis.dim_value > 0 else (axis.dim_param or "?") for axis in tensor.shape.dim)


def _filled(axes: tuple[int | str, ...], inputs: Inputs) -> tuple[int | str, ...]:
    """Free axes with the sizes given for them."""
    sizes = dict(inputs.axes)
    filled = tuple(sizes.get(axis, axis) if isinstance(axis, str) else axis for axis in axes)
    if filled and isinstance(filled[0], str) and inputs.batch is not None:
        return (inputs.batch, *filled[1:])
    return filled


def _check_names(inputs: Inputs, axes: Mapping[str, tuple[int | str, ...]], file: str) -> None:
    """Refuse names that the model does not have, and a batch that nothing takes."""
    for option, named in (("shapes", inputs.shapes), ("values", inputs.values)):
        for name, _ in named:
            if name not in axes:
                raise ConfigError(f"{file}: {option}.{name}: no such input, allowed: {', '.join(axes)}")
    free = sorted({axis for shape in axes.values() for axis in shape if isinstance(axis, str) and axis != "?"})
    for name, _ in inputs.axes:
        if name not in free:
            raise ConfigError(f"{file}: axes.{name}: no such free axis, allowed: {', '.join(free) or 'none'}")
    if inputs.batch is not None and not any(shape and isinstance(shape[0], str) for shape in axes.values()):
        first = ", ".join(f"{name} {list(shape)}" for name, shape in axes.items())
        raise ConfigError(
            f"{file}: batch = {inputs.batch}, allowed: none, since no input's first axis is free: {first}"
        )


def _number(value: float, info: TensorInfo) -> np.ndarray:
    from onnx.helper import tensor_dtype_to_np_dtype

    return np.full(info.shape, value, tensor_dtype_to_np_dtype(info.element_type))


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
    """Shapes of the node's outputs; what nobody can tell stays unknown, and the importer reports the node."""
    import onnx

    types, data = {}, {}
    for name in filter(None, node.input):
        if name not in known.tensors:
            return
        info = known.tensors[name]
        types[name] = onnx.helper.make_tensor_type_proto(info.element_type, info.shape)
        if _is_small_constant(name, known):
            data[name] = onnx.numpy_helper.from_array(_value(name, known), name)
    schemas = onnx.defs.SchemaError, onnx.shape_inference.InferenceError, onnx.checker.ValidationError
    unknown = (*schemas, RuntimeError, IndexError)  # the last two come out of the C++ code for malformed nodes
    kind, domain = (STANDARD[node.op_type], "") if node.op_type in STANDARD else (node.op_type, node.domain)
    try:
        schema = onnx.defs.get_schema(kind, opsets.get(domain, 1), domain)
        found = onnx.shape_inference.infer_node_outputs(
            schema, node, types, data, opset_imports=list(model.opset_import), ir_version=model.ir_version
        )
    except unknown:
        _infer_without_schema(node, known)
        return
    for name, kind in found.items():
        tensor = kind.tensor_type
        if tensor.HasField("shape") and all(axis.HasField("dim_value") for axis in tensor.shape.dim):
            known.tensors[name] = _info(tuple(axis.dim_value for axis in tensor.shape.dim), tensor.elem_type)


def _infer_without_schema(node: Any, known: ShapedGraph) -> None:
    first = known.tensors.get(node.input[0]) if node.input else None
    if first is not None:
        for name, shape in zip(node.output, output_shapes(node, first.shape), strict=False):
            known.tensors[name] = _info(shape, first.element_type)
