"""Puts the nodes of a subgraph into the graph around it, under names that are used nowhere else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any


def inlined(branch: Any, outputs: Sequence[str], prefix: str) -> Any:
    """A copy of ``branch`` whose results are named ``outputs``; its own tensors get ``prefix`` before their name.

    Names of the graph around it stay, so the nodes of the copy can follow those of that graph.
    """
    import onnx

    own = [name for node in branch.node for name in node.output if name]
    own += [tensor.name for tensor in branch.initializer]
    names = {name: f"{prefix}/{name}" for name in own}
    copy = onnx.GraphProto()
    copy.CopyFrom(branch)
    for tensor in copy.initializer:
        tensor.name = names[tensor.name]
    _rename(copy.node, names)
    for inner, outer in zip(branch.output, outputs, strict=True):
        copy.node.append(onnx.helper.make_node("Identity", [names.get(inner.name, inner.name)], [outer]))
    return copy


def _rename(nodes: Iterable[Any], names: Mapping[str, str]) -> None:
    """New names for what the nodes, and those of their subgraphs, read and write."""
    for node in nodes:
        node.input[:] = [names.get(name, name) for name in node.input]
        node.output[:] = [names.get(name, name) for name in node.output]
        for attribute in node.attribute:
            for graph in [attribute.g, *attribute.graphs]:
                _rename(graph.node, names)
                for value in graph.output:
                    value.name = names.get(value.name, value.name)
