"""Operators that a file writes out as several nodes: gated activations, GELU and layer norms.

A pattern's inner results must have no reader outside of it; then it is one operator, as graph compilers make it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from hexenv.kernels import Elementwise, LayerNorm
from hexenv.kernels.operator import Operator
from hexenv.workload.onnx_node import FLOAT_BYTES
from hexenv.workload.onnx_shapes import ShapedGraph

GATED = {"Sigmoid": "silu", "HardSigmoid": "hardswish"}
"""An activation that only multiplies its own input, and the kind that both are."""


@dataclass(frozen=True, slots=True)
class Pattern:
    """Nodes that are one operator."""

    source: str
    """The tensor that it reads."""
    inner: frozenset[str]
    """Results of its nodes that nobody else reads."""
    result: str
    operator: Operator


def find_patterns(known: ShapedGraph, outputs: Iterable[str]) -> list[Pattern]:
    """All patterns of a graph whose results are ``outputs``; no node is in two of them."""
    graph = _Links(known, frozenset(outputs))
    found: list[Pattern] = []
    taken: set[str] = set()
    for node in known.nodes:
        for match in _MATCHES.get(node.op_type, ()):
            pattern = match(graph, node)
            if pattern is not None and taken.isdisjoint(pattern.inner | {pattern.result}):
                taken |= pattern.inner | {pattern.result}
                found.append(pattern)
    return found


class _Links:
    """Who makes and who reads each tensor."""

    def __init__(self, known: ShapedGraph, outputs: frozenset[str]):
        self.known, self.outputs = known, outputs
        self.maker = {name: node for node in known.nodes for name in node.output if name}
        self.readers: defaultdict[str, list[Any]] = defaultdict(list)
        for node in known.nodes:
            for name in node.input:
                self.readers[name].append(node)

    def only(self, name: str, *kinds: str) -> Any:
        """The one place that reads a tensor, if its node is one of these kinds, else None."""
        readers = self.readers[name]
        alone = len(readers) == 1 and name not in self.outputs
        return readers[0] if alone and readers[0].op_type in kinds else None

    def made(self, name: str, *kinds: str) -> Any:
        """The node that makes a tensor, if it is one of these kinds, else None."""
        node = self.maker.get(name)
        return node if node is not None and node.op_type in kinds else None

    def other(self, node: Any, name: str) -> str:
        """The second operand beside ``name``."""
        first, second = node.input
        return str(second if first == name else first)

    def scaled(self, name: str) -> str | None:
        """The tensor of which ``name`` is a constant multiple, None if there is none."""
        node = self.made(name, "Mul", "Div")
        dynamic = [read for read in node.input if not self.known.is_constant(read)] if node is not None else []
        return str(dynamic[0]) if len(dynamic) == 1 and dynamic[0] == node.input[0] else None

    def with_constant(self, node: Any, name: str) -> bool:
        """Whether all that the node joins with ``name`` is a constant."""
        return node is not None and self.known.is_constant(self.other(node, name))

    def pointwise(self, kind: str, source: str, inner: Iterable[str], result: str) -> Pattern | None:
        """The pattern of an element-wise operator, if the size of its result is known."""
        info = self.known.tensors.get(result)
        if info is None or not info.elements:
            return None
        return Pattern(source, frozenset(inner), result, Elementwise(kind, info.elements, FLOAT_BYTES))


def _gate(graph: _Links, node: Any) -> Pattern | None:
    """``x * sigmoid(x)``."""
    product = graph.only(node.output[0], "Mul")
    if product is None or graph.other(product, node.output[0]) != node.input[0]:
        return None
    return graph.pointwise(GATED[node.op_type], node.input[0], node.output, product.output[0])


def _gelu(graph: _Links, node: Any) -> Pattern | None:
    """``x * (1 + erf(x / sqrt 2)) / 2``, the factors in any order."""
    source = graph.scaled(node.input[0])
    add = graph.only(node.output[0], "Add")
    if source is None or graph.only(node.input[0], "Erf") is None or not graph.with_constant(add, node.output[0]):
        return None
    inner, result, whole = [node.input[0], node.output[0]], str(add.output[0]), False
    while (product := graph.only(result, "Mul")) is not None:
        other = graph.other(product, result)
        if graph.scaled(other) == source and graph.only(other, "Mul") is product and not whole:
            inner.append(other)
            whole = True
        elif other == source and not whole:
            whole = True
        elif not graph.known.is_constant(other):
            break
        inner.append(result)
        result = str(product.output[0])
    return graph.pointwise("gelu", source, inner, result) if whole else None


def _layer_norm(graph: _Links, node: Any) -> Pattern | None:
    """Difference from the mean over its root mean square, then scale and bias if they are constants."""
    mean = graph.made(node.input[1], "ReduceMean")
    if mean is None or mean.input[0] != node.input[0] or graph.only(mean.output[0], "Sub") is None:
        return None
    inner = [mean.output[0], node.output[0]]
    if node.output[0] in graph.outputs:
        return None
    chain = list(_variance(graph, node.output[0]))
    readers = {reader.output[0] for reader in graph.readers[node.output[0]]}
    if len(chain) != 5 or readers != {chain[0], chain[-1]}:
        return None
    inner += chain[:-1]
    result = chain[-1]
    for kind in ("Mul", "Add"):
        following = graph.only(result, kind)
        if not graph.with_constant(following, result):
            break
        inner.append(result)
        result = str(following.output[0])
    whole, means = graph.known.tensors.get(node.input[0]), graph.known.tensors.get(mean.output[0])
    if whole is None or means is None or not whole.elements:
        return None
    operator = LayerNorm(means.elements, whole.elements // means.elements)
    return Pattern(node.input[0], frozenset(inner), result, operator)


def _variance(graph: _Links, centred: str) -> Iterator[str]:
    """Results of square, mean, plus epsilon, root, and the quotient, as far as they are there."""
    square = next((reader for reader in graph.readers[centred] if reader.op_type in ("Pow", "Mul")), None)
    if square is None or (square.op_type == "Mul" and square.input[0] != square.input[1]):
        return
    name = str(square.output[0])
    yield name
    for kind in ("ReduceMean", "Add", "Sqrt", "Div"):
        node = graph.only(name, kind)
        if node is None or (kind == "Div" and node.input[0] != centred):
            return
        name = str(node.output[0])
        yield name


_MATCHES: dict[str, tuple[Callable[[_Links, Any], Pattern | None], ...]] = {
    **dict.fromkeys(GATED, (_gate,)),
    "Erf": (_gelu,),
    "Sub": (_layer_norm,),
}
"""By the type of the node that a pattern is recognised by."""
