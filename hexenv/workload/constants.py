"""The device as a policy sees it: a short vector of scaled constants, so that one policy can serve several devices."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from hexenv.device import Device
from hexenv.engine.layout import MAX_CONTEXTS

FULL_VTCM = 16 * 2**20
FULL_DDR = 128_000.0
"""128 GB/s in bytes/us."""

SCALED: tuple[tuple[str, Callable[[Device, float], float]], ...] = (
    ("contexts / 10", lambda d, free: d.contexts / MAX_CONTEXTS),
    ("VTCM / 16 MiB", lambda d, free: d.vtcm_bytes / FULL_VTCM),
    ("free DDR / 128 GB/s", lambda d, free: d.ddr_bytes_per_us * free / FULL_DDR),
    ("1 ns / HMX tile product", lambda d, free: 1e-3 / d.hmx_tile_us),
    ("HVX loads / DDR", lambda d, free: d.hvx_load_bytes_per_us / d.ddr_bytes_per_us),
    ("beta", lambda d, free: d.beta),
    ("eta_shared", lambda d, free: d.eta_shared),
    ("fork-join / 10 us", lambda d, free: d.fork_join_us / 10.0),
)
"""Meaning and value (device, free part of DDR) of each entry, in order."""


def scaled_constants(device: Device, ddr_free: float) -> np.ndarray:
    """float32, shape (8,), each in 0 .. 1."""
    values = [value(device, ddr_free) for _, value in SCALED]
    return np.clip(np.array(values, np.float32), 0.0, 1.0)
