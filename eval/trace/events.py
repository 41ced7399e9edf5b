"""Events of the Trace Event Format (JSON), as the importer of the Perfetto UI takes them.

What that importer asks for beyond the format's own text (its source: ``src/trace_processor/importers/json``):

* Times are truncated to ns, so a time is written a hair above its ns: else a slice could end 1 ns inside the next one.
* Slices of a thread must nest; one that overlaps another in part is dropped. Events are sorted by time, stably: a
  slice comes before what lies in it, and a flow right behind the slice it belongs to.
* A thread's name belongs to its id alone: thread ids are unique over the file, and none is a process id.
* ``displayTimeUnit`` is left out: older importers take it for the unit of the times.
"""

from __future__ import annotations

import gzip
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

Value = str | int | float | bool
Args = Mapping[str, Value]

_HAIR_US = 1e-8
"""Far under a ns, far over the rounding of a double."""
_THREADS = 100
"""Threads of a process at most."""
_NAMES, _ENDS, _OUTER, _FLOWS, _INNER, _MARKS = range(6)
"""Order of events of one instant."""


def _us(ns: int) -> int | float:
    return ns // 1000 if ns % 1000 == 0 else round(ns / 1000 + _HAIR_US, 8)


@dataclass(frozen=True)
class Span:
    """A slice that was written: a place where flows can begin and end."""

    thread: int
    start_ns: int


@dataclass
class TraceFile:
    """Collects events; every process is a group of tracks."""

    about: Args = field(default_factory=dict)
    """What the trace is of; shown by the UI under "Info and stats"."""
    _events: list[tuple[int, int, int, dict[str, Any]]] = field(default_factory=list)
    _processes: int = 0
    _flows: int = 0

    def process(self, name: str) -> Process:
        """A new group of tracks, below the ones before it."""
        self._processes += 1
        process = Process(self, self._processes)
        process.describe("process", name, self._processes, self._processes)
        return process

    def add(self, ns: int, order: int, event: dict[str, Any], longest_first_ns: int = 0) -> None:
        """Add an event; ``order`` and then ``longest_first_ns`` decide among those of one instant."""
        self._events.append((ns, order, -longest_first_ns, event))

    def flow(self, name: str, source: Span, target: Span, process: Process) -> None:
        """An arrow from one slice to another."""
        self._flows += 1
        common = {"name": name, "cat": "flow", "id": self._flows, "pid": process.pid}
        begin = {**common, "ph": "s", "ts": _us(source.start_ns), "tid": source.thread}
        end = {**common, "ph": "f", "bp": "e", "ts": _us(target.start_ns), "tid": target.thread}
        self.add(source.start_ns, _FLOWS, begin)
        self.add(target.start_ns, _FLOWS, end)

    def text(self) -> str:
        """The whole file, an event a line."""
        events = [event for *_, event in sorted(self._events, key=lambda entry: entry[:3])]
        lines = ",\n".join(json.dumps(event, separators=(",", ":")) for event in events)
        return f'{{"traceEvents":[\n{lines}\n],\n"otherData":{json.dumps(dict(self.about))}}}\n'

    def data(self, compressed: bool) -> bytes:
        """The file's bytes, the same for equal events."""
        data = self.text().encode()
        return gzip.compress(data, mtime=0) if compressed else data


@dataclass
class Process:
    """A group of tracks: threads with slices and instants, counters, and asynchronous slices."""

    file: TraceFile
    pid: int
    _threads: int = 0
    _counters: dict[str, Args] = field(default_factory=dict)

    def describe(self, what: str, name: str, thread: int, place: int) -> None:
        """Name and order of the process (``what`` = process) or of a thread."""
        for key, args in ((f"{what}_name", {"name": name}), (f"{what}_sort_index", {"sort_index": place})):
            event = {"name": key, "ph": "M", "pid": self.pid, "tid": thread, "ts": 0, "args": args}
            self.file.add(-1, _NAMES, event)

    def thread(self, name: str) -> int:
        """A new track for slices and instants, below the ones before it; returns its id."""
        self._threads += 1
        assert self._threads < _THREADS
        thread = _THREADS * self.pid + self._threads
        self.describe("thread", name, thread, self._threads)
        return thread

    def _event(self, phase: str, name: str, category: str, ns: int, args: Args) -> dict[str, Any]:
        return {"name": name, "cat": category, "ph": phase, "ts": _us(ns), "pid": self.pid, "args": dict(args)}

    def slice(
        self, thread: int, name: str, category: str, start_ns: int, end_ns: int, args: Args, inner: bool = False
    ) -> Span:
        """A bar; ``inner`` says that it lies inside another one, which may begin at the same instant."""
        event = self._event("X", name, category, start_ns, args) | {"dur": _us(end_ns - start_ns), "tid": thread}
        self.file.add(start_ns, _INNER if inner else _OUTER, event, end_ns - start_ns)
        return Span(thread, start_ns)

    def instant(self, thread: int, name: str, category: str, ns: int, args: Args) -> None:
        """A mark on a thread's track."""
        self.file.add(ns, _MARKS, self._event("i", name, category, ns, args) | {"tid": thread, "s": "t"})

    def counter(self, name: str, ns: int, values: Mapping[str, int | float]) -> None:
        """The values of a counter's series from ``ns`` on; repeated values are left out."""
        if self._counters.get(name) != values:
            self._counters[name] = dict(values)
            self.file.add(ns, _MARKS, self._event("C", name, "counter", ns, values))

    def life(self, name: str, category: str, key: str, start_ns: int, end_ns: int, args: Args, ending: Args) -> None:
        """A bar that may overlap others of its ``name``, which share a track; ``key`` is unique in the process."""
        common = {"id": f"{self.pid}.{key}"}
        self.file.add(start_ns, _MARKS, self._event("b", name, category, start_ns, args) | common)
        self.file.add(
            end_ns, _MARKS if end_ns == start_ns else _ENDS, self._event("e", name, category, end_ns, ending) | common
        )
