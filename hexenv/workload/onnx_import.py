"""Turns an ONNX file into a Graph, and reports what was mapped, merged, free, or without a mapping.

Needs the package ``onnx`` (``pip install 'hexenv[onnx]'``), imported at the first use.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from hexenv.errors import ConfigError
from hexenv.kernels import Conv2d, DepthwiseConv2d, MatMul
from hexenv.kernels.operator import Operator
from hexenv.workload.builder import GraphBuilder
from hexenv.workload.graph import Graph
from hexenv.workload.onnx_operators import FREE, NoMapping, OnnxNode, map_node, only_moves_unit_axes
from hexenv.workload.onnx_shapes import ShapedGraph, infer_shapes

ABSORBING = ("Conv", "ConvTranspose", "MatMul", "Gemm")
"""Their output conversion also applies what :data:`AFFINE` and :data:`ACTIVATIONS` hold."""
AFFINE = ("BatchNormalization", "Add", "Sub", "Mul", "Div")
"""With constants as other operands they are one scale and bias a channel; they fold into weights and bias."""
ACTIVATIONS = ("Relu", "Clip")


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What became of each node of the file."""

    file: str
    mapped: Mapping[tuple[str, str], int]
    """Nodes with an operator of their own, by (ONNX type, operator class)."""
    merged: Mapping[str, int]
    """Nodes folded into the matmul or convolution before them, by ONNX type."""
    free: Mapping[str, int]
    """Nodes without work on the device (constants, reshapes), by ONNX type."""
    unmapped: tuple[tuple[str, str, str], ...]
    """(ONNX type, node name, why) of nodes left out."""
    macs: int
    """Multiply-accumulates of convolutions and matrix products."""

    def __str__(self) -> str:
        lines = [f"{self.file}: {self.macs / 1e6:.1f} M multiply-accumulates"]
        lines += [f"  mapped  {n:4d}  {kind} -> {family}" for (kind, family), n in sorted(self.mapped.items())]
        lines += [f"  merged  {n:4d}  {kind}" for kind, n in sorted(self.merged.items())]
        lines += [f"  free    {n:4d}  {kind}" for kind, n in sorted(self.free.items())]
        lines += [f"  no mapping    {kind} {name}: {why}" for kind, name, why in self.unmapped]
        return "\n".join(lines)


@dataclass(frozen=True, slots=True)
class Import:
    """An imported model."""

    graph: Graph
    report: ImportReport


def import_onnx(path: Path, shapes: Mapping[str, tuple[int, ...]], allow_unmapped: bool = False) -> Import:
    """Read the model, infer all shapes and map its nodes.

    Args:
        path: the ONNX file; weights in separate files are not needed.
        shapes: full shapes of the inputs that have free axes, by input name.
        allow_unmapped: leave nodes without a mapping out, as if they took no time.

    Raises:
        ConfigError: ``onnx`` is not installed; the file is missing, truncated or no ONNX model; shapes are missing or
            do not fit; nodes have no mapping (all are listed) and ``allow_unmapped`` is false.
    """
    model = _load(path)
    known = infer_shapes(model, shapes, str(path))
    importer = _Importer(model, known, path)
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
    mapped: Counter[tuple[str, str]] = field(default_factory=Counter)
    merged: Counter[str] = field(default_factory=Counter)
    free: Counter[str] = field(default_factory=Counter)
    unmapped: list[tuple[str, str, str]] = field(default_factory=list)
    macs: int = 0
    _buffer: dict[str, str] = field(default_factory=dict)
    """Tensor to the buffer that holds it."""
    _uses: Counter[str] = field(default_factory=Counter)
    _open: set[str] = field(default_factory=set)
    """Buffers whose producer still absorbs what follows."""

    def __post_init__(self) -> None:
        self.builder = GraphBuilder(self.path.stem)
        self._uses.update(name for node in self.model.graph.node for name in node.input)
        self._uses.update(value.name for value in self.model.graph.output)

    def walk(self) -> None:
        """Map, merge or pass over every node."""
        opsets = {opset.domain: opset.version for opset in self.model.opset_import}
        for node in self.model.graph.node:
            if all(self.known.is_constant(name) for name in node.output if name):
                self.free[node.op_type] += 1
                continue
            shaped = OnnxNode(node, opsets.get(node.domain, 1), self.known)
            try:
                self._take(node, shaped)
            except NoMapping as why:
                self.unmapped.append((node.op_type, node.name or node.output[0], str(why)))

    def report(self) -> ImportReport:
        """What has been done so far."""
        return ImportReport(
            str(self.path), dict(self.mapped), dict(self.merged), dict(self.free), tuple(self.unmapped), self.macs
        )

    def _take(self, node: Any, shaped: OnnxNode) -> None:
        dynamic = [name for name in node.input if name and not self.known.is_constant(name)]
        reads = tuple(dict.fromkeys(self._buffer.get(name, name) for name in dynamic))
        if node.op_type in FREE and not reads:
            raise NoMapping("it reads nothing known")
        if node.op_type in FREE or (node.op_type == "Transpose" and only_moves_unit_axes(shaped)):
            self.free[node.op_type] += 1
            self._alias(node, reads[0])
        elif self._merges(node, dynamic):
            self.merged[node.op_type] += 1
            self._alias(node, reads[0])
            if node.op_type in ACTIVATIONS:
                self._open.discard(reads[0])
        else:
            operator = map_node(shaped)
            name = next(filter(None, node.output))
            self._alias(node, self.builder.add(name, operator, *reads))
            self.mapped[node.op_type, type(operator).__name__] += 1
            self.macs += _macs(operator)
            if node.op_type in ABSORBING:
                self._open.add(name)

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
