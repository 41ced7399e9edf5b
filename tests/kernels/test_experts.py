"""Expert matmuls: paging, order, pipeline and grouping as cost transforms; padding; what splits conserve."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import Device, load_device
from hexenv.errors import ConfigError
from hexenv.kernels import ExpertMatMul, MatMul, StageCost, Version
from hexenv.kernels.experts import FORMATS
from hexenv.kernels.offers import fastest_us, leaves
from hexenv.kernels.variants import alone_on

V79 = load_device("v79")
WINDOW = ExpertMatMul("q4_0", 768, 2048, (2, 2, 2) + (1,) * 26)
PREFILL = ExpertMatMul("q4_0", 768, 2048, (40,) * 16 + (90,) * 16)

operators = st.builds(
    ExpertMatMul,
    weight=st.sampled_from(sorted(FORMATS)),
    m=st.integers(1, 4096),
    k=st.integers(1, 4096),
    rows=st.lists(st.integers(1, 100), min_size=1, max_size=40).map(tuple),
    pipeline=st.sampled_from(["serial", "tiles"]),
    paging=st.sampled_from(["resident", "storage"]),
    cached=st.floats(0.0, 1.0),
    order=st.sampled_from(["routed", "ready"]),
    grouping=st.sampled_from(["window", "token"]),
)
devices = st.sampled_from([V79, V79.with_pipeline("serial"), load_device("v75")])


def of(version: Version, operator: ExpertMatMul) -> list[StageCost]:
    return [cost for cost in operator.costs(V79) if cost.version is version]


def best_us(operator: ExpertMatMul, version: Version) -> float:
    return min(alone_on(V79, cost) for cost in of(version, operator))


@given(operators, devices)
def test_costs_are_finite_and_fit_their_budget(operator: ExpertMatMul, device: Device) -> None:
    costs = list(operator.costs(device))
    assert any(cost.version is Version.HMX for cost in costs)
    for cost in costs:
        assert all(math.isfinite(value) for value in (alone_on(device, cost), cost.fixed_us, cost.phi))
        assert 0 < cost.vtcm_bytes <= device.vtcm_bytes * device.tile_fractions[cost.tile_class]
        assert (cost.hmx_us > 0.0) == (cost.version is not Version.HVX)


@given(operators, st.integers(1, 60))
def test_a_split_conserves_weights_rows_and_loads(operator: ExpertMatMul, parts: int) -> None:
    pieces = operator.split(parts)
    assert sum(piece.m * sum(piece.rows) for piece in pieces) == operator.m * sum(operator.rows)
    assert all(piece.follows for piece in pieces[1:])
    if operator.m % 32 == 0:
        assert sum(piece.loaded_bytes for piece in pieces) == pytest.approx(operator.loaded_bytes)


@pytest.mark.parametrize("version", [Version.HVX, Version.HMX])
def test_one_expert_costs_what_a_dense_matmul_costs(version: Version) -> None:
    """Same engines, same rates: 16 tokens through one expert are a matmul of 16 tokens."""
    dense = [c for c in MatMul("q4_0", 768, 16, 2048).costs(V79) if c.version is version]
    for expert, matmul in zip(of(version, ExpertMatMul("q4_0", 768, 2048, (16,))), dense, strict=True):
        assert expert.hmx_us == matmul.hmx_us
        assert alone_on(V79, expert) == pytest.approx(alone_on(V79, matmul))


@pytest.mark.parametrize(("weight", "block"), [("q4_0", 32), ("f16", 32), ("i4", 64)])
def test_each_expert_pads_its_rows_to_whole_blocks(weight: str, block: int) -> None:
    def hmx_us(*rows: int) -> float:
        return of(Version.HMX, ExpertMatMul(weight, 768, 2048, rows))[0].hmx_us  # type: ignore[arg-type]

    assert hmx_us(1, 1) == pytest.approx(hmx_us(block, block))
    assert hmx_us(block + 1, 1) == pytest.approx(1.5 * hmx_us(block, block))
    assert hmx_us(1, 1) > hmx_us(2)
    assert ExpertMatMul(weight, 768, 2048, (1, 1)).row_use == pytest.approx(1 / block)  # type: ignore[arg-type]


def test_the_tile_pipeline_overlaps_and_holds_two_and_two_buffers() -> None:
    serial, tiles = of(Version.HMX, PREFILL), of(Version.HMX, replace(PREFILL, pipeline="tiles"))
    assert {cost.depth for cost in serial} == {1}
    assert {cost.depth for cost in tiles} == {2}
    assert best_us(replace(PREFILL, pipeline="tiles"), Version.HMX) < best_us(PREFILL, Version.HMX)
    one, two = PREFILL.footprint(1), PREFILL.footprint(2)
    assert two.output == 2 * one.output == 2 * 64 * (640 + 2048) // 32


def test_a_serial_pipeline_drains_at_every_expert() -> None:
    """As many rows and weights in half as many experts of twice the outputs: fewer fills, less time."""
    many, few = ExpertMatMul("q4_0", 512, 2048, (32,) * 32), ExpertMatMul("q4_0", 1024, 2048, (32,) * 16)
    assert best_us(few, Version.HMX) < best_us(many, Version.HMX)


def test_storage_loads_are_charged_to_storage_and_to_ddr() -> None:
    loaded = 29 * 24 * 64 * 576
    for resident, paged in zip(WINDOW.costs(V79), replace(WINDOW, paging="storage").costs(V79), strict=True):
        assert resident.storage_us == 0.0
        assert paged.storage_us == pytest.approx(loaded / V79.storage_bytes_per_us)
        assert paged.ddr_out_bytes - resident.ddr_out_bytes == pytest.approx(loaded)
        assert paged.ddr_in_bytes == resident.ddr_in_bytes


@pytest.mark.parametrize("cached", [0.25, 1.0])
def test_the_arena_saves_its_part_of_the_loads(cached: float) -> None:
    cold = replace(WINDOW, paging="storage")
    warm = replace(cold, cached=cached)
    assert warm.loaded_bytes == pytest.approx((1.0 - cached) * cold.loaded_bytes)
    assert best_us(warm, Version.HVX) < best_us(cold, Version.HVX)
    if cached == 1.0:
        assert best_us(warm, Version.HVX) == best_us(WINDOW, Version.HVX)


@pytest.mark.parametrize("cached", [0.0, 0.9])
@pytest.mark.parametrize("operator", [WINDOW, PREFILL], ids=["window", "prefill"])
def test_ready_order_hides_loads_and_routed_order_exposes_them(operator: ExpertMatMul, cached: float) -> None:
    routed = replace(operator, paging="storage", cached=cached)
    ready = replace(routed, order="ready")
    for resident, waited, hidden in zip(operator.costs(V79), routed.costs(V79), ready.costs(V79), strict=True):
        alone_us = alone_on(V79, resident)
        assert alone_on(V79, waited) == pytest.approx(alone_us + waited.storage_us)
        assert max(alone_us, waited.storage_us) <= alone_on(V79, hidden) < alone_on(V79, waited)


def test_a_following_leaf_has_its_first_load_behind_it() -> None:
    first = ExpertMatMul("q4_0", 768, 2048, (1,), paging="storage", order="ready")
    saved = best_us(first, Version.HVX) - best_us(replace(first, follows=True), Version.HVX)
    assert 0.0 < saved < best_us(replace(first, paging="resident"), Version.HVX)


def test_leaves_of_ready_experts_cost_no_more_than_their_kernels() -> None:
    """The loads run on over the leaf boundary: what is left is each leaf's set-up, fill and prologue."""
    operator = replace(WINDOW, paging="storage", order="ready")
    parts = leaves(operator, V79)
    assert len(parts) > 10
    assert sum(fastest_us(part, V79) for part in parts) < 1.05 * fastest_us(operator, V79)


def test_loads_once_a_window_or_once_a_token() -> None:
    window = replace(WINDOW, paging="storage")
    token = replace(window, grouping="token")
    assert token.loaded_bytes / window.loaded_bytes == pytest.approx(32 / 29)
    for a, b in zip(of(Version.HVX, window), of(Version.HVX, token), strict=True):
        assert b.ddr_in_bytes / a.ddr_in_bytes == pytest.approx(32 / 29)


@pytest.mark.parametrize(
    ("rows", "best"), [((1,) * 16, Version.HVX), ((8,) * 16, Version.HMX), ((64,) * 16, Version.HMX)]
)
def test_rows_an_expert_decide_the_version(rows: tuple[int, ...], best: Version) -> None:
    operator = ExpertMatMul("q4_0", 768, 2048, rows, pipeline="tiles")
    assert min((Version.HVX, Version.HMX), key=lambda version: best_us(operator, version)) is best


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"weight": "iq3_s"}, "expert weight = 'iq3_s'; allowed: q4_0"),
        ({"rows": ()}, r"expert rows = \(\); allowed: at least one expert"),
        ({"rows": (1, 0)}, r"expert rows = \(1, 0\); allowed"),
        ({"order": "random"}, "experts.order = 'random', allowed: 'routed', 'ready'"),
        ({"cached": 1.5}, "experts.cached = 1.5, allowed: a number from 0.0 to 1.0"),
    ],
)
def test_bad_values_are_refused(values: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        replace(WINDOW, **values)  # type: ignore[arg-type]
