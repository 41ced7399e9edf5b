"""nntrainer HTP design note 46: one mixture-of-experts layer of LFM2-8B-A1B on v79, stage by stage.

444 tokens, 4 of 32 experts each, u8 rows x i4 weights, everything in turn. The log books the multiplication as the
residual, so the stages sum to the whole by construction and ``mm`` is an upper bound on HMX time.
"""

from __future__ import annotations

import pytest

from hexenv.device import load_device
from hexenv.kernels import ExpertMatMul, Version
from hexenv.kernels.variants import alone_on
from hexenv.workload.experts import routed_rows
from hexenv.workload.graph import Graph, Node
from tests.published.stages import Given, run

V79 = load_device("v79")
HVX_US = {"quant": 610, "gather": 3623, "requant": 1254, "swiglu": 1927, "dequant": 5314, "scatter": 1431}
HMX_US = {"mm": 13722, "accumulator read": 2768}
DMA_US = {"exposed DMA": 5016, "staging": 389}
WHOLE_US = 36054
GATE_UP_MM, DOWN_MM, GATE_UP_DMA, DOWN_DMA = 185.0, 92.0, 108.0, 54.0
"""Plan of one expert, us: gate and up together 3584 KB, down 1792 KB."""
EXPERTS = 32
KIB = 1024
PLAN_BYTES = (128 + 3584 + 1792 + 896 + 112 + 8) * KIB
"""Rows, gate and up, down, fp32 results, gated rows, accumulators."""


def layer(tiles: int) -> Given:
    """The measured layer with its engines' work spread over so many tiles."""
    work = {"hvx": sum(HVX_US.values()), "hmx": sum(HMX_US.values()), "ddr": sum(DMA_US.values())}
    return Given("layer", tiles=tiles, **work)


def test_in_turn_the_stages_take_the_logged_time() -> None:
    assert run(V79, layer(tiles=1)).us == pytest.approx(WHOLE_US, abs=1)


def test_overlap_can_gain_at_most_2_19() -> None:
    assert WHOLE_US / run(V79, layer(tiles=100_000)).us == pytest.approx(2.19, abs=0.01)


def test_rows_fill_two_thirds_of_their_blocks() -> None:
    """1776 routed rows took 43 blocks of 64: 64.5 %."""
    rows = routed_rows(444, EXPERTS, 4)
    assert sum(rows) == 1776
    assert sum(-(-count // 64) for count in rows) == 43
    assert ExpertMatMul("i4", 3584, 2048, rows).row_use == pytest.approx(0.645, abs=0.001)


def test_one_buffer_a_matrix_exposes_16_us_an_expert() -> None:
    """Gate and up hide the load of down, down does not hide the next gate and up: 0.51 ms a layer by plan.

    5.0 ms were measured: contention that the plan left out.
    """
    nodes: list[Node] = []
    for expert in range(EXPERTS):
        loads = (("gate_up", "A", GATE_UP_DMA, GATE_UP_MM), ("down", "B", DOWN_DMA, DOWN_MM))
        for name, buffer, load_us, _ in loads:
            nodes.append(Node(f"{expert}.load {name}", Given("load", ddr=load_us), (), (buffer, "DMA ring")))
        for name, buffer, _, multiply_us in loads:
            nodes.append(Node(f"{expert}.{name}", Given("multiply", hmx=multiply_us), (buffer, "rows"), ("rows",)))
    whole_us = run(V79, Graph("plan", tuple(nodes))).us
    exposed_us = whole_us - GATE_UP_DMA - EXPERTS * (GATE_UP_MM + DOWN_MM)
    assert exposed_us == pytest.approx((EXPERTS - 1) * 16, abs=1)


def test_vtcm_takes_the_plan_but_not_with_both_weights_doubled() -> None:
    """6.37 of 8 MiB; both weight buffers twice are 10.5 MiB alone. Our whole-expert chunk agrees."""
    mebibytes = PLAN_BYTES / KIB**2
    assert mebibytes == pytest.approx(6.37, abs=0.01)
    assert PLAN_BYTES < V79.vtcm_bytes < 2 * (3584 + 1792) * KIB
    gate_up, down = ExpertMatMul("i4", 3584, 2048, (64,)), ExpertMatMul("i4", 2048, 1792, (64,))
    assert gate_up.footprint(1).bytes(3584, 64) == pytest.approx((128 + 3584 + 896) * KIB, rel=0.001)

    def both(buffers: int) -> int:
        weights = down.footprint(buffers).bytes(2048, 0)
        return gate_up.footprint(buffers).bytes(3584, 64) + weights

    assert both(1) < V79.vtcm_bytes < both(2)
    whole = [cost for cost in gate_up.costs(V79) if cost.version is Version.HMX]
    assert max(cost.vtcm_bytes for cost in whole) == gate_up.footprint(1).bytes(3584, 64)


def test_the_multiplication_rate_of_gate_up_predicts_down() -> None:
    """The device's rate comes from gate and up (185 us); down is half of it."""
    for (m, k), measured in {(3584, 2048): GATE_UP_MM, (2048, 1792): DOWN_MM}.items():
        for cost in ExpertMatMul("i4", m, k, (55,)).costs(V79):
            if cost.version is Version.HMX:
                assert cost.hmx_us == pytest.approx(measured, rel=0.02)


def test_one_token_s_experts_stream_as_measured() -> None:
    """417.5 us for four experts of one token on HVX (21504 KB by DMA); our sum leaves out the gate between them."""
    parts = (ExpertMatMul("i4", 3584, 2048, (1,) * 4), ExpertMatMul("i4", 2048, 1792, (1,) * 4))
    ours = sum(min(alone_on(V79, cost) for cost in part.costs(V79) if cost.version is Version.HVX) for part in parts)
    assert ours == pytest.approx(417.5, rel=0.10)
