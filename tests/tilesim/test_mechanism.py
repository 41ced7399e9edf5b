"""Schedules worked out by hand: what waits for what, tile by tile."""

from __future__ import annotations

from typing import Any

import pytest

from hexenv.kernels import StageCost, Version
from hexenv.tilesim import Arbitration, Chip, Launch, Play, play

BYTES_PER_US = 1000.0


def chip(**fields: Any) -> Chip:
    """Round numbers; nothing disturbs anything."""
    defaults: dict[str, Any] = {
        "contexts": 4,
        "ddr_bytes_per_us": BYTES_PER_US,
        "ddr_full_bytes_per_us": BYTES_PER_US,
        "eta_shared": 1.0,
        "hvx_load_bytes_per_us": 800.0,
        "hvx_store_bytes_per_us": 800.0,
        "fork_join_us": 0.0,
        "beta": 0.0,
        "block_bytes": 1000.0,
    }
    return Chip(**(defaults | fields))


def kernel(
    tiles: int, load: float = 0.0, before: float = 0.0, hmx: float = 0.0, after: float = 0.0, **more: Any
) -> StageCost:
    """A kernel by the times of one tile: DMA load, HVX phases on four contexts, HMX; us."""
    fields: dict[str, Any] = {
        "version": Version.HMX,
        "tile_class": 0,
        "tiles": tiles,
        "depth": 2,
        "vtcm_bytes": 1,
        "ddr_in_bytes": tiles * load * BYTES_PER_US,
        "hvx_before_us": 4 * tiles * before,
        "hmx_us": tiles * hmx,
        "hvx_after_us": 4 * tiles * after,
    }
    return StageCost(**(fields | more))


def ends(played: Play) -> list[float]:
    return [run.end_us for run in played.stages]


def together(*costs: StageCost, contexts: tuple[int, int] = (2, 2)) -> list[Launch]:
    return [Launch(cost, h, slot) for slot, (cost, h) in enumerate(zip(costs, contexts, strict=True))]


def test_a_pipelined_kernel_step_by_step() -> None:
    played = play(chip(), [Launch(kernel(3, load=10, before=4, hmx=6, after=2), 4, 0)])
    times = {(r.kind, r.tile): (r.start_us, r.end_us) for r in played.records}
    assert times == {
        ("load", 0): (0, 10),
        ("load", 1): (10, 20),
        ("before", 0): (10, 14),
        ("hmx", 0): (14, 20),
        ("load", 2): (20, 30),
        ("before", 1): (20, 24),
        ("after", 0): (24, 26),
        ("hmx", 1): (24, 30),
        ("before", 2): (30, 34),
        ("after", 1): (34, 36),
        ("hmx", 2): (34, 40),
        ("after", 2): (40, 42),
    }
    assert ends(played) == [42]
    assert played.busy_us == {"ddr": 30, "hvx": 72, "hmx": 18, "storage": 0}


def test_with_one_buffer_hmx_is_waited_on_and_the_next_load_waits_for_the_buffer() -> None:
    """Load 0 to 10, before to 14, HMX to 20, after to 22; the second load from 14 to 24, and 12 us more."""
    assert ends(play(chip(), [Launch(kernel(2, load=10, before=4, hmx=6, after=2, depth=1), 4, 0)])) == [36]


def test_two_stages_share_the_hmx_queue_in_the_order_of_their_pushes() -> None:
    """Queue: S0 S1 B0 B1, then S2 and S3 as S0 and S1 end: 5, 10, 23, 36, 41, 46."""
    small, big = kernel(4, hmx=5), kernel(2, hmx=13)
    assert ends(play(chip(), together(small, big))) == [46, 36]


def test_a_composite_of_two_pipelines() -> None:
    """A: HVX 8 us a tile on 2 contexts, HMX 6; B: HMX only, 5 us. Queue: B0 B1, then A0 when its phase ends at 8.

    B0 to 5, B1 to 10 (B2 pushed at 5), B2 to 15 after B1; A0 was pushed at 8, behind B2: 15 to 21. A1 at 16: to 27.
    """
    assert ends(play(chip(), together(kernel(2, before=4, hmx=6), kernel(3, hmx=5), contexts=(2, 2)))) == [27, 15]


def test_hvx_slows_down_only_while_the_other_stage_has_hmx() -> None:
    """6 us at 1 / 1.5 do 4 of 10 us; the other 6 run freely."""
    vector, matrix = kernel(1, before=10, phi=1.0), kernel(1, hmx=6)
    assert ends(play(chip(beta=0.5), together(vector, matrix, contexts=(4, 0)))) == [12, 6]
    assert ends(play(chip(beta=0.5), [Launch(kernel(2, before=10, hmx=10, phi=1.0), 4, 0)])) == [30]


def test_contexts_change_hands_at_tile_boundaries() -> None:
    """Tile 2 of 4 ends at 200; 100 us on 2 contexts; tile 3 takes 200 us on the other 2, tile 4 has all 4 again."""
    resident, joining = kernel(4, before=100), kernel(1, before=50)
    played = play(chip(), [Launch(resident, 4, 0), Launch(joining, 2, 1, at_us=150)])
    assert played.stages[1].ready_us == 200
    assert ends(played) == [500, 300]


def test_two_streams_cost_ddr_efficiency_while_both_wait() -> None:
    """9 us at 90 % take 10; the second has the channel to itself then."""
    assert ends(play(chip(eta_shared=0.9), together(kernel(1, load=9), kernel(1, load=9)))) == pytest.approx([10, 19])


def test_rings_share_the_channel() -> None:
    pair = together(kernel(1, load=10), kernel(1, load=10))
    assert ends(play(chip(), pair)) == [10, 20]
    assert ends(play(chip(arbitration=Arbitration.RINGS), pair)) == [20, 20]


def test_hvx_stores_go_ahead_of_dma() -> None:
    """8000 bytes at 800 a us leave 200 a us of the channel: 2 of 4 us of DMA in 10 us, the rest after."""
    storing = kernel(1, after=1, hvx_after_floor_us=10.0, ddr_out_bytes=8000.0)
    assert ends(play(chip(), together(storing, kernel(1, load=4), contexts=(4, 0)))) == pytest.approx([10, 12])


def test_storage_runs_ahead_of_dma() -> None:
    assert ends(play(chip(), [Launch(kernel(2, load=5, storage_us=20.0), 4, 0)])) == [25]


def test_results_go_out_by_dma_through_the_same_channel() -> None:
    """Loads to 3 and 6, phase 0 to 4, store 0 from 6 to 8, phase 1 from 6 to 7, store 1 to 10."""
    assert ends(play(chip(), [Launch(kernel(2, load=3, before=1, ddr_out_bytes=4000.0), 4, 0)])) == [10]


def test_the_prologue_reads_ahead_block_by_block() -> None:
    """Four blocks of 4 us DMA and 1 us HVX: the last block is in at 16."""
    cost = kernel(1, prologue_bytes=16_000.0, prologue_hvx_us=16.0)
    assert play(chip(), [Launch(cost, 4, 0)]).stages[0].body_us == pytest.approx(17)


def test_a_kernel_forks_only_where_that_pays() -> None:
    small, large = kernel(1, before=1, fork_joins=4), kernel(1, before=10, fork_joins=4)
    assert ends(play(chip(fork_join_us=1.0), [Launch(small, 4, 0)])) == [4]
    assert ends(play(chip(fork_join_us=1.0), [Launch(large, 4, 0)])) == [14]


def test_launches_wait_for_latency_slot_and_the_stages_before_them() -> None:
    cost = kernel(1, hmx=5, fixed_us=2.0)
    chain = [
        Launch(cost, 4, 0, latency_us=3),
        Launch(cost, 4, 0),
        Launch(cost, 4, 1, after=(1,), gap_us=4),
    ]
    assert ends(play(chip(), chain)) == [10, 17, 28]


def test_a_launch_that_waits_for_itself_is_refused() -> None:
    with pytest.raises(RuntimeError, match="never ended"):
        play(chip(), [Launch(kernel(1, hmx=1), 4, 0, after=(0,))])
