"""TileFuse (arXiv 2606.11357, ICCAD 26), measured on XDNA2: unpack, scale and multiply in one kernel.

Context only (another NPU): GEMM +121.6 %, GEMV +281 % over full precision. Its tiles carry their scales behind them, as
the tiles of llama.cpp do, so that DMA strides stay small (see ``hexenv.kernels.matmul``).
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import load_device
from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Event, Mode
from hexenv.kernels import MatMul, StageCost, Version
from hexenv.kernels.matmul import DDR_TILE_BYTES, F16_TILE_BYTES, Weight
from hexenv.kernels.variants import alone_on
from tests.engine.toy import Kernel, Source, action, one, toy_tables

V79 = load_device("v79")
tiles = st.integers(8, 256).map(lambda count: 32 * count)
QUANTISED: tuple[Weight, ...] = ("q4_0", "q4_1", "q8_0", "iq4_nl", "mxfp4")


def version(operator: MatMul, wanted: Version) -> StageCost:
    return [cost for cost in operator.costs(V79) if cost.version is wanted][-1]


def moved(cost: StageCost) -> float:
    return cost.ddr_in_bytes + cost.ddr_out_bytes + cost.prologue_bytes


@given(st.sampled_from(QUANTISED), tiles, st.integers(1, 32), tiles)
def test_fusing_saves_one_round_trip_of_the_fp16_tiles(weight: Weight, m: int, n: int, k: int) -> None:
    fused, unfused = (version(MatMul(weight, m, n, k, fusion=f), Version.HMX) for f in ("fused", "unfused"))
    assert moved(unfused) - moved(fused) == pytest.approx(2 * F16_TILE_BYTES * m * k / 1024)
    assert alone_on(V79, fused) < alone_on(V79, unfused)


@given(st.sampled_from(QUANTISED), st.integers(1, 512))
def test_a_tile_is_unpacked_once_for_all_tokens_of_a_block(weight: Weight, n: int) -> None:
    """They unpack a 128 x 64 tile once and keep it over all rows."""
    unpacked = {version(MatMul(weight, 2048, tokens, 2048), Version.HMX).hvx_before_us for tokens in (1, n)}
    assert len(unpacked) == 1


@given(tiles, tiles)
def test_halving_the_weight_bytes_gains_at_most_their_ratio(m: int, k: int) -> None:
    """A GEMV is bound by its weights: 8 to 4 bit and 16 to 4 bit."""
    small = alone_on(V79, version(MatMul("q4_0", m, 1, k), Version.HVX))
    for weight in ("q8_0", "f16"):
        large = alone_on(V79, version(MatMul(weight, m, 1, k), Version.HVX))  # type: ignore[arg-type]
        assert 1.0 <= large / small <= DDR_TILE_BYTES[weight] / DDR_TILE_BYTES["q4_0"]


@pytest.mark.parametrize(
    ("values", "scales", "overhead"),
    [(4096, 256, 0.0625), (8192, 256, 0.03125), (512, 64, 0.125), (512, 128, 0.25), (1024, 64, 0.0625)],
    ids=["TileFuse W4A16", "TileFuse W8A16", "q4_0", "q4_1", "q8_0"],
)
def test_metadata_costs_its_share_of_the_bytes(values: int, scales: int, overhead: float) -> None:
    """A GEMV over tiles with scales takes longer by at most the share of the scales: they stream with the values."""
    bare = Kernel(ddr=values / 64, hvx=1.0)
    full = Kernel(ddr=(values + scales) / 64, hvx=1.0)
    times = [float(toy_tables(Source((one(kernel),))).variants["alone_ns"][0, 4]) for kernel in (bare, full)]
    assert times[1] / times[0] == pytest.approx(1.0 + overhead, rel=1e-3)


@pytest.mark.parametrize(("weight", "scales"), [("q4_0", 64), ("q4_1", 128), ("q8_0", 64), ("mxfp4", 32)])
def test_tiles_hold_their_scales(weight: Weight, scales: int) -> None:
    values = 1024 if weight == "q8_0" else 512
    assert DDR_TILE_BYTES[weight] == values + scales


@pytest.mark.parametrize("gemv_us", [20.0, 43.0, 120.0, 400.0])
@pytest.mark.parametrize("rival_us", [60.0, 150.0, 300.0])
def test_the_accelerator_loses_when_launch_and_kernel_exceed_the_rival(gemv_us: float, rival_us: float) -> None:
    """L + t > t_gpu, on the engine: a lone GEMV with the dispatch of the device."""
    launch_us = V79.batch_us + V79.op_us
    source = Source((one(Kernel(ddr=gemv_us, hvx=1.0)),))
    costs = {"batch_ns": round(V79.batch_us * 1e3), "op_ns": round(V79.op_us * 1e3)}
    sim = Simulator(toy_tables(source, mode=Mode.SERIAL, **costs), trace=TraceLevel.ALL)
    sim.reset(np.zeros(1, np.uint64))
    while not sim.lanes["over"][0]:
        sim.step(np.array([action(0) if sim.masks[0, action(0)] else 0]))
    trace = sim.trace(0)
    latency_us = float(trace[trace["event"] == Event.FINISH]["value"][0]) / 1e3
    assert latency_us == pytest.approx(launch_us + gemv_us, abs=0.01)
    assert (latency_us > rival_us) == (launch_us + gemv_us > rival_us)


@given(tiles, tiles)
def test_a_gemv_over_all_contexts_gains_at_most_their_number(m: int, k: int) -> None:
    """They spread a GEMV over the whole 4 x 8 array instead of one row. DDR caps the gain here: below 6."""
    spread, narrow = (version(MatMul("q4_0", m, 1, k, gemv=g), Version.HVX) for g in ("all_contexts", "one_context"))
    gain = alone_on(V79, narrow) / alone_on(V79, spread)
    assert 1.0 <= gain <= V79.contexts
    if m * k >= 2048 * 2048:
        ddr_us = moved(spread) / V79.ddr_bytes_per_us
        assert gain == pytest.approx(narrow.hvx_before_us / ddr_us, rel=0.35)
        assert gain > 3.0
