"""Mapping buffers into the address space of an NPU session: host work that no engine of the NPU takes part in.

Sources: the llama.cpp Hexagon backend unmaps and maps buffers batch by batch once a model outgrows the session's window
(``docs/backend/snapdragon/developer.md``); llada.cpp (arXiv 2606.13740) maps buffers in graph order and stages them in
two alternating buffers beside the compute.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import ClassVar

from hexenv.device import Device
from hexenv.kernels.chunks import blocks
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.techniques import check, one_of
from hexenv.kernels.variants import VECTOR_BYTES, per_class, ranges

PAGE_BYTES = 4096
ENTRY_BYTES = 8


@dataclass(frozen=True, slots=True)
class Remap:
    """``mapped_bytes`` of buffers come into the window, out of ``model_bytes`` that one pass touches in turn.

    A pass that fits the window maps nothing. One that does not finds every buffer gone, since the last passes' buffers
    were the first to be unmapped.
    """

    mapped_bytes: int
    model_bytes: int
    mapping: str = one_of(
        "on_demand",
        "graph_order",
        source="llada.cpp: buffers are mapped in graph order ahead of their use; on_demand = the batch waits",
    )

    family: ClassVar[str] = "remap"

    def __post_init__(self) -> None:
        check(self)

    @property
    def name(self) -> str:
        """For example ``remap 122 MB of 3927``."""
        return f"remap {self.mapped_bytes / 1e6:.0f} MB of {self.model_bytes / 1e6:.0f}"

    def costs(self, device: Device) -> Iterator[StageCost]:
        """One version: the host's work is a latency, and the page table that the NPU reads is all its traffic."""
        waits = self.model_bytes > device.window_bytes and self.mapping == "on_demand"
        mapping_us = self.mapped_bytes / device.remap_bytes_per_us if waits else 0.0

        def host(tile_class: int, budget: int) -> StageCost:
            return StageCost(
                version=Version.HVX,
                tile_class=tile_class,
                tiles=1,
                depth=2,
                vtcm_bytes=VECTOR_BYTES,
                ddr_in_bytes=blocks(self.mapped_bytes, PAGE_BYTES) * ENTRY_BYTES,
                fixed_us=mapping_us,
            )

        yield from per_class(device, host)

    def split(self, parts: int) -> tuple[Remap, ...]:
        """Ranges of the mapped bytes."""
        return tuple(replace(self, mapped_bytes=size) for size in ranges(self.mapped_bytes, parts))
