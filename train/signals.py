"""Stopping a training at a good moment."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def stop_signals() -> Iterator[list[int]]:
    """Signals received inside the block; the first only asks to stop, a second one acts as usual."""
    received: list[int] = []
    usual = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def ask_to_stop(number: int, frame: FrameType | None) -> None:
        del frame
        received.append(number)
        for other, handler in usual.items():
            signal.signal(other, handler)

    for number in usual:
        signal.signal(number, ask_to_stop)
    try:
        yield received
    finally:
        for number, handler in usual.items():
            signal.signal(number, handler)
