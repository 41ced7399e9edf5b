"""What a profile log says, one record a message."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from math import prod


@dataclass(frozen=True, slots=True)
class Tensor:
    """An operand."""

    name: str
    shape: tuple[int, int, int, int]
    """Fastest dimension first, as ggml has it; weights are K:M, activations K:N."""
    type: str = ""
    """ggml's type name in lower case; empty where the log has no types."""

    @property
    def elements(self) -> int:
        """Product of the shape."""
        return prod(self.shape)


@dataclass(frozen=True, slots=True)
class LoggedOp:
    """One operator that ran."""

    line: int
    """Of the log, from 1."""
    layout: int
    """1, 2 or 3: the generation of the log format."""
    session: str
    name: str
    """ggml's name, several joined by ``+`` where the backend fused them."""
    inputs: tuple[Tensor | None, ...]
    """None for an optional operand that is not there."""
    output: Tensor
    kernel: str
    """First word of the kernel parameters, for example ``hmx-tiled``; empty if the log has none."""
    usec: int
    """Device time, us."""
    cycles: int
    """Core cycles."""
    start: int | None = None
    """Low 32 bits of the cycle counter at its start."""

    @property
    def dims(self) -> str:
        """Shapes and types, as the backend prints them."""
        shapes = [_shape_text(t) for t in self.inputs]
        types = [t.type for t in self.inputs if t and t.type]
        text = f"{' x '.join(shapes)} -> {_shape_text(self.output)}"
        return f"{text} : {' x '.join(types)} -> {self.output.type}" if types else text


def _shape_text(tensor: Tensor | None) -> str:
    if tensor is None:
        return "NONE"
    long = tensor.shape[2:] != (1, 1)
    return ":".join(str(size) for size in (tensor.shape if long else tensor.shape[:2]))


@dataclass(frozen=True, slots=True)
class Batch:
    """The line about a batch: a boundary between operators of one session."""

    line: int
    session: str
    ops: int
    device_us: int
    """Layout 2: sum over its operators. Layout 3: the batch as a whole."""
    host_us: int | None = None
    """From sending to answer as the host sees it; layout 2 only."""


@dataclass(frozen=True, slots=True)
class Event:
    """One end of something that a thread did inside an operator (trace mode)."""

    line: int
    session: str
    name: str
    """For example ``HVX_W_DEQUANT``."""
    thread: int
    """0 to 9 HVX, 10 HMX."""
    info: int
    stop: bool
    cycles: int
    """Low 32 bits of the cycle counter."""


@dataclass(frozen=True, slots=True)
class Hardware:
    """What a session found."""

    line: int
    session: str
    threads: int
    hvx: int
    hmx: int
    vtcm_bytes: int


@dataclass(frozen=True, slots=True)
class Window:
    """How a session batches."""

    line: int
    session: str
    ops: int
    """Operators a batch may have."""
    mapped_bytes: int
    """Buffers mapped at a time."""


Record = LoggedOp | Batch | Event | Hardware | Window


@dataclass(frozen=True)
class Log:
    """Everything that was understood, and how much was not."""

    file: str
    ops: tuple[LoggedOp, ...] = ()
    batches: tuple[Batch, ...] = ()
    events: tuple[Event, ...] = ()
    hardware: tuple[Hardware, ...] = ()
    windows: tuple[Window, ...] = ()
    lines: int = 0
    counts: dict[str, int] = field(default_factory=dict)
    """Messages by what became of them: ``read``, ``cut`` (no line end of their own), ``damaged`` (of a known kind but
    not of its form) and ``unknown`` (other messages of the backend); and ``foreign``, lines without any."""

    def executions(self) -> list[list[LoggedOp]]:
        """Operators in the order in which they ran, one list an execution: a batch, or one round of a repeated graph.

        A new one starts at a batch line, and where a session runs an operator with the same operands again.
        """
        return sorted(
            (found for session in dict.fromkeys(op.session for op in self.ops) for found in self._of(session)),
            key=lambda ops: ops[0].line,
        )

    def _of(self, session: str) -> Iterator[list[LoggedOp]]:
        marks: list[LoggedOp | Batch] = [*self.ops, *self.batches]
        current: list[LoggedOp] = []
        seen: set[tuple[str, ...]] = set()
        for record in sorted((m for m in marks if m.session == session), key=lambda record: record.line):
            key = _signature(record) if isinstance(record, LoggedOp) else None
            if current and (key is None or key in seen):
                yield current
                current, seen = [], set()
            if isinstance(record, LoggedOp) and key is not None:
                current.append(record)
                seen.add(key)
        if current:
            yield current


def _signature(op: LoggedOp) -> tuple[str, ...]:
    return (op.name, *(t.name if t else "" for t in op.inputs), op.output.name)
