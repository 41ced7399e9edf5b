"""The episode's record: jobs only, or every stage, rate segment and decision as well."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from hexenv.engine.jit import njit


class TraceLevel(IntEnum):
    """What an episode's trace holds."""

    NONE = 0
    JOBS = 1
    """Arrivals, rejections, finishes, drops and misses."""
    ALL = 2
    """Also launches, completions, rate segments and decisions."""


JOBS = int(TraceLevel.JOBS)
ALL = int(TraceLevel.ALL)


@njit
def add(lane: Any, trace: Any, level: int, event: int, stream: int, job: int, value: float) -> int:
    """Append a record if the trace is on at ``level`` (``trace`` has shape (rows,); row 0 holds the level wanted).

    Returns the record's row, or -1. Rows past the end are counted, so that the owner can see the overflow.
    """
    if trace[0].contexts < level:
        return -1
    lane.n_trace += 1
    row = lane.n_trace
    if row >= trace.shape[0]:
        return -1
    record = trace[row]
    record.event = event
    record.slot = -1
    record.stream = stream
    record.job = job
    record.stage = -1
    record.variant = -1
    record.contexts = 0
    record.t_ns = lane.now_ns
    record.end_ns = lane.now_ns
    record.value = value
    record.value2 = 0.0
    record.value3 = 0.0
    record.value4 = 0.0
    return row


@njit
def close(lane: Any, trace: Any, row: int) -> None:
    """Fill in the end of the launch in ``row``; -1 is none.

    A fork that was not traced on has left that row behind in its source's trace.
    """
    if 0 <= row < trace.shape[0] and trace[0].contexts >= ALL:
        trace[row].end_ns = lane.now_ns
