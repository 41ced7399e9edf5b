"""Vertical fusion: rewrites of a job's graph that merge operators, selected by a scenario's ``fusions``."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from hexenv.workload.graph import Graph

FUSIONS: Mapping[str, Callable[[Graph], Graph]] = {}
"""Rewrites by name, in the order in which they are applied."""


def fuse(graph: Graph, names: Sequence[str]) -> Graph:
    """The graph after the named rewrites."""
    for name, rewrite in FUSIONS.items():
        if name in names:
            graph = rewrite(graph)
    return graph
