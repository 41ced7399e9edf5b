"""What an exponential costs: polynomial in fp16 or fp32, a table read by gather, or both at once.

Sources: llama.cpp Hexagon backend (``htp/hvx-exp.h``: polynomials of 25 operations a vector of 64 fp16, 40 a vector of
32 fp32; PR 22347: gathers of several threads gain nothing over one); Scaling TTC (arXiv 2509.23324), section 5.2: table
of 32768 fp16 values for inputs up to zero; FlashAttention-4 (arXiv 2603.05451) for the split over two units.
"""

from __future__ import annotations

from dataclasses import dataclass

from hexenv.device import Device
from hexenv.kernels.variants import F16_LANES

TABLE_BYTES = 64 * 1024
"""The table lies in VTCM, the only memory a gather can read."""
SOURCE = (
    "f16, f32: polynomials of the llama.cpp Hexagon backend; table: gather from a table in VTCM (Scaling TTC, arXiv "
    "2509.23324); split: gather and fp16 polynomial side by side (FlashAttention-4, arXiv 2603.05451)"
)


@dataclass(frozen=True, slots=True)
class Exponentials:
    """Cost of a number of exponentials."""

    hvx_us: float
    """Context-time."""
    gather_us: float
    """Time of the gather unit, which all contexts share: a floor of the phase whatever the contexts."""
    table_bytes: int
    """VTCM of the table, 0 without one."""


def exponentials(kind: str, polynomial_us: float, count: float, device: Device) -> Exponentials:
    """``count`` exponentials, ``polynomial_us`` being the context-time of all of them as fp16 polynomials.

    ``split`` gives the gather unit (rate a) the part ``a / (a + b)``, b being the polynomial rate of all contexts, so
    that both end together; issuing the gathers is not charged, so ``a + b`` is an upper bound.
    """
    gather_us = count / F16_LANES * device.gather_us
    if kind == "f16":
        return Exponentials(polynomial_us, 0.0, 0)
    if kind == "f32":
        return Exponentials(polynomial_us * device.exp_f32_ratio, 0.0, 0)
    if kind == "table":
        return Exponentials(polynomial_us * device.exp_table_ratio, gather_us, TABLE_BYTES)
    elapsed_us = polynomial_us / device.contexts
    gathered = elapsed_us / (elapsed_us + gather_us)
    return Exponentials((1.0 - gathered) * polynomial_us, gathered * gather_us, TABLE_BYTES)
