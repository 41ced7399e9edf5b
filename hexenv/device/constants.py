"""A hardware constant with its provenance, and how one is read from a TOML table."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from hexenv.errors import ConfigError

CONFIDENCES = ("A", "B", "C", "D")
"""A: read from upstream source code. B: measured by a documented benchmark. C: measured, method partly described.
D: derived, fitted, inconsistent or nobody has published it."""


@dataclass(frozen=True, slots=True)
class Constant:
    """One number about the silicon, how far to trust it, and the range it may lie in."""

    value: float
    unit: str
    source: str
    """Who published it, or what it was fitted to (rows and residual)."""
    confidence: str
    """One of :data:`CONFIDENCES`."""
    low: float
    """Lower end of the plausible range, in the same unit."""
    high: float
    """Upper end of the plausible range, in the same unit."""


_FIELDS = tuple(Constant.__dataclass_fields__)


def parse_constant(key: str, table: Any, unit: str, file: Path) -> Constant:
    """Read and check one constant.

    Args:
        key: name of the constant.
        table: what the TOML file holds under that name.
        unit: the unit this constant is defined in.
        file: for messages.

    Raises:
        ConfigError: a missing or unknown field, a wrong type or unit, or a range that does not hold the value.
    """
    if not isinstance(table, Mapping):
        raise ConfigError(f"{file}: constant {key} = {table!r}: expected a table with the fields {', '.join(_FIELDS)}")
    for name in table:
        if name not in _FIELDS:
            raise ConfigError(f"{file}: constant {key}: unknown field {name!r}; allowed: {', '.join(_FIELDS)}")
    for name in _FIELDS:
        if name not in table:
            raise ConfigError(f"{file}: constant {key}: field {name!r} is missing; needed: {', '.join(_FIELDS)}")
    if table["unit"] != unit:
        raise ConfigError(f"{file}: constant {key}: unit = {table['unit']!r}; allowed: {unit!r}")
    if table["confidence"] not in CONFIDENCES:
        raise ConfigError(
            f"{file}: constant {key}: confidence = {table['confidence']!r}; allowed: {', '.join(CONFIDENCES)}"
        )
    source = table["source"]
    if not isinstance(source, str) or not source.strip():
        raise ConfigError(f"{file}: constant {key}: source = {source!r}; a text that names the source is needed")
    value, low, high = (_number(key, name, table[name], file) for name in ("value", "low", "high"))
    if low > high:
        raise ConfigError(f"{file}: constant {key}: low = {low:g} is above high = {high:g}")
    if not low <= value <= high:
        raise ConfigError(f"{file}: constant {key}: value = {value:g}; allowed: low = {low:g} to high = {high:g}")
    return Constant(value, unit, source, table["confidence"], low, high)


def _number(key: str, field: str, value: Any, file: Path) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value) or value < 0:
        raise ConfigError(f"{file}: constant {key}: {field} = {value!r}; allowed: a finite number, 0 or more")
    return value
