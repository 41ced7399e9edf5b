"""Reads profile logs of llama.cpp's Hexagon backend, in all layouts that its builds have printed.

1. Until spring 2026, one synchronous message an operator: ``MUL_MAT a 64:64:1:1 x b ... : total 5053 us (...)``, or
   ``profile-op MUL_MAT: names : dims : types : strides : buffers : op-usec ...``.
2. Until July 2026: ``profile-op MUL_MAT: names : dims : types : strides : usec ...`` and ``profile-batch ...``.
3. Since then: ``profile-op MUL_MAT|names|dims|types|strides|kernel|usec ...``, batches as an operator ``OPBATCH``.

Logs of phones are cut, mixed with other programs' lines and written by several threads. So a message counts only if it
has the full form of its kind and ends where its line ends: what follows inside a line, or after a missing last line
end, may be the rest of something else.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

from hexenv.errors import ConfigError
from hexenv.logs.records import Batch, Event, Hardware, Log, LoggedOp, Record, Tensor, Window

MARK = "ggml-hex:"
MEGABYTE = 1 << 20
MHZ_ROUNDING = 0.06
"""The clock is printed with one digit; it must be cycles over microseconds."""

_COLOURS = re.compile(r"\x1b\[[0-9;]*m")
_KNOWN = re.compile(r"\S+ (?:profile-op|profile-batch|trace-evt|trace-op|hwinfo:|op batching:)|.* : total \d+ us ")
_DIMS = re.compile(r"\d+(?::\d+){1,3}")
_TIMING = re.compile(
    r"usec (\d+) cycles (\d+)(?: start (\d+))?(?: mhz (\d+(?:\.\d+)?))?(?: pmu \[[\d,]+\])?(?: evt \[[\d,]+\])?"
)
_EARLY_TIMING = re.compile(r"op-usec (\d+) op-cycles (\d+) op-pkts \d+ \([\d.]+\) call-usec \d+")
_KERNEL = re.compile(r"----|([a-z][\w-]*) vtcm \d+")
_OPERATOR = re.compile(r"(\S+) profile-op ([\w+]+)(: |\|)(.*)")
_SYNCHRONOUS = re.compile(r"(\S+) ([\w+]+) (.+) : total (\d+) us \(.*\) cycles (\d+) pkts \d+ \([\d.]+\) call \d+ us")
_BATCH = re.compile(r"(\S+) profile-batch n-ops (\d+) batch-dur-usec (\d+) htp-ops-usec (\d+)(?: evt \[[\d,]+\])?")
_EVENT = re.compile(r"(\S+) trace-evt (\w+): thread (\d+) info (\d+) (start|stop) (\d+)")
_OPERATOR_EVENT = re.compile(r"(\S+) trace-op [\w+]+: thread (\d+) event (\w+) info (\d+) (start|stop) (\d+)")
_HARDWARE = re.compile(r"(\S+) hwinfo: threads (\d+), hvx (\d+), hmx (\d+), vtcm (\d+) MB")
_WINDOW = re.compile(r"(\S+) op batching: n-bufs \d+ n-tensors \d+ n-ops (\d+) vmem (\d+)")


class _Damaged(Exception):
    """A message of a known kind without its form."""


def read_log(path: Path) -> Log:
    """Everything that a log file says. Nothing in it is an error; only a file that cannot be opened is.

    Raises:
        ConfigError: such a file.
    """
    try:
        with path.open(encoding="utf-8", errors="replace", newline="\n") as file:
            return parse(file, str(path))
    except OSError as error:
        raise ConfigError(f"log {path}: cannot be read ({error.strerror})") from error


def parse(lines: Iterable[str], file: str = "log") -> Log:
    """The same for lines with their ends, as a file gives them."""
    records: dict[type, list[Any]] = {kind: [] for kind in (LoggedOp, Batch, Event, Hardware, Window)}
    counts: Counter[str] = Counter()
    number = 0
    for number, line in enumerate(lines, 1):
        _, *messages = line.split(MARK)
        if not messages:
            counts["foreign"] += 1
        for place, message in enumerate(messages, 1):
            whole = place == len(messages) and message.endswith("\n")
            outcome, record = _message(number, _COLOURS.sub("", message).strip()) if whole else ("cut", None)
            counts[outcome] += 1
            if record is not None:
                records[type(record)].append(record)
    return Log(
        file,
        ops=tuple(records[LoggedOp]),
        batches=tuple(records[Batch]),
        events=tuple(records[Event]),
        hardware=tuple(records[Hardware]),
        windows=tuple(records[Window]),
        lines=number,
        counts=dict(counts),
    )


def _message(line: int, text: str) -> tuple[str, Record | None]:
    """What became of a message, a key of ``Log.counts``, and its record."""
    if not _KNOWN.match(text):
        return "unknown", None
    try:
        for pattern, make in _FORMS:
            if found := pattern.fullmatch(text):
                return "read", make(line, *found.groups())
    except _Damaged:
        pass
    return "damaged", None


def _operator(line: int, session: str, name: str, mark: str, rest: str) -> LoggedOp | Batch:
    fields = rest.split("|" if mark == "|" else " : ")
    if mark == "|" and len(fields) == 6:
        names, dims, types, _, kernel, timing = fields
    elif mark == ": " and len(fields) in (5, 6):
        names, dims, types, *_, timing = fields
        kernel = "----"
    else:
        raise _Damaged
    if name == "OPBATCH":
        return _batch_operator(line, session, dims, timing)
    layout = 3 if mark == "|" else 2
    if found := _EARLY_TIMING.fullmatch(timing):
        usec, cycles, start, layout = _number(found[1]), _number(found[2]), None, 1
    else:
        usec, cycles, start = _timing(timing)
    *inputs, output = _operands(names, dims, types)
    path = _KERNEL.fullmatch(kernel)
    if output is None or path is None:
        raise _Damaged
    return LoggedOp(line, layout, session, name, tuple(inputs), output, path[1] or "", usec, cycles, start)


def _batch_operator(line: int, session: str, ops: str, timing: str) -> Batch:
    found = re.fullmatch(r"n-ops (\d+)", ops)
    if not found:
        raise _Damaged
    return Batch(line, session, _number(found[1]), _timing(timing)[0])


def _synchronous(line: int, session: str, name: str, operands: str, usec: str, cycles: str) -> LoggedOp:
    """Names and shapes of one operand stand side by side."""
    pairs = [_split(text) for text in _listed(operands)]
    tensors = tuple(Tensor(name, _shape(dims)) for name, dims in pairs)
    return LoggedOp(line, 1, session, name, tensors[:-1], tensors[-1], "", _number(usec), _number(cycles))


def _split(text: str) -> tuple[str, str]:
    name, _, dims = text.rpartition(" ")
    if not name:
        raise _Damaged
    return name, dims


def _timing(text: str) -> tuple[int, int, int | None]:
    """Microseconds, cycles and start; the clock, where printed, must agree with the first two."""
    found = _TIMING.fullmatch(text)
    if not found:
        raise _Damaged
    usec, cycles = _number(found[1]), _number(found[2])
    if found[4] is not None and usec > 0 and abs(cycles / usec - float(found[4])) > MHZ_ROUNDING + 1e-6 * cycles / usec:
        raise _Damaged
    return usec, cycles, None if found[3] is None else _number(found[3])


def _operands(names: str, dims: str, types: str) -> tuple[Tensor | None, ...]:
    """All operands, the output last."""
    columns = [_listed(text) for text in (names, dims, types)]
    if len({len(column) for column in columns}) > 1:
        raise _Damaged
    return tuple(
        None if size == "NONE" else Tensor(name, _shape(size), kind.lower())
        for name, size, kind in zip(*columns, strict=True)
    )


def _listed(text: str) -> list[str]:
    """Inputs and output; an operator without inputs has no arrow."""
    inputs, arrow, output = text.rpartition(" -> ")
    parts = [*(part.strip() for part in inputs.split(" x ") if arrow), output.strip()]
    if any(mark in part for part in parts for mark in (" x ", "->", "|")):
        raise _Damaged
    return parts


def _shape(text: str) -> tuple[int, int, int, int]:
    if not _DIMS.fullmatch(text):
        raise _Damaged
    sizes = [_number(size) for size in text.split(":")]
    if min(sizes) < 1:
        raise _Damaged
    first, second, third, fourth = (*sizes, 1, 1)[:4]
    return first, second, third, fourth


def _number(text: str) -> int:
    if len(text) > 20:
        raise _Damaged
    value = int(text)
    if value > 1 << 64:
        raise _Damaged
    return value


def _event(line: int, session: str, name: str, thread: str, info: str, end: str, cycles: str) -> Event:
    return Event(line, session, name, _number(thread), _number(info), end == "stop", _number(cycles))


_FORMS: tuple[tuple[re.Pattern[str], Callable[..., Record]], ...] = (
    (_EVENT, _event),
    (_OPERATOR, _operator),
    (_OPERATOR_EVENT, lambda line, session, thread, name, *rest: _event(line, session, name, thread, *rest)),
    (
        _BATCH,
        lambda line, session, ops, host, device: Batch(line, session, _number(ops), _number(device), _number(host)),
    ),
    (
        _HARDWARE,
        lambda line, session, threads, hvx, hmx, vtcm: Hardware(
            line, session, _number(threads), _number(hvx), _number(hmx), _number(vtcm) * MEGABYTE
        ),
    ),
    (_WINDOW, lambda line, session, ops, mapped: Window(line, session, _number(ops), _number(mapped))),
    (_SYNCHRONOUS, _synchronous),
)
"""What each kind of message looks like and becomes."""
