"""The matmul of the llama.cpp Hexagon backend (``ggml-hexagon/htp``): padding, queue, chunk rule, tile bytes.

Context only, end to end on v81: padding the token tail instead of finishing it on HVX 135 to 172 tokens/s at 287 tokens
(PR 22724); asynchronous HMX +9.7 % on a 204-token prompt (PR 21554).
"""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import load_device
from hexenv.kernels import MatMul, StageCost, Version, body_hvx_us, body_us
from hexenv.kernels.chunks import Chunk, choose_chunk
from hexenv.kernels.dequantise import DDR_TILE_BYTES, VTCM_TILE_BYTES
from hexenv.kernels.variants import alone_on

V79 = load_device("v79")
sides = st.integers(1, 256).map(lambda count: 32 * count)


def hmx(operator: MatMul) -> StageCost:
    return [cost for cost in operator.costs(V79) if cost.version is Version.HMX][-1]


@given(sides, sides)
def test_287_rows_cost_the_hmx_time_of_288(m: int, k: int) -> None:
    assert hmx(MatMul("q4_0", m, 287, k)).hmx_us == hmx(MatMul("q4_0", m, 288, k)).hmx_us


def test_padding_the_tail_beats_finishing_it_on_hvx() -> None:
    """287 tokens: 9 tiles on HMX against 8 and the last 31 tokens on HVX."""

    def on_hvx(n: int) -> float:
        return min(alone_on(V79, c) for c in MatMul("q4_0", 6144, n, 2048).costs(V79) if c.version is Version.HVX)

    padded_us = alone_on(V79, hmx(MatMul("q4_0", 6144, 287, 2048)))
    assert padded_us < alone_on(V79, hmx(MatMul("q4_0", 6144, 256, 2048))) + on_hvx(31)


@pytest.mark.parametrize(
    ("rows", "used"), [(1, 0.031), (5, 0.156), (32, 1.0), (33, 0.516), (48, 0.75), (287, 0.9965), (512, 1.0)]
)
def test_hmx_row_utilisation(rows: int, used: float) -> None:
    """rows / (32 ceil(rows / 32)): 3.1 % for a single token."""
    useful_us = 2048 * 2048 * rows / 32**3 * V79.hmx_tile_us
    assert useful_us / hmx(MatMul("q4_0", 2048, rows, 2048)).hmx_us == pytest.approx(used, abs=0.001)


@given(sides, st.integers(33, 1024), sides)
def test_the_asynchronous_queue_gains_at_most_the_overlap(m: int, n: int, k: int) -> None:
    """Taking turns against overlapping, without DDR: the body gains no more than (V + M) / max(V, M)."""
    overlapped = replace(hmx(MatMul("q4_0", m, n, k)), ddr_in_bytes=0.0, ddr_out_bytes=0.0)
    taking_turns = replace(overlapped, depth=1)
    hvx_us = body_hvx_us(overlapped, V79.contexts, V79.fork_join_us)
    bound = (hvx_us + overlapped.hmx_us) / max(hvx_us, overlapped.hmx_us)
    times = [sum(body_us(c, V79.contexts, V79.fork_join_us, V79.ddr_bytes_per_us)) for c in (taking_turns, overlapped)]
    assert 1.0 - 1e-9 <= times[0] / times[1] <= bound * (1 + 1e-9)


def test_the_asynchronous_queue_pays_in_prefill() -> None:
    overlapped = hmx(MatMul("q4_0", 9728, 204, 2560))
    gain = alone_on(V79, replace(overlapped, depth=1)) / alone_on(V79, overlapped)
    assert 1.097 < gain < 2.0  # the published gain is of a whole prompt, with all that is not a matmul


@pytest.mark.parametrize(
    ("k", "m", "chunk"),
    [
        (2048, 6144, Chunk(480, 512)),
        (2560, 9728, Chunk(352, 512)),
        (4096, 14336, Chunk(160, 512)),
        (6144, 2048, Chunk(128, 320)),
    ],
)
def test_chunk_rule_at_512_tokens_and_8_mib(k: int, m: int, chunk: Chunk) -> None:
    """``htp_mm_hmx_compute_chunks``: 3 x token blocks x outputs + 2 x output blocks x tokens, lowest wins."""
    footprint = MatMul("q4_0", m, 512, k).footprint(buffers=2)
    assert choose_chunk(m, 512, footprint, 8 << 20) == chunk


@pytest.mark.parametrize(
    ("weight", "ddr", "vtcm"),
    [
        ("q4_0", 576, 640),
        ("iq4_nl", 576, 640),
        ("q4_1", 640, 640),
        ("q8_0", 1088, 1152),
        ("mxfp4", 544, 640),
        ("f16", 2048, 2048),
    ],
)
def test_weight_tile_bytes(weight: str, ddr: int, vtcm: int) -> None:
    """DMA moves the tight tile and pads it to whole vectors."""
    assert (DDR_TILE_BYTES[weight], VTCM_TILE_BYTES[weight]) == (ddr, vtcm)
    assert vtcm == -(-ddr // 128) * 128


@pytest.mark.parametrize(
    ("m", "k", "time_us"), [(2048, 2048, 43.0), (1024, 2048, 24.0), (6144, 2048, 120.0), (2048, 6144, 120.0)]
)
def test_gemv_is_weight_bytes_over_ddr_bandwidth_and_a_fixed_part(m: int, k: int, time_us: float) -> None:
    """Steady operator times on v79, wennitao/llama.cpp gemm-latency-qwen3-1.7b.md: within 10 %."""
    cost = next(c for c in MatMul("q4_0", m, 1, k).costs(V79) if c.version is Version.HVX)
    assert alone_on(V79, cost) == pytest.approx(time_us, rel=0.10)
