"""llada.cpp (arXiv 2606.13740): denoising steps of LLaDA-8B with filled blocks and buffers mapped in graph order.

Published on SM8750, units unsettled, so the step factors are context: mapping in graph order 3.92x (a remap share of
74 % or more), filling 1.22x. The laws behind them are what is checked.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from hexenv.device import Device, load_device
from hexenv.kernels import MatMul, Operator, Remap, Version, fastest_us, leaves
from hexenv.workload.diffusion import BLOCK, denoise_step
from hexenv.workload.models import language_model

V79 = load_device("v79")
LLADA = language_model("LLaDA-8B")
CONTEXT = 224


@cache
def operator_us(operator: Operator, device: Device) -> float:
    return sum(fastest_us(leaf, device) for leaf in leaves(operator, device))


def step_us(masked: int, fill: bool = False, mapping: str = "graph_order", device: Device = V79) -> float:
    """One step alone on the device, fastest versions, us."""
    operators = [node.operator for node in denoise_step(LLADA, CONTEXT, masked, fill=fill).nodes]
    return sum(operator_us(replace(op, mapping=mapping) if isinstance(op, Remap) else op, device) for op in operators)


@pytest.mark.parametrize("rows", [32, 24, 8, 1])
def test_without_filling_hmx_row_use_falls_to_rows_over_32(rows: int) -> None:
    """HMX takes as long for k rows as for 32, so k / 32 of its work is useful."""

    def hmx_us(count: int) -> float:
        projection = MatMul("q4_0", LLADA.ffn, count, LLADA.hidden)
        return next(cost.hmx_us for cost in projection.costs(V79) if cost.version is Version.HMX)

    useful = rows * hmx_us(BLOCK) / BLOCK
    assert useful / hmx_us(rows) == pytest.approx(rows / BLOCK)


def test_filled_steps_take_the_same_time_while_the_block_shrinks() -> None:
    times = [step_us(masked, fill=True) for masked in (32, 16, 4, 1)]
    assert max(times) == pytest.approx(min(times), rel=1e-9)


def test_filling_gains_rows_faster_than_it_costs_time() -> None:
    """A shrinking step still streams all weights: with 1 of 32 rows it takes more than a third of a full one's time."""
    full = step_us(BLOCK)
    for masked in (16, 8, 1):
        shrunk = step_us(masked)
        assert full / 3 < shrunk < full
        assert (BLOCK / masked) / (full / shrunk) > 1.5


def test_mapping_in_graph_order_gains_what_the_remaps_take() -> None:
    """Gain = 1 / (1 - share of remaps), and the share goes to 0. Here about 2.5x; 3.9x published."""
    remaps = [n.operator for n in denoise_step(LLADA, CONTEXT, BLOCK).nodes if isinstance(n.operator, Remap)]
    on_demand, mapped = step_us(BLOCK, mapping="on_demand"), step_us(BLOCK)
    share = sum(operator_us(op, V79) for op in remaps) / on_demand
    hidden = sum(operator_us(replace(op, mapping="graph_order"), V79) for op in remaps) / mapped
    assert share > 0.5
    assert hidden < 0.001
    assert on_demand / mapped == pytest.approx(1 / (1 - share), rel=0.01)


def test_the_published_gain_lies_inside_the_range_of_the_remap_rate() -> None:
    """Nobody published the rate; the model is not bent to the factor."""
    constant = V79.constants["remap_bytes_per_us"]
    gains = [
        step_us(BLOCK, mapping="on_demand", device=device) / step_us(BLOCK, device=device)
        for device in (V79.with_values(remap_bytes_per_us=rate) for rate in (constant.low, constant.high))
    ]
    assert gains[1] < 3.92 < gains[0]
