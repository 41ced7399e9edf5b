"""HA-NPU (arXiv 2609.32114, abstract): three data-flow levels for gated-delta linear attention on an edge NPU.

Published: a linear-attention kernel up to 35.95x, a request up to 2.03x faster. Platform and stage times are not
public, so those figures are context; the laws behind them are what is checked here.
"""

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import load_device
from hexenv.kernels import GatedDeltaNet, Version
from hexenv.kernels.variants import alone_on
from hexenv.workload.dependencies import ordered, state_links
from hexenv.workload.fusion import fuse
from hexenv.workload.language import decode_step, prefill_chunk
from hexenv.workload.models import language_model

V79 = load_device("v79")
KERNEL, REQUEST = 35.95, 2.03
HYBRID = language_model("Qwen3.5-0.8B")
STATE_BYTES = 16 * 128 * 128 * 4

operators = st.builds(
    lambda tokens, groups, heads, dim: GatedDeltaNet(tokens, groups * heads, heads, dim),
    st.integers(1, 600),
    st.integers(1, 3),
    st.integers(1, 16),
    st.sampled_from([64, 128]),
)


def matrix(operator, **levels):
    """Its HMX variant of the largest tile class with other data-flow levels."""
    costs = replace(operator, **levels).costs(V79)
    return [cost for cost in costs if cost.version is Version.HMX][-1]


def ddr_bytes(cost):
    return cost.ddr_in_bytes + cost.ddr_out_bytes


def fastest_us(operator, recurrent):
    """Alone; the delta net in its token-by-token version if ``recurrent``."""
    only_hvx = recurrent and isinstance(operator, GatedDeltaNet)
    return min(alone_on(V79, cost) for cost in operator.costs(V79) if cost.version is Version.HVX or not only_hvx)


def test_amdahl_share_behind_the_published_pair():
    """35.95x of the kernel give 2.03x of a request only if the kernel was at least 52.2 % of it."""
    share = (1 - 1 / REQUEST) / (1 - 1 / KERNEL)
    assert share == pytest.approx(0.522, abs=5e-4)


def test_a_recurrent_kernel_has_that_share_here_too():
    """Qwen3.5-0.8B reads a prompt with the delta net on HVX: its share of the time is above 52.2 %, and no faster delta
    net can gain more than Amdahl's bound."""
    nodes = [node.operator for node in prefill_chunk(HYBRID, 512).nodes]
    before = sum(fastest_us(op, recurrent=True) for op in nodes)
    after = sum(fastest_us(op, recurrent=False) for op in nodes)
    share = sum(fastest_us(op, recurrent=True) for op in nodes if isinstance(op, GatedDeltaNet)) / before
    assert share > 0.522
    assert 1.0 < before / after < 1 / (1 - share)


@given(operators)
def test_core_level_only_lowers_ddr_traffic(operator):
    """Steps fused by head take their intermediates out of DDR: as many bytes less each way, nothing else in DDR."""
    fused, unfused = matrix(operator, core="head"), matrix(operator, core="operator")
    assert fused.ddr_in_bytes < unfused.ddr_in_bytes
    assert fused.ddr_out_bytes < unfused.ddr_out_bytes
    saved_in, saved_out = unfused.ddr_in_bytes - fused.ddr_in_bytes, unfused.ddr_out_bytes - fused.ddr_out_bytes
    assert saved_in == saved_out
    assert (fused.hmx_us, fused.hvx_before_us) == (unfused.hmx_us, unfused.hvx_before_us)
    assert fused.fork_joins <= unfused.fork_joins


def test_core_level_keeps_the_state_on_chip():
    """What goes through DDR between the steps of a chunk of one head: T, P, W, V' in fp16 and the fp32 state."""
    operator = GatedDeltaNet(64, 1, 1, 128)
    saved = matrix(operator, core="operator").ddr_out_bytes - matrix(operator, core="head").ddr_out_bytes
    assert saved == 2 * (2 * 64 * 64 + 2 * 64 * 128) + 4 * 128 * 128


@pytest.mark.parametrize("layout", ["convert", "matched"])
@pytest.mark.parametrize(("tokens", "dim"), [(64, 128), (512, 128), (512, 64)])
def test_operator_level_holds_the_state_and_two_live_tiles(layout, tokens, dim):
    """Consumed at once, however many operators a chunk has: conversions add operators, not live tiles."""
    cost = matrix(GatedDeltaNet(tokens, 1, 1, dim), order="consume", layout=layout)
    state, live_tile = dim * dim * (4 + 2), 64 * dim * 2
    assert cost.vtcm_bytes == state + 2 * live_tile


def test_staged_order_grows_with_the_operators():
    operator = GatedDeltaNet(512, 16, 16, 128)
    staged, fewer = matrix(operator), matrix(operator, layout="matched")
    consumed = matrix(operator, order="consume")
    assert consumed.vtcm_bytes < fewer.vtcm_bytes < staged.vtcm_bytes
    assert consumed.vtcm_bytes < staged.vtcm_bytes / 3


def test_operator_level_reads_inputs_again_for_its_small_buffers():
    """q twice and k three times: the price of keeping no operand."""
    operator = GatedDeltaNet(512, 16, 16, 128)
    again = matrix(operator, order="consume").ddr_in_bytes - matrix(operator).ddr_in_bytes
    assert again == 3 * 16 * 512 * 128 * 4


@given(operators)
def test_tensor_level_only_cuts_conversions(operator):
    """Matched layouts take HVX work out and leave tile products and DDR traffic as they are."""
    matched, converted = matrix(operator, layout="matched"), matrix(operator, layout="convert")
    assert matched.hvx_before_us < converted.hvx_before_us
    assert matched.hmx_us == converted.hmx_us
    assert ddr_bytes(matched) == ddr_bytes(converted)


def test_the_three_levels_together_beat_each_alone_on_the_unfused_kernel():
    operator = GatedDeltaNet(512, 16, 16, 128)
    plain = {"core": "operator", "order": "staged", "layout": "convert"}
    alone = {
        name: alone_on(V79, matrix(operator, **{**plain, **change}))
        for name, change in {"none": {}, "core": {"core": "head"}, "tensor": {"layout": "matched"}}.items()
    }
    together = alone_on(V79, matrix(operator, core="head", layout="matched"))
    assert together < alone["core"] < alone["none"]
    assert together < alone["tensor"] <= alone["none"]


@pytest.mark.parametrize("levels", [{"core": "operator"}, {"order": "consume"}, {"layout": "matched"}])
def test_the_recurrent_kernel_knows_no_levels(levels):
    operator = GatedDeltaNet(512, 16, 16, 128)
    plain, changed = (
        [cost for cost in op.costs(V79) if cost.version is Version.HVX]
        for op in (operator, replace(operator, **levels))
    )
    assert plain == changed


def hvx_ddr_bytes(graph):
    return sum(ddr_bytes(next(iter(node.operator.costs(V79)))) for node in graph.nodes)


@pytest.mark.parametrize("build", [lambda: decode_step(HYBRID, 64), lambda: prefill_chunk(HYBRID, 64)])
def test_a_state_in_place_saves_two_copies_a_layer(build):
    """The copies into and out of the job read and write it once each: four trips of 1 MiB in each of 18 layers."""
    graph = build()
    fused = fuse(graph, ("state_in_place",))
    gone = {node.name for node in graph.nodes} - {node.name for node in fused.nodes}
    assert len(gone) == len(graph.nodes) - len(fused.nodes) == 2 * 18
    assert {name.split(".")[-1] for name in gone} == {"state_get", "state_put"}
    assert hvx_ddr_bytes(graph) - hvx_ddr_bytes(fused) == 4 * 18 * STATE_BYTES


def test_a_state_in_place_keeps_the_order_of_steps():
    graph = fuse(decode_step(HYBRID, 64), ("state_in_place",))
    own = [node.name for node in graph.nodes]
    before = ordered(graph.nodes, 8)
    delta_net = own.index("blk.4.delta_net")
    assert "delta_state.4" in graph.state
    assert delta_net in state_links(graph, before, graph, before)[delta_net]
    assert delta_net in before[own.index("blk.4.out_norm")]


def test_models_without_a_delta_net_stay_as_they_are():
    graph = decode_step(language_model("Qwen3-1.7B"), 64)
    assert fuse(graph, ("state_in_place",)) == graph
