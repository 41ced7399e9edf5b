"""Writes a Graph node by node."""

from __future__ import annotations

from hexenv.kernels.operator import Operator
from hexenv.workload.graph import Graph, Node


def chain(*operators: Operator) -> Graph:
    """The graph of operators one after another."""
    builder = GraphBuilder("chain")
    last = "input"
    for i, operator in enumerate(operators):
        last = builder.add(f"op{i}", operator, last)
    return builder.build()


class GraphBuilder:
    """Collects nodes in program order. A node's output buffer is named after the node unless said otherwise."""

    def __init__(self, name: str):
        self.name = name
        self._nodes: list[Node] = []
        self._state: set[str] = set()

    def add(self, name: str, operator: Operator, *reads: str) -> str:
        """Append a node that writes the buffer ``name``; returns that buffer."""
        self._nodes.append(Node(name, operator, reads, (name,)))
        return name

    def update(self, name: str, operator: Operator, state: str, *reads: str) -> str:
        """Append a node that writes the state buffer ``state`` and keeps the rest of it; returns that buffer."""
        self._state.add(state)
        self._nodes.append(Node(name, operator, reads, (state,)))
        return state

    def build(self) -> Graph:
        """The finished graph."""
        return Graph(self.name, tuple(self._nodes), frozenset(self._state))
