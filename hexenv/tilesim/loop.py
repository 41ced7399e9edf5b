"""The event loop: threads that wait for signals, timers on a heap, and flows that move at rates until they are done."""

from __future__ import annotations

import heapq
import math
from collections.abc import Callable, Generator
from dataclasses import dataclass, field

Thread = Generator["Signal", None, None]
"""Something that happens step by step; it yields the signal it waits for."""
_INSTANT_US = 1e-9
"""A flow that needs no longer is done: far under a tile, far over the rounding of double arithmetic."""


class Signal:
    """Something that happens once; threads wait for it."""

    __slots__ = ("fired", "waiting")

    def __init__(self, fired: bool = False) -> None:
        self.fired = fired
        self.waiting: list[Thread] = []


@dataclass(eq=False, slots=True)
class Flow:
    """Work that moves at a rate which others may change: a DMA descriptor or an HVX phase."""

    amount: float
    """Bytes, or 1 for an HVX phase."""
    left: float = field(init=False)
    rate: float = field(init=False, default=0.0)
    """Amount per us, set by the arbiter at every event."""
    start_us: float = field(init=False, default=-1.0)
    """When it first moved."""
    done: Signal = field(init=False, default_factory=Signal)

    def __post_init__(self) -> None:
        self.left = self.amount

    def moved(self, elapsed_us: float) -> None:
        """Called with the time for which the present rate has held."""
        self.left -= self.rate * elapsed_us


class Loop:
    """Runs threads, timers and flows in order of time; equal instants in order of entry.

    Args:
        arbitrate: sets the rate of every flow in ``flows``; called before time moves.
        ended: told of every flow that is done, before its waiters run.
    """

    def __init__(self, arbitrate: Callable[[], None], ended: Callable[[Flow], None]) -> None:
        self.now_us = 0.0
        self.flows: list[Flow] = []
        self._arbitrate = arbitrate
        self._ended = ended
        self._timers: list[tuple[float, int, Signal]] = []
        self._entered = 0

    def start(self, thread: Thread) -> None:
        """Run a thread up to its first wait."""
        for signal in thread:
            if not signal.fired:
                signal.waiting.append(thread)
                return

    def fire(self, signal: Signal) -> None:
        """Let everything that waits for ``signal`` go on, in the order it came."""
        signal.fired = True
        waiting, signal.waiting = signal.waiting, []
        for thread in waiting:
            self.start(thread)

    def timer(self, delay_us: float) -> Signal:
        """A signal that fires after ``delay_us`` (at once: already fired)."""
        return self.later(delay_us) if delay_us > 0.0 else Signal(fired=True)

    def later(self, delay_us: float = 0.0) -> Signal:
        """A signal that fires after ``delay_us`` and after all that happens at this instant."""
        signal = Signal()
        self._entered += 1
        heapq.heappush(self._timers, (self.now_us + delay_us, self._entered, signal))
        return signal

    def run(self) -> None:
        """Run until nothing is left to happen.

        Raises:
            RuntimeError: flows are left that nothing moves.
        """
        while self._timers or self.flows:
            self._arbitrate()
            until = self._timers[0][0] if self._timers else math.inf
            for flow in self.flows:
                if flow.rate > 0.0:
                    until = min(until, self.now_us + flow.left / flow.rate)
            if until == math.inf:
                raise RuntimeError(f"{len(self.flows)} flows stand still at {self.now_us:.3f} us")
            self._move(until)
            while self._timers and self._timers[0][0] <= self.now_us:
                self.fire(heapq.heappop(self._timers)[2])

    def _move(self, until: float) -> None:
        elapsed = until - self.now_us
        over = []
        for flow in self.flows:
            if flow.rate > 0.0:
                if flow.start_us < 0.0:
                    flow.start_us = self.now_us
                flow.moved(elapsed)
                if flow.left <= _INSTANT_US * flow.rate:
                    over.append(flow)
        self.now_us = until
        for flow in over:
            self.flows.remove(flow)
            self._ended(flow)
        for flow in over:
            self.fire(flow.done)
