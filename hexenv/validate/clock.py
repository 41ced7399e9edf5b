"""A device whose core runs below its peak clock, as phones do under sustained load.

All times of HVX and HMX work, and the rates of VTCM, scale with the core clock. DDR, storage and the host do not.
"""

from __future__ import annotations

import dataclasses
from functools import lru_cache
from typing import Any

from hexenv.device import Device
from hexenv.device.device import UNITS

OTHER_CLOCKS = (
    *("ddr_bytes_per_us", "hvx_load_bytes_per_us", "hvx_store_bytes_per_us", "storage_bytes_per_us"),
    *("batch_us", "op_us", "entry_host_us", "decision_host_us", "decode_gap_us", "jit_first_us"),
)
"""Times and rates of DDR, storage and host."""
SUSTAINED_CLOCK = 0.76
"""Core clock of the whole-prompt runs on v79, as a part of the peak: the mean ratio of three attention shapes, each
measured alone and in such a run (0.74 to 0.78). No figure of the model is in it."""
TIME_UNITS = ("us", "ns")
RATE_UNITS = ("bytes/us", "flop/us")


@lru_cache(maxsize=256)
def slowed(device: Device, clock: float) -> Device:
    """``device`` with its core at ``clock`` times the peak clock, 0 to 1; constants may leave their ranges."""
    if clock == 1.0:
        return device
    changes: dict[str, Any] = {}
    for name, unit in UNITS.items():
        if name not in OTHER_CLOCKS and unit in TIME_UNITS:
            changes[name] = getattr(device, name) / clock
        elif name not in OTHER_CLOCKS and unit in RATE_UNITS:
            changes[name] = getattr(device, name) * clock
    return dataclasses.replace(device, **changes)
