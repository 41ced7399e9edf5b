"""What threads did inside an operator, from the events of trace mode, beside what the model says for it.

An event carries no operator; it belongs to the one of its batch that ran last when it started. DMA events run from
push to pop and overlap, so they are no busy time and are not used. Softmax and re-tiling of attention are pieces of
one figure of the model, so those are not used either.
"""

from __future__ import annotations

from bisect import bisect_right
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping

from hexenv.device import Device
from hexenv.kernels import StageCost, Version
from hexenv.kernels.cost import floored_us
from hexenv.logs import Event, Log, LoggedOp

WRAP = 1 << 32
"""Of the cycle counter's printed part."""
SETUP = "INIT + L2FLUSH"
MAIN_THREAD = 0

Stage = Callable[[StageCost, Device], float]
STAGES: Mapping[tuple[str, Version], Mapping[str, Stage]] = {
    ("matmul", Version.HMX): {
        "HMX_COMP": lambda cost, device: cost.hmx_us,
        "HVX_W_DEQUANT": lambda cost, device: cost.hvx_before_us,
        "HVX_A_PREP": lambda cost, device: cost.prologue_hvx_us,
        "HVX_O_PROC": lambda cost, device: (
            device.contexts * floored_us(cost.hvx_after_us, cost.hvx_after_floor_us, device.contexts)
        ),
        SETUP: lambda cost, device: cost.fixed_us,
    },
    ("matmul", Version.HVX): {
        "HVX_A_QUANT": lambda cost, device: cost.prologue_hvx_us,
        SETUP: lambda cost, device: cost.fixed_us,
    },
}
"""Thread-time in us by event, for the families and engines whose stages the model knows. Set-up and flush are those of
the main thread, all others the sum over threads."""


def stage_times(log: Log) -> dict[int, dict[str, float]]:
    """Thread-time in us by event, for the line of each operator that has complete events."""
    found: dict[int, dict[str, float]] = {}
    for ops, events in _batches(log):
        for op, own in _assigned(ops, events):
            cycles = _cycles(own)
            if cycles and op.usec:
                found[op.line] = {name: count * op.usec / op.cycles for name, count in cycles.items()}
    return found


def _batches(log: Log) -> Iterator[tuple[list[LoggedOp], list[Event]]]:
    """Operators with a start, and events, between two batch lines of a session."""
    for session in dict.fromkeys(event.session for event in log.events):
        marks = sorted(batch.line for batch in log.batches if batch.session == session)
        ops: dict[int, list[LoggedOp]] = defaultdict(list)
        events: dict[int, list[Event]] = defaultdict(list)
        for op in log.ops:
            if op.session == session and op.start is not None and op.cycles:
                ops[bisect_right(marks, op.line)].append(op)
        for event in log.events:
            if event.session == session:
                events[bisect_right(marks, event.line)].append(event)
        yield from ((ops[batch], events[batch]) for batch in events if batch in ops)


def _assigned(ops: list[LoggedOp], events: list[Event]) -> Iterator[tuple[LoggedOp, list[Event]]]:
    """Events by operator: from its start to that of the next one, for the last one to its end."""
    first = ops[0].start or 0
    starts = [((op.start or 0) - first) % WRAP for op in ops]
    if starts != sorted(starts):
        return
    last = starts[-1] + ops[-1].cycles
    own: list[list[Event]] = [[] for _ in ops]
    for event in events:
        since = (event.cycles - first) % WRAP
        if since <= last:
            own[bisect_right(starts, since) - 1].append(event)
    yield from zip(ops, own, strict=True)


def _cycles(events: list[Event]) -> dict[str, int]:
    """Cycles by event; nothing of an event with a start or a stop alone, since the ring of events may be full."""
    begun: dict[tuple[str, int], int] = {}
    spent: dict[str, int] = defaultdict(int)
    torn: set[str] = set()
    for event in events:
        key = event.name, event.thread
        name = SETUP if event.name in SETUP.split(" + ") else event.name
        if event.stop == (key not in begun):
            torn.add(name)
        elif not event.stop:
            begun[key] = event.cycles
        else:
            cycles = (event.cycles - begun.pop(key)) % WRAP
            spent[name] += cycles if name != SETUP or event.thread == MAIN_THREAD else 0
    torn |= {SETUP if name in SETUP.split(" + ") else name for name, _ in begun}
    return {name: count for name, count in spent.items() if name not in torn and count}
