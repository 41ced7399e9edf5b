"""Recorded arrivals: a CSV or Parquet file with a column ``time_us`` and, if wanted, ``stream`` and ``deadline_us``.

Times count from the start of an episode and rise within a stream. A file with a ``stream`` column may serve all streams
of a scenario; each takes its own rows. ``deadline_us`` counts from arrival. Either every row of a stream has its own,
or none has: a stream is best effort or is not.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

from hexenv.errors import ConfigError

COLUMNS = ("time_us", "stream", "deadline_us")
LATEST_US = 3.6e9
"""An hour, like every time of a scenario."""


@dataclass(frozen=True, slots=True)
class Arrivals:
    """Of one stream."""

    times_us: tuple[float, ...]
    """Rising."""
    deadlines_us: tuple[float, ...]
    """From arrival, one an arrival; empty where the file has none."""


def read_arrivals(path: Path, stream: str, streams: Sequence[str]) -> Arrivals:
    """The rows of ``stream``, one of the scenario's ``streams``.

    Raises:
        ConfigError: a file that cannot be read, or a bad value: names file, row (from 1 below the header) and column.
    """
    times: list[float] = []
    deadlines: list[float] = []
    for row, values in enumerate(_rows(path), 1):
        owner = values.get("stream", stream)
        if owner not in streams:
            _refuse(path, row, "stream", owner, f"one of {', '.join(streams)}")
        if owner != stream:
            continue
        time = _number(path, row, "time_us", values["time_us"])
        if times and time < times[-1]:
            _refuse(path, row, "time_us", values["time_us"], f"at least {times[-1]:g}, the arrival before it")
        own = values.get("deadline_us")
        none = own in (None, "")
        if times and none == bool(deadlines):
            allowed = "a number" if deadlines else "nothing"
            _refuse(path, row, "deadline_us", own, f"{allowed}, as in the rows of {stream} before it")
        if not none:
            deadlines.append(_number(path, row, "deadline_us", own, above=0.0))
        times.append(time)
    if not times:
        raise ConfigError(f"{path}: no arrival of stream {stream}")
    return Arrivals(tuple(times), tuple(deadlines))


def _rows(path: Path) -> Iterable[Mapping[str, Any]]:
    try:
        columns, rows = _parquet(path) if path.suffix == ".parquet" else _csv(path)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror or error})") from error
    except (ValueError, csv.Error) as error:
        raise ConfigError(f"{path}: not a CSV or Parquet file ({str(error).splitlines()[0]})") from error
    if "time_us" not in columns or not set(columns) <= set(COLUMNS):
        found = ", ".join(map(str, columns)) or "none"
        raise ConfigError(f"{path}: columns {found}; allowed: {', '.join(COLUMNS)}, all but the first optional")
    return rows


def _csv(path: Path) -> tuple[Sequence[str], list[dict[str, Any]]]:
    with path.open(encoding="utf-8-sig", newline="") as file:
        reader = csv.DictReader(file, strict=True)
        columns, rows = reader.fieldnames or (), list(reader)
    for row, values in enumerate(rows, 1):
        if None in values or None in values.values():
            raise ConfigError(f"{path} row {row}: more or fewer values than the {len(columns)} columns")
    return columns, rows


def _parquet(path: Path) -> tuple[Sequence[str], list[dict[str, Any]]]:
    try:
        from pyarrow import parquet
    except ImportError as error:
        raise ConfigError(f"{path}: Parquet files need the package pyarrow: pip install 'hexenv[parquet]'") from error
    table = parquet.read_table(path)
    return table.column_names, table.to_pylist()


def _number(path: Path, row: int, column: str, value: Any, above: float = -1.0) -> float:
    allowed = f"a number {'from 0' if above < 0.0 else 'above 0'} to {LATEST_US:g}"
    try:
        number = math.nan if isinstance(value, bool) else float(value)
    except (TypeError, ValueError):
        number = math.nan
    if not (0.0 <= number <= LATEST_US and number > above):
        _refuse(path, row, column, value, allowed)
    return number


def _refuse(path: Path, row: int, column: str, value: Any, allowed: str) -> NoReturn:
    raise ConfigError(f"{path} row {row}: column {column} = {value!r}; allowed: {allowed}")
