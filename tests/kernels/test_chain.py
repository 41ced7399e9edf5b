"""Chains of streaming operators in one kernel."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import load_device
from hexenv.errors import ConfigError
from hexenv.kernels import Chain, Copy, Elementwise, MatMul, Operator, RmsNorm, Rope, Softmax, StageCost, Version
from hexenv.kernels.chain import common_pieces, pieces
from hexenv.kernels.elementwise import KINDS
from hexenv.kernels.variants import alone_on

V79 = load_device("v79")


@st.composite
def chains(draw: st.DrawFn) -> Chain:
    """Operators over the same ``tokens x heads x 64`` fp32 values, perhaps with a copy at the end."""
    tokens, heads = draw(st.integers(1, 600)), draw(st.integers(1, 32))
    elements = tokens * heads * 64
    inner: st.SearchStrategy[Operator] = st.one_of(
        st.builds(Elementwise, st.sampled_from(sorted(KINDS)), st.just(elements)),
        st.builds(Rope, st.just(tokens), st.just(heads), st.just(64)),
        st.builds(RmsNorm, st.just(tokens), st.just(heads * 64)),
        st.builds(Softmax, st.just(tokens), st.just(heads * 64)),
    )
    operators = draw(st.lists(inner, min_size=2, max_size=5))
    if draw(st.booleans()):
        operators.append(Copy(elements, 2, "set_rows"))
    return Chain(tuple(operators))


def hvx(operator: Operator, tile_class: int = 3) -> StageCost:
    return next(c for c in operator.costs(V79) if c.version is Version.HVX and c.tile_class == tile_class)


@given(chains())
def test_a_chain_never_moves_or_computes_more_than_its_parts(chain: Chain) -> None:
    for cost in chain.costs(V79):
        parts = [hvx(operator, cost.tile_class) for operator in chain.operators]
        moved = sum(part.ddr_in_bytes + part.ddr_out_bytes for part in parts)
        assert cost.ddr_in_bytes + cost.ddr_out_bytes < moved
        assert 0.0 < cost.hvx_before_us < sum(part.hvx_before_us for part in parts)
        assert alone_on(V79, cost) < sum(alone_on(V79, part) for part in parts)
        assert cost.ddr_in_bytes >= 0.0
        assert cost.ddr_out_bytes == parts[-1].ddr_out_bytes
        assert 0.0 <= cost.phi <= 1.0
        assert cost.vtcm_bytes <= V79.vtcm_bytes * V79.tile_fractions[cost.tile_class]


@given(chains(), st.integers(1, 9))
def test_leaves_do_the_work_of_the_chain_on_aligned_ranges(chain: Chain, parts: int) -> None:
    leaves = chain.split(parts)
    assert len(leaves) == min(parts, common_pieces(chain.operators))
    for i, operator in enumerate(chain.operators):
        sizes = [pieces(leaf.operators[i]) for leaf in leaves]
        assert sum(sizes) == pieces(operator)
        shares = [size / pieces(operator) for size in sizes]
        assert shares == pytest.approx([pieces(leaf.operators[0]) / pieces(chain.operators[0]) for leaf in leaves])


@pytest.mark.parametrize("length", [2, 3, 6])
def test_outer_bytes_only_and_one_launch(length: int) -> None:
    elements = 1 << 18
    cost = hvx(Chain((Elementwise("neg", elements),) * length))
    assert (cost.ddr_in_bytes, cost.ddr_out_bytes) == (4 * elements, 4 * elements)
    assert cost.fixed_us == V79.kernel_fixed_us
    assert cost.fork_joins == 1
    packets = V79.stream_packets + length * V79.arithmetic_packets
    assert cost.hvx_before_us == pytest.approx(elements / 32 * packets * V79.packet_us)


def test_a_second_operand_still_comes_from_ddr() -> None:
    elements = 1 << 18
    cost = hvx(Chain((Elementwise("neg", elements), Elementwise("add", elements))))
    assert cost.ddr_in_bytes == 8 * elements


def test_scratch_does_not_grow_with_the_chain() -> None:
    footprints = {hvx(Chain((Elementwise("neg", 1 << 20),) * length)).vtcm_bytes for length in (2, 3, 8)}
    assert len(footprints) == 1
    assert footprints.pop() > hvx(Elementwise("neg", 1 << 20)).vtcm_bytes


def test_what_does_not_fit_is_not_offered() -> None:
    chain = Chain((Elementwise("neg", 1 << 20),) * 2)
    need = hvx(chain).vtcm_bytes
    assert {c.tile_class for c in chain.costs(V79)} == {0, 1, 2, 3}
    tiny = replace(V79, vtcm_bytes=2 * need)
    assert {c.tile_class for c in chain.costs(tiny)} == {2, 3}


def test_the_name_lists_the_operators() -> None:
    chain = Chain((RmsNorm(16, 128), Rope(1, 16, 128)))
    assert chain.name == "rms_norm 16x128 > rope 1x16x128"
    assert math.isfinite(alone_on(V79, hvx(chain)))


@pytest.mark.parametrize("operators", [(), (Rope(1, 1, 64),), (MatMul("f16", 32, 1, 32), Rope(1, 1, 32))])
def test_only_streams_make_a_chain(operators: tuple[Operator, ...]) -> None:
    with pytest.raises(ConfigError, match="allowed: at least two out of Elementwise, Rope"):
        Chain(operators)
