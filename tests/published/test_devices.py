"""Published figures of each device: inventory, peaks, bandwidths, interference, and what decoding says about DDR.

Sources: arXiv 2509.23324 (EuroSys 26) Table 2 for v75; Dan1un1u/qwen3-block-htp EXP-0310 and EXP-0311 for v79; public
hwinfo logs; ggml-org/llama.cpp PR 21554 and PR 26501, the nntrainer HTP run note for v81; TileFuse (arXiv 2606.11357)
and the Linux kernel documentation for XDNA2.
"""

from __future__ import annotations

import numpy as np
import pytest

from hexenv.device import Device, load_device
from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Event
from hexenv.kernels import MatMul, fastest_us
from tests.engine.toy import Kernel, Source, action, one, toy_tables

V75, V79, V81, XDNA2 = (load_device(name) for name in ("v75", "v79", "v81", "xdna2"))
TILE_FLOP = 2 * 32**3
FP16_TILE_OPERANDS = 4096


@pytest.mark.parametrize(
    ("name", "contexts", "vtcm_mib"), [("v73", 4, 8), ("v79", 6, 8), ("v81", 8, 8), ("xdna2", 8, 4)]
)
def test_inventory(name: str, contexts: int, vtcm_mib: int) -> None:
    device = load_device(name)
    assert (device.contexts, device.vtcm_bytes) == (contexts, vtcm_mib * 2**20)
    assert device.constants["contexts"].confidence in "ABC"


def test_v75_peaks() -> None:
    """12.03 TFLOPS on HMX, 26 and 60 GB/s from DDR by HVX loads and by DMA, 32.9 GFLOPS on one HVX thread."""
    assert TILE_FLOP / V75.hmx_tile_us / 1e6 == pytest.approx(12.03, rel=0.01)
    assert (V75.hvx_load_bytes_per_us, V75.ddr_bytes_per_us) == (26_000, 60_000)
    assert V75.hvx_fp16_flop_per_us == pytest.approx(32_930)


def test_v79_peaks() -> None:
    """17 TFLOPS and 1060 GB/s of operands on HMX, 811 GB/s to six contexts, 63.3 GB/s by DMA."""
    assert TILE_FLOP / V79.hmx_tile_us / 1e6 == pytest.approx(17.0, rel=0.01)
    assert FP16_TILE_OPERANDS / V79.hmx_tile_us == pytest.approx(V79.vtcm_hmx_bytes_per_us, rel=0.01)
    assert V79.contexts * V79.vtcm_read_bytes_per_us == pytest.approx(811_000, rel=0.01)
    assert V79.ddr_bytes_per_us == 63_300


def test_v79_vtcm_reads_drop_from_809_to_492_gb_a_second_beside_hmx() -> None:
    """HVX work bound by VTCM reads, six contexts, beside a stage that keeps HMX busy and needs no HVX."""
    read_bytes = 809e3 * 100.0
    reader = Kernel(tiles=100, hvx=6 * 100.0, phi=1.0)
    streamer = Kernel(tiles=1000, hmx=1000.0)
    sources = (Source((one(streamer),)), Source((one(reader),)))
    sim = Simulator(toy_tables(*sources, contexts=6, beta=V79.beta), trace=TraceLevel.ALL)
    sim.reset(np.zeros(1, np.uint64))
    while not sim.lanes["over"][0]:
        sim.step(np.array([action(0) if sim.masks[0, action(0)] else 0]))
    trace = sim.trace(0)
    finished = trace[(trace["event"] == Event.FINISH) & (trace["stream"] == 1)]
    assert read_bytes / (finished["t_ns"][0] / 1000) == pytest.approx(492e3, rel=0.01)


def test_v81_end_to_end_decoding_is_possible() -> None:
    """Qwen3-4B Q4_0 at 21.6 tokens/s: 2.04 GB of layer weights in at most 46.3 ms, which one DMA stream cannot give."""
    layer_weights = 36 * (2560 * (32 + 2 * 8) * 128 + 32 * 128 * 2560 + 3 * 2560 * 9728)
    needed = layer_weights / 1024 * 576 / (1e6 / 21.6)
    assert needed == pytest.approx(44_000, rel=0.02)
    assert V81.ddr_bytes_per_us >= needed
    assert V81.constants["ddr_bytes_per_us"].low == 33_600
    assert "contradicting" in V81.constants["ddr_bytes_per_us"].source


@pytest.mark.xfail(
    strict=True,
    reason="v81: 21504 KB of a decode MoE layer take 680 us on one device with one DMA stream (32 GB/s), 449 us at the "
    "49 GB/s that end-to-end decoding on another device needs; a rate per DMA stream is missing",
)
def test_v81_decode_moe_layer_of_one_stream() -> None:
    assert 21504 * 1024 / V81.ddr_bytes_per_us == pytest.approx(680.2, rel=0.1)


def test_v81_fits_the_hmx_work_of_the_published_gemm() -> None:
    """PR 26501: k=2048, m=6144, n=742 in 891 us, 294912 tile products (device not named, assumed v81)."""
    products = (2048 // 32) * (6144 // 32) * -(-742 // 32)
    assert products == 294_912
    assert products * V81.hmx_tile_us <= 891.0


def gain(device: Device, outputs: int, tokens: int, inner: int) -> float:
    """How much faster Q4_0 is than fp16, in percent."""
    quantised, full = (fastest_us(MatMul(kind, outputs, tokens, inner), device) for kind in ("q4_0", "f16"))
    return 100.0 * (full / quantised - 1.0)


class TestTileFuse:
    """XDNA2: quantised weights gain at most 281 % in GEMV and 121.6 % in GEMM over full precision."""

    @pytest.mark.parametrize(
        ("outputs", "inner"),
        [
            (2048, 2048),
            (6144, 2048),
            (4096, 4096),
            (14336, 4096),
            pytest.param(
                4096,
                14336,
                marks=pytest.mark.xfail(
                    strict=True,
                    reason="fp16 weights of so long an inner dimension fit 4 MiB only in one buffer, so their load "
                    "waits for the conversion and Q4_0 gains 284 %; a split of the inner dimension is missing",
                ),
            ),
        ],
    )
    def test_gemv_gains_less_than_the_maximum_and_than_the_bytes_ratio(self, outputs: int, inner: int) -> None:
        assert 150.0 < gain(XDNA2, outputs, 1, inner) <= min(281.0, 100.0 * (2048 / 576 - 1.0))

    @pytest.mark.parametrize("tokens", [512, 2048])
    @pytest.mark.parametrize(("outputs", "inner"), [(2048, 2048), (6144, 2048), (4096, 4096), (14336, 4096)])
    def test_gemm_gains_less_than_the_maximum(self, outputs: int, inner: int, tokens: int) -> None:
        assert 0.0 < gain(XDNA2, outputs, tokens, inner) <= 121.6

    @pytest.mark.xfail(
        strict=True,
        reason="fp16 weights of a long inner dimension leave room for few tokens a chunk in 4 MiB, so the chunk rule "
        "of llama.cpp reads them again and again and Q4_0 gains 252 %; a split of the inner dimension is missing",
    )
    def test_gemm_with_a_long_inner_dimension(self) -> None:
        assert gain(XDNA2, 2048, 512, 6144) <= 121.6
