"""Vertical fusion: rewrites of a job's graph that merge operators, selected by a scenario's ``fusions``.

A merged node takes the place of its last member. That is legal where what lies between the members dies inside (one
writer, all readers inside, no state) and no other node in between must follow a member.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace

from hexenv.kernels.chain import STREAMING, Chain, common_pieces, pieces
from hexenv.kernels.delta_net import GatedDeltaNet
from hexenv.kernels.elementwise import Elementwise
from hexenv.kernels.gated_mlp import GLUS, GatedMlp
from hexenv.kernels.layout import Copy
from hexenv.kernels.matmul import MatMul
from hexenv.kernels.operator import Operator
from hexenv.workload.dependencies import hazards
from hexenv.workload.graph import Graph, Node


def fuse(graph: Graph, names: Sequence[str]) -> Graph:
    """The graph after the named rewrites."""
    for name, rewrite in FUSIONS.items():
        if name in names:
            graph = rewrite(graph)
    return graph


def swiglu(graph: Graph) -> Graph:
    """Gate, up, gated unit and down as one :class:`GatedMlp` (DeepFusionKernel, ACL 26)."""
    for glu in graph.nodes:
        found = _gated_mlp(graph, glu)
        if found is not None and _mergeable(graph, found[0]):
            members, mlp = found
            graph = _merge(graph, members, mlp, members[-1].name + ".gated_mlp")
    return graph


def megakernel(graph: Graph, window: int | None = None) -> Graph:
    """Streaming operators that feed one another as :class:`Chain` operators (Hexagon-MLIR, Diffuse).

    ``window`` limits how far apart, in program order, the first and the last operator of a chain may be: Diffuse looks
    at a window of tasks at a time. None: no limit.
    """
    place = {node.name: i for i, node in enumerate(graph.nodes)}
    writer = {buffer: node for node in graph.nodes for buffer in node.writes}
    chains: dict[str, list[Node]] = {}
    for node in graph.nodes:
        if type(node.operator) not in STREAMING:
            continue
        chains[node.name] = [node]
        for buffer in node.reads:
            head = chains.get(writer[buffer].name) if buffer in writer else None
            if head is None:
                continue
            longer = [*head, node]
            near = window is None or place[node.name] - place[head[0].name] < window
            if near and _cuts_alike(longer) and _mergeable(graph, longer):
                del chains[head[-1].name]
                chains[node.name] = longer
                break
    for members in chains.values():
        if len(members) > 1 and _mergeable(graph, members):
            chain = Chain(tuple(node.operator for node in members))
            graph = _merge(graph, members, chain, f"{members[0].name}..{members[-1].name}")
    return graph


def state_in_place(graph: Graph) -> Graph:
    """Gated delta nets on their states, without the copies to and from the job's buffers (HA-NPU, core level).

    llama.cpp gathers a state, and copies the new one back, each with a trip through DDR.
    """
    for node in graph.nodes:
        if isinstance(node.operator, GatedDeltaNet):
            graph = _in_place(graph, node)
    return graph


FUSIONS: Mapping[str, Callable[[Graph], Graph]] = {
    "state_in_place": state_in_place,
    "swiglu": swiglu,
    "megakernel": megakernel,
}
"""Rewrites by name, in the order in which they are applied."""


def _in_place(graph: Graph, worker: Node) -> Graph:
    """The graph with ``worker`` reading and writing its state, if only two copies of it touch that state."""
    copies = [node for node in graph.nodes if isinstance(node.operator, Copy)]
    gathers = [node for node in copies if set(node.reads) <= graph.state and set(node.writes) <= set(worker.reads)]
    stores = [node for node in copies if node.reads == worker.writes and set(node.writes) <= graph.state]
    if len(gathers) != 1 or len(stores) != 1:
        return graph
    (gather,), (store,) = gathers, stores
    users = [node for node in graph.nodes if set(store.writes) & {*node.reads, *node.writes}]
    if users != [gather, store] or [node for node in graph.nodes if set(gather.writes) & set(node.reads)] != [worker]:
        return graph
    reads = tuple(buffer for buffer in worker.reads if buffer not in gather.writes)
    merged = replace(worker, reads=reads + gather.reads, writes=worker.writes + store.writes)
    nodes = (merged if node is worker else node for node in graph.nodes if node not in (gather, store))
    return replace(graph, nodes=tuple(nodes))


def _gated_mlp(graph: Graph, glu: Node) -> tuple[list[Node], GatedMlp] | None:
    """Gate, up, gated unit and down, and their operator; None if ``glu`` is not the unit of a feed-forward layer."""
    unit = glu.operator
    if not isinstance(unit, Elementwise) or unit.kind not in GLUS:
        return None
    writers = [node for node in graph.nodes if any(buffer in glu.reads for buffer in node.writes)]
    readers = [node for node in graph.nodes if glu.writes[0] in node.reads]
    if len(writers) != 2 or len(readers) != 1:
        return None
    (gate, up), (down,) = writers, readers
    inner = gate.operator
    if not isinstance(inner, MatMul) or inner.batch > 1 or up.operator != inner or gate.reads != up.reads:
        return None
    if down.operator != replace(inner, m=inner.k, k=inner.m):
        return None
    return [gate, up, glu, down], GatedMlp(inner.weight, unit.kind, inner.n, inner.k, inner.m)


def _cuts_alike(members: Sequence[Node]) -> bool:
    """Whether a chain has as many pieces to be split into as its coarsest member."""
    operators: tuple[Operator, ...] = tuple(node.operator for node in members)
    return common_pieces(operators) == min(pieces(operator) for operator in operators)


def _mergeable(graph: Graph, members: Sequence[Node]) -> bool:
    """Whether all that the members but the last write dies inside, and they may move to the place of the last."""
    inside = {i for i, node in enumerate(graph.nodes) if node in members}
    if len(inside) < len(members):
        return False
    for buffer in (buffer for node in members[:-1] for buffer in node.writes):
        writers = [i for i, node in enumerate(graph.nodes) if buffer in node.writes]
        readers = [i for i, node in enumerate(graph.nodes) if buffer in node.reads]
        if buffer in graph.state or len(writers) > 1 or not readers or not inside.issuperset(readers):
            return False
        if min(readers) <= writers[0]:  # what was in the buffer before is an input of the job
            return False
    needs = hazards(graph.nodes)
    return all(i in inside or not needs[i] & inside for i in range(min(inside), max(inside)))


def _merge(graph: Graph, members: Sequence[Node], operator: Operator, name: str) -> Graph:
    """The graph with one node in the place of the last of ``members``, reading what came from outside."""
    last = members[-1]
    inner = {buffer for node in members[:-1] for buffer in node.writes}
    reads = tuple(dict.fromkeys(buffer for node in members for buffer in node.reads if buffer not in inner))
    merged = Node(name, operator, reads, last.writes)
    kept = (merged if node is last else node for node in graph.nodes if node is last or node not in members)
    return replace(graph, nodes=tuple(kept))
