"""Which rows are used and which are not, and why: ``data/rules.toml``, applied to any file of measured rows."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib import resources

from hexenv.device import Device, device_names, load_device
from hexenv.errors import ConfigError
from hexenv.validate.backend import GENERATIONS
from hexenv.validate.clock import slowed
from hexenv.validate.dims import Dims
from hexenv.validate.rows import Row
from hexenv.validate.subjects import TIME_US, Subject, subject

_device = cache(load_device)

SUSTAINED = "sustained"
"""In a row's note: measured under sustained load."""


@dataclass(frozen=True)
class Rule:
    """One entry of ``rules.toml``; the file says what each field means."""

    where: Mapping[str, re.Pattern[str]]
    exclude: str = ""
    use: str = ""
    name: str = ""
    family: str = ""
    generation: str = "overlapped"
    device: str = ""
    dims: str = ""
    sustained: bool = False
    assume: str = ""

    def matches(self, row: Row) -> bool:
        """Whether every pattern is found in its column."""
        return all(pattern.search(row[column]) for column, pattern in self.where.items())


@dataclass(frozen=True)
class Case:
    """A row that the model can be held to."""

    row: Row
    subject: Subject
    family: str
    generation: str
    """A key of :data:`hexenv.validate.backend.GENERATIONS`."""
    device: str
    """Name or path, for :func:`hexenv.device.load_device`."""
    assume: str
    sustained: bool = False
    """Measured under sustained load."""
    clock: float = 1.0
    """Part of the peak core clock to predict with."""

    def predicted(self, device: Device | None = None, unit: str = "") -> float:
        """The model's figure in ``unit``, by default the row's, on ``device`` instead of its own if given."""
        slow = slowed(device or _device(self.device), self.clock)
        return self.subject.predict(slow, GENERATIONS[self.generation], unit or self.row.unit)

    def ratio(self, device: Device | None = None) -> float:
        """Predicted over measured time: above 1 the model is slower than the device, also where the row is a rate."""
        ratio = self.predicted(device) / self.row.value
        return ratio if self.row.unit in TIME_US else 1.0 / ratio

    def error(self, device: Device | None = None) -> float:
        """``ratio - 1``."""
        return self.ratio(device) - 1.0


@dataclass(frozen=True)
class Excluded:
    """A row that is not used."""

    row: Row
    reason: str


@cache
def rules() -> tuple[Rule, ...]:
    """The rules in order."""
    text = (resources.files("hexenv.validate") / "data" / "rules.toml").read_text(encoding="utf-8")
    return tuple(
        Rule(**{**rule, "where": {column: re.compile(pattern) for column, pattern in rule["where"].items()}})
        for rule in tomllib.loads(text)["rule"]
    )


def classify(rows: Sequence[Row], device: str | None = None, clock: float = 1.0) -> tuple[list[Case], list[Excluded]]:
    """Usable and excluded rows, in order.

    ``device`` replaces what the rows say. ``clock`` is the part of the peak core clock at which rows under sustained
    load are predicted.
    """
    cases: list[Case] = []
    excluded: list[Excluded] = []
    for row in rows:
        rule = next((rule for rule in rules() if rule.matches(row)), None)
        try:
            cases.append(_case(row, rule, device, clock))
        except ConfigError as error:
            excluded.append(Excluded(row, str(error)))
    return cases, excluded


def _case(row: Row, rule: Rule | None, device: str | None, clock: float) -> Case:
    """The case, or a ConfigError whose text is the reason to leave the row out."""
    if rule is None:
        raise ConfigError("no rule matches: an operator name or a test such as pp512 or tg64 is needed")
    if rule.exclude:
        raise ConfigError(rule.exclude)
    name = device or rule.device or row["arch"]
    if device is None and name not in device_names():
        raise ConfigError(f"device {name!r} has no file; known: {', '.join(device_names())} (--device names one)")
    found = subject(rule.use, rule.name, row, Dims(row, rule.dims))
    sustained = rule.sustained or SUSTAINED in row["note"]
    case = Case(
        row,
        found,
        rule.family or found.family,
        rule.generation,
        name,
        rule.assume,
        sustained,
        clock if sustained else 1.0,
    )
    case.predicted()
    return case
