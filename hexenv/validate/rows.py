"""Measured points: one CSV row each, in one of two layouts.

Operator layout (``measured_ops.csv``): source, device, arch, op, dtype_a, dtype_b, m, n, k, dims, metric, value, unit,
note. m = output features, n = tokens, k = inner dimension. ``dims`` holds what m, n, k cannot say.

Whole-model layout (``measured_e2e.csv``): source, device, arch, model, quant, test, value, unit, note. ``test`` is
``ppN`` (a prompt of N tokens) or ``tgN`` (N tokens generated).
"""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from importlib import resources
from pathlib import Path

from hexenv.errors import ConfigError

OPERATOR_COLUMNS = (
    *("source", "device", "arch", "op", "dtype_a", "dtype_b", "m", "n", "k"),
    *("dims", "metric", "value", "unit", "note"),
)
MODEL_COLUMNS = ("source", "device", "arch", "model", "quant", "test", "value", "unit", "note")
SHAPE_COLUMNS = ("m", "n", "k")
UNITS = (
    *("s", "ms", "us", "ns", "TFLOPS", "GFLOPS", "GB/s", "t/s"),
    *("bytes", "count", "cycles", "B/cycle", "MHz", "W", "percent"),
)
BUNDLED = ("measured_ops.csv", "measured_e2e.csv")
_RANGE = re.compile(r"([\d.]+)-([\d.]+)")
_SIZE = re.compile(r"[1-9][0-9]*")


@dataclass(frozen=True)
class Row:
    """One measured point as its file gives it."""

    file: str
    line: int
    fields: Mapping[str, str]
    """Text by column; columns of the other layout are empty."""
    value: float
    """In :attr:`unit`; the middle of a range that the file gives as ``low-high``."""

    def __getitem__(self, column: str) -> str:
        """Text of a column, empty if the layout has no such column."""
        return self.fields.get(column, "")

    @property
    def unit(self) -> str:
        """One of :data:`UNITS`."""
        return self["unit"]

    @property
    def what(self) -> str:
        """What was measured, in words: operator and shape, or model and test."""
        if "test" in self.fields:
            return f"{self['model']} {self['quant']} {self['test']}"
        shape = "x".join(self[column] for column in SHAPE_COLUMNS if self[column])
        return " ".join(text for text in (self["op"], self["dtype_a"], shape, self["dims"]) if text)

    @property
    def where(self) -> str:
        """File and line, for messages."""
        return f"{self.file} line {self.line}"


def bundled_rows() -> list[Row]:
    """Every row of the measurements that come with the package."""
    folder = resources.files("hexenv.validate") / "data"
    return [row for name in BUNDLED for row in _parse(name, folder.joinpath(name).read_text(encoding="utf-8"))]


def read_rows(path: Path) -> list[Row]:
    """Rows of a user's file; its columns decide the layout.

    Raises:
        ConfigError: a file that cannot be read, unknown or missing columns, or a bad value.
    """
    try:
        text = path.read_text(encoding="utf-8-sig")
    except OSError as error:
        raise ConfigError(f"rows file {path}: cannot be read ({error.strerror})") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"rows file {path}: not UTF-8 text ({error.reason} at byte {error.start})") from error
    return _parse(str(path), text)


def _parse(file: str, text: str) -> list[Row]:
    reader = csv.DictReader(text.splitlines())
    columns = tuple(reader.fieldnames or ())
    layouts = {"operator": OPERATOR_COLUMNS, "whole-model": MODEL_COLUMNS}
    if not any(sorted(columns) == sorted(layout) for layout in layouts.values()):
        allowed = "; or ".join(f"{name}: {','.join(layout)}" for name, layout in layouts.items())
        raise ConfigError(f"{file} line 1: columns = {','.join(columns)!r}; allowed: {allowed}")
    try:
        rows = [_row(file, reader.line_num, fields, columns) for fields in reader]
    except csv.Error as error:
        raise ConfigError(f"{file} line {reader.line_num}: not CSV ({error})") from error
    if not rows:
        raise ConfigError(f"{file}: no rows below the header; at least one is needed")
    return rows


def _row(file: str, line: int, fields: dict[str, str | None], columns: tuple[str, ...]) -> Row:
    found = [value for key, value in fields.items() if key is not None]
    if None in fields or None in found:
        count = sum(value is not None for value in found) + len(fields.get(None) or ())  # type: ignore[call-overload]
        raise ConfigError(f"{file} line {line}: {count} values; allowed: {len(columns)}, one a column")
    texts = {key: (value or "").strip() for key, value in fields.items()}
    for column in SHAPE_COLUMNS:
        if texts.get(column) and not _SIZE.fullmatch(texts[column]):
            raise _bad(file, line, column, texts[column], "a whole number, 1 or more, or nothing")
    if texts["unit"] not in UNITS:
        raise _bad(file, line, "unit", texts["unit"], ", ".join(UNITS))
    return Row(file, line, texts, _value(file, line, texts["value"]))


def _value(file: str, line: int, text: str) -> float:
    """A positive number, or the middle of a range."""
    ends = _RANGE.fullmatch(text)
    try:
        value = sum(float(end) for end in ends.groups()) / 2 if ends else float(text)
    except ValueError:
        value = math.nan
    if not (math.isfinite(value) and value > 0.0):
        raise _bad(file, line, "value", text, "a number above 0, or a range low-high of such numbers")
    return value


def _bad(file: str, line: int, column: str, value: str, allowed: str) -> ConfigError:
    return ConfigError(f"{file} line {line}: column {column} = {value!r}; allowed: {allowed}")
