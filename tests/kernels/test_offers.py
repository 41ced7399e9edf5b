"""Which variants are offered, and how operators are cut into leaves."""

from __future__ import annotations

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from hexenv.device import Device, load_device
from hexenv.errors import ConfigError
from hexenv.kernels import (
    Conv2d,
    Copy,
    DepthwiseConv2d,
    Elementwise,
    FlashAttention,
    MatMul,
    Operator,
    Reduce,
    Resize,
    RmsNorm,
    Rope,
    Softmax,
    StageCost,
    Stencil,
    Version,
    fastest_us,
    leaves,
    offers,
    profile,
)
from hexenv.kernels.matmul import Weight
from hexenv.kernels.offers import GAIN, SLOWEST
from hexenv.kernels.variants import alone_on

QUANTISED: tuple[Weight, ...] = ("q4_0", "q8_0")

CHOICE: list[Operator] = [
    FlashAttention(1, 512, 16, 8, 128),
    FlashAttention(128, 512, 16, 8, 128),
    FlashAttention(512, 2048, 16, 8, 128),
    *(MatMul(weight, 2048, n, 2048) for weight in QUANTISED for n in (2, 4, 8, 16, 32)),
    *(MatMul("f16", 2048, n, 2048) for n in (1, 2, 4, 8, 16)),
    RmsNorm(128, 2048),
    RmsNorm(2048, 128),
    Softmax(2048, 128),
    Reduce(960, 49),
    *(Stencil(kind, 1080, 1920) for kind in ("gaussian3x3", "gaussian5x5", "gaussian7x7", "sobel3x3", "box3x3")),
    Stencil("conv3x3", 1080, 1920),
    Conv2d(112, 112, 3, 32, 3, 3, 2, 2),
    Conv2d(56, 56, 24, 144, 1, 1, 1, 1),
    DepthwiseConv2d(56, 56, 144, 3, 3, 1, 1),
    DepthwiseConv2d(14, 14, 576, 3, 3, 1, 1),
]
"""Operators whose version is a real choice."""

ONE_ENGINE: list[tuple[Operator, Version]] = [
    (MatMul("q4_0", 6144, 128, 2048), Version.HMX),
    (MatMul("q4_0", 2048, 512, 6144), Version.HMX),
    (MatMul("q4_0", 6144, 1, 2048), Version.HVX),
    (Resize(320, 320, 3), Version.HVX),
    (Elementwise("swiglu", 1 << 20), Version.HVX),
    (Rope(128, 16, 128), Version.HVX),
    (Copy(1 << 20, 2), Version.HVX),
    (Stencil("median3x3", 1080, 1920), Version.HVX),
    (Stencil("dilate3x3", 1080, 1920), Version.HVX),
]

LONG: list[Operator] = [
    MatMul("q4_0", 151936, 1, 2048),
    MatMul("q4_0", 6144, 512, 2048),
    MatMul("q4_0", 2048, 512, 6144),
    MatMul("f16", 2048, 256, 128, batch=8),
    FlashAttention(512, 512, 16, 8, 128),
    FlashAttention(1024, 4096, 16, 2, 128),
    Elementwise("swiglu", 512 * 6144),
    Rope(1024, 32, 128),
    Copy(1 << 25, 2),
    RmsNorm(4096, 2048),
    Softmax(8192, 1024),
    Reduce(8192, 2048),
    Stencil("gaussian7x7", 2160, 3840),
    Conv2d(320, 320, 64, 64, 3, 3, 1, 1),
    DepthwiseConv2d(320, 320, 256, 3, 3, 1, 1),
    Resize(2160, 3840, 3),
]


def versions(costs: tuple[StageCost, ...]) -> set[Version]:
    return {cost.version for cost in costs}


@pytest.mark.parametrize("operator", CHOICE, ids=lambda op: op.name)
def test_version_is_a_real_choice(operator: Operator, v79: Device) -> None:
    assert len(versions(offers(operator, v79))) >= 2


@pytest.mark.parametrize(("operator", "version"), ONE_ENGINE, ids=str)
def test_one_engine_is_the_only_sensible_one(operator: Operator, version: Version, v79: Device) -> None:
    assert versions(offers(operator, v79)) == {version}


def same_version(cost: StageCost, rivals: list[StageCost]) -> list[StageCost]:
    return [other for other in rivals if other.version is cost.version]


def barely_better(mine: tuple[float, ...], other: tuple[float, ...]) -> bool:
    """``mine`` holds more VTCM than ``other`` and gains no percent anywhere by it."""
    return other[3] < mine[3] and all(a <= b * (1 + GAIN) for a, b in zip(other, mine, strict=True))


@pytest.mark.parametrize("operator", CHOICE + LONG, ids=lambda op: op.name)
def test_what_is_left_out_is_dominated_or_far_slower(operator: Operator, device: Device) -> None:
    every = list(operator.costs(device))
    offered = offers(operator, device)
    limit = SLOWEST * min(alone_on(device, cost) for cost in every)
    for cost in every:
        mine = profile(cost, device)
        rivals = [other for other in every if other is not cost]
        if cost in offered:
            assert mine[-1] <= limit
            others = [profile(other, device) for other in rivals]
            assert not any(all(a <= b for a, b in zip(other, mine, strict=True)) and other != mine for other in others)
            assert not any(barely_better(mine, profile(other, device)) for other in same_version(cost, rivals))
        else:
            assert mine[-1] > limit or any(
                all(a <= b * (1 + GAIN) for a, b in zip(profile(other, device), mine, strict=True)) for other in rivals
            )


@pytest.mark.parametrize("operator", CHOICE + LONG, ids=lambda op: op.name)
def test_each_version_and_tile_class_is_offered_once(operator: Operator, device: Device) -> None:
    keys = [(cost.version, cost.tile_class) for cost in offers(operator, device)]
    assert keys == sorted(set(keys))


def test_the_fastest_variant_is_always_offered(device: Device) -> None:
    for operator in CHOICE + LONG:
        shortest = min(alone_on(device, cost) for cost in operator.costs(device))
        assert shortest <= fastest_us(operator, device) <= (1 + GAIN) * shortest


def test_larger_tile_classes_pay_in_prefill(v79: Device) -> None:
    durations = [alone_on(v79, cost) for cost in offers(MatMul("q4_0", 6144, 128, 2048), v79)]
    assert len(durations) == 4
    assert durations == sorted(durations, reverse=True)


def test_nothing_fits() -> None:
    device = load_device("v79")
    with pytest.raises(
        ConfigError, match=r"matmul f16 32x32x1048576: no version fits the VTCM of device v79 \(8388608"
    ):
        offers(MatMul("f16", 32, 32, 1 << 20), device)


def test_a_smaller_vtcm_offers_less(v79: Device) -> None:
    half = dataclasses.replace(v79, vtcm_bytes=4 << 20)
    operator = FlashAttention(512, 2048, 16, 8, 128)
    assert fastest_us(operator, half) > fastest_us(operator, v79)
    assert all(cost.vtcm_bytes <= 4 << 20 for cost in offers(operator, half))


@pytest.mark.parametrize("operator", LONG, ids=lambda op: op.name)
def test_leaves_are_short(operator: Operator, device: Device) -> None:
    parts = leaves(operator, device, limit_us=250.0)
    assert len(parts) > 1
    assert max(fastest_us(part, device) for part in parts) <= 250.0


def test_a_short_operator_is_its_own_leaf(v79: Device) -> None:
    operator = MatMul("q4_0", 2048, 1, 2048)
    assert leaves(operator, v79) == (operator,)


def test_an_output_that_cannot_be_cut_stays_whole(v79: Device) -> None:
    operator = MatMul("q4_0", 32, 1, 16384)
    assert leaves(operator, v79, limit_us=1.0) == (operator,)


def best_of(version: Version, operator: Operator, device: Device) -> StageCost:
    fits = (cost for cost in operator.costs(device) if cost.version is version)
    return min(fits, key=lambda cost: alone_on(device, cost))


@pytest.mark.parametrize("operator", LONG, ids=lambda op: op.name)
def test_leaves_do_the_work_of_the_operator(operator: Operator, v79: Device) -> None:
    """Results and engine work add up; only reads grow, by halos, weights or activations read again.

    A leaf may choose other chunks: attention then rescales its output more or less often, a matmul unpacks its weights
    more often.
    """
    parts = leaves(operator, v79)
    for version in versions(tuple(operator.costs(v79))) - {Version.HYBRID}:
        whole = best_of(version, operator, v79)
        pieces = [best_of(version, part, v79) for part in parts]
        assert sum(piece.ddr_out_bytes for piece in pieces) == pytest.approx(whole.ddr_out_bytes)
        assert sum(piece.hmx_us for piece in pieces) == pytest.approx(whole.hmx_us, rel=0.02)
        reads = sum(piece.ddr_in_bytes + piece.prologue_bytes for piece in pieces)
        assert reads >= (whole.ddr_in_bytes + whole.prologue_bytes) * (1 - 1e-9)
        hvx_us = sum(piece.hvx_before_us + piece.hvx_after_us for piece in pieces)
        assert hvx_us >= (whole.hvx_before_us + whole.hvx_after_us) * (1 - 1e-9)


@pytest.mark.parametrize("operator", LONG, ids=lambda op: op.name)
def test_a_split_costs_set_up_fill_and_what_is_read_again(operator: Operator, v79: Device) -> None:
    parts = leaves(operator, v79)
    whole = min(offers(operator, v79), key=lambda cost: alone_on(v79, cost))
    pieces = [min(offers(part, v79), key=lambda cost: alone_on(v79, cost)) for part in parts]

    def start_us(cost: StageCost) -> float:
        body = dataclasses.replace(cost, fixed_us=0.0, prologue_bytes=0.0, prologue_hvx_us=0.0, tiles=1 << 30)
        return alone_on(v79, cost) - alone_on(v79, body)

    total = sum(alone_on(v79, piece) for piece in pieces)
    started = sum(start_us(piece) for piece in pieces) - start_us(whole)
    assert total >= 0.95 * alone_on(v79, whole)  # smaller leaves may fit VTCM better
    assert total <= 1.08 * alone_on(v79, whole) + max(started, 0.0)


@settings(max_examples=30)
@given(st.sampled_from(LONG + CHOICE), st.integers(1, 12))
def test_a_split_keeps_the_output(operator: Operator, parts: int) -> None:
    v79 = load_device("v79")
    pieces = operator.split(parts)
    written = sum(next(iter(piece.costs(v79))).ddr_out_bytes for piece in pieces)
    assert written == pytest.approx(next(iter(operator.costs(v79))).ddr_out_bytes)
    assert operator.split(1) == (operator,)


def test_names_are_distinct() -> None:
    names = [operator.name for operator in {*CHOICE, *LONG}]
    assert len(set(names)) == len(names)
