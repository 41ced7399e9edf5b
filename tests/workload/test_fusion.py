"""Vertical fusions rewrite graphs without changing what they compute, and never move or compute more."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexenv.device import load_device
from hexenv.kernels import Chain, Copy, Elementwise, GatedMlp, MatMul, RmsNorm, Rope, Version
from hexenv.kernels.operator import Operator
from hexenv.workload import build, load_scenario
from hexenv.workload.builder import GraphBuilder
from hexenv.workload.fusion import fuse, megakernel, swiglu
from hexenv.workload.graph import Graph, Node
from hexenv.workload.language import decode_step, prefill_chunk
from hexenv.workload.models import language_model

V79 = load_device("v79")
MODEL = language_model("Qwen3-1.7B")
BUFFERS = ("a", "b", "c", "d", "e", "s")
OPERATORS: tuple[Operator, ...] = (
    Elementwise("neg", 1 << 16),
    Elementwise("add", 1 << 16),
    RmsNorm(64, 1024),
    Rope(64, 8, 128),
    Copy(1 << 16, 2, "set_rows"),
    MatMul("q4_0", 1024, 64, 1024),
)
Origin = dict[str, tuple[str, ...]]
"""Nodes that each node of a rewritten graph stands for."""


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Nodes that read up to two buffers and write one, of a few, with and without state; most of them stream."""
    nodes = []
    for i in range(draw(st.integers(2, 12))):
        reads = draw(st.lists(st.sampled_from((*BUFFERS, f"n{i - 1}")), min_size=1, max_size=2, unique=True))
        write = draw(st.sampled_from((f"n{i}", f"n{i}", *BUFFERS)))
        nodes.append(Node(f"n{i}", draw(st.sampled_from(OPERATORS)), tuple(reads), (write,)))
    return Graph("random", tuple(nodes), frozenset("s"))


def origins(before: Graph, after: Graph) -> Origin:
    """Merged nodes are named after their first and last member; the members follow from the operators' order."""
    kept = {node.name for node in after.nodes} & {node.name for node in before.nodes}
    lost = [node for node in before.nodes if node.name not in kept]
    origin: Origin = {name: (name,) for name in kept}
    for node in after.nodes:
        if node.name not in kept:
            first, last = node.name.split("..")
            assert isinstance(node.operator, Chain)
            origin[node.name] = tuple(_members(lost, first, last, node.operator))
    return origin


def _members(lost: list[Node], first: str, last: str, chain: Chain) -> Iterator[str]:
    by_name = {node.name: node for node in lost}
    name = last
    path = [last]
    while name != first:
        inputs = by_name[name].reads
        name = next(node.name for node in lost if set(node.writes) & set(inputs) and node.name not in path)
        path.append(name)
    assert tuple(by_name[name].operator for name in reversed(path)) == chain.operators
    yield from reversed(path)


def accesses(graph: Graph, owner: dict[str, str]) -> tuple[set[tuple[str, str, str]], dict[str, str]]:
    """``(reader, buffer, writer)`` of every read, nodes named by their owner, inner reads left out; last writers."""
    writer: dict[str, str] = {}
    reads: set[tuple[str, str, str]] = set()
    for node in graph.nodes:
        me = owner[node.name]
        reads |= {(me, buffer, writer.get(buffer, "")) for buffer in node.reads if writer.get(buffer) != me}
        writer.update(dict.fromkeys(node.writes, me))
    return reads, writer


@settings(max_examples=300)
@given(graphs(), st.one_of(st.none(), st.integers(1, 12)))
def test_every_read_still_sees_the_same_write(graph: Graph, window: int | None) -> None:
    fused = megakernel(graph, window)
    origin = origins(graph, fused)
    owner = {member: name for name, members in origin.items() for member in members}
    before, last_before = accesses(graph, owner)
    after, last_after = accesses(fused, {name: name for name in origin})
    assert before == after
    assert last_after == {buffer: node for buffer, node in last_before.items() if buffer in last_after}
    assert sorted(member for members in origin.values() for member in members) == sorted(n.name for n in graph.nodes)


def work(graph: Graph) -> tuple[float, float]:
    """DDR bytes and HVX context-time of all nodes, HVX versions, all of VTCM."""
    costs = [c for n in graph.nodes for c in n.operator.costs(V79) if c.version is Version.HVX and c.tile_class == 3]
    moved = sum(c.ddr_in_bytes + c.ddr_out_bytes + c.prologue_bytes for c in costs)
    return moved, sum(c.hvx_before_us + c.hvx_after_us + c.prologue_hvx_us for c in costs)


@settings(max_examples=50, deadline=None)
@given(graphs())
def test_a_megakernel_never_moves_or_computes_more(graph: Graph) -> None:
    fused = megakernel(graph)
    for new, old in zip(work(fused), work(graph), strict=True):
        assert new <= old * (1 + 1e-12)
        assert (new < old) == (len(fused.nodes) < len(graph.nodes))


def line(*operators: Operator) -> GraphBuilder:
    """A chain of nodes ``n0``, ``n1`` ... that starts at the buffer ``input``."""
    builder, buffer = GraphBuilder("line"), "input"
    for i, operator in enumerate(operators):
        buffer = builder.add(f"n{i}", operator, buffer)
    return builder


NEG = Elementwise("neg", 4096)


def test_a_line_of_streams_becomes_one_node() -> None:
    fused = megakernel(line(NEG, NEG, NEG).build())
    assert [node.name for node in fused.nodes] == ["n0..n2"]
    assert (fused.nodes[0].reads, fused.nodes[0].writes) == (("input",), ("n2",))


def test_a_result_with_two_consumers_stays() -> None:
    builder = line(NEG, NEG)
    builder.add("again", NEG, "n0")
    graph = builder.build()
    assert megakernel(graph) == graph


def test_state_stays_in_ddr() -> None:
    builder = GraphBuilder("state")
    cache = builder.update("append", Copy(4096, 2), "cache", "input")
    builder.add("use", Elementwise("neg", 4096), cache)
    graph = builder.build()
    assert megakernel(graph) == graph


def test_a_chain_may_end_in_a_state() -> None:
    builder = line(NEG)
    builder.update("append", Copy(4096, 2), "cache", "n0")
    fused = megakernel(builder.build())
    assert [node.writes for node in fused.nodes] == [("cache",)]


def test_an_overwritten_input_keeps_its_reader_in_front() -> None:
    """``input`` changes between the two operators, so that the first may not move behind the change."""
    builder = line(NEG)
    nodes = (*builder.build().nodes, Node("change", NEG, ("other",), ("input",)), Node("n1", NEG, ("n0",), ("n1",)))
    graph = Graph("overwritten", nodes)
    assert megakernel(graph) == graph


def test_operators_that_cut_differently_stay_apart() -> None:
    """Leaves of 3 rows and of 4096 elements do not line up."""
    graph = line(NEG, RmsNorm(3, 1365)).build()
    assert megakernel(graph) == graph
    assert len(megakernel(line(NEG, RmsNorm(4, 1024)).build()).nodes) == 1


def test_language_models_lose_what_is_between_norm_rope_and_append() -> None:
    step = decode_step(MODEL, 512)
    names = {node.name for node in megakernel(step).nodes}
    assert {"blk.0.q_norm..blk.0.q_rope", "blk.0.k_norm..blk.0.k_append"} <= names
    assert len(names) == len(step.nodes) - 3 * MODEL.layers - 1  # and one of the kept rows


@pytest.mark.parametrize("tokens", [1, 512])
def test_every_feed_forward_layer_becomes_one_node(tokens: int) -> None:
    graph = decode_step(MODEL, 512) if tokens == 1 else prefill_chunk(MODEL, tokens, head="q4_0")
    fused = swiglu(graph)
    layers = [node for node in fused.nodes if isinstance(node.operator, GatedMlp)]
    assert len(layers) == MODEL.layers
    assert len(fused.nodes) == len(graph.nodes) - 3 * MODEL.layers
    first = layers[0]
    assert first.operator == GatedMlp("q4_0", MODEL.glu, tokens, MODEL.hidden, MODEL.ffn)
    assert first.reads == ("blk.0.ffn_norm", "blk.0.attn_out")  # the residual comes in at the end
    assert first.writes == ("blk.0.down",)


@pytest.mark.parametrize("broken", ["input", "shape", "reader", "batch"])
def test_what_is_not_a_feed_forward_layer_stays(broken: str) -> None:
    builder = GraphBuilder("mlp")
    inner = MatMul("q4_0", 128, 4, 64, batch=2 if broken == "batch" else 1)
    gate = builder.add("gate", inner, "x")
    up = builder.add("up", inner, "y" if broken == "input" else "x")
    glu = builder.add("glu", Elementwise("swiglu", 512), gate, up)
    builder.add("down", MatMul("q4_0", 96 if broken == "shape" else 64, 4, 128), glu)
    if broken == "reader":
        builder.add("probe", Elementwise("neg", 512), glu)
    graph = builder.build()
    assert swiglu(graph) == graph


def test_fusions_apply_by_name() -> None:
    graph = decode_step(MODEL, 512)
    assert fuse(graph, ()) == graph
    assert fuse(graph, ("swiglu",)) == swiglu(graph)
    assert fuse(graph, ("megakernel", "swiglu")) == megakernel(swiglu(graph))


def test_a_scenario_runs_fused() -> None:
    plain, fused = build("camera_decode"), build("camera_decode", fusions=("swiglu", "megakernel"))
    assert {"GatedMlp", "Chain"} <= set(fused.family_names)
    assert len(fused.stages) < len(plain.stages)
    ref = [tables.templates["ref_ns"].sum() for tables in (plain, fused)]
    assert ref[1] < ref[0]


def test_a_call_can_switch_the_fusions_of_a_scenario_off(tmp_path: Path) -> None:
    path = tmp_path / "fused.toml"
    plain = Path(load_scenario("camera_decode").file).read_text()
    path.write_text('fusions = ["swiglu"]\n' + plain)
    assert "GatedMlp" in build(str(path)).family_names
    assert "GatedMlp" not in build(str(path), fusions=()).family_names
    path.write_text("fusions = []\n" + plain)
    assert "GatedMlp" not in build(str(path)).family_names
