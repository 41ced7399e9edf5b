"""Geometry of a window that slides over an image, channels last: what convolutions and pools read, and hold in VTCM."""

from __future__ import annotations

from typing import Protocol

from hexenv.device import Device

OUTPUT_LINES = 4
"""Output rows an HVX kernel works on at a time for each context."""


class Window(Protocol):
    """An operator with a window."""

    @property
    def height(self) -> int:
        """Output rows."""
        ...

    @property
    def width(self) -> int:
        """Output pixels a row."""
        ...

    @property
    def kernel_h(self) -> int:
        """Input rows of a window."""
        ...

    @property
    def kernel_w(self) -> int:
        """Input pixels of a window's row."""
        ...

    @property
    def stride_h(self) -> int:
        """Input rows from one output row to the next."""
        ...

    @property
    def stride_w(self) -> int:
        """Input pixels from one output pixel to the next."""
        ...


def input_lines(window: Window, lines: int) -> int:
    """Input rows that ``lines`` output rows read."""
    return (lines - 1) * window.stride_h + window.kernel_h


def input_width(window: Window) -> int:
    """Input pixels that an output row reads in each input row."""
    return (window.width - 1) * window.stride_w + window.kernel_w


def input_bytes(window: Window, pixel_bytes: int) -> int:
    """Bytes of the whole input, ``pixel_bytes`` (all channels) each pixel."""
    return input_lines(window, window.height) * input_width(window) * pixel_bytes


def lines_bytes(window: Window, in_pixel_bytes: int, out_pixel_bytes: int, lines: int) -> int:
    """VTCM of ``lines`` output rows and their inputs, double-buffered."""
    in_bytes = input_lines(window, lines) * input_width(window) * in_pixel_bytes
    return 2 * (in_bytes + lines * window.width * out_pixel_bytes)


def resident_lines(
    window: Window, device: Device, in_pixel_bytes: int, out_pixel_bytes: int, weight_bytes: int, budget: int
) -> int:
    """Output rows of a step, at most four a context, halved until they fit; 0 if not even one does."""
    lines = min(OUTPUT_LINES * device.contexts, window.height)
    while lines and weight_bytes + lines_bytes(window, in_pixel_bytes, out_pixel_bytes, lines) > budget:
        lines //= 2
    return lines
