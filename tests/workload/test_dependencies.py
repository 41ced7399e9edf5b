"""Stage order follows from the buffers, and from nothing else."""

import itertools

from hypothesis import given, settings
from hypothesis import strategies as st

from hexenv.workload.dependencies import hazards, ordered, state_links
from hexenv.workload.graph import Graph, Node

BUFFERS = ("a", "b", "c", "d", "s", "t")
STATE = frozenset(("s", "t"))
WIDE = 64


def nodes_strategy(limit=12):
    names = st.lists(st.sampled_from(BUFFERS), max_size=2, unique=True).map(tuple)
    return st.lists(st.tuples(names, names), min_size=1, max_size=limit).map(
        lambda pairs: tuple(Node(f"n{i}", None, reads, writes) for i, (reads, writes) in enumerate(pairs))
    )


def conflict(a, b):
    """Whether two accesses must keep their order: they share a buffer and one of them writes it."""
    return bool(set(a.writes) & (set(b.reads) | set(b.writes)) or set(a.reads) & set(b.writes))


def reach(before):
    """All (earlier, later) pairs that the lists order, directly or not."""
    pairs = set()
    for i, needs in enumerate(before):
        for n in needs:
            pairs.add((n, i))
            pairs |= {(a, i) for a, b in pairs if b == n}
    return pairs


def width_of(before):
    """Size of the largest antichain, by trying all sets."""
    pairs = reach(before)
    for size in range(len(before), 1, -1):
        for group in itertools.combinations(range(len(before)), size):
            if not any((a, b) in pairs for a, b in itertools.combinations(group, 2)):
                return size
    return 1


@given(nodes_strategy())
def test_every_conflict_is_ordered_and_nothing_else(nodes):
    direct = {(i, j) for i, j in itertools.combinations(range(len(nodes)), 2) if conflict(nodes[i], nodes[j])}
    wanted = reach([{i for i, k in direct if k == j} for j in range(len(nodes))])
    assert reach(ordered(nodes, WIDE)) == wanted


@given(nodes_strategy())
def test_no_edge_follows_from_the_others(nodes):
    before = ordered(nodes, WIDE)
    full = reach(before)
    for i, needs in enumerate(before):
        for n in needs:
            without = [list(x) for x in before]
            without[i].remove(n)
            assert reach(without) != full


@given(nodes_strategy(9), st.integers(1, 3))
def test_width_is_limited_and_hazards_stay(nodes, width):
    before = ordered(nodes, width)
    assert width_of(before) <= width
    assert reach(hazards(nodes)) <= reach(before)
    assert all(n < i for i, needs in enumerate(before) for n in needs)


@given(nodes_strategy(8), nodes_strategy(8))
@settings(max_examples=200)
def test_state_orders_two_jobs_of_a_stream(first, second):
    """Over two jobs behind one another, links and inner order together give exactly the conflicts on state buffers."""
    previous, graph = Graph("p", first, STATE), Graph("g", second, STATE)
    before_p, before_g = ordered(first, WIDE), ordered(second, WIDE)
    links = state_links(previous, before_p, graph, before_g)
    offset = len(first)
    shifted = [[offset + n for n in needs] + list(link) for needs, link in zip(before_g, links, strict=True)]
    got = reach([*before_p, *shifted])

    def on_state(node):
        return Node(node.name, None, tuple(STATE & set(node.reads)), tuple(STATE & set(node.writes)))

    direct = [
        {i for i, a in enumerate(first) if conflict(on_state(a), on_state(b))} | {offset + n for n in needs}
        for b, needs in zip(second, before_g, strict=True)
    ]
    assert got == reach([*before_p, *direct])


def test_state_links_are_reduced():
    write = Node("write", None, ("x",), ("s",))
    read = Node("read", None, ("s",), ("y",))
    graph = Graph("g", (write, read), frozenset(("s",)))
    before = ordered(graph.nodes, WIDE)
    # The next write follows the last read, which follows the last write; the next read follows its own write.
    assert state_links(graph, before, graph, before) == [[1], []]
