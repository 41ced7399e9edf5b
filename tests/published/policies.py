"""Toy queries and guests for the laws of published schedulers: work with a deadline, and best-effort work beside it."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from agents.scheduler import Scheduler
from hexenv.engine import Simulator, TraceLevel, episode_key
from hexenv.engine.layout import Arrival, Event, Tables
from tests.engine.toy import Kernel, Source, Work, one

HMX, HVX, DMA = "hmx", "hvx", "dma"
CONTEXTS = 4


def kernel(engine: str, us: float) -> Kernel:
    """One engine for ``us``, on all contexts if it is HVX."""
    tiles = 20.0
    if engine == HMX:
        return Kernel(tiles=tiles, hmx=us)
    if engine == HVX:
        return Kernel(tiles=tiles, hvx=CONTEXTS * us)
    return Kernel(tiles=tiles, ddr=us)


def chain(*parts: tuple[str, float]) -> tuple[Work, ...]:
    """Kernels ``(engine, us)`` one after another."""
    works = [one(kernel(engine, us), version=int(engine == HMX)) for engine, us in parts]
    return tuple(replace(work, after=(i - 1,) if i else ()) for i, work in enumerate(works))


def once(*parts: tuple[str, float], **fields: object) -> Source:
    """A job at time 0."""
    return Source(chain(*parts), **fields)  # type: ignore[arg-type]


def endless(*parts: tuple[str, float]) -> Source:
    """A job after another without a break, best effort."""
    return Source(chain(*parts), Arrival.CLOSED_LOOP)


def every(period: float, deadline: float, *parts: tuple[str, float], jitter: float = 0.0) -> Source:
    """Periodic firm jobs."""
    return Source(chain(*parts), Arrival.PERIODIC, period=period, jitter=jitter, deadline=deadline)


def play(scheduler: Scheduler, tables: Tables, seeds: int = 1) -> Simulator:
    """One episode a seed, to its end."""
    sim = Simulator(tables, seeds, trace=TraceLevel.ALL)
    sim.reset(np.array([episode_key(seed, 0) for seed in range(seeds)], np.uint64))
    scheduler.start(tables, seeds, 0)
    while not (over := sim.lanes["over"]).all():
        sim.step(scheduler.act(sim.views, sim.masks), where=~over)
    return sim


def times_us(sim: Simulator, event: Event, stream: int, lane: int = 0) -> np.ndarray:
    """Instants of an event of a stream, us."""
    trace = sim.trace(lane)
    return trace["t_ns"][(trace["event"] == event) & (trace["stream"] == stream)] / 1000


def latencies_us(sim: Simulator, stream: int) -> np.ndarray:
    """Latencies of all finished jobs of a stream, all lanes, us."""
    traces = [sim.trace(lane) for lane in range(sim.batch)]
    return np.concatenate([t["value"][(t["event"] == Event.FINISH) & (t["stream"] == stream)] for t in traces]) / 1000
