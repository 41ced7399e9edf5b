"""Published kernel ideas as switches: a family declares them as fields, a scenario or a test sets them.

A technique changes how a kernel is written (which engine does a piece of work, how a table or a layout is used), not
what it computes. Its default is what the llama.cpp Hexagon backend does, so that an ablation changes one word.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hexenv.errors import ConfigError
from hexenv.kernels.operator import Operator

Value = str | int | float | bool
_KEY = "technique"


@dataclass(frozen=True, slots=True)
class Technique:
    """One switch of an operator family."""

    default: Value
    choices: tuple[Value, ...]
    """Allowed values; for a number in a range its two ends."""
    is_range: bool
    source: str
    """The system the idea comes from, and what the values mean."""

    @property
    def allowed(self) -> str:
        """What is allowed, in words."""
        if self.is_range:
            return f"a number from {self.choices[0]} to {self.choices[1]}"
        return ", ".join(repr(choice) for choice in self.choices)

    def accepts(self, value: object) -> bool:
        """Whether ``value`` is allowed."""
        if self.is_range:
            number = isinstance(value, int | float) and not isinstance(value, bool)
            return number and self.choices[0] <= value <= self.choices[1]  # type: ignore[operator]
        return any(value == choice and type(value) is type(choice) for choice in self.choices)


@dataclass(frozen=True, slots=True)
class Selection:
    """A technique's value for every operator of a family."""

    family: str
    name: str
    value: Value


def one_of(*choices: Value, source: str) -> Any:
    """A dataclass field whose value is one of ``choices``; the first is the default."""
    return field(default=choices[0], metadata={_KEY: Technique(choices[0], choices, False, source)})


def between(default: float, low: float, high: float, source: str) -> Any:
    """A dataclass field whose value is a number from ``low`` to ``high``."""
    return field(default=default, metadata={_KEY: Technique(default, (low, high), True, source)})


def techniques(kind: type) -> dict[str, Technique]:
    """The switches that an operator class declares, by name."""
    return {f.name: f.metadata[_KEY] for f in dataclasses.fields(kind) if _KEY in f.metadata}


def check(operator: Any) -> None:
    """Refuse values that an operator's techniques do not allow; families call it in ``__post_init__``.

    Raises:
        ConfigError: such a value.
    """
    for name, technique in techniques(type(operator)).items():
        value = getattr(operator, name)
        if not technique.accepts(value):
            raise ConfigError(f"{operator.family}.{name} = {value!r}, allowed: {technique.allowed}")


def apply(operator: Operator, selections: Sequence[Selection]) -> Operator:
    """The operator with the techniques selected for its family."""
    names = techniques(type(operator))
    changes = {s.name: s.value for s in selections if s.family == operator.family and s.name in names}
    return dataclasses.replace(operator, **changes) if changes else operator  # type: ignore[type-var]
