"""Which stage must wait for which: from the buffers that the nodes read and write, in program order.

Sets of nodes are bit masks (Python integers), bit i for node i. Lists of predecessors are in falling order and
transitively reduced: no entry follows from the others.
"""

from __future__ import annotations

from collections.abc import Sequence

from hexenv.workload.graph import Graph, Node


def hazards(nodes: Sequence[Node]) -> list[set[int]]:
    """For each node the earlier nodes it must follow: read after write, write after read, write after write."""
    writer: dict[str, int] = {}
    readers: dict[str, list[int]] = {}
    before: list[set[int]] = []
    for i, node in enumerate(nodes):
        needs = {writer[b] for b in node.reads if b in writer}
        for buffer in node.writes:
            needs.update(readers.get(buffer, ()))
            if buffer in writer:
                needs.add(writer[buffer])
        for buffer in node.reads:
            readers.setdefault(buffer, []).append(i)
        for buffer in node.writes:
            writer[buffer] = i
            readers[buffer] = []
        before.append(needs - {i})
    return before


def ordered(nodes: Sequence[Node], width: int) -> list[list[int]]:
    """Reduced predecessors of each node, with at most ``width`` nodes ready at any time.

    The nodes are laid on ``width`` chains in program order: each joins the chain whose last node is its nearest
    ancestor, or an unused one. When neither exists it is ordered behind the chain that ended first in program order,
    an edge no buffer asked for. A graph covered by ``width`` chains has no wider antichain.
    """
    before: list[list[int]] = []
    ancestors: list[int] = []
    chains: list[int] = []
    for i, needs in enumerate(hazards(nodes)):
        mask = _closure(needs, ancestors)
        tails = [tail for tail in chains if mask >> tail & 1]
        if tails:
            chains.remove(max(tails))
        elif len(chains) == width:
            tail = min(chains)
            chains.remove(tail)
            needs.add(tail)
            mask |= _closure({tail}, ancestors)
        chains.append(i)
        ancestors.append(mask)
        before.append(_reduced(needs, ancestors, 0)[0])
    return before


def state_links(
    previous: Graph, previous_before: Sequence[Sequence[int]], graph: Graph, before: Sequence[Sequence[int]]
) -> list[list[int]]:
    """For each node of ``graph`` the nodes of the stream's previous job it must follow, reduced over both jobs.

    Only state buffers join two jobs. The first accesses of a buffer matter: a read follows the previous job's last
    write; a write follows that and the reads behind it.
    """
    last_writer: dict[str, int] = {}
    last_readers: dict[str, set[int]] = {}
    for i, node in enumerate(previous.nodes):
        for buffer in previous.state.intersection(node.reads):
            last_readers.setdefault(buffer, set()).add(i)
        for buffer in previous.state.intersection(node.writes):
            last_writer[buffer] = i
            last_readers[buffer] = set()

    earlier = _all_ancestors(previous_before)
    written: set[str] = set()
    links: list[list[int]] = []
    covered: list[int] = []
    for node, parents in zip(graph.nodes, before, strict=True):
        needs: set[int] = set()
        for buffer in graph.state.difference(written):
            if (buffer in node.reads or buffer in node.writes) and buffer in last_writer:
                needs.add(last_writer[buffer])
            if buffer in node.writes:
                needs.update(last_readers.get(buffer, ()))
        written.update(graph.state.intersection(node.writes))
        inherited = 0
        for parent in parents:
            inherited |= covered[parent]
        kept, mask = _reduced(needs, earlier, inherited)
        links.append(kept)
        covered.append(mask)
    return links


def _all_ancestors(before: Sequence[Sequence[int]]) -> list[int]:
    ancestors: list[int] = []
    for needs in before:
        ancestors.append(_closure(needs, ancestors))
    return ancestors


def _closure(needs: Sequence[int] | set[int], ancestors: Sequence[int]) -> int:
    """``needs`` and all their ancestors."""
    mask = 0
    for i in needs:
        mask |= ancestors[i] | 1 << i
    return mask


def _reduced(needs: set[int], ancestors: Sequence[int], covered: int) -> tuple[list[int], int]:
    """``needs`` without those that ``covered`` or a later need implies, and everything then covered."""
    kept = []
    for i in sorted(needs, reverse=True):
        if not covered >> i & 1:
            kept.append(i)
            covered |= ancestors[i] | 1 << i
    return kept, covered
