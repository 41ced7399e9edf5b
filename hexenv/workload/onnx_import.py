"""Turns an ONNX file into a Graph, and reports what was mapped, merged, free, or without a mapping.

Needs the package ``onnx`` (``pip install 'hexenv[onnx]'``), imported at the first use.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hexenv.errors import ConfigError
from hexenv.kernels import Conv2d, Copy, DepthwiseConv2d, MatMul
from hexenv.kernels.operator import Operator
from hexenv.workload.builder import GraphBuilder
from hexenv.workload.graph import Graph
from hexenv.workload.onnx_node import NoMapping, OnnxNode, device_bytes
from hexenv.workload.onnx_operators import is_free, map_node
from hexenv.workload.onnx_patterns import Pattern, find_patterns
from hexenv.workload.onnx_shapes import Inputs, ShapedGraph, infer_shapes

ABSORBING = ("Conv", "ConvTranspose", "MatMul", "Gemm", "ConvInteger", "MatMulInteger")
"""Their output conversion also applies what :data:`AFFINE` and :data:`ACTIVATIONS` hold."""
AFFINE = ("BatchNormalization", "Add", "Sub", "Mul", "Div", "Cast")
"""With constants as other operands they are one scale and bias a channel; they fold into weights and bias."""
ACTIVATIONS = ("Relu", "Clip")


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of each node of the file, branches that are never taken left out."""

    file: str
    origins: tuple[str, ...]
    """ONNX type that each node of the graph comes from, in order."""
    mapped: Mapping[tuple[str, str], int]
    """Nodes with operators of their own, by ONNX type and operator classes (``MatMul, Elementwise``)."""
    merged: Mapping[str, int]
    """Nodes folded into the product before them or into the pattern they are part of, by ONNX type."""
    alone: Mapping[str, tuple[Operator, ...]]
    """What the merged nodes would be on their own, by ONNX type."""
    free: Mapping[str, int]
    """Nodes without work on the device (constants, reshapes), by ONNX type."""
    unmapped: tuple[tuple[str, str, str], ...]
    """(ONNX type, node name, why) of nodes left out."""
    missing: Mapping[str, tuple[Operator, ...]]
    """The least that nodes left out do, by ONNX type: their results written, where their shapes are known."""
    macs: int
    """Multiply-accumulates of convolutions and matrix products."""


@dataclass(frozen=True, slots=True)
class Import:
    """An imported model."""

    graph: Graph
    report: ImportReport


def import_onnx(path: Path, inputs: Inputs, allow_unmapped: bool = False) -> Import:
    """Read the model, infer all shapes and map its nodes.

    Args:
        path: the ONNX file; weights in separate files are not needed.
        inputs: shapes, sizes of free axes and values of the model's inputs.
        allow_unmapped: leave nodes without a mapping out, as if they took no time.

    Raises:
        ConfigError: ``onnx`` is not installed; the file is missing, truncated or no ONNX model; shapes are missing or
            do not fit; nodes have no mapping (all are listed) and ``allow_unmapped`` is false.
    """
    model = _load(path)
    importer = _Importer(model, infer_shapes(model, inputs, str(path)), path)
    importer.walk()
    report = importer.report()
    if report.unmapped and not allow_unmapped:
        listed = "; ".join(f"{kind} {name} ({why})" for kind, name, why in report.unmapped)
        raise ConfigError(f"{path}: no mapping for {listed}; allowed: leave them out with allow_unmapped = true")
    graph = importer.builder.build()
    if not graph.nodes:
        raise ConfigError(f"{path}: no operator with work on the device")
    return Import(graph, report)


def _load(path: Path) -> Any:
    """The parsed model, checked for completeness."""
    try:
        import onnx
    except ImportError as error:
        raise ConfigError(f"{path}: ONNX files need the package onnx: pip install 'hexenv[onnx]'") from error
    from google.protobuf.message import DecodeError  # type: ignore[import-untyped]

    try:
        model = onnx.load(path, load_external_data=False)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except DecodeError as error:
        raise ConfigError(f"{path}: truncated or not an ONNX file ({error})") from error
    if not model.graph.node or not model.opset_import:
        raise ConfigError(f"{path}: truncated or not an ONNX file (no operators or no operator set version)")
    return model


@dataclass(slots=True)
class _Importer:
    """One pass over the nodes."""

    model: Any
    known: ShapedGraph
    path: Path
    builder: GraphBuilder = field(init=False)
    origins: list[str] = field(default_factory=list)
    mapped: Counter[tuple[str, str]] = field(default_factory=Counter)
    merged: Counter[str] = field(default_factory=Counter)
    alone: defaultdict[str, list[Operator]] = field(default_factory=lambda: defaultdict(list))
    free: Counter[str] = field(default_factory=Counter)
    unmapped: list[tuple[str, str, str]] = field(default_factory=list)
    missing: defaultdict[str, list[Operator]] = field(default_factory=lambda: defaultdict(list))
    macs: int = 0
    _buffer: dict[str, str] = field(default_factory=dict)
    """Tensor to the buffer that holds it."""
    _uses: Counter[str] = field(default_factory=Counter)
    _patterns: dict[str, Pattern] = field(default_factory=dict)
    """By their result."""
    _inner: frozenset[str] = frozenset()
    """Results inside of patterns."""
    _open: set[str] = field(default_factory=set)
    """Buffers whose producer still absorbs what follows."""

    def __post_init__(self) -> None:
        self.builder = GraphBuilder(self.path.stem)
        outputs = [value.name for value in self.model.graph.output]
        self._uses.update(name for node in self.known.nodes for name in node.input)
        self._uses.update(outputs)
        patterns = find_patterns(self.known, outputs)
        self._patterns = {pattern.result: pattern for pattern in patterns}
        self._inner = frozenset(name for pattern in patterns for name in pattern.inner)

    def walk(self) -> None:
        """Map, merge or pass over every node."""
        opsets = {opset.domain: opset.version for opset in self.model.opset_import}
        for node in self.known.nodes:
            if all(self.known.is_constant(name) for name in node.output if name):
                self.free[node.op_type] += 1
                continue
            shaped = OnnxNode(node, opsets.get(node.domain, 1), self.known)
            try:
                self._take(node, shaped)
            except NoMapping as why:
                self._leave_out(node, shaped, str(why))

    def report(self) -> ImportReport:
        """What has been done so far."""
        return ImportReport(
            file=str(self.path),
            origins=tuple(self.origins),
            mapped=dict(self.mapped),
            merged=dict(self.merged),
            alone={kind: tuple(operators) for kind, operators in self.alone.items()},
            free=dict(self.free),
            unmapped=tuple(self.unmapped),
            missing={kind: tuple(operators) for kind, operators in self.missing.items()},
            macs=self.macs,
        )

    def _take(self, node: Any, shaped: OnnxNode) -> None:
        dynamic = [name for name in node.input if name and not self.known.is_constant(name)]
        reads = tuple(dict.fromkeys(self._buffer.get(name, name) for name in dynamic))
        free = is_free(shaped)
        if free and not reads:
            raise NoMapping("it reads nothing known")
        if self._merges(node, dynamic):
            self.merged[node.op_type] += 1
            self.alone[node.op_type] += () if free else map_node(shaped)
            self._alias(node, reads[0])
            if node.op_type in ACTIVATIONS:
                self._open.discard(reads[0])
        elif node.output[0] in self._inner:
            self.merged[node.op_type] += 1
            self.alone[node.op_type] += map_node(shaped)
        elif pattern := self._patterns.get(node.output[0]):
            self._add(node, (pattern.operator,), (self._buffer.get(pattern.source, pattern.source),))
        elif free:
            self.free[node.op_type] += 1
            self._alias(node, reads[0])
        else:
            self._add(node, map_node(shaped), reads)

    def _add(self, node: Any, operators: tuple[Operator, ...], reads: tuple[str, ...]) -> None:
        """Append a node's operators; the last one writes the node's buffer."""
        name = next(filter(None, node.output))
        for place, operator in enumerate(operators, start=1):
            last = place == len(operators)
            reads = (self.builder.add(name if last else f"{name}.{place}", operator, *reads),)
            self.origins.append(node.op_type)
            self.macs += _macs(operator)
        self._alias(node, name)
        self.mapped[node.op_type, ", ".join(dict.fromkeys(type(operator).__name__ for operator in operators))] += 1
        if node.op_type in ABSORBING:
            self._open.add(name)

    def _leave_out(self, node: Any, shaped: OnnxNode, why: str) -> None:
        self.unmapped.append((node.op_type, node.name or node.output[0], why))
        written = [info for info in shaped.outputs if info.elements]
        self.missing[node.op_type] += [Copy(info.elements, device_bytes(info)) for info in written]

    def _alias(self, node: Any, buffer: str) -> None:
        for name in filter(None, node.output):
            self._buffer[name] = buffer

    def _merges(self, node: Any, dynamic: list[str]) -> bool:
        """Whether the node only scales, shifts or clips a product that nobody else reads."""
        if node.op_type not in AFFINE + ACTIVATIONS or len(dynamic) != 1 or self._uses[dynamic[0]] != 1:
            return False
        if node.op_type == "Div" and node.input[0] != dynamic[0]:
            return False
        return self._buffer.get(dynamic[0]) in self._open


def _macs(operator: Operator) -> int:
    match operator:
        case MatMul(m=m, n=n, k=k, batch=batch):
            return m * n * k * batch
        case Conv2d(height=h, width=w, in_channels=i, out_channels=o, kernel_h=kh, kernel_w=kw):
            return h * w * i * o * kh * kw
        case DepthwiseConv2d(height=h, width=w, channels=c, kernel_h=kh, kernel_w=kw):
            return h * w * c * kh * kw
    return 0
