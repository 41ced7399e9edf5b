"""Reads a TOML table key by key: types and ranges are checked, and what nobody asked for is refused."""

from __future__ import annotations

import math
import tomllib
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from hexenv.errors import ConfigError


class Required:
    """Marks a key without a default."""


REQUIRED = Required()


class Table:
    """One table of a TOML file (or the overrides of a call), with its place for the error texts.

    Every getter takes one key. :meth:`end` then refuses the keys that no getter asked for, so the allowed keys are
    never listed twice.
    """

    def __init__(self, values: Mapping[str, Any], place: str, file: str):
        self._values = values
        self._asked: list[str] = []
        self.place = place
        self.file = file

    def has(self, key: str) -> bool:
        """Whether an optional key is given."""
        self._ask(key)
        return key in self._values

    def refuse(self, key: str, allowed: str) -> NoReturn:
        """Raise the ConfigError for ``key`` with its value and what is allowed."""
        value = repr(self._values[key]) if key in self._values else "missing"
        raise ConfigError(f"{self.file}: {self.place}{key} = {value}, allowed: {allowed}")

    def number(
        self,
        key: str,
        default: float | Required = REQUIRED,
        low: float = -math.inf,
        high: float = math.inf,
        above: float = -math.inf,
    ) -> float:
        """A finite number with ``low <= value <= high`` and ``value > above``."""
        allowed = f"a number {_range_text(low, high, above)}"
        value = self._get(key, default, allowed)
        if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
            self.refuse(key, allowed)
        if not low <= value <= high or value <= above:
            self.refuse(key, allowed)
        return float(value)

    def integer(self, key: str, default: int | Required = REQUIRED, low: int = 0, high: int = 2**62) -> int:
        """An integer with ``low <= value <= high``."""
        allowed = f"an integer {_range_text(low, high)}"
        value = self._get(key, default, allowed)
        if isinstance(value, bool) or not isinstance(value, int) or not low <= value <= high:
            self.refuse(key, allowed)
        return value

    def flag(self, key: str, default: bool | Required = REQUIRED) -> bool:
        """``true`` or ``false``."""
        value = self._get(key, default, "true or false")
        if not isinstance(value, bool):
            self.refuse(key, "true or false")
        return value

    def text(self, key: str, default: str | Required = REQUIRED, choices: Sequence[str] = ()) -> str:
        """A string, one of ``choices`` if there are any."""
        allowed = ", ".join(choices) or "a string"
        value = self._get(key, default, allowed)
        if not isinstance(value, str) or not value or (choices and value not in choices):
            self.refuse(key, allowed)
        return value

    def choice(self, key: str, accepts: Callable[[object], bool], allowed: str) -> Any:
        """A value of any type that ``accepts`` takes."""
        value = self._get(key, REQUIRED, allowed)
        if not accepts(value):
            self.refuse(key, allowed)
        return value

    def table(self, key: str, default: Mapping[str, Any] | Required = REQUIRED) -> Table:
        """A sub-table."""
        value = self._get(key, default, "a table")
        if not isinstance(value, Mapping):
            self.refuse(key, "a table")
        return Table(value, f"{self.place}{key}.", self.file)

    def tables(self, key: str) -> list[Table]:
        """A non-empty array of tables."""
        value = self._get(key, REQUIRED, "an array of tables")
        if not isinstance(value, list) or not value or not all(isinstance(v, Mapping) for v in value):
            self.refuse(key, "an array of tables")
        return [Table(v, f"{self.place}{key}[{i}].", self.file) for i, v in enumerate(value)]

    def numbers(self, key: str, above: float = -math.inf) -> tuple[float, ...]:
        """A non-empty array of finite numbers greater than ``above``."""
        allowed = f"an array of numbers {_range_text(-math.inf, math.inf, above)}"
        value = self._get(key, REQUIRED, allowed)
        if not isinstance(value, list) or not value or any(isinstance(v, bool) for v in value):
            self.refuse(key, allowed)
        if not all(isinstance(v, int | float) and math.isfinite(v) and v > above for v in value):
            self.refuse(key, allowed)
        return tuple(float(v) for v in value)

    def integers(self, key: str, low: int = 0) -> tuple[int, ...]:
        """A non-empty array of integers of at least ``low``."""
        allowed = f"an array of integers, each at least {low}"
        value = self._get(key, REQUIRED, allowed)
        if not isinstance(value, list) or not value:
            self.refuse(key, allowed)
        if not all(isinstance(v, int) and not isinstance(v, bool) and v >= low for v in value):
            self.refuse(key, allowed)
        return tuple(value)

    def texts(self, key: str, choices: Sequence[str], empty: bool = False) -> tuple[str, ...]:
        """An array of distinct strings out of ``choices``; not an empty one unless ``empty`` allows it."""
        allowed = f"an array of distinct names out of {', '.join(choices)}"
        value = self._get(key, REQUIRED, allowed)
        listed = isinstance(value, list | tuple) and (empty or len(value) > 0)
        if not listed or not all(isinstance(v, str) and v in choices for v in value):
            self.refuse(key, allowed)
        if len(set(value)) < len(value):
            self.refuse(key, allowed)
        return tuple(value)

    def names(self) -> tuple[str, ...]:
        """All keys, for tables whose keys are names chosen by the author."""
        return tuple(self._values)

    def end(self) -> None:
        """Refuse keys that were never asked for."""
        for key in self._values:
            if key not in self._asked:
                self.refuse(key, f"the keys {', '.join(self._asked)}")

    def _ask(self, key: str) -> None:
        if key not in self._asked:
            self._asked.append(key)

    def _get(self, key: str, default: object, allowed: str) -> Any:
        self._ask(key)
        if key in self._values:
            return self._values[key]
        if isinstance(default, Required):
            self.refuse(key, allowed)
        return default


def read_toml(path: Path) -> Table:
    """The top table of a file. A missing, unreadable or malformed file is a ConfigError."""
    try:
        with path.open("rb") as file:
            values = tomllib.load(file)
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a valid TOML file ({error})") from error
    return Table(values, "", str(path))


def _range_text(low: float, high: float, above: float = -math.inf) -> str:
    parts = []
    if above > -math.inf:
        parts.append(f"greater than {above:g}")
    if low > -math.inf:
        parts.append(f"at least {low:g}")
    if high < 2**62:
        parts.append(f"at most {high:g}")
    return " and ".join(parts) or "(finite)"
