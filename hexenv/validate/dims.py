"""What a row's shape columns and its ``dims`` text say, as numbers by name.

The text holds pieces such as ``kv=512``, ``bs=8``, ``nb=kv`` (as many as), ``16Q/8KV heads``, ``16 heads``,
``535 ops``, ``DSP 27.4`` and ggml's own ``4096:64`` or ``8192x512`` (fastest dimension first).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from hexenv.errors import ConfigError
from hexenv.validate.rows import SHAPE_COLUMNS, Row

LARGEST = 1 << 20
"""Of any size."""
_ASSIGNMENT = re.compile(r"\b(\w+)=(\w+)")
_NUMBER = r"(\d+(?:\.\d+)?)"
_GROUPED_HEADS = re.compile(r"(\d+)Q/(\d+)KV heads")
_PHRASES = {
    "heads": re.compile(r"\b(\d+) heads"),
    "contexts": re.compile(r"\b(\d+) (?:HVX )?contexts?\b"),
    "ops": re.compile(r"\b(\d+) ops\b"),
    "ub": re.compile(r"\bub (\d+)"),
    "DSP": re.compile(rf"\bDSP {_NUMBER}"),
}
_EXTENTS = re.compile(r"(?<![\w.])\d+(?:[x:]\d+)+(?![\w.])")


class Dims:
    """Numbers by name; asking for one that is not there is a ConfigError that says so."""

    def __init__(self, row: Row, extra: str = ""):
        self._row = row
        self._text = ", ".join(text for text in (row["dims"], extra) if text)
        self._names: dict[str, str] = {column: row[column] for column in SHAPE_COLUMNS if row[column]}
        notes = f"{self._text}, {row['note']}"
        for name, pattern in _PHRASES.items():
            if found := pattern.search(notes):
                self._names[name] = found[1]
        if found := _GROUPED_HEADS.search(self._text):
            self._names["q_heads"], self._names["kv_heads"] = found[1], found[2]
        self._names.update(_ASSIGNMENT.findall(self._text))

    def __getitem__(self, name: str) -> float:
        """The number called ``name``, followed through ``a=b``."""
        text = self._resolve(name, self._names)
        if text is None:
            raise ConfigError(f"{name} not stated")
        try:
            return float(text)
        except ValueError:
            raise ConfigError(f"{name} = {text!r}; allowed: a number") from None

    def count(self, name: str, default: int | None = None) -> int:
        """The same as a whole number, 1 to :data:`LARGEST`."""
        if default is not None and name not in self._names:
            return default
        value = self[name]
        if not (value == int(value) and 1 <= value <= LARGEST):
            raise ConfigError(f"{name} = {value:g}; allowed: a whole number, 1 to {LARGEST}")
        return int(value)

    def extents(self) -> tuple[int, ...]:
        """Sizes of a tensor written ``4096:64`` or ``8192x512``, fastest dimension first."""
        found = _EXTENTS.search(self._text)
        if found is None:
            raise ConfigError("tensor shape not stated (dims, for example 4096:64)")
        sizes = tuple(int(size) for size in re.split("[x:]", found[0]))
        if min(sizes) < 1 or max(sizes) > LARGEST:
            raise ConfigError(f"tensor shape {found[0]}; allowed: sizes of 1 to {LARGEST}")
        return sizes

    def words(self) -> Iterator[str]:
        """The words of the text, for a model's name among them."""
        yield from re.split(r"[\s,]+", self._text)

    def _resolve(self, name: str, names: Mapping[str, str]) -> str | None:
        text = names.get(name)
        for _ in names:
            if text is None or text[0].isdigit():
                break
            text = names.get(text)
        return text if text is not None and text[0].isdigit() else None
