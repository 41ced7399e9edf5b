"""What a full report leaves beside its page: CSV, Parquet, a summary in Markdown, and every chart for a paper."""

from __future__ import annotations

import importlib.util
import re
import shlex
from collections.abc import Mapping
from io import BytesIO
from typing import TYPE_CHECKING

import pandas as pd

from eval.report import Report
from eval.table import number, trade_off_markdown
from eval.theme import files_of, styled
from hexenv.files import csv_text

if TYPE_CHECKING:
    from eval.runner import Plan

CHARTS = "charts"
"""Folder for the pictures."""
MARKDOWN = "summary.md"


def files_beside(plan: Plan, report: Report, results: Mapping[str, pd.DataFrame]) -> dict[str, str | bytes]:
    """Files beside the page, by name: a CSV a piece of evidence, all tables as Parquet, and the summary.

    ``results`` are the frames of the evaluation's own CSV files, by stem. Parquet needs ``pyarrow`` and is left out
    without it.
    """
    files: dict[str, str | bytes] = {f"{stem}.csv": csv_text(frame) for stem, frame in report.frames.items()}
    if importlib.util.find_spec("pyarrow") is not None:
        for stem, frame in {**results, **report.frames}.items():
            buffer = BytesIO()
            frame.to_parquet(buffer, engine="pyarrow", index=False)
            files[f"{stem}.parquet"] = buffer.getvalue()
    return files | {MARKDOWN: _markdown(plan, report, results["summary"])}


def pictures(report: Report) -> dict[str, str | bytes]:
    """Every chart as PNG and SVG: ``<scenario>-<chart>.png``."""
    scenarios = list(report.notes)
    found: dict[str, str | bytes] = {}
    with styled():
        for chart in report.charts:
            found |= {
                f"{_stem(chart.name, scenarios)}.{ending}": data for ending, data in files_of(chart.drawing).items()
            }
    return found


def _stem(name: str, scenarios: list[str]) -> str:
    section, chart = name.split("-", 1)
    return f"{re.sub(r'[^A-Za-z0-9_.-]', '_', scenarios[int(section[1:])])}-{chart}"


def _markdown(plan: Plan, report: Report, summary: pd.DataFrame) -> str:
    """Verdicts, the trade-off table and the ladders."""
    scenarios = list(report.notes)
    lines = ["# Evaluation", ""]
    for scenario, notes in report.notes.items():
        lines += [f"## {scenario}", "", *(line for note in notes for line in (note, ""))]
        ladder = report.frames.get("ladder")
        if ladder is not None and (ladder["scenario"] == scenario).any():
            lines += _ladder(ladder[ladder["scenario"] == scenario])
        lines += [
            f"![{chart.heading}]({CHARTS}/{_stem(chart.name, scenarios)}.png)"
            for chart in report.charts
            if _stem(chart.name, scenarios).startswith(f"{scenario}-trade-off")
        ]
        lines += [""]
    lines += ["## All scenarios", "", trade_off_markdown(summary), "", "## How to repeat this", ""]
    return "\n".join([*lines, f"    {shlex.join(['python', '-m', 'eval', *plan.command])}", ""])


def _ladder(frame: pd.DataFrame) -> list[str]:
    lines = [
        "| adds | scheduler | return | step [95 % paired] | throughput | missed, points |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for row in frame.to_dict("records"):
        step = "-"
        if not pd.isna(row["return_step"]):
            step = f"{row['return_step']:+.1f} [{row['return_step_low']:+.1f}, {row['return_step_high']:+.1f}]"
        figures = f"{_signed(row['throughput_step'], 3)} | {_signed(100.0 * row['miss_rate_step'], 1)}"
        lines.append(f"| {row['adds']} | `{row['scheduler']}` | {number(row['return'], 1)} | {step} | {figures} |")
    return [*lines, ""]


def _signed(value: float, digits: int) -> str:
    return "-" if pd.isna(value) else f"{value:+.{digits}f}"
