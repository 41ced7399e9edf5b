"""Unpacking as an operator of its own."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import load_device
from hexenv.errors import ConfigError
from hexenv.kernels import Dequantise, Version
from hexenv.kernels.dequantise import DDR_TILE_BYTES, F16_TILE_BYTES, UNPACK_INSTRUCTIONS, unpack_us
from hexenv.kernels.variants import alone_on

V79 = load_device("v79")


@given(st.sampled_from(sorted(UNPACK_INSTRUCTIONS)), st.integers(1, 256), st.integers(1, 256))
def test_reads_packed_and_writes_fp16_tiles(weight: str, rows: int, columns: int) -> None:
    for cost in Dequantise(weight, 32 * rows, 32 * columns).costs(V79):  # type: ignore[arg-type]
        tiles = rows * columns
        assert cost.version is Version.HVX
        assert cost.ddr_in_bytes == tiles * DDR_TILE_BYTES[weight]
        assert cost.ddr_out_bytes == tiles * F16_TILE_BYTES
        assert cost.hvx_before_us == pytest.approx(tiles * unpack_us(V79, weight, "coalesced"))


@pytest.mark.parametrize("weight", sorted(UNPACK_INSTRUCTIONS))
def test_layouts_rank_as_published(weight: str) -> None:
    times = [unpack_us(V79, weight, layout) for layout in ("none", "coalesced", "hmx_layout", "scatter")]
    assert times == sorted(times)


def test_scattering_makes_it_bound_by_hvx() -> None:
    def stage(layout: str) -> tuple[float, float]:
        cost = next(iter(Dequantise("q4_0", 4096, 4096, layout).costs(V79)))
        ddr_us = (cost.ddr_in_bytes + cost.ddr_out_bytes) / V79.ddr_bytes_per_us
        return ddr_us, alone_on(V79, cost)

    ddr_us, coalesced_us = stage("coalesced")
    assert coalesced_us == pytest.approx(ddr_us, rel=0.05)
    assert stage("scatter")[1] > 2 * ddr_us


def test_leaves_cover_all_rows() -> None:
    pieces = Dequantise("q8_0", 1000, 64).split(4)
    assert sum(piece.m for piece in pieces) == 1000
    assert len(pieces) == 4


def test_unknown_formats_are_refused() -> None:
    with pytest.raises(ConfigError, match="dequantise weight = 'iq2_s'; allowed: q4_0"):
        Dequantise("iq2_s", 32, 32)  # type: ignore[arg-type]
