"""What the silicon can do, as raw rates: the only hardware numbers the tile simulator knows."""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum

import numpy as np

from hexenv.device import Device


class Arbitration(Enum):
    """In which order the DDR channel serves the DMA descriptors of two stages."""

    FIFO = "fifo"
    """In the order they were pushed, whoever pushed them: one linked list of descriptors for the whole entry."""
    RINGS = "rings"
    """Each stage has a ring of its own, and the heads of the rings share the bandwidth burst by burst."""


@dataclass(frozen=True, slots=True)
class Chip:
    """Rates and latencies of one device in one scenario; bytes, microseconds."""

    contexts: int
    """HVX contexts, H."""
    ddr_bytes_per_us: float
    """DDR bandwidth that CPU and ISP leave, one stage alone."""
    ddr_full_bytes_per_us: float
    """DDR bandwidth of an idle phone: busy time is counted at this rate."""
    eta_shared: float
    """Efficiency of the DDR channel while two stages have requests in it."""
    hvx_load_bytes_per_us: float
    """What HVX loads ask of DDR at most."""
    hvx_store_bytes_per_us: float
    """What HVX stores ask of DDR at most."""
    fork_join_us: float
    beta: float
    """How much an HVX phase bound by VTCM reads slows down while another stage's HMX job runs."""
    block_bytes: float
    """What one context reads of the activations at a time (prologue)."""
    arbitration: Arbitration = Arbitration.FIFO


BLOCK_BYTES = 16 * 1024
"""Two rows of 2048 fp32 activations, the step of the llama.cpp activation preparation."""


def chip_of(device: Device, config: np.ndarray, arbitration: Arbitration = Arbitration.FIFO) -> Chip:
    """The chip behind a device and one row of a scenario's CONFIG table (``ddr_free``, ``eta_shared`` and ``beta``)."""
    return Chip(
        contexts=device.contexts,
        ddr_bytes_per_us=device.ddr_bytes_per_us * float(config["ddr_free"]),
        ddr_full_bytes_per_us=device.ddr_bytes_per_us,
        eta_shared=float(config["eta_shared"]),
        hvx_load_bytes_per_us=device.hvx_load_bytes_per_us,
        hvx_store_bytes_per_us=device.hvx_store_bytes_per_us,
        fork_join_us=device.fork_join_us,
        beta=float(config["beta"]),
        block_bytes=BLOCK_BYTES,
        arbitration=arbitration,
    )
