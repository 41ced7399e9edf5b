"""Streaming HVX kernels: data come in by DMA or HVX loads, every context works on its own, results go out likewise."""

from __future__ import annotations

from hexenv.device import Device
from hexenv.kernels.chunks import blocks
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.variants import VECTOR_BYTES, vtcm_bound

BLOCK_BYTES = 16 * 1024
"""Bytes in and out that one context holds of a stream at a time; two such blocks for double buffering."""


def stream_cost(
    device: Device,
    tile_class: int,
    budget: int,
    in_bytes: float,
    out_bytes: float,
    packets: float,
    floor_us: float = 0.0,
) -> StageCost | None:
    """A streaming pass that reads ``in_bytes``, writes ``out_bytes`` and issues ``packets`` HVX packets in all.

    ``floor_us`` bounds its HVX time whatever the contexts (a unit that they share). Source: double-buffered DMA of the
    llama.cpp Hexagon element-wise kernels; one fork-join an operator.
    """
    blocks_bytes = 2 * device.contexts * BLOCK_BYTES
    vtcm_bytes = min(blocks_bytes, blocks(int(in_bytes + out_bytes), VECTOR_BYTES) * VECTOR_BYTES)
    if vtcm_bytes > budget:
        return None
    hvx_us = packets * device.packet_us
    return StageCost(
        version=Version.HVX,
        tile_class=tile_class,
        tiles=stream_tiles(device, in_bytes + out_bytes),
        depth=2,
        vtcm_bytes=vtcm_bytes,
        ddr_in_bytes=in_bytes,
        ddr_out_bytes=out_bytes,
        hvx_before_us=hvx_us,
        hvx_before_floor_us=floor_us,
        fixed_us=device.kernel_fixed_us,
        fork_joins=1,
        phi=vtcm_bound(device, in_bytes, hvx_us),
    )


def direct_cost(device: Device, tile_class: int, in_bytes: float, out_bytes: float, packets: float) -> StageCost:
    """The same with HVX loads and stores on DDR, the two side by side: no DMA, and of VTCM one vector."""
    return StageCost(
        version=Version.HVX,
        tile_class=tile_class,
        tiles=stream_tiles(device, in_bytes + out_bytes),
        depth=2,
        vtcm_bytes=VECTOR_BYTES,
        ddr_in_bytes=in_bytes,
        ddr_out_bytes=out_bytes,
        hvx_before_us=packets * device.packet_us,
        hvx_before_floor_us=max(in_bytes / device.hvx_load_bytes_per_us, out_bytes / device.hvx_store_bytes_per_us),
        fixed_us=device.kernel_fixed_us,
        fork_joins=1,
    )


def stream_tiles(device: Device, total_bytes: float) -> int:
    """Steps of a stream: one block a context each."""
    return max(1, blocks(int(total_bytes), device.contexts * BLOCK_BYTES))


def vectors(elements: float, element_bytes: int) -> float:
    """HVX vectors that hold ``elements``."""
    return elements * element_bytes / VECTOR_BYTES
