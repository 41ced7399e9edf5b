"""Causal depthwise convolution over tokens with few taps (llama.cpp SSM_CONV): delta-net layers, LFM2 short conv."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hexenv.device import Device
from hexenv.kernels.cost import StageCost
from hexenv.kernels.stream import stream_cost, vectors
from hexenv.kernels.variants import per_class, ranges

F32 = 4


@dataclass(frozen=True, slots=True)
class ShortConv:
    """``tokens`` x ``channels`` fp32 results, each from the ``kernel`` last tokens of its channel."""

    tokens: int
    channels: int
    kernel: int

    family: ClassVar[str] = "short_conv"

    @property
    def name(self) -> str:
        """For example ``short_conv 4x6144x512`` (taps x channels x tokens)."""
        return f"short_conv {self.kernel}x{self.channels}x{self.tokens}"

    def costs(self, device: Device) -> Iterator[StageCost]:
        """HVX only: bound by DDR; on HMX each tap would be a diagonal product, 1/32 of its arithmetic useful."""
        operations = 2 * self.kernel - 1
        out_bytes = self.tokens * self.channels * F32
        in_bytes = (self.tokens + self.kernel - 1 + self.kernel) * self.channels * F32
        packets_each = device.stream_packets + operations * device.arithmetic_packets
        packets = vectors(self.tokens * self.channels, F32) * packets_each

        def hvx(tile_class: int, budget: int) -> StageCost | None:
            return stream_cost(device, tile_class, budget, in_bytes, out_bytes, packets)

        yield from per_class(device, hvx)

    def split(self, parts: int) -> tuple[ShortConv, ...]:
        """Ranges of channels: no range needs another's history."""
        return tuple(replace(self, channels=size) for size in ranges(self.channels, parts, 32))
