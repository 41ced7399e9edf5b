"""Copies, rows by index and layout changes."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import load_device
from hexenv.errors import ConfigError
from hexenv.kernels import Copy, StageCost, Version
from hexenv.kernels.cost import body_hvx_us
from hexenv.kernels.layout import KINDS
from hexenv.kernels.variants import alone_on

V79 = load_device("v79")
kinds = st.sampled_from(sorted(KINDS))


def cost_of(kind: str, elements: int = 1 << 20, element_bytes: int = 2) -> StageCost:
    return next(iter(Copy(elements, element_bytes, kind).costs(V79)))


@given(kinds, st.integers(1, 1 << 22), st.sampled_from([1, 2, 4]))
def test_every_kind_has_sound_costs(kind: str, elements: int, element_bytes: int) -> None:
    for cost in Copy(elements, element_bytes, kind).costs(V79):
        assert cost.version is Version.HVX
        assert cost.ddr_out_bytes == elements * element_bytes
        assert cost.ddr_in_bytes == KINDS[kind].reads * cost.ddr_out_bytes
        assert 0 < cost.vtcm_bytes <= V79.vtcm_bytes * V79.tile_fractions[cost.tile_class]
        assert math.isfinite(alone_on(V79, cost))


@given(kinds, st.integers(1, 1 << 22), st.integers(1, 9))
def test_ranges_cover_all_elements(kind: str, elements: int, parts: int) -> None:
    assert sum(piece.elements for piece in Copy(elements, 2, kind).split(parts)) == elements


def test_a_copy_by_hvx_runs_at_the_rate_of_loads() -> None:
    cost = cost_of("copy")
    load_us = cost.ddr_in_bytes / V79.hvx_load_bytes_per_us
    assert body_hvx_us(cost, V79.contexts, 0.0) == pytest.approx(load_us)
    assert alone_on(V79, cost) > alone_on(V79, cost_of("concat"))  # which goes by DMA


def test_appending_fp32_rows_to_an_fp16_cache_reads_twice_what_it_writes() -> None:
    cost = cost_of("set_rows")
    assert cost.ddr_in_bytes == 2 * cost.ddr_out_bytes


@pytest.mark.parametrize("kind", ["transpose", "gather", "scatter"])
def test_gathers_do_not_scale_over_contexts_and_only_see_vtcm(kind: str) -> None:
    """ggml-org/llama.cpp PR 22347."""
    cost = cost_of(kind)
    gather_us = cost.ddr_out_bytes / 128 * V79.gather_us
    assert body_hvx_us(cost, V79.contexts, 0.0) == pytest.approx(gather_us)
    assert cost.vtcm_bytes > cost_of("copy").vtcm_bytes


def test_sorting_computes() -> None:
    assert cost_of("argsort", element_bytes=4).hvx_before_us > 100 * cost_of("copy", element_bytes=4).hvx_before_us


def test_names_tell_kinds_apart() -> None:
    assert len({Copy(64, 2, kind).name for kind in KINDS}) == len(KINDS)
    assert Copy(64, 2).name == "copy 64x2"


def test_unknown_kinds_are_refused() -> None:
    with pytest.raises(ConfigError, match="copy kind = 'reverse'; allowed: copy, get_rows"):
        Copy(64, 2, "reverse")
