"""Short causal convolution: what it moves, what it computes, how it splits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from hexenv.device import Device
from hexenv.kernels import ShortConv, Version, offers


def test_it_reads_the_tokens_before_and_the_taps(v79: Device) -> None:
    cost = next(iter(ShortConv(512, 6144, 4).costs(v79)))
    assert cost.ddr_in_bytes == (512 + 3 + 4) * 6144 * 4
    assert cost.ddr_out_bytes == 512 * 6144 * 4


def test_each_tap_is_a_product_and_a_sum(v79: Device) -> None:
    three, four = (next(iter(ShortConv(512, 6144, kernel).costs(v79))) for kernel in (3, 4))
    vectors = 512 * 6144 / 32
    assert four.hvx_before_us - three.hvx_before_us == pytest.approx(vectors * 2 * v79.packet_us)


def test_hvx_is_its_only_engine(device: Device) -> None:
    assert {cost.version for cost in offers(ShortConv(128, 2048, 3), device)} == {Version.HVX}


@given(st.integers(1, 8192), st.integers(1, 40))
def test_channels_split(channels: int, parts: int) -> None:
    pieces = ShortConv(64, channels, 4).split(parts)
    assert sum(piece.channels for piece in pieces) == channels
    assert len(pieces) <= parts
    assert all(piece.channels % 32 == 0 for piece in pieces[:-1])
