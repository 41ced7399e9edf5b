"""Image stencils: what a strip reads and holds, and what the techniques change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import load_device
from hexenv.errors import ConfigError
from hexenv.kernels import StageCost, Stencil, Version
from hexenv.kernels.stencil import KINDS

V79 = load_device("v79")
LINEAR = [kind for kind, work in KINDS.items() if work.passes]
kinds = st.sampled_from(sorted(KINDS))
sides = st.integers(1, 2000)


def hvx(stencil: Stencil) -> list[StageCost]:
    return [cost for cost in stencil.costs(V79) if cost.version is Version.HVX]


@given(kinds, sides, sides)
def test_a_strip_reads_its_halo_again_and_fits_twice(kind: str, height: int, width: int) -> None:
    work = KINDS[kind]
    for cost in hvx(Stencil(kind, height, width)):
        assert cost.ddr_out_bytes == height * width * work.out_bytes
        assert cost.ddr_in_bytes == (height + 2 * work.radius * cost.tiles) * width * work.in_bytes
        rows = -(-height // cost.tiles)
        assert cost.vtcm_bytes >= 2 * width * (
            rows * (work.in_bytes + work.out_bytes) + 2 * work.radius * work.in_bytes
        )


@given(kinds, sides, sides, st.integers(2, 6))
def test_parts_cover_the_image_and_keep_the_techniques(kind: str, height: int, width: int, parts: int) -> None:
    stencil = Stencil(kind, height, width, matrix="off", register_rows=4)
    pieces = stencil.split(parts)
    assert sum(piece.height for piece in pieces) == height
    assert {(piece.kind, piece.width, piece.matrix, piece.register_rows) for piece in pieces} == {
        (kind, width, "off", 4)
    }


@pytest.mark.parametrize("kind", LINEAR)
def test_linear_kinds_have_a_matrix_form_that_can_be_switched_off(kind: str) -> None:
    def versions(stencil: Stencil) -> set[Version]:
        return {cost.version for cost in stencil.costs(V79)}

    assert Version.HMX in versions(Stencil(kind, 1080, 1920))
    assert versions(Stencil(kind, 1080, 1920, matrix="off")) == {Version.HVX}


@pytest.mark.parametrize(("kind", "passes"), [("gaussian3x3", 2), ("sobel3x3", 4), ("conv3x3", 6), ("conv3x3a16", 6)])
def test_a_pass_is_two_tile_products_a_tile(kind: str, passes: int) -> None:
    tiles = 34 * 60
    for cost in Stencil(kind, 34 * 32, 60 * 32).costs(V79):
        if cost.version is Version.HMX:
            assert cost.hmx_us == pytest.approx(tiles * passes * 2 * V79.hmx_tile_us)


@pytest.mark.parametrize("kind", ["gaussian3x3", "gaussian5x5", "gaussian7x7"])
def test_rows_kept_in_registers_save_vtcm_reads_and_nothing_else(kind: str) -> None:
    """Reads a pixel: (rows + 2 radius) / rows."""
    radius = KINDS[kind].radius
    one, four = (hvx(Stencil(kind, 1080, 1920, register_rows=rows))[0] for rows in (1, 4))
    assert four.phi / one.phi == pytest.approx((4 + 2 * radius) / 4 / (1 + 2 * radius))
    assert (four.hvx_before_us, four.ddr_in_bytes, four.tiles) == (one.hvx_before_us, one.ddr_in_bytes, one.tiles)


def test_by_default_a_pixel_is_read_three_times() -> None:
    by_default, one = (hvx(Stencil("gaussian3x3", 1080, 1920, register_rows=rows))[0] for rows in ("radius", 1))
    assert by_default.phi == one.phi


def test_sums_of_16_bit_take_half_the_work_of_32_bit() -> None:
    narrow, wide = (hvx(Stencil(kind, 1080, 1920))[0] for kind in ("conv3x3a16", "conv3x3"))
    assert narrow.hvx_before_us == pytest.approx(wide.hvx_before_us / 2)


@pytest.mark.parametrize(
    ("techniques", "words"),
    [
        ({"matrix": "on"}, "stencil.matrix = 'on', allowed: 'banded', 'off'"),
        ({"register_rows": 3}, "stencil.register_rows = 3, allowed: 'radius', 1, 2, 4"),
    ],
)
def test_unknown_techniques_are_refused(techniques: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Stencil("gaussian3x3", 8, 8, **techniques)  # type: ignore[arg-type]
