"""Durations of hand-made stage costs."""

from __future__ import annotations

from typing import Any

import pytest

from hexenv.kernels import StageCost, Version, alone_us, body_hvx_us, prologue_us


def cost(**fields: Any) -> StageCost:
    return StageCost(**{"version": Version.HMX, "tile_class": 0, "tiles": 10, "depth": 2, "vtcm_bytes": 1} | fields)


def test_a_pipelined_body_takes_its_bottleneck_and_one_tile_of_the_rest() -> None:
    stage = cost(ddr_in_bytes=300.0, hvx_before_us=120.0, hmx_us=50.0)
    assert alone_us(stage, 2, 0.0, 10.0) == pytest.approx(60.0 + (30.0 + 50.0) / 10)


def test_without_a_second_buffer_hvx_and_hmx_take_turns() -> None:
    stage = cost(ddr_in_bytes=300.0, hvx_before_us=120.0, hmx_us=50.0, depth=1)
    assert alone_us(stage, 2, 0.0, 10.0) == pytest.approx(60.0 + 50.0 + 30.0 / 10)


def test_with_one_buffer_the_next_load_waits_for_the_phase_that_reads_it() -> None:
    stage = cost(ddr_in_bytes=800.0, hvx_before_us=120.0, hmx_us=50.0, depth=1)
    assert alone_us(stage, 2, 0.0, 10.0) == pytest.approx(80.0 + 60.0 + 50.0 / 10)


def test_what_a_phase_stores_itself_does_not_drain_the_pipeline_again() -> None:
    work = {"ddr_out_bytes": 200.0, "hvx_after_us": 120.0, "hmx_us": 50.0}
    by_dma, streamed = cost(**work), cost(**work, hvx_after_floor_us=30.0)
    assert alone_us(by_dma, 2, 0.0, 10.0) == pytest.approx(60.0 + (50.0 + 20.0) / 10)
    assert alone_us(streamed, 2, 0.0, 10.0) == pytest.approx(60.0 + 50.0 / 10)


def test_phases_bound_by_ddr_stop_scaling_with_contexts() -> None:
    stage = cost(hvx_before_us=60.0, hvx_after_us=60.0, hvx_after_floor_us=25.0)
    assert body_hvx_us(stage, 2, 0.0) == pytest.approx(60.0)
    assert body_hvx_us(stage, 6, 0.0) == pytest.approx(10.0 + 25.0)


def test_a_kernel_forks_only_where_that_pays() -> None:
    stage = cost(hvx_before_us=12.0, fork_joins=8)
    assert body_hvx_us(stage, 1, 1.0) == 12.0
    assert body_hvx_us(stage, 2, 1.0) == 12.0
    assert body_hvx_us(stage, 6, 1.0) == pytest.approx(2.0 + 8.0)


def test_the_prologue_waits_for_hvx_or_ddr_whichever_is_longer() -> None:
    assert prologue_us(cost(prologue_bytes=100.0, prologue_hvx_us=60.0), 6, 10.0) == pytest.approx(10.0)
    assert prologue_us(cost(prologue_bytes=100.0, prologue_hvx_us=60.0), 2, 10.0) == pytest.approx(30.0)
    assert prologue_us(cost(prologue_bytes=100.0, prologue_floor_us=40.0), 6, 10.0) == pytest.approx(40.0)


def test_an_operator_without_hvx_work_has_no_fork_joins() -> None:
    assert body_hvx_us(cost(fork_joins=5), 6, 1.0) == 0.0
