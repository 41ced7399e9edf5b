"""The frame of every page: one HTML file that opens offline, for phone and desktop, light and dark."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from importlib import resources
from string import Template

import pandas as pd

from eval.summary import is_learned
from eval.theme import Drawing, css_variables, inline_svg


def page_html(title: str, subtitle: str, body: str, script: str = "") -> str:
    """A whole page around ``body`` (HTML); ``script`` is JavaScript that runs at its end."""
    return fragment(
        "page.html",
        title=escape(title),
        subtitle=escape(subtitle),
        colours=css_variables(),
        style=_text("page.css"),
        body=body,
        script=f"<script>\n{script}</script>" if script else "",
    )


def fragment(file: str, **fields: str) -> str:
    """A template of this package with its fields filled in; they are HTML already."""
    return Template(_text(file)).substitute(fields)


def script(*files: str) -> str:
    """JavaScript files of this package, one after the other."""
    return "\n".join(_text(file) for file in files)


def _text(file: str) -> str:
    return resources.files("eval").joinpath(file).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Chart:
    """A figure of a report with its words, its numbers and the command that makes it again."""

    name: str
    """Unique on the page; also the stem of its files."""
    heading: str
    text: str
    """What it shows and how to read it."""
    drawing: Drawing
    numbers: pd.DataFrame
    """What is drawn, as a table."""
    source: str
    """The CSV file that has the numbers in full precision."""
    wide: bool = False
    """It needs the width of the page; on a phone it scrolls."""


def chart_html(chart: Chart, command: str) -> str:
    """The figure, its text, and its numbers and command folded away."""
    svg = inline_svg(chart.drawing, chart.name, chart.heading)
    framed = f'<div class="scroll wide">{svg}</div>' if chart.wide else svg
    headings = [str(column).replace("_", " ") for column in chart.numbers.columns]
    rows = [[_cell_text(value) for value in row] for row in chart.numbers.itertuples(index=False)]
    return (
        f'<figure id="{chart.name}"><h3>{escape(chart.heading)}</h3>'
        f"{framed}<figcaption>{escape(chart.text)}</figcaption>"
        f"<details><summary>Numbers and how to repeat it</summary>{table_html(headings, rows)}"
        f"<p class=quiet>In full: <code>{escape(chart.source)}</code>, written by</p><pre>{escape(command)}</pre>"
        "</details></figure>"
    )


def _cell_text(value: object) -> str:
    if isinstance(value, float):
        return "-" if pd.isna(value) else f"{value:.4g}"
    return str(value)


def table_html(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column names the scheduler; the second line of a cell is printed small."""
    lines = [f"<tr>{''.join(f'<th scope=col>{escape(text)}</th>' for text in headings)}</tr>"]
    for row in rows:
        mark = ' class="learned"' if is_learned(row[0]) else ""
        lines.append(f"<tr{mark}>{''.join(f'<td>{_cell(text)}</td>' for text in row)}</tr>")
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _cell(text: str) -> str:
    first, _, second = text.partition("\n")
    return f"{escape(first)}<small>{escape(second)}</small>" if second else escape(first)
