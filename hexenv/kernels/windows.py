"""A window that slides over an image, channels last: what convolutions and pools read, hold in VTCM and do on HVX."""

from __future__ import annotations

from dataclasses import replace
from typing import Any, ClassVar, Protocol, TypeVar

from hexenv.device import Device
from hexenv.kernels.chunks import TILE, blocks
from hexenv.kernels.cost import StageCost, Version
from hexenv.kernels.variants import ranges, vtcm_bound

OUTPUT_LINES = 4
"""Output rows an HVX kernel works on at a time for each context."""


class Window(Protocol):
    """An operator with a window, a frozen dataclass."""

    __dataclass_fields__: ClassVar[dict[str, Any]]

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


AnyWindow = TypeVar("AnyWindow", bound=Window)


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


def hvx_cost(
    window: Window,
    device: Device,
    tile_class: int,
    budget: int,
    *,
    in_pixel_bytes: int,
    out_pixel_bytes: int,
    hvx_us: float,
    touched_bytes: float,
    weight_bytes: int = 0,
) -> StageCost | None:
    """HVX works its way down the image, output rows split over the contexts; weights stay. None if nothing fits.

    ``hvx_us`` is context-time, ``touched_bytes`` what the vector units load from VTCM meanwhile.
    """
    lines = resident_lines(window, device, in_pixel_bytes, out_pixel_bytes, weight_bytes, budget)
    if lines == 0:
        return None
    return StageCost(
        version=Version.HVX,
        tile_class=tile_class,
        tiles=blocks(window.height, lines),
        depth=2,
        vtcm_bytes=weight_bytes + lines_bytes(window, in_pixel_bytes, out_pixel_bytes, lines),
        ddr_in_bytes=weight_bytes + input_bytes(window, in_pixel_bytes),
        ddr_out_bytes=window.height * window.width * out_pixel_bytes,
        hvx_before_us=hvx_us,
        fixed_us=device.kernel_fixed_us,
        fork_joins=1,
        phi=vtcm_bound(device, touched_bytes, hvx_us),
    )


def split_rows(window: AnyWindow, parts: int, channels: str = "channels") -> tuple[AnyWindow, ...]:
    """Ranges of output rows; each reads its halo (and the weights) again. Of ``channels`` for a single row."""
    if window.height > 1:
        return tuple(replace(window, height=size) for size in ranges(window.height, parts))
    return tuple(replace(window, **{channels: size}) for size in ranges(getattr(window, channels), parts, TILE))
