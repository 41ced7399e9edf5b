"""The machine: plays a schedule of launches tile by tile and keeps a record of every job of every engine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from hexenv.kernels.cost import StageCost
from hexenv.tilesim.chip import Chip
from hexenv.tilesim.engines import DdrChannel, Phase, Queue, Record, Transfer
from hexenv.tilesim.loop import Flow, Loop, Signal, Thread
from hexenv.tilesim.stage import Stage

SLOTS = 2


@dataclass(frozen=True, slots=True)
class Launch:
    """One stage that a scheduler dispatched. It waits for all of: its instant, the launches before it, its slot."""

    cost: StageCost
    contexts: int
    """HVX contexts while it shares the device; the other stage keeps the rest."""
    slot: int
    latency_us: float = 0.0
    """From the dispatch to the first work: batch, entry, decision, kernel compilation."""
    at_us: float = 0.0
    after: tuple[int, ...] = ()
    """Launches that must have finished."""
    gap_us: float = 0.0
    """Time from the last of their ends to the dispatch."""


@dataclass(frozen=True, slots=True)
class StageRun:
    """When one launch passed through its phases, us."""

    dispatch_us: float
    ready_us: float
    """Launched, and its contexts are free."""
    body_us: float
    """The prologue is over."""
    end_us: float


@dataclass(frozen=True)
class Play:
    """A schedule played to its end."""

    stages: tuple[StageRun, ...]
    """One a launch."""
    records: tuple[Record, ...]
    """Every job of every engine, in order of its end."""
    busy_us: dict[str, float]
    """Busy time of ``ddr`` (at full bandwidth), ``hvx`` (context-time), ``hmx`` and ``storage``."""

    @property
    def makespan_us(self) -> float:
        """End of the last stage."""
        return max(stage.end_us for stage in self.stages)


def play(chip: Chip, launches: Sequence[Launch]) -> Play:
    """Play ``launches`` on ``chip`` tile by tile.

    Raises:
        RuntimeError: a launch waits for one that never ends.
    """
    return Machine(chip, launches).run()


class Machine:
    """Engines, clock and the resident stages."""

    def __init__(self, chip: Chip, launches: Sequence[Launch]) -> None:
        self.chip = chip
        self.loop = Loop(self._arbitrate, self._ended)
        self._records: list[Record] = []
        self.ddr = DdrChannel(chip, self.loop)
        self.hmx = Queue("hmx", self.loop, self._records)
        self.storage = Queue("storage", self.loop, self._records)
        self._launches = launches
        self._slots: list[Stage | None] = [None] * SLOTS
        self._ends = [Signal() for _ in launches]
        self._times: list[dict[str, float]] = [{} for _ in launches]
        self._busy_hvx_us = 0.0

    def run(self) -> Play:
        """Play everything."""
        for index in range(len(self._launches)):
            self.loop.start(self._live(index))
        self.loop.run()
        stuck = [i for i, times in enumerate(self._times) if "end" not in times]
        if stuck:
            raise RuntimeError(f"launches {stuck[:8]} never ended")
        stages = tuple(StageRun(t["dispatch"], t["ready"], t["body"], t["end"]) for t in self._times)
        busy = {
            "ddr": self.ddr.busy_us,
            "hvx": self._busy_hvx_us,
            "hmx": self.hmx.busy_us,
            "storage": self.storage.busy_us,
        }
        return Play(stages, tuple(self._records), busy)

    def mark(self, index: int, phase: str) -> None:
        """Note when a launch entered a phase."""
        self._times[index][phase] = self.loop.now_us

    def _live(self, index: int) -> Thread:
        """One launch from its wait for a slot to its end."""
        launch = self._launches[index]
        yield self.loop.timer(launch.at_us)
        for before in launch.after:
            yield self._ends[before]
        yield self.loop.timer(launch.gap_us)
        while (holder := self._slots[launch.slot]) is not None:
            yield holder.finished
        stage = Stage(self, index, launch.cost, launch.contexts)
        other = self._other(launch.slot)
        self._slots[launch.slot] = stage
        if other is not None:
            other.contexts_next = self.chip.contexts - launch.contexts
        else:
            stage.contexts = stage.contexts_next = self.chip.contexts
        self.mark(index, "dispatch")
        yield self.loop.later(launch.latency_us)  # so that launches of one instant know of one another
        yield from self._claim_contexts(launch.slot)
        self.mark(index, "ready")
        yield from stage.work()
        self.mark(index, "end")
        self._leave(launch.slot)
        self.loop.fire(stage.finished)
        self.loop.fire(self._ends[index])

    def _other(self, slot: int) -> Stage | None:
        return self._slots[1 - slot]

    def _claim_contexts(self, slot: int) -> Thread:
        """Wait for the resident stage's next tile boundary if it must hand contexts over."""
        other = self._other(slot)
        if other is None or other.contexts_next >= other.contexts:
            return
        if other.in_tile:
            other.handed_over = other.handed_over or Signal()
            yield other.handed_over
        else:
            other.contexts = other.contexts_next

    def _leave(self, slot: int) -> None:
        """Free a slot: the other stage finds all contexts idle at its next fork-join."""
        gone = self._slots[slot]
        self._slots[slot] = None
        other = self._other(slot)
        if other is not None:
            other.contexts_next = self.chip.contexts
        if gone is not None and gone.handed_over is not None:
            self.loop.fire(gone.handed_over)

    def _arbitrate(self) -> None:
        phases = [flow for flow in self.loop.flows if isinstance(flow, Phase)]
        owner = self.hmx.owner
        for phase in phases:
            disturbed = owner >= 0 and owner != phase.stage
            phase.slowdown = 1.0 + self.chip.beta * phase.phi if disturbed else 1.0
            phase.rate = phase.speed
        self.ddr.arbitrate(phases)

    def _ended(self, flow: Flow) -> None:
        assert isinstance(flow, Phase | Transfer)
        engine, contexts = "ddr", 0
        if isinstance(flow, Transfer):
            self.ddr.pop(flow)
        else:
            engine, contexts = "hvx", flow.workers
            self._busy_hvx_us += flow.busy_us
            self.ddr.busy_us += flow.stream_bytes / self.chip.ddr_full_bytes_per_us
        self._records.append(
            Record(engine, flow.stage, flow.kind, flow.tile, flow.start_us, self.loop.now_us, contexts)
        )
