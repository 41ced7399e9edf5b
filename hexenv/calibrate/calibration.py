"""Fits the constants that a log identifies, and says why it does not the others."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from hexenv.calibrate.identify import Identified, doubt, elasticities, fittable, identify, weights
from hexenv.calibrate.observations import Observation, Observed
from hexenv.device import UNITS, Constant, Device
from hexenv.device.device import MAX_CONTEXTS
from hexenv.errors import ConfigError
from hexenv.logs import Log
from hexenv.validate.fit import solve

SPAN = 4.0
"""A fitted value may leave the range of the base device by this factor: the log is of another device."""
AT_END = 0.01
"""Distance to an end of that, as a part of it, at which a value counts as running away."""
ROUNDS = 8
LEAST_SCALE = 1.0 / 3.0
"""Residuals are never trusted to be smaller than this part of the scatter to expect: times are whole numbers."""
SURE = 0.15
"""Half-width of an interval up to which a fitted constant has confidence C, else D."""
NOTHING = "no logged operator depends on it"
RUNS_AWAY = "the fit runs to the end of any plausible range: the model does not have what these times show"
KNOWN = "the base device knows it better"


@dataclass(frozen=True)
class Estimate:
    """One fitted constant."""

    name: str
    value: float
    low: float
    """Ends of the 95 % interval: residuals, and the ranges of constants that were held."""
    high: float
    error: float
    """Standard error from the residuals alone, as a part of the value."""
    observations: int
    """How many distinct ones depend on it."""
    rows: int
    """Rows of the log behind them."""


@dataclass(frozen=True)
class Part:
    """One fit: operators, or dispatch."""

    name: str
    observations: tuple[Observation, ...]
    estimates: tuple[Estimate, ...]
    refused: Mapping[str, str]
    """Why other constants that the observations depend on were not fitted."""
    residual: float
    """Root mean square of the logarithm of predicted over logged, weighted as in the fit."""


@dataclass(frozen=True)
class Calibration:
    """What a log says about a device."""

    log: Log
    observed: Observed
    base: Device
    device: Device
    """With facts and fitted values."""
    facts: Mapping[str, int]
    """What the sessions found, by constant."""
    parts: tuple[Part, ...]

    @property
    def refused(self) -> dict[str, str]:
        """Why each constant that is neither a fact nor fitted is not: no rows, collinear, ..."""
        known = {*self.facts, *(estimate.name for estimate in self.estimates)}
        reasons = {name: why for part in self.parts for name, why in part.refused.items()}
        return {name: reasons.get(name, NOTHING) for name in UNITS if name not in known}

    @property
    def estimates(self) -> list[Estimate]:
        """Of all parts."""
        return [estimate for part in self.parts for estimate in part.estimates]


def calibrate(log: Log, observed: Observed, base: Device) -> Calibration:
    """Facts first, then operators, then dispatch.

    Raises:
        ConfigError: sessions of different devices in one log, or facts that no device can have.
    """
    facts = session_facts(log)
    device = with_constants(base, {name: _fact(log, name, value, base) for name, value in facts.items()})
    parts = []
    for name, observations in (("operators", observed.operators), ("dispatch", observed.batches)):
        part = _fit(name, observations, device)
        device = with_constants(
            device, {one.name: constant_of(one, part, log, base, observed) for one in part.estimates}
        )
        parts.append(part)
    return Calibration(log, observed, base, device, facts, tuple(parts))


def session_facts(log: Log) -> dict[str, int]:
    """Contexts, VTCM and mapping window as the sessions report them; empty without such lines."""
    found: dict[str, dict[int, int]] = {"contexts": {}, "vtcm_bytes": {}, "window_bytes": {}}
    for hardware in log.hardware:
        found["contexts"].setdefault(hardware.hvx, hardware.line)
        found["vtcm_bytes"].setdefault(hardware.vtcm_bytes, hardware.line)
    for window in log.windows:
        found["window_bytes"].setdefault(window.mapped_bytes, window.line)
    for name, values in found.items():
        if len(values) > 1:
            places = "; ".join(f"{value} in line {line}" for value, line in values.items())
            raise ConfigError(f"log {log.file}: {name} = {places}; allowed: logs of one device")
        for value, line in values.items():
            most = MAX_CONTEXTS if name == "contexts" else value
            if not 1 <= value <= most:
                raise ConfigError(f"log {log.file} line {line}: {name} = {value}; allowed: 1 to {most}")
    return {name: next(iter(values)) for name, values in found.items() if values}


def _fact(log: Log, name: str, value: int, base: Device) -> Constant:
    return Constant(value, base.constants[name].unit, f"{log.file}, line of the session", "C", value, value)


def with_constants(device: Device, constants: Mapping[str, Constant]) -> Device:
    """``device`` with some constants replaced, ranges and sources included."""
    values: dict[str, Any] = {name: constant.value for name, constant in constants.items()}
    return dataclasses.replace(device, constants=MappingProxyType({**device.constants, **constants}), **values)


def constant_of(estimate: Estimate, part: Part, log: Log, base: Device, observed: Observed) -> Constant:
    """A fitted constant with where it comes from and how far to trust it."""
    clock = f", core at {np.median(observed.clocks_mhz):.0f} MHz" if len(observed.clocks_mhz) else ""
    source = (
        f"fitted to {log.file}: {estimate.rows} rows of {estimate.observations} distinct {part.name}{clock}; residual "
        f"{100 * part.residual:.1f} % rms, standard error {100 * estimate.error:.1f} %; base {base.name} has "
        f"{base.constants[estimate.name].value:g}"
    )
    sure = np.log(estimate.high / estimate.value) <= SURE
    unit = base.constants[estimate.name].unit
    return Constant(estimate.value, unit, source, "C" if sure else "D", estimate.low, estimate.high)


def _fit(name: str, observations: tuple[Observation, ...], base: Device) -> Part:
    """Fit, see what the residuals leave identified, and fit that again, until nothing changes."""
    fit = _Fit(observations, base)
    while fit.changes():
        pass
    return Part(name, observations, fit.estimates(), fit.reasons(), fit.residual)


class _Fit:
    """One fit on its way. Constants that touch no time at the present point are looked at again at each new one."""

    def __init__(self, observations: tuple[Observation, ...], base: Device):
        self.observations, self.base, self.device = observations, base, base
        self.names = fittable(observations, base)
        self.wide = with_constants(base, {key: _widened(base.constants[key]) for key in self.names})
        self.doubts, self.weight = doubt(base.constants, self.names), weights(observations)
        self.refused: dict[int, str] = {}
        self.values: dict[str, Any] = {}
        self.scale = 1.0
        self.residuals = np.zeros(0)
        self.rounds = 0
        self.slopes = elasticities(observations, base, self.names)
        self.found = self._identify()

    def changes(self) -> bool:
        """Fit what is identified; returns whether something else is then."""
        if not self.observations or self.rounds == ROUNDS:
            return False
        self.rounds += 1
        free = [self.names[i] for i in self.found.free]
        self.values = solve(self.observations, self.wide, free, self.weight) if free else {}
        self.device = dataclasses.replace(self.base, **self.values)
        self.residuals = np.log([one.ratio(self.device) for one in self.observations])
        squares = float(((self.weight * self.residuals) ** 2).sum())
        self.scale = max(LEAST_SCALE, np.sqrt(squares / max(1, len(self.residuals) - len(free))))
        self.slopes = elasticities(self.observations, self.device, self.names)
        before, self.found = self.found, self._identify()
        gone = self._gone(before)
        if gone:
            self.refused |= gone
            self.found = self._identify()
        return self.found.free != before.free

    def _identify(self) -> Identified:
        return identify(self.slopes * self.weight[:, None], self.names, self.doubts, self.scale, self.refused)

    def _gone(self, fitted: Identified) -> dict[int, str]:
        """Fitted columns that run away, or that the base knows better."""
        half_widths = dict(zip(self.found.free, self.found.half_widths, strict=True))
        gone = {}
        for i in fitted.free:
            value, old = self.values[self.names[i]], self.base.constants[self.names[i]]
            wide, factor = self.wide.constants[self.names[i]], np.exp(half_widths.get(i, 0.0))
            if value <= wide.low * (1.0 + AT_END) or value >= wide.high * (1.0 - AT_END):
                gone[i] = RUNS_AWAY
            elif value / factor <= old.low and old.high <= value * factor:
                gone[i] = f"{KNOWN}: {old.low:g} to {old.high:g}"
        return gone

    @property
    def residual(self) -> float:
        """Root mean square of the residuals."""
        if not self.observations:
            return 0.0
        return float(np.sqrt(np.average(self.residuals**2, weights=self.weight**2)))

    def estimates(self) -> tuple[Estimate, ...]:
        """The fitted constants."""
        columns = zip(self.found.free, self.found.half_widths, self.found.noise, strict=True)
        return tuple(
            _estimate(self.names[i], self.values[self.names[i]], half, noise, self.slopes[:, i], self.observations)
            for i, half, noise in columns
            if self.names[i] in self.values
        )

    def reasons(self) -> dict[str, str]:
        """Why each other constant that some observation depends on is none of them."""
        return {self.names[i]: why for i, why in self.found.refused.items()}


def _estimate(
    name: str, value: float, half: float, noise: float, column: np.ndarray, observations: Sequence[Observation]
) -> Estimate:
    touched = [one for one, slope in zip(observations, column, strict=True) if abs(slope) >= 0.01]
    rows = sum(one.rows for one in touched)
    low, high = value * np.exp(-half), value * np.exp(half)
    return Estimate(name, value, float(low), float(high), float(noise), len(touched), rows)


def _widened(constant: Constant) -> Constant:
    low = max(constant.low, constant.value / 10.0) / SPAN
    return dataclasses.replace(constant, low=low, high=constant.high * SPAN)
