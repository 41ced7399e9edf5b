"""Attention: the pieces of its softmax, its exponentials, and its techniques as switches."""

from __future__ import annotations

import dataclasses
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import Device, device_names, load_device
from hexenv.errors import ConfigError
from hexenv.kernels.attention import FlashAttention
from hexenv.kernels.chunks import TILE
from hexenv.kernels.cost import StageCost, Version, body_hvx_us
from hexenv.kernels.exponential import TABLE_BYTES, exponentials
from hexenv.kernels.offers import leaves
from hexenv.kernels.online_softmax import pieces
from hexenv.kernels.techniques import techniques

PREFILL = FlashAttention(512, 2048, 16, 8, 128)
ALL_OF_VTCM = -1
DEVICES = [load_device(name) for name in device_names()]
OPERATIONS = [field.name for field in dataclasses.fields(Device) if field.name.endswith("_operations")]


def of(version: Version, operator: FlashAttention, device: Device) -> list[StageCost]:
    return [cost for cost in operator.costs(device) if cost.version is version]


def hmx(operator: FlashAttention, device: Device) -> StageCost:
    return of(Version.HMX, operator, device)[ALL_OF_VTCM]


def products(cost: StageCost, device: Device) -> float:
    return cost.hmx_us / device.hmx_tile_us


@given(st.sampled_from(DEVICES), st.integers(1, 1 << 20), st.integers(1, 1 << 14), st.data())
def test_pieces_add_up_to_the_fitted_rates(device: Device, scores: int, rows: int, data: st.DataObject) -> None:
    ranges = {key: device.constants[key] for key in OPERATIONS}
    device = device.with_values(**{key: data.draw(st.floats(c.low, c.high)) for key, c in ranges.items()})
    fitted = scores * device.softmax_element_ns * 1e-3 + rows * device.softmax_row_us
    parts = dataclasses.astuple(pieces(device, scores, rows))
    assert sum(parts) == pytest.approx(fitted)
    assert min(parts) > 0.0


def test_the_defaults_cost_the_fitted_rates(v79: Device) -> None:
    """Re-tiling K and V, then 0.406 ns a score and 0.09 us a row and KV block: four KV blocks of 512 rows."""
    cost = hmx(PREFILL, v79)
    assert cost.tiles == 8 * 4
    scores = 512 * 16 * 2048
    retiled = 2 * 8 * (2048 // TILE) * (128 // TILE)
    expected = retiled * v79.convert_f16_us + scores * v79.softmax_element_ns * 1e-3 + 512 * 16 * 4 * v79.softmax_row_us
    assert cost.hvx_before_us == pytest.approx(expected)


def test_every_technique_changes_something(v79: Device) -> None:
    shape = FlashAttention(512, 2048, 16, 8, 32)  # half a vector a head, so that packing shows
    for name, technique in techniques(FlashAttention).items():
        other = technique.choices[0] if technique.is_range else technique.choices[1]
        changed = replace(shape, **{name: other})
        assert list(changed.costs(v79)) != list(shape.costs(v79)), name
        assert changed.name == shape.name


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"exp": "lut"}, r"attention.exp = 'lut', allowed: 'f16', 'f32', 'table', 'split'"),
        ({"depth": 3}, r"attention.depth = 3, allowed: 2, 1"),
        ({"rescale_part": 1.5}, r"attention.rescale_part = 1.5, allowed: a number from 0.0 to 1.0"),
        ({"pack_heads": 1}, r"attention.pack_heads = 1, allowed: False, True"),
    ],
)
def test_values_that_are_not_allowed_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        replace(PREFILL, **change)  # type: ignore[arg-type]


def test_leaves_keep_the_techniques(v79: Device) -> None:
    parts = leaves(replace(PREFILL, exp="table", live_part=0.5), v79)
    assert len(parts) > 1
    assert all(part.exp == "table" and part.live_part == 0.5 for part in parts)  # type: ignore[attr-defined]


# Exponentials


def test_a_table_beats_the_polynomials_of_one_context_as_measured(v79: Device) -> None:
    """At best 1.60x over fp16 and 2.19x over fp32 on-chip softmax, v75 (arXiv 2509.23324 Fig 14): what the ratios of
    the exponentials were derived from."""
    each = pieces(v79, 1 << 20, 0.0)
    other_us = sum(dataclasses.astuple(each)) - each.exp

    def softmax_us(kind: str) -> float:
        exp = exponentials(kind, each.exp, 1 << 20, v79)
        return max(other_us + exp.hvx_us, exp.gather_us)

    assert softmax_us("f16") / softmax_us("table") == pytest.approx(1.60, rel=0.02)
    assert softmax_us("f32") / softmax_us("table") == pytest.approx(2.19, rel=0.02)


def test_table_look_ups_do_not_scale_with_contexts(v79: Device) -> None:
    """Several threads of gathers gain nothing over one (ggml-org/llama.cpp PR 22347)."""

    def exp_us(kind: str, contexts: int) -> float:
        exp = exponentials(kind, 1000.0, 1000.0 / pieces(v79, 1.0, 0.0).exp, v79)
        return max(exp.hvx_us / contexts, exp.gather_us)

    assert exp_us("f16", 6) == pytest.approx(exp_us("f16", 1) / 6)
    assert exp_us("table", 6) == pytest.approx(exp_us("table", 1), rel=0.02)
    assert exp_us("table", 1) < exp_us("f16", 1)
    assert exp_us("table", 6) > exp_us("f16", 6)


def test_gathers_bound_a_long_attention(v79: Device) -> None:
    cost = hmx(replace(PREFILL, kv=8192, exp="table"), v79)
    assert cost.hvx_before_floor_us > cost.hvx_before_us / 6
    assert body_hvx_us(cost, 6, 0.0) == pytest.approx(cost.hvx_before_floor_us + cost.hvx_after_floor_us)
    assert cost.hvx_before_floor_us == pytest.approx(512 * 16 * 8192 / 64 * v79.gather_us)


@pytest.mark.parametrize("version", [Version.HVX, Version.HMX])
def test_a_table_takes_64_kib_of_vtcm(version: Version, v79: Device) -> None:
    """32768 fp16 values, 0.8 % of 8 MiB (arXiv 2509.23324 section 5.2)."""
    shape = FlashAttention(32, 512, 16, 8, 128)
    plain, table = (of(version, replace(shape, exp=kind), v79)[ALL_OF_VTCM] for kind in ("f16", "table"))
    assert table.vtcm_bytes - plain.vtcm_bytes == TABLE_BYTES == 65536


@pytest.mark.parametrize("version", [Version.HVX, Version.HMX])
def test_a_table_must_fit_vtcm(version: Version, v79: Device) -> None:
    """A device that holds exactly the smallest kernel has no room for it and a table."""
    shape = FlashAttention(1, 64, 16, 8, 128)
    held = of(version, shape, v79)[0].vtcm_bytes
    tight = dataclasses.replace(v79, vtcm_bytes=held)
    assert of(version, shape, tight)
    assert not of(version, replace(shape, exp="table"), tight)
    assert of(version, replace(shape, exp="table"), dataclasses.replace(v79, vtcm_bytes=held + TABLE_BYTES))


# Other switches


def test_one_buffer_holds_less_vtcm(v79: Device) -> None:
    serial, pipelined = (hmx(replace(PREFILL, depth=depth), v79) for depth in (1, 2))
    assert (serial.depth, pipelined.depth) == (1, 2)
    assert serial.tiles == pipelined.tiles
    assert serial.vtcm_bytes < pipelined.vtcm_bytes


def test_a_query_block_is_pinned(v79: Device) -> None:
    """512 queries in blocks of 128 are four passes over the KV cache: four times the KV bytes, the mask once."""
    mask_bytes = 512 * 2048 * 2
    whole, pinned = (hmx(replace(PREFILL, query_block=rows), v79).ddr_in_bytes for rows in (512, 128))
    assert pinned - mask_bytes == pytest.approx(4 * (whole - mask_bytes))


def test_a_query_block_larger_than_the_queries_is_all_of_them(v79: Device) -> None:
    short = replace(PREFILL, queries=100)
    assert hmx(replace(short, query_block=512), v79) == hmx(replace(short, query_block=128), v79)


def test_rescaling_on_hvx_frees_hmx_of_the_diagonals(v79: Device) -> None:
    """Q K^T and P V alone are left: 2 x 512 x 2 rows x 2048 x 128 a KV head."""
    matrix, vector = (hmx(replace(PREFILL, rescale_on=engine), v79) for engine in ("hmx", "hvx"))
    assert products(vector, v79) == pytest.approx(2 * 8 * 512 * 2 * 2048 * 128 / TILE**3)
    assert products(matrix, v79) - products(vector, v79) == pytest.approx(8 * 32 * 4 * (4 + 1))
    assert vector.hvx_before_us > matrix.hvx_before_us
    assert vector.hvx_after_us > matrix.hvx_after_us


@pytest.mark.parametrize(("moved", "extra"), [("scale_sum", 2), ("sum", 1), ("scale", 1)])
def test_moved_pieces_cost_one_product_each(moved: str, extra: int, v79: Device) -> None:
    operator = replace(PREFILL, moved=moved)
    matrix, hybrid = hmx(operator, v79), of(Version.HYBRID, operator, v79)[ALL_OF_VTCM]
    score_tiles = 512 * 16 * 2048 / TILE**2
    part = (products(hybrid, v79) - products(matrix, v79)) / (extra * score_tiles)
    assert 0.0 < part <= 1.0
    assert 16 * part == pytest.approx(round(16 * part))
    each = pieces(v79, 512 * 16 * 2048, 512 * 16 * 4)
    gone = {"scale_sum": each.scale + each.total, "sum": each.total, "scale": each.scale}[moved]
    conversion = 0.0 if moved == "scale" else 512 * 16 / TILE * 4 * v79.convert_f16_us
    assert matrix.hvx_before_us - hybrid.hvx_before_us == pytest.approx(part * (gone - conversion))
