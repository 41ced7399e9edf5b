"""FlashAttention-3 (arXiv 2407.08608): softmax of one block under the products of the next.

The law: with V the vector time and M the matrix time of the same blocks, two blocks in flight instead of one gain more
than nothing and at most (V + M) / max(V, M). Context only (H100, Table 2): 1.137 from pipelining, bound 1.495.
"""

from __future__ import annotations

from dataclasses import replace

import pytest

from hexenv.device import Device, load_device
from hexenv.kernels.attention import FlashAttention
from hexenv.kernels.cost import StageCost, Version, body_hvx_us, body_us
from hexenv.kernels.variants import alone_on

DEVICES = ("v75", "v79")


def in_flight(depth: int, shape: FlashAttention, device: Device) -> StageCost:
    return [c for c in replace(shape, depth=depth).costs(device) if c.version is Version.HMX][-1]


@pytest.mark.parametrize("name", DEVICES)
@pytest.mark.parametrize("dim", [64, 128, 256])
@pytest.mark.parametrize("kv", [512, 2048, 8192])
def test_a_second_block_in_flight_gains_within_the_bound(name: str, dim: int, kv: int) -> None:
    device = load_device(name)
    serial, overlapped = (in_flight(depth, FlashAttention(512, kv, 16, 8, dim), device) for depth in (1, 2))
    vector = body_hvx_us(serial, device.contexts, device.fork_join_us)
    assert vector == body_hvx_us(overlapped, device.contexts, device.fork_join_us)
    bound = (vector + serial.hmx_us) / max(vector, serial.hmx_us)
    gain = alone_on(device, serial) / alone_on(device, overlapped)
    assert 1.0 < gain < bound


def test_the_gain_reaches_the_bound_without_fill() -> None:
    """The steady part alone: what is left of the bound goes to fill, drain, preparation and set-up."""
    v79 = load_device("v79")
    serial, overlapped = (in_flight(depth, FlashAttention(512, 8192, 16, 8, 128), v79) for depth in (1, 2))
    steady = [body_us(cost, v79.contexts, v79.fork_join_us, v79.ddr_bytes_per_us)[0] for cost in (serial, overlapped)]
    vector = body_hvx_us(serial, v79.contexts, v79.fork_join_us)
    assert steady[0] / steady[1] == pytest.approx((vector + serial.hmx_us) / max(vector, serial.hmx_us))
