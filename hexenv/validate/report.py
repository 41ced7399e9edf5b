"""Predicted against measured: a row each, and summaries by family and by device and generation."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from hexenv.device import load_device
from hexenv.validate.clock import SUSTAINED_CLOCK
from hexenv.validate.fit import Fitted
from hexenv.validate.rules import Case, Excluded
from hexenv.validate.tables import Table, percent

ENOUGH_ROWS = 10
"""With fewer rows a summary shows the errors themselves, no percentiles."""
TARGET_DEVICE, TARGET_GENERATION = "v79", "overlapped"
TARGET_MEDIAN, TARGET_P90 = 0.10, 0.25
NOT_OPERATORS = ("primitive", "dispatch")
"""Families that set a constant each and so say nothing about the model; no part of the target."""


def statistics(errors: Sequence[float]) -> dict[str, Any]:
    """Count, median and 90th percentile of the size, bias (median with sign) and the worst one."""
    found = np.array(errors, float)
    if not len(found):
        return {"rows": 0, "median": None, "p90": None, "bias": None, "worst": None}
    sizes = np.abs(found)
    return {
        "rows": len(found),
        "median": float(np.median(sizes)),
        "p90": float(np.quantile(sizes, 0.9)),
        "bias": float(np.median(found)),
        "worst": float(found[sizes.argmax()]),
    }


def target_cases(cases: Sequence[Case]) -> list[Case]:
    """Rows that the target is about: operators and models on v79 with the current pipeline."""
    return [
        case
        for case in cases
        if (case.device, case.generation) == (TARGET_DEVICE, TARGET_GENERATION) and case.family not in NOT_OPERATORS
    ]


def by_family(case: Case) -> str:
    """Heading of the summary by family."""
    return case.family


def by_device(case: Case) -> str:
    """Heading of the summary by device; what only sets constants apart."""
    if case.family in NOT_OPERATORS:
        return f"{case.device}, primitives and dispatch"
    return f"{case.device}, {case.generation}"


def summary(cases: Sequence[Case], key: Callable[[Case], str]) -> dict[str, dict[str, Any]]:
    """Statistics by heading, in alphabetical order."""
    errors: dict[str, list[float]] = {}
    for case in cases:
        errors.setdefault(key(case), []).append(case.error())
    return {heading: statistics(errors[heading]) for heading in sorted(errors)}


def row_table(cases: Sequence[Case]) -> Table:
    """A line a row."""
    ordered = sorted(cases, key=lambda case: (case.device, case.family, case.generation))
    return Table(
        "Predicted against measured (error of time: + = the model is slower than the device)",
        ("device", "family", "generation", "what", "predicted", "measured", "unit", "error"),
        [
            (
                *(case.device, case.family, case.generation, case.row.what),
                *(f"{case.predicted():.4g}", f"{case.row.value:.4g}", case.row.unit, percent(case.error())),
            )
            for case in ordered
        ],
        left=4,
    )


def summary_table(title: str, cases: Sequence[Case], key: Callable[[Case], str]) -> Table:
    """Median and 90th percentile by heading; the errors themselves where rows are few."""
    rows = []
    for heading, found in summary(cases, key).items():
        errors = [case.error() for case in cases if key(case) == heading]
        rows.append((heading, str(found["rows"]), *_spread(errors), percent(found["worst"])))
    return Table(title, (title.rsplit(" ", 1)[-1], "rows", "median", "90th percentile", "worst"), rows)


def _spread(errors: Sequence[float]) -> tuple[str, str]:
    """Median and 90th percentile of the size of errors, or the errors themselves where they are few."""
    if len(errors) < ENOUGH_ROWS:
        return f"{100 * float(np.median(np.abs(errors))):.1f} %", " ".join(f"{100 * e:+.1f}" for e in sorted(errors))
    found = statistics(errors)
    return f"{100 * found['median']:.1f} %", f"{100 * found['p90']:.1f} %"


def excluded_table(excluded: Sequence[Excluded]) -> Table:
    """How many rows each reason leaves out."""
    counts = Counter(one.reason for one in excluded).most_common()
    return Table("Rows not used", ("reason", "rows"), [(reason, str(count)) for reason, count in counts])


def excluded_rows_table(excluded: Sequence[Excluded]) -> Table:
    """Every row left out."""
    rows = [(one.row.where, one.row.what, one.reason) for one in excluded]
    return Table("Rows not used, one by one", ("row", "what", "reason"), rows, left=3)


def fit_table(results: Sequence[Fitted]) -> Table:
    """Rows, free constants, in-sample and out-of-sample errors side by side."""
    rows = []
    for result in results:
        out = " / ".join(_spread(result.out_of_sample.tolist())) if len(result.out_of_sample) else "too few groups"
        rows.append(
            (
                result.fit.name,
                str(result.rows),
                str(result.groups),
                str(len(result.fit.constants)),
                " / ".join(_spread(result.at_file.tolist())),
                " / ".join(_spread(result.in_sample.tolist())),
                out,
            )
        )
    return Table(
        "Fits: median / 90th percentile (or the errors, %) with the file's values, refitted, and on groups held out",
        ("fit", "rows", "groups", "free", "file", "in sample", "out of sample"),
        rows,
    )


def proposal_table(results: Sequence[Fitted]) -> Table:
    """Each constant's value in the device file beside the proposed one."""
    rows = []
    for result in results:
        for name, proposed in result.values.items():
            old = load_device(result.fit.device).constants[name]
            residual = float(np.sqrt(np.mean(np.log1p(result.in_sample) ** 2)))
            rows.append(
                (
                    *(result.fit.device, name, f"{old.value:.4g}", f"{proposed:.4g}", old.unit),
                    *(f"{old.low:.4g} to {old.high:.4g}", str(result.rows), f"{residual:.3f}"),
                )
            )
    return Table(
        "Proposed values",
        ("device", "constant", "file", "proposed", "unit", "range", "rows", "residual (rms of log)"),
        rows,
        left=2,
    )


def row_frame(cases: Sequence[Case]) -> pd.DataFrame:
    """Every row, for a CSV file."""
    rows = [
        {
            "file": case.row.file,
            "line": case.row.line,
            "source": case.row["source"],
            "device": case.device,
            "family": case.family,
            "generation": case.generation,
            "what": case.row.what,
            "unit": case.row.unit,
            "predicted": case.predicted(),
            "measured": case.row.value,
            "error": case.error(),
            "assumed": case.assume,
        }
        for case in cases
    ]
    return pd.DataFrame(rows)


def verdict(cases: Sequence[Case], excluded: Sequence[Excluded]) -> str:
    """How many rows were used, and the target where there are rows for it."""
    text = f"{_rows(len(cases))} used, {len(excluded)} left out."
    errors = [case.error() for case in target_cases(cases)]
    if not errors:
        return text
    found, slow = statistics(errors), statistics([case.error() for case in target_cases(at_sustained_clock(cases))])
    return (
        f"{text}\nTarget: median at most {100 * TARGET_MEDIAN:.0f} %, 90th percentile at most "
        f"{100 * TARGET_P90:.0f} %, over {_rows(found['rows'])} of {TARGET_DEVICE}, {TARGET_GENERATION}.\n"
        f"Found: {100 * found['median']:.1f} % and {100 * found['p90']:.1f} %; with rows under sustained load at "
        f"{SUSTAINED_CLOCK} of the peak core clock {100 * slow['median']:.1f} % and {100 * slow['p90']:.1f} %."
    )


def at_sustained_clock(cases: Sequence[Case]) -> list[Case]:
    """The cases, those under sustained load at :data:`SUSTAINED_CLOCK`."""
    return [dataclasses.replace(case, clock=SUSTAINED_CLOCK) if case.sustained else case for case in cases]


def clock_table(cases: Sequence[Case]) -> Table:
    """Rows of the target at the peak clock, and those under sustained load at the lower one."""
    rows = [
        (
            *(case.family, case.row.what, f"{case.row.value:.4g}", case.row.unit, percent(case.error())),
            percent(slow.error()) if slow.sustained else "",
        )
        for case, slow in zip(target_cases(cases), target_cases(at_sustained_clock(cases)), strict=True)
    ]
    title = f"Rows of the target: error at the peak core clock and, under sustained load, at {SUSTAINED_CLOCK} of it"
    return Table(title, ("family", "what", "measured", "unit", "error", f"at {SUSTAINED_CLOCK}"), rows, left=2)


def _target(cases: Sequence[Case]) -> dict[str, Any]:
    found = statistics([case.error() for case in target_cases(cases)])
    return {
        **found,
        "device": TARGET_DEVICE,
        "generation": TARGET_GENERATION,
        "median_limit": TARGET_MEDIAN,
        "p90_limit": TARGET_P90,
        "met": found["rows"] > 0 and found["median"] <= TARGET_MEDIAN and found["p90"] <= TARGET_P90,
    }


def as_dict(cases: Sequence[Case], excluded: Sequence[Excluded], results: Sequence[Fitted]) -> dict[str, Any]:
    """The summary for machines; the keys stay."""
    return {
        "rows": {"used": len(cases), "excluded": len(excluded)},
        "target": _target(cases),
        "target_at_sustained_clock": _target(at_sustained_clock(cases)),
        "families": summary(cases, by_family),
        "devices": summary(cases, by_device),
        "excluded": dict(Counter(one.reason for one in excluded).most_common()),
        "fits": [
            {
                "name": result.fit.name,
                "device": result.fit.device,
                "rows": result.rows,
                "groups": result.groups,
                "values": result.values,
                "file": statistics(result.at_file.tolist()),
                "in_sample": statistics(result.in_sample.tolist()),
                "out_of_sample": statistics(result.out_of_sample.tolist()),
            }
            for result in results
        ],
    }


def _rows(count: int) -> str:
    return f"{count} row" if count == 1 else f"{count} rows"
