"""What came out of a calibration: predicted against logged, constants found, and what the log says nothing about."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import numpy as np
import pandas as pd

from hexenv.calibrate.calibration import NOTHING, Calibration
from hexenv.calibrate.observations import Observation
from hexenv.validate.tables import Table, percent

CLOCK_SPREAD = 0.05
"""Spread of the core clock above which a log is called uneven."""


def _observations(calibration: Calibration) -> Iterator[Observation]:
    for part in calibration.parts:
        yield from part.observations


def comparison_frame(calibration: Calibration) -> pd.DataFrame:
    """A row a distinct operator or batch size: logged time, predicted with base and fitted constants."""
    rows = [
        {
            "what": one.what,
            "engine": _engine(one),
            "rows": one.rows,
            "logged_us": one.us,
            "base_us": one.predicted(calibration.base),
            "fitted_us": one.predicted(calibration.device),
            "base_error": one.ratio(calibration.base) - 1.0,
            "fitted_error": one.ratio(calibration.device) - 1.0,
        }
        for one in _observations(calibration)
    ]
    columns = ("what", "engine", "rows", "logged_us", "base_us", "fitted_us", "base_error", "fitted_error")
    return pd.DataFrame(rows, columns=list(columns))


def _engine(one: Observation) -> str:
    return "host" if one.operator is None else one.version.name


def comparison_table(calibration: Calibration) -> Table:
    """The same for people, largest share of the logged time first."""
    base, fitted = calibration.base, calibration.device
    rows = [
        (
            *(one.what, _engine(one), str(one.rows), f"{one.us:.4g}"),
            *(f"{one.predicted(base):.4g}", percent(one.ratio(base) - 1.0)),
            *(f"{one.predicted(fitted):.4g}", percent(one.ratio(fitted) - 1.0)),
        )
        for one in sorted(_observations(calibration), key=lambda one: -one.rows * one.us)
    ]
    columns = ("what", "engine", "rows", "logged us", f"{base.name} us", "error", "fitted us", "error")
    return Table("Predicted against logged (error: + = the model is slower than the device)", columns, rows, left=2)


def constants_table(calibration: Calibration) -> Table:
    """Facts and fitted constants beside the base device."""
    device, base = calibration.device, calibration.base
    rows = [
        (name, f"{base.constants[name].value:.0f}", str(value), device.constants[name].unit, "as logged", "", "C")
        for name, value in calibration.facts.items()
    ]
    for one in calibration.estimates:
        old, new = base.constants[one.name], device.constants[one.name]
        outside = "" if old.low <= one.value <= old.high else " (outside the base's range)"
        rows.append(
            (
                *(one.name, f"{old.value:g}", f"{one.value:.4g}", new.unit),
                *(f"{one.low:.4g} to {one.high:.4g}{outside}", f"{one.observations} ({one.rows} rows)", new.confidence),
            )
        )
    columns = ("constant", base.name, "log", "unit", "95 % interval", "operators", "confidence")
    return Table("Constants that the log gives", columns, rows)


def refused_table(calibration: Calibration) -> Table:
    """Constants that the log does not give, by reason; those it says nothing about last."""
    reasons: dict[str, list[str]] = defaultdict(list)
    for name, why in calibration.refused.items():
        reasons[why].append(name)
    ordered = sorted(reasons.items(), key=lambda item: (item[0] == NOTHING, item[1]))
    return Table("Constants that it does not give", ("constant", "why"), [(", ".join(n), why) for why, n in ordered], 2)


def left_out_table(calibration: Calibration) -> Table:
    """Operators of the log that the model has no time for."""
    total = sum(op.usec for op in calibration.log.ops)
    rows = [
        (what, str(rows), f"{us / 1e3:.2f}", percent(us / total)[1:] if total else "", why)
        for what, rows, us, why in calibration.observed.left_out
    ]
    return Table("Operators left out", ("what", "rows", "logged ms", "share", "why"), rows)


def summary(calibration: Calibration) -> str:
    """What was read, how even the clock was, and how well the constants fit."""
    log = calibration.log
    counts = ", ".join(f"{count} {key}" for key, count in sorted(log.counts.items()))
    lines = [f"{log.file}: {log.lines} lines; messages: {counts or 'none'}; {len(log.ops)} operators"]
    clocks = calibration.observed.clocks_mhz
    if len(clocks):
        low, middle, high = np.quantile(clocks, (0.1, 0.5, 0.9))
        uneven = "; uneven, so the constants mix several clocks" if high - low > CLOCK_SPREAD * middle else ""
        lines.append(f"core clock {middle:.0f} MHz (80 % of the operators between {low:.0f} and {high:.0f}{uneven})")
    for part in calibration.parts:
        if part.observations:
            lines.append(
                f"{part.name}: {len(part.observations)} distinct, {len(part.estimates)} constants fitted, "
                f"residual {100 * part.residual:.1f} % rms"
            )
    return "\n".join(lines)
