"""Which constants a set of observations can tell apart, and how well.

Everything is relative: an elasticity is the change of the logarithm of a predicted time with the logarithm of a
constant. With weighted elasticities J of the fitted (free) constants and residuals of standard deviation s, their
covariance has two parts: s^2 (J'J)^-1 from the residuals, and from every constant that is held, since its value is only
known to lie in its range. A constant whose 95 % interval comes out wider than :data:`WIDEST` is not identified.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.stats import t as student

from hexenv.calibrate.observations import Observation
from hexenv.device import UNITS, Constant, Device

STEP = 1.01
"""Factor of the difference quotient."""
NO_EFFECT = 1e-3
"""Elasticity below which an observation says nothing about a constant."""
WIDEST = 0.5
"""Half-width of the widest interval that still counts, in the logarithm: about a factor of 1.6."""
COLLINEAR = 0.3
"""Smallest singular value of normalised columns below which some of them say nearly the same."""
TAKES_PART = 0.3
"""Weight of a constant in that singular direction."""
NOISE, ROUNDING_US = 0.03, 0.3
"""Scatter of a logged time: relative, and from whole microseconds. Only their proportion matters: residuals set the
scale."""
WHOLE = ("count", "bytes")
HIDDEN = "hidden: other work of the logged operators takes longer"
FAR = 10.0
"""Factor by which a constant moves to see whether anything depends on it at all."""


def fittable(observations: Sequence[Observation], device: Device) -> list[str]:
    """Constants that some observation depends on, at least if they were far larger or smaller; no counts, none of 0."""
    names = [name for name, unit in UNITS.items() if unit not in WHOLE and getattr(device, name) > 0.0]
    return [name for name in names if any(_depends(one, device, name) for one in observations)]


def _depends(one: Observation, device: Device, name: str) -> bool:
    ends = (dataclasses.replace(device, **{name: getattr(device, name) * factor}) for factor in (FAR, 1.0 / FAR))
    return any(one.ratio(end) != one.ratio(device) for end in ends)


def weights(observations: Sequence[Observation]) -> np.ndarray:
    """One over the scatter to expect of each logged time, in its logarithm, float (observations,)."""
    return np.array([1.0 / np.hypot(NOISE, ROUNDING_US / one.us) for one in observations])


def elasticities(observations: Sequence[Observation], device: Device, names: Sequence[str]) -> np.ndarray:
    """Float (observations, names)."""
    here = np.array([one.ratio(device) for one in observations])
    columns = np.empty((len(observations), len(names)))
    for i, name in enumerate(names):
        moved = dataclasses.replace(device, **{name: getattr(device, name) * STEP})
        columns[:, i] = np.log([one.ratio(moved) for one in observations] / here) / np.log(STEP)
    return columns


def doubt(constants: Mapping[str, Constant], names: Sequence[str]) -> np.ndarray:
    """Standard deviation of the logarithm of each constant, its range taken as two of them on either side."""
    spans = []
    for constant in (constants[name] for name in names):
        low = max(constant.low, constant.value / 10.0)
        spans.append(np.log(constant.high / low) / 4.0 if constant.high > low else 0.0)
    return np.array(spans)


@dataclass(frozen=True)
class Identified:
    """Outcome for one set of observations."""

    free: tuple[int, ...]
    """Columns that can be fitted together."""
    half_widths: np.ndarray
    """Of their 95 % intervals, in the logarithm."""
    noise: np.ndarray
    """Their standard errors from the residuals alone."""
    refused: Mapping[int, str]
    """Why each other column cannot."""


def identify(
    weighted: np.ndarray, names: Sequence[str], doubts: np.ndarray, scale: float, refused: Mapping[int, str]
) -> Identified:
    """Drop columns one at a time until all that are left are identified.

    ``weighted`` are weighted elasticities, float (observations, names); ``scale`` the standard deviation of weighted
    residuals. Columns of ``refused`` are held from the start. Of columns that say nearly the same, the one that moves
    the times least is held, and its range makes the others' intervals wider.
    """
    reasons = dict(refused)
    sizes = np.linalg.norm(weighted, axis=0)
    touched = np.abs(weighted).max(axis=0, initial=0.0) * NOISE >= NO_EFFECT
    for i in np.flatnonzero(~touched):
        reasons.setdefault(int(i), HIDDEN)
    free = [i for i in range(len(names)) if i not in reasons]
    held = [int(i) for i in np.flatnonzero(touched) if i not in free]
    while free:
        half, noise, carried = _half_widths(weighted, free, held, doubts, scale)
        if (half <= WIDEST).all():
            return Identified(tuple(free), half, noise, reasons)
        worst, why = _least_known(weighted[:, free] / sizes[free], half)
        group = [free[k] for k in worst]
        drop = min(group, key=lambda i: sizes[i])
        reasons[drop] = why.format(others=", ".join(names[i] for i in group if i != drop))
        leans = carried[free.index(drop)]
        if len(group) == 1 and np.linalg.norm(leans) > noise[free.index(drop)]:
            reasons[drop] += f": it leans on {names[held[int(np.argmax(np.abs(leans)))]]}"
        free.remove(drop)
        held.append(drop)
    return Identified((), np.zeros(0), np.zeros(0), reasons)


def _half_widths(
    weighted: np.ndarray, free: Sequence[int], held: Sequence[int], doubts: np.ndarray, scale: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Of the free columns: half-widths of the 95 % intervals, standard errors from residuals alone, both float (free,),
    and what the doubt about each held column adds, float (free, held)."""
    columns = weighted[:, list(free)]
    freedom = len(weighted) - len(free)
    if freedom < 1:
        return np.full(len(free), np.inf), np.full(len(free), np.inf), np.zeros((len(free), len(held)))
    inverse = np.linalg.pinv(columns, rcond=1e-10)
    noise = scale * np.linalg.norm(inverse, axis=1)
    if np.linalg.matrix_rank(columns) < len(free):
        noise = np.full(len(free), np.inf)
    carried = inverse @ (weighted[:, list(held)] * doubts[list(held)])
    half = np.hypot(student.ppf(0.975, freedom) * noise, 2.0 * np.linalg.norm(carried, axis=1))
    return half, noise, carried


def _least_known(normalised: np.ndarray, half: np.ndarray) -> tuple[list[int], str]:
    """Columns of which one has to go, and why: any, those that say nearly the same, or the least certain one."""
    rows, columns = normalised.shape
    if rows <= columns:
        return list(range(columns)), f"too few distinct observations ({rows}) for this one as well"
    _, values, directions = np.linalg.svd(normalised)
    members = [int(k) for k in np.flatnonzero(np.abs(directions[-1]) >= TAKES_PART)]
    if values[-1] < COLLINEAR and len(members) > 1:
        return members, f"collinear with {{others}} (smallest singular value {values[-1]:.2g})"
    worst = int(np.argmax(half))
    factor = f"{np.exp(half[worst]):.1f}" if half[worst] < np.log(FAR) else f"more than {FAR:.0f}"
    return [worst], f"known to a factor of {factor} only"
