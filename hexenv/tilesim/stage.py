"""One resident stage as a thread: the order of steps of the llama.cpp Hexagon kernels.

Source: ``ggml-hexagon/htp`` (hmx-matmul-ops, hmx-queue, hex-dma, work-queue). A main thread forks HVX work over the
stage's contexts and waits for the join; DMA and HMX jobs go into first-in first-out queues.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

from hexenv.kernels.cost import StageCost
from hexenv.tilesim.engines import Phase
from hexenv.tilesim.loop import Signal, Thread

if TYPE_CHECKING:
    from hexenv.tilesim.machine import Machine

PROLOGUE_BUFFERS = 2
"""The activation preparation reads its rows ping-pong."""


class Stage:
    """What one launch does until it leaves its slot.

    Args:
        machine: engines and clock.
        index: of the launch.
        cost: the kernel's work.
        contexts: HVX contexts it gets while it shares the device.
    """

    def __init__(self, machine: Machine, index: int, cost: StageCost, contexts: int) -> None:
        self.index = index
        self.contexts = contexts
        """What it holds now."""
        self.contexts_next = contexts
        """What it is due: less from a tile boundary on, when a joining stage asks; more from its next fork-join on."""
        self.finished = Signal()
        self.in_tile = False
        """A hand-over of contexts must wait for the tile's end."""
        self.handed_over: Signal | None = None
        """Fires at the next tile boundary; set by a joining stage that waits for contexts."""
        self.busy_hvx_us = 0.0
        self._machine = machine
        self._cost = cost
        self._forks = _spread(cost.fork_joins, cost.tiles * max(1, _phases(cost)))
        loads = machine.chip.hvx_load_bytes_per_us
        stores = machine.chip.hvx_store_bytes_per_us
        self._prologue_streamed = min(cost.prologue_bytes, cost.prologue_floor_us * loads)
        self._streamed = {
            "before": min(cost.ddr_in_bytes, cost.hvx_before_floor_us * loads) / cost.tiles,
            "after": min(cost.ddr_out_bytes, cost.hvx_after_floor_us * stores) / cost.tiles,
        }
        """Bytes of a tile that HVX loads or stores itself; DMA moves the rest."""
        self._load_bytes = cost.ddr_in_bytes / cost.tiles - self._streamed["before"]
        self._store_bytes = cost.ddr_out_bytes / cost.tiles - self._streamed["after"]
        self._loaded: list[Signal] = []
        self._multiplied: list[Signal] = []
        self._stored: list[Signal] = []

    @property
    def uses_hvx(self) -> bool:
        """Whether contexts are of use to it."""
        return self._cost.hvx_before_us + self._cost.hvx_after_us + self._cost.prologue_hvx_us > 0.0

    def work(self) -> Thread:
        """Prologue, body, and the kernel's fixed time: most of it is the flush of its results."""
        self.contexts = self.contexts_next
        yield from self._prologue()
        self._machine.mark(self.index, "body")
        yield from self._body()
        yield self._machine.loop.timer(self._cost.fixed_us)

    def _prologue(self) -> Thread:
        """Activation preparation: rows come in by DMA, HVX turns them into tiles; nothing else of the stage runs."""
        cost, chip = self._cost, self._machine.chip
        if cost.prologue_bytes + cost.prologue_hvx_us <= 0.0:
            return
        blocks = max(1, math.ceil(cost.prologue_bytes / (chip.contexts * chip.block_bytes)))
        streamed = self._prologue_streamed / blocks
        size = cost.prologue_bytes / blocks - streamed
        push = self._machine.ddr.push
        loaded = [push(self.index, "prologue", b, size) for b in range(min(PROLOGUE_BUFFERS, blocks))]
        for block in range(blocks):
            yield loaded[block]
            self._boundary()
            self.contexts = max(self.contexts, self.contexts_next)
            work, floor = cost.prologue_hvx_us / blocks, cost.prologue_floor_us / blocks
            if work + floor > 0.0:
                yield self._phase("prologue", block, self.contexts, work, floor, streamed)
            self.in_tile = False
            if block + PROLOGUE_BUFFERS < blocks:
                loaded.append(push(self.index, "prologue", block + PROLOGUE_BUFFERS, size))

    def _body(self) -> Thread:
        """Wait DMA i; HVX phase i; push DMA i + depth; push HMX i; wait HMX of the tile before; finish that tile.

        With one buffer HMX is waited on at once.
        """
        cost = self._cost
        lag = cost.depth - 1 if cost.hmx_us > 0.0 else 0
        for tile in range(min(cost.depth, cost.tiles)):
            self._load(tile)
        for tile in range(cost.tiles):
            yield self._loaded[tile]
            self._boundary()
            if _phases(cost) == 1 and cost.hmx_us <= 0.0:
                yield self._buffer_of(tile)
            yield from self._vector("before", tile)
            if cost.hvx_before_us > 0.0:
                self._load(tile + cost.depth)
            self._multiply(tile)
            if tile >= lag:
                yield from self._finish_tile(tile - lag)
            self.in_tile = False
        for tile in range(max(0, cost.tiles - lag), cost.tiles):
            yield self._multiplied[tile]
            self._boundary()
            yield from self._finish_tile(tile)
            self.in_tile = False
        yield self._stored[-1]

    def _finish_tile(self, tile: int) -> Thread:
        """Wait for the tile's HMX job, convert and store its result."""
        cost = self._cost
        yield self._multiplied[tile]
        if cost.hvx_before_us <= 0.0:
            self._load(tile + cost.depth)
        if cost.hvx_after_us + cost.hvx_after_floor_us > 0.0:
            yield self._buffer_of(tile)
            yield from self._vector("after", tile)
        self._stored.append(self._machine.ddr.push(self.index, "store", tile, self._store_bytes))

    def _buffer_of(self, tile: int) -> Signal:
        """Fires when the output buffer of ``tile`` is free: its last result is in DDR."""
        before = tile - self._cost.depth
        return self._stored[before] if before >= 0 else Signal(fired=True)

    def _load(self, tile: int) -> None:
        """Bring a tile's input into its free buffer: from flash storage to DDR where it is paged, then by DMA."""
        if tile >= self._cost.tiles:
            return
        if self._cost.storage_us <= 0.0:
            self._loaded.append(self._machine.ddr.push(self.index, "load", tile, self._load_bytes))
            return
        arrived = Signal()
        self._loaded.append(arrived)
        self._machine.loop.start(self._paged_load(tile, arrived))

    def _paged_load(self, tile: int, arrived: Signal) -> Thread:
        yield self._machine.storage.push(self.index, tile, self._cost.storage_us / self._cost.tiles)
        yield self._machine.ddr.push(self.index, "load", tile, self._load_bytes)
        self._machine.loop.fire(arrived)

    def _multiply(self, tile: int) -> None:
        time_us = self._cost.hmx_us / self._cost.tiles
        self._multiplied.append(
            self._machine.hmx.push(self.index, tile, time_us) if time_us > 0.0 else Signal(fired=True)
        )

    def _vector(self, kind: str, tile: int) -> Thread:
        """Fork one tile's HVX work of the body over the contexts, and join."""
        cost, chip = self._cost, self._machine.chip
        if kind == "before":
            work, floor = cost.hvx_before_us, cost.hvx_before_floor_us
        else:
            work, floor = cost.hvx_after_us, cost.hvx_after_floor_us
        if work + floor <= 0.0:
            return
        self.contexts = max(self.contexts, self.contexts_next)
        workers = self._workers()
        forks = next(self._forks)
        if workers > 1:
            yield self._machine.loop.timer(forks * chip.fork_join_us)
        yield self._phase(kind, tile, workers, work / cost.tiles, floor / cost.tiles, self._streamed[kind])

    def _phase(
        self, kind: str, tile: int, workers: int, work_us: float, floor_us: float, stream_bytes: float
    ) -> Signal:
        phase = Phase(
            1.0,
            stage=self.index,
            kind=kind,
            tile=tile,
            workers=workers,
            work_us=work_us,
            phi=self._cost.phi,
            floor_us=floor_us,
            stream_bytes=stream_bytes,
        )
        self._machine.loop.flows.append(phase)
        return phase.done

    def _workers(self) -> int:
        """Contexts to fork over: all it has, or one where a kernel of this size is done sooner without forking."""
        cost = self._cost
        saved = (cost.hvx_before_us + cost.hvx_after_us) * (1.0 - 1.0 / self.contexts)
        return self.contexts if saved > cost.fork_joins * self._machine.chip.fork_join_us else 1

    def _boundary(self) -> None:
        """Between two tiles: hand contexts over to a stage that has joined."""
        if self.handed_over is not None:
            self.contexts = self.contexts_next
            signal, self.handed_over = self.handed_over, None
            self._machine.loop.fire(signal)
        self.in_tile = True


def _phases(cost: StageCost) -> int:
    """HVX phases of a tile."""
    return (cost.hvx_before_us + cost.hvx_before_floor_us > 0.0) + (cost.hvx_after_us + cost.hvx_after_floor_us > 0.0)


def _spread(forks: int, phases: int) -> Iterator[int]:
    """Fork-joins of each HVX phase of the body: evenly, the first ones first."""
    for phase in range(phases):
        yield -(-(phase + 1) * forks // phases) - -(-phase * forks // phases)
