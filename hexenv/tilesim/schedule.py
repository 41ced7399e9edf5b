"""Schedules recorded by the engine: what was launched when, in which variant, beside whom, with how many contexts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from hexenv.engine.layout import Event
from hexenv.kernels.cost import StageCost
from hexenv.tilesim.machine import Launch


@dataclass(frozen=True)
class Schedule:
    """The launches of one trace, in their order."""

    launches: tuple[Launch, ...]
    """At their recorded instants."""
    ends_us: tuple[float, ...]
    """Their recorded ends."""

    def absolute(self) -> tuple[Launch, ...]:
        """Replay at the recorded instants."""
        return self.launches

    def shifting(self) -> tuple[Launch, ...]:
        """Replay in which time shifts: a launch waits for what had ended before it, and then as long as recorded."""
        ends = np.array(self.ends_us)
        order = np.argsort(ends, kind="stable")
        shifted = []
        for launch in self.launches:
            count = int(np.searchsorted(ends[order], launch.at_us, side="right"))
            after = tuple(int(i) for i in order[max(0, count - 2) : count])
            gap = launch.at_us - (ends[order[count - 1]] if count else 0.0)
            shifted.append(replace(launch, at_us=0.0, after=after, gap_us=gap))
        return tuple(shifted)

    def around(self, index: int) -> tuple[tuple[Launch, ...], int]:
        """The launches that share the device with launch ``index``, and those that share it with them.

        Returns them in their order, and the place of ``index`` among them.
        """
        mine = [index]
        for _ in range(2):
            mine = [i for i in range(max(0, mine[0] - 8), len(self.launches)) if any(self._meet(i, j) for j in mine)]
        return tuple(self.launches[i] for i in mine), mine.index(index)

    def _meet(self, i: int, j: int) -> bool:
        return (self.launches[i].at_us < self.ends_us[j] and self.launches[j].at_us < self.ends_us[i]) or i == j


def launches_of(trace: np.ndarray, costs: Sequence[StageCost]) -> Schedule:
    """The schedule in a lane's TRACE records (recorded at ``TraceLevel.ALL``); stages that never ended are left out."""
    ended = set()
    for record in trace[np.isin(trace["event"], (Event.COMPLETE, Event.UNCREDITED))]:
        ended.add((int(record["slot"]), int(record["t_ns"])))
    records = [r for r in trace[trace["event"] == Event.LAUNCH] if (int(r["slot"]), int(r["end_ns"])) in ended]
    launches = tuple(
        Launch(
            costs[int(r["variant"])],
            int(r["contexts"]),
            int(r["slot"]),
            float(r["value"]) / 1e3,
            float(r["t_ns"]) / 1e3,
        )
        for r in records
    )
    return Schedule(launches, tuple(float(r["end_ns"]) / 1e3 for r in records))
