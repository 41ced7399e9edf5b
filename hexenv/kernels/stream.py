"""Streaming HVX kernels: blocks come in by DMA, every context works on its own, results go out by DMA."""

from __future__ import annotations

from hexenv.device import Device
from hexenv.kernels.chunks import blocks
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.variants import VECTOR_BYTES, vtcm_bound

BLOCK_BYTES = 16 * 1024
"""Bytes in and out that one context holds of a stream at a time; two such blocks for double buffering."""


def stream_cost(
    device: Device, tile_class: int, budget: int, in_bytes: float, out_bytes: float, packets: float
) -> StageCost | None:
    """A streaming pass that reads ``in_bytes``, writes ``out_bytes`` and issues ``packets`` HVX packets in all.

    Source: double-buffered DMA of the llama.cpp Hexagon element-wise kernels; one fork-join an operator.
    """
    blocks_bytes = 2 * device.contexts * BLOCK_BYTES
    vtcm_bytes = min(blocks_bytes, blocks(int(in_bytes + out_bytes), VECTOR_BYTES) * VECTOR_BYTES)
    if vtcm_bytes > budget:
        return None
    hvx_us = packets * device.packet_us
    return StageCost(
        version=Version.HVX,
        tile_class=tile_class,
        tiles=max(1, blocks(int(in_bytes + out_bytes), device.contexts * BLOCK_BYTES)),
        depth=2,
        vtcm_bytes=vtcm_bytes,
        ddr_in_bytes=in_bytes,
        ddr_out_bytes=out_bytes,
        hvx_before_us=hvx_us,
        fixed_us=device.kernel_fixed_us,
        fork_joins=1,
        phi=vtcm_bound(device, in_bytes, hvx_us),
    )


def vectors(elements: float, element_bytes: int) -> float:
    """HVX vectors that hold ``elements``."""
    return elements * element_bytes / VECTOR_BYTES
