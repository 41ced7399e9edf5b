"""Gated delta net: the chunked form is exact and costs the tile products that the kernel counts; switches; splits."""

from __future__ import annotations

import dataclasses
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import Device, load_device
from hexenv.errors import ConfigError
from hexenv.kernels import GatedDeltaNet, StageCost, Version, offers
from hexenv.kernels.variants import alone_on

V79 = load_device("v79")
TILE = 32


def of(version: Version, operator: GatedDeltaNet, device: Device = V79) -> StageCost:
    """The variant of the largest tile class."""
    return [cost for cost in operator.costs(device) if cost.version is version][-1]


class Matrix:
    """Counts 32 x 32 x 32 tile products; what is zero by structure is left out."""

    def __init__(self) -> None:
        self.products = 0

    def __call__(self, left: np.ndarray, right: np.ndarray, skip=lambda i, k, j: False) -> np.ndarray:
        rows, inner, columns = left.shape[0] // TILE, left.shape[1] // TILE, right.shape[1] // TILE
        out = np.zeros((left.shape[0], right.shape[1]))
        for i in range(rows):
            for j in range(columns):
                for k in range(inner):
                    if not skip(i, k, j):
                        self.products += 1
                        block = left[tile(i), tile(k)] @ right[tile(k), tile(j)]
                        out[tile(i), tile(j)] += block
        return out


def tile(index: int) -> slice:
    return slice(TILE * index, TILE * (index + 1))


def nilpotent_inverse(strict: np.ndarray, matmul: Matrix) -> np.ndarray:
    """(I + A)^-1 of a strictly lower triangular 32 x 32 block: (I - A)(I + A^2)(I + A^4)(I + A^8)(I + A^16)."""
    eye = np.eye(TILE)
    inverse, power = eye - strict, strict
    for _ in range(4):
        power = matmul(power, power)
        inverse = matmul(inverse, eye + power)
    return inverse


def chunked(q, k, v, decay, beta, state, matmul: Matrix, inverses: Matrix):
    """The chunk of the kernel's docstring, block by block."""
    tokens = len(decay)
    rows = tokens // TILE
    g = np.cumprod(decay)
    ratio = np.tril(g[:, None] / g[None, :])
    upper = lambda i, k, j: j > i  # noqa: E731
    lower_left = lambda i, k, j: k > i  # noqa: E731
    a = np.tril(beta[:, None] * ratio * matmul(k, k.T, upper), -1)
    t = np.zeros((tokens, tokens))
    for i in range(rows):
        diagonal = nilpotent_inverse(a[tile(i), tile(i)], inverses)
        t[tile(i), tile(i)] = diagonal
        for j in range(i):
            summed = np.zeros((TILE, TILE))
            for m in range(j, i):
                summed += matmul(a[tile(i), tile(m)], t[tile(m), tile(j)])
            t[tile(i), tile(j)] = -matmul(diagonal, summed)
    t = t * beta[None, :]
    w = matmul(t, g[:, None] * k, lower_left)
    fresh = matmul(t, v, lower_left) - matmul(w, state.T)
    p = ratio * matmul(q, k.T, upper)
    out = matmul(g[:, None] * q, state.T) + matmul(p, fresh, lower_left)
    return out, g[-1] * state + matmul(fresh.T, (g[-1] / g)[:, None] * k)


def recurrent(q, k, v, decay, beta, state):
    outputs = []
    for t in range(len(decay)):
        state = decay[t] * state
        state = state + beta[t] * np.outer(v[t] - state @ k[t], k[t])
        outputs.append(state @ q[t])
    return np.array(outputs), state


@pytest.mark.parametrize(("tokens", "dim"), [(32, 32), (64, 128), (128, 64)])
def test_the_chunked_form_is_exact_and_costs_the_counted_products(tokens: int, dim: int) -> None:
    rng = np.random.default_rng(0)
    q, k, v = rng.normal(size=(3, tokens, dim))
    k /= np.linalg.norm(k, axis=1, keepdims=True)
    decay, beta = rng.uniform(0.9, 1.0, tokens), rng.uniform(0.0, 1.0, tokens)
    state = rng.normal(size=(dim, dim))
    matmul, inverses = Matrix(), Matrix()
    out, last = chunked(q, k, v, decay, beta, state, matmul, inverses)
    wanted_out, wanted_last = recurrent(q, k, v, decay, beta, state)
    np.testing.assert_allclose(out, wanted_out, atol=1e-9)
    np.testing.assert_allclose(last, wanted_last, atol=1e-9)

    operator = GatedDeltaNet(tokens, 1, 1, dim, chunk=128 if tokens == 128 else 64)
    assert of(Version.HMX, operator).hmx_us == pytest.approx(matmul.products * V79.hmx_tile_us)
    factors = 3 * (tokens // TILE) * (dim // TILE)
    most = (matmul.products + inverses.products + factors) * V79.hmx_tile_us
    assert of(Version.HYBRID, operator).hmx_us <= most * (1 + 1e-12)


shapes = st.builds(
    lambda tokens, groups, heads, dim, sequences, chunk: GatedDeltaNet(
        tokens, groups * heads, heads, dim, sequences, chunk
    ),
    st.integers(1, 700),
    st.integers(1, 3),
    st.integers(1, 16),
    st.sampled_from([32, 64, 128]),
    st.integers(1, 3),
    st.sampled_from([32, 64, 128]),
)


@given(shapes, st.sampled_from(["v75", "v79", "v81"]))
def test_costs_are_finite_and_fit_their_budget(operator: GatedDeltaNet, name: str) -> None:
    device = load_device(name)
    costs = list(operator.costs(device))
    assert costs
    for cost in costs:
        assert all(math.isfinite(amount) and amount >= 0 for amount in dataclasses.astuple(cost))
        assert 0 < cost.vtcm_bytes <= device.vtcm_bytes * device.tile_fractions[cost.tile_class]
        assert 0.0 <= cost.phi <= 1.0
        assert cost.hvx_before_floor_us <= cost.hvx_before_us * (1 + 1e-12)
        assert (cost.hmx_us > 0.0) == (cost.version is not Version.HVX)
        assert alone_on(device, cost) > 0.0
    assert offers(operator, device)


@given(shapes)
def test_all_versions_read_the_state_and_write_the_results(operator: GatedDeltaNet) -> None:
    heads = operator.v_heads * operator.sequences
    results = heads * (operator.tokens * operator.head_dim + operator.head_dim**2) * 4
    assert {cost.ddr_out_bytes for cost in operator.costs(V79)} == {results}
    assert min(cost.ddr_in_bytes for cost in operator.costs(V79)) > heads * operator.head_dim**2 * 4


def test_a_head_is_sequential() -> None:
    """One head keeps one context busy; seven heads on six contexts take two rounds."""
    single, seven = (of(Version.HVX, GatedDeltaNet(64, heads, heads, 128)) for heads in (1, 7))
    assert single.hvx_before_floor_us == single.hvx_before_us
    assert seven.hvx_before_floor_us == pytest.approx(2 * single.hvx_before_us)


@pytest.mark.parametrize(("heads", "threads"), [(2, 2), (16, 6)])
def test_the_hvx_kernel_holds_two_states_a_thread(heads: int, threads: int) -> None:
    assert of(Version.HVX, GatedDeltaNet(64, heads, heads, 128)).vtcm_bytes == threads * 2 * 128 * 128 * 4


def test_decode_fuses_more_rows_than_prefill() -> None:
    """Eight rows share a reduction against four, so a lone token costs less than a token of a prompt."""
    one, two = (of(Version.HVX, GatedDeltaNet(tokens, 16, 16, 128)).hvx_before_us for tokens in (1, 2))
    saved = 16 * (2 * 128 // 4 - 2 * 128 // 8) * V79.reduce_row_packets * V79.packet_us
    assert two / 2 - one == pytest.approx(saved)


def test_the_last_chunk_may_be_short() -> None:
    whole, rest, both = (of(Version.HMX, GatedDeltaNet(tokens, 4, 4, 128)) for tokens in (128, 40, 168))
    assert both.hmx_us == pytest.approx(whole.hmx_us + rest.hmx_us)
    assert both.hvx_before_us == pytest.approx(whole.hvx_before_us + rest.hvx_before_us)


@given(shapes, st.integers(1, 12))
def test_splits_cover_the_work(operator: GatedDeltaNet, parts: int) -> None:
    pieces = operator.split(parts)
    assert len(pieces) <= parts
    if operator.tokens > operator.chunk:
        assert sum(piece.tokens for piece in pieces) == operator.tokens
        assert all(piece.tokens % operator.chunk == 0 for piece in pieces[:-1])
    else:
        heads = [piece.v_heads * piece.sequences for piece in pieces]
        assert sum(heads) == operator.v_heads * operator.sequences
        assert all(piece.v_heads * operator.qk_heads == piece.qk_heads * operator.v_heads for piece in pieces)


def test_each_range_of_tokens_moves_the_state_again() -> None:
    operator = GatedDeltaNet(512, 16, 16, 128)
    pieces = operator.split(4)
    for version in (Version.HVX, Version.HMX):
        whole = of(version, operator)
        parts = [of(version, piece) for piece in pieces]
        moved = sum(part.ddr_in_bytes + part.ddr_out_bytes for part in parts)
        assert moved - whole.ddr_in_bytes - whole.ddr_out_bytes == 3 * 2 * 16 * 128 * 128 * 4
        assert sum(part.hvx_before_us for part in parts) == pytest.approx(whole.hvx_before_us)


def test_hybrid_moves_vector_work_to_hmx() -> None:
    operator = GatedDeltaNet(512, 16, 16, 128)
    matrix, hybrid = of(Version.HMX, operator), of(Version.HYBRID, operator)
    assert hybrid.hvx_before_us < matrix.hvx_before_us
    assert hybrid.hmx_us > matrix.hmx_us
    assert not [cost for cost in GatedDeltaNet(1, 16, 16, 128).costs(V79) if cost.version is Version.HYBRID]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"v_heads": 24}, "delta_net v_heads = 24; allowed: a multiple of qk_heads = 16"),
        ({"core": "row"}, "delta_net.core = 'row', allowed: 'head', 'operator'"),
        ({"chunk": 48}, "delta_net.chunk = 48, allowed: 64, 32, 128, 256"),
    ],
)
def test_wrong_values_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        dataclasses.replace(GatedDeltaNet(64, 16, 16, 128), **change)
