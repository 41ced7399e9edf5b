"""Schedules recorded by the engine: what was launched when, in which variant, beside whom, with how many contexts."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from hexenv.engine.layout import Event, Tables
from hexenv.tilesim.machine import Launch

NEIGHBOURS = 2
"""A stage's end depends on its partners, and theirs on their own partners: so far the surroundings of a stage reach."""


@dataclass(frozen=True)
class Schedule:
    """The launches of one trace, in their order, at their recorded instants."""

    launches: tuple[Launch, ...]
    names: tuple[str, ...]
    """Operator and version of each."""
    ends_us: tuple[float, ...]
    """Their recorded ends; infinite for a stage that the horizon cut off."""

    @property
    def first_us(self) -> float:
        """The first dispatch."""
        return self.launches[0].at_us

    @property
    def last_us(self) -> float:
        """The last recorded end."""
        return max(end for end in self.ends_us if np.isfinite(end))

    def shifting(self) -> tuple[Launch, ...]:
        """The same launches where time may shift.

        A launch waits for its slot, for the stages that had ended before it, and then as long after the last of them
        as recorded. So a stage that takes longer delays all that came after it.
        """
        ends = np.array(self.ends_us)
        order = np.argsort(ends, kind="stable")
        shifted = []
        for launch in self.launches:
            ended = int(np.searchsorted(ends[order], launch.at_us, side="right"))
            last = ends[order[ended - 1]] if ended else 0.0
            after = tuple(int(i) for i in order[max(0, ended - 2) : ended])
            shifted.append(replace(launch, at_us=0.0, after=after, gap_us=launch.at_us - last))
        return tuple(shifted)

    def around(self, index: int) -> tuple[int, ...]:
        """Indices of a launch, those that shared the device with it, and those that shared it with them."""
        found = [index]
        for _ in range(NEIGHBOURS):
            found = [i for i in range(len(self.launches)) if any(i == j or self._share(i, j) for j in found)]
        return tuple(found)

    def _share(self, i: int, j: int) -> bool:
        return self.launches[i].at_us < self.ends_us[j] and self.launches[j].at_us < self.ends_us[i]


def recorded(trace: np.ndarray, tables: Tables) -> Schedule:
    """The schedule in a lane's TRACE records (``TraceLevel.ALL``) of a run in mode ``fused`` or ``serial``."""
    records = trace[trace["event"] == Event.LAUNCH]
    launches = tuple(
        Launch(
            cost=tables.costs[record["variant"]],
            contexts=int(record["contexts"]),
            slot=int(record["slot"]),
            latency_us=float(record["value"]) / 1e3,
            at_us=float(record["t_ns"]) / 1e3,
        )
        for record in records
    )
    names = tuple(
        f"{tables.op_names[tables.variants['op'][v]]} {tables.costs[v].version.name}" for v in records["variant"]
    )
    ends = tuple(
        float(end) / 1e3 if end > start else np.inf
        for start, end in zip(records["t_ns"], records["end_ns"], strict=True)
    )
    return Schedule(launches, names, ends)
