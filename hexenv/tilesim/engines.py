"""The engines: queues that serve one job at a time (HMX, storage), the DDR channel, and HVX phases."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import NamedTuple

from hexenv.tilesim.chip import Arbitration, Chip
from hexenv.tilesim.loop import Flow, Loop, Signal, Thread


class Record(NamedTuple):
    """One tile's work on one engine: a bar of a timeline."""

    engine: str  # "ddr", "storage", "hvx" or "hmx"
    stage: int  # index of the launch
    kind: str  # "load", "store", "prologue", "before", "after", "hmx", "storage"
    tile: int
    start_us: float
    end_us: float
    contexts: int = 0
    """HVX contexts that the phase was forked over."""


class Queue:
    """A server that runs jobs to completion, one at a time, in the order they were pushed."""

    def __init__(self, engine: str, loop: Loop, records: list[Record]) -> None:
        self.engine = engine
        self.owner = -1
        """Stage whose job runs, -1 = idle."""
        self.busy_us = 0.0
        self._loop = loop
        self._records = records
        self._jobs: deque[tuple[int, int, float, Signal]] = deque()
        self._serving = False

    def push(self, stage: int, tile: int, time_us: float) -> Signal:
        """Queue a job; the signal fires when it is done."""
        done = Signal()
        self._jobs.append((stage, tile, time_us, done))
        if not self._serving:
            self._loop.start(self._serve())
        return done

    def _serve(self) -> Thread:
        self._serving = True
        while self._jobs:
            stage, tile, time_us, done = self._jobs.popleft()
            self.owner = stage
            start = self._loop.now_us
            yield self._loop.timer(time_us)
            self._records.append(Record(self.engine, stage, self.engine, tile, start, self._loop.now_us))
            self.busy_us += time_us
            self.owner = -1
            self._loop.fire(done)
        self._serving = False


@dataclass(eq=False, slots=True)
class Transfer(Flow):
    """One DMA descriptor."""

    stage: int = 0
    kind: str = "load"
    tile: int = 0


@dataclass(eq=False, slots=True)
class Phase(Flow):
    """HVX work of one tile, forked over ``workers`` contexts."""

    stage: int = 0
    kind: str = "before"
    tile: int = 0
    workers: int = 1
    work_us: float = 0.0
    """Context-time."""
    phi: float = 0.0
    floor_us: float = 0.0
    """Time its loads or stores take, whatever the contexts."""
    stream_bytes: float = 0.0
    """Bytes that they exchange with DDR."""
    slowdown: float = field(init=False, default=1.0)
    busy_us: float = field(init=False, default=0.0)
    """Context-time spent so far, slow-down included, waits for DDR left out."""

    def moved(self, elapsed_us: float) -> None:
        """Book the context-time as well."""
        self.left -= self.rate * elapsed_us
        self.busy_us += self.rate * elapsed_us * self.work_us * self.slowdown

    @property
    def speed(self) -> float:
        """Part of the phase per us if DDR keeps up."""
        return 1.0 / max(self.work_us * self.slowdown / self.workers, self.floor_us)


class DdrChannel:
    """Serves DMA descriptors of all stages, behind the loads and stores of HVX phases.

    Loads and stores are cache lines and slip between the bursts of a descriptor, so they get what they ask for (the
    measured store rate of 46 GB/s was taken with weight DMA in flight); DMA gets the rest. Descriptors of a ring are
    served in order.
    """

    def __init__(self, chip: Chip, loop: Loop) -> None:
        self.busy_us = 0.0
        self._chip = chip
        self._loop = loop
        self._rings: dict[int, deque[Transfer]] = {}

    def push(self, stage: int, kind: str, tile: int, size_bytes: float) -> Signal:
        """Queue a descriptor; the signal fires when it is done. An empty one is done at once."""
        if size_bytes < 1.0:
            return Signal(fired=True)
        transfer = Transfer(size_bytes, stage=stage, kind=kind, tile=tile)
        ring = self._rings.setdefault(stage if self._chip.arbitration is Arbitration.RINGS else 0, deque())
        ring.append(transfer)
        self._loop.flows.append(transfer)
        return transfer.done

    def pop(self, transfer: Transfer) -> None:
        """A descriptor is done."""
        ring = next(ring for ring in self._rings.values() if ring and ring[0] is transfer)
        ring.popleft()
        self.busy_us += transfer.amount / self._chip.ddr_full_bytes_per_us

    def arbitrate(self, phases: list[Phase]) -> None:
        """Set the rates of all descriptors and of the HVX ``phases`` under way."""
        streams = [phase for phase in phases if phase.stream_bytes > 0.0]
        stages = {phase.stage for phase in streams}.union(t.stage for ring in self._rings.values() for t in ring)
        left = self._chip.ddr_bytes_per_us * (self._chip.eta_shared if len(stages) > 1 else 1.0)
        asked = {phase: phase.stream_bytes * phase.speed for phase in streams}
        streams.sort(key=lambda phase: asked[phase])
        for i, phase in enumerate(streams):
            given = min(asked[phase], left / (len(streams) - i))
            left -= given
            phase.rate = given / phase.stream_bytes
        heads = [ring[0] for ring in self._rings.values() if ring]
        for head in heads:
            head.rate = left / len(heads)
