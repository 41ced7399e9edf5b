"""Stages with given engine times on the engine, alone or as a graph: for laws about measured stage mixes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from hexenv.device import Device
from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Event
from hexenv.kernels import StageCost, Version
from hexenv.workload.builder import chain
from hexenv.workload.graph import Graph
from tests.published.pairs import fastest_action, tables_of


@dataclass(frozen=True)
class Given:
    """An operator with one variant of known engine times, us; HVX time is elapsed on all contexts."""

    label: str
    storage: float = 0.0
    ddr: float = 0.0
    hvx: float = 0.0
    hmx: float = 0.0
    tiles: int = 1

    family: ClassVar[str] = "given"

    @property
    def name(self) -> str:
        return self.label

    def costs(self, device: Device) -> Iterator[StageCost]:
        yield StageCost(
            version=Version.HMX if self.hmx else Version.HVX,
            tile_class=0,
            tiles=self.tiles,
            depth=2,
            vtcm_bytes=128,
            ddr_in_bytes=self.ddr * device.ddr_bytes_per_us,
            hvx_before_us=self.hvx * device.contexts,
            hmx_us=self.hmx,
            storage_us=self.storage,
        )

    def split(self, parts: int) -> tuple[Given, ...]:
        return (self,)


@dataclass(frozen=True)
class Run:
    """What the engine made of a job alone on the device; shares are parts of its time."""

    us: float
    hmx_idle: float
    all_idle: float
    """No engine is booked. Fill and drain count, since the fluid model books them as latency: an upper bound."""


def run(device: Device, work: Graph | Given) -> Run:
    """Runs a graph, or one stage, as fast as its dependencies and engines allow."""
    if isinstance(work, Given):
        work = chain(work)
    sim = Simulator(tables_of(device, work), trace=TraceLevel.ALL)
    sim.reset(np.zeros(1, np.uint64))
    while not sim.lanes["over"][0]:
        picks = [fastest_action(sim, task, 0) for task in range(int(sim.views["n_tasks"][0]))]
        sim.step(np.array([next((pick for pick in picks if pick), 0)]))
    trace = sim.trace(0)
    done_ns = float(trace["t_ns"][trace["event"] == Event.FINISH][0])
    segments = trace[(trace["event"] == Event.SEGMENT) & (trace["t_ns"] < done_ns)]
    busy = sum(segments[field] for field in ("value", "value2", "value3", "value4"))
    still_ns = float((segments["end_ns"] - segments["t_ns"])[busy == 0.0].sum())
    return Run(done_ns / 1e3, 1.0 - float(segments["value3"].sum()) / done_ns, still_ns / done_ns)
