"""The chunk rule: known examples, and what must hold for any shape and budget."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import Device
from hexenv.kernels import MatMul, Version
from hexenv.kernels.chunks import ACTIVATION_COST, WEIGHT_COST, Chunk, Footprint, blocks, choose_chunk, padded

MIB = 1 << 20

footprints = st.builds(
    Footprint,
    output=st.integers(64, 40000),
    token=st.integers(64, 20000),
    element=st.integers(0, 4),
    fixed=st.integers(0, 4096),
)
sizes = st.integers(1, 4000)


def score(chunk: Chunk, outputs: int, tokens: int) -> int:
    weights = WEIGHT_COST * blocks(tokens, chunk.tokens) * outputs
    return weights + ACTIVATION_COST * blocks(outputs, chunk.outputs) * tokens


@pytest.mark.parametrize(
    ("k", "outputs", "chunk"),
    [
        (2048, 6144, Chunk(480, 512)),
        (2560, 9728, Chunk(352, 512)),
        (4096, 14336, Chunk(160, 512)),
        (6144, 2048, Chunk(128, 320)),
    ],
)
def test_q4_0_at_8_mib_and_512_tokens(k: int, outputs: int, chunk: Chunk) -> None:
    footprint = MatMul("q4_0", outputs, 512, k).footprint(buffers=2)
    assert choose_chunk(outputs, 512, footprint, 8 * MIB) == chunk


def test_the_kernel_uses_the_rule(v79: Device) -> None:
    full = [c for c in MatMul("q4_0", 2048, 512, 6144).costs(v79) if c.version is Version.HMX and c.tile_class == 3]
    assert full[0].tiles == 2 * 16  # two token blocks of 320, 16 blocks of 128 outputs
    footprint = MatMul("q4_0", 2048, 512, 6144).footprint(buffers=2)
    assert full[0].vtcm_bytes == footprint.bytes(128, 320)


@given(sizes, sizes, footprints, st.integers(0, 16 * MIB))
def test_a_chunk_is_whole_tiles_inside_the_budget(outputs: int, tokens: int, footprint: Footprint, budget: int) -> None:
    chunk = choose_chunk(outputs, tokens, footprint, budget)
    if chunk is None:
        assert footprint.bytes(32, 32) > budget
        return
    assert footprint.bytes(chunk.outputs, chunk.tokens) <= budget
    assert chunk.outputs % 32 == chunk.tokens % 32 == 0
    assert 32 <= chunk.outputs <= padded(outputs)
    assert 32 <= chunk.tokens <= padded(tokens)


@given(sizes, sizes, footprints, st.integers(0, 8 * MIB), st.integers(0, 8 * MIB))
def test_more_vtcm_never_gives_a_worse_chunk(
    outputs: int, tokens: int, footprint: Footprint, budget: int, more: int
) -> None:
    small = choose_chunk(outputs, tokens, footprint, budget)
    large = choose_chunk(outputs, tokens, footprint, budget + more)
    if small is not None:
        assert large is not None
        assert score(large, outputs, tokens) <= score(small, outputs, tokens)


@given(st.integers(1, 400), st.integers(1, 400), footprints, st.integers(0, 2 * MIB))
def test_no_other_chunk_that_fits_scores_better(outputs: int, tokens: int, footprint: Footprint, budget: int) -> None:
    chunk = choose_chunk(outputs, tokens, footprint, budget)
    every = (Chunk(o, t) for o in range(32, padded(outputs) + 1, 32) for t in range(32, padded(tokens) + 1, 32))
    fits = [score(c, outputs, tokens) for c in every if footprint.bytes(c.outputs, c.tokens) <= budget]
    if chunk is not None:
        assert score(chunk, outputs, tokens) == min(fits)
