"""Constants refitted on the measured rows, and the error on rows that the fit has not seen.

Bounded least squares on the logarithm of predicted over measured time; each constant stays within the low and high of
its device file. Out of sample: each group of rows (equal shape) is predicted by constants fitted to all other groups.
The device files stay the authority: a proposal is printed beside their value.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from scipy.optimize import least_squares

from hexenv.device import Device, load_device
from hexenv.errors import ConfigError
from hexenv.validate.rules import Case


class Timed(Protocol):
    """A time that the model predicts and somebody has measured."""

    def ratio(self, device: Device, /) -> float:
        """Predicted over measured."""
        ...


@dataclass(frozen=True)
class Fit:
    """Which constants of a device are free, and which rows say something about them."""

    name: str
    device: str
    constants: tuple[str, ...]
    families: tuple[str, ...]
    generation: str = "overlapped"

    def cases(self, cases: Sequence[Case]) -> list[Case]:
        """Its rows."""
        return [
            case
            for case in cases
            if (case.device, case.generation) == (self.device, self.generation)
            and case.family in self.families
            and not case.sustained
        ]


FITS: tuple[Fit, ...] = (
    Fit("GEMV", "v79", ("kernel_fixed_us",), ("gemv",), "serial"),
    Fit("GEMM, serial", "v79", ("hmx_fixed_serial_us", "dequant_serial_us"), ("gemm",), "serial"),
    Fit("GEMM, HVX only", "v79", ("hvx_dot_us",), ("gemm",), "hvx"),
    Fit("attention", "v79", ("softmax_element_ns", "softmax_row_us"), ("attention",)),
    Fit("decode", "v79", ("decode_gap_us",), ("decode",)),
    Fit("dispatch", "v79", ("batch_us", "op_us"), ("dispatch",)),
)
"""Every fit. Constants that were measured by themselves are not free. No row of another device, under sustained load or
of a whole prompt is ever fitted, so all of those are out of sample."""


@dataclass(frozen=True)
class Fitted:
    """Outcome of one fit."""

    fit: Fit
    rows: int
    groups: int
    values: dict[str, float]
    """Proposed value of each constant."""
    at_file: np.ndarray
    """Errors of the rows with the values of the device file, float (rows,)."""
    in_sample: np.ndarray
    """The same with the proposed values."""
    out_of_sample: np.ndarray
    """The same, each row predicted by a fit without its group; empty where the other groups do not suffice."""


def run(fit: Fit, cases: Sequence[Case]) -> Fitted | None:
    """One fit over its rows out of ``cases``; None if there are fewer rows than constants."""
    own = fit.cases(cases)
    if len(own) < len(fit.constants):
        return None
    device = load_device(fit.device)
    values = solve(own, device, fit.constants)
    fitted = device.with_values(**values)
    return Fitted(
        fit,
        len(own),
        len({group(case) for case in own}),
        values,
        np.array([case.error(device) for case in own]),
        np.array([case.error(fitted) for case in own]),
        np.array([error for held_out, train in splits(own, fit) for error in _errors(held_out, train, device, fit)]),
    )


def group(case: Case) -> Hashable:
    """Rows of one group measure the same thing, so one of them gives the others away."""
    return case.subject  # type: ignore[return-value]


def splits(cases: Sequence[Case], fit: Fit) -> list[tuple[list[Case], list[Case]]]:
    """``(held out, train)``: each group once, as long as the others are at least as many rows as constants."""
    groups = dict.fromkeys(group(case) for case in cases)
    found = []
    for key in groups:
        train = [case for case in cases if group(case) != key]
        if len(train) >= len(fit.constants):
            found.append(([case for case in cases if group(case) == key], train))
    return found


def _errors(held_out: Sequence[Case], train: Sequence[Case], device: Device, fit: Fit) -> list[float]:
    fitted = device.with_values(**solve(train, device, fit.constants))
    return [case.error(fitted) for case in held_out]


def solve(
    cases: Sequence[Timed], device: Device, names: Sequence[str], weights: np.ndarray | float = 1.0
) -> dict[str, float]:
    """The values of ``names`` within their ranges that fit the rows best, all else as the device says.

    ``weights`` (one a row) multiply the logarithm of predicted over measured.

    Raises:
        ConfigError: a constant that cannot vary.
    """
    ranges = [device.constants[name] for name in names]
    for name, constant in zip(names, ranges, strict=True):
        if constant.low >= constant.high:
            raise ConfigError(f"constant {name} cannot be fitted: low = high = {constant.low:g}")
    low = np.array([constant.low for constant in ranges], float)
    span = np.array([constant.high for constant in ranges]) - low
    start = (np.array([constant.value for constant in ranges]) - low) / span

    def values(x: np.ndarray) -> dict[str, float]:
        return {name: float(v) for name, v in zip(names, low + span * np.clip(x, 0.0, 1.0), strict=True)}

    def residuals(x: np.ndarray) -> np.ndarray:
        moved = device.with_values(**values(x))
        return weights * np.log([case.ratio(moved) for case in cases])

    found = least_squares(residuals, np.clip(start, 0.01, 0.99), bounds=(0.0, 1.0), diff_step=[1e-3] * len(names))
    return values(found.x)
