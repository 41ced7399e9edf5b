"""The page of a study: question, method, answer in figures, picture, and the whole table."""

from __future__ import annotations

import pandas as pd

from eval.studies.study import EPISODES, Study
from eval.table import interval_text, number, percent


def page(study: Study, frame: pd.DataFrame) -> str:
    """Markdown, from a summary alone."""
    episodes = int(frame["episodes"].iloc[0])
    count = "" if episodes == EPISODES else f" --episodes {episodes}"
    return f"""# {study.question}

`python -m eval.studies {study.name}{count}` plays this study and writes this page, its picture and its data:
[a row an entry and cell]({study.name}.csv), [a row an episode]({study.name}_episodes.csv). All entries of a cell
play the same {episodes} held-out episodes on `v79`; intervals are 95 %, paired by episode.

{study.method.strip()}

## Answer

{study.answer(frame).strip()}

![{study.question}](../img/study_{study.name}.svg)

## All figures

Return is ms of reference work an episode; gains are differences to the entry named, in the same cell.

{_table(study, frame)}
"""


def _table(study: Study, frame: pd.DataFrame) -> str:
    labels = list(frame.columns[: frame.columns.get_loc("entry")])
    heads = [
        *(label.replace("_", " ") for label in labels),
        "entry",
        "return",
        "throughput",
        "misses",
        "HVX",
        "HMX",
        "against",
    ]
    heads += ["return gained", "misses gained, points"]
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * (len(labels) + 1)}{' ---: |' * 5} --- |{' ---: |' * 2}"]
    for _, row in frame.iterrows():
        cells = [f"{row[label]:g}" if isinstance(row[label], float) else str(row[label]) for label in labels]
        cells += [
            row["entry"],
            number(row["return"], 1),
            number(row["throughput"], 3),
            f"{percent(row['miss_rate'])} %",
        ]
        cells += [f"{percent(row[name], 0)} %" for name in ("hvx_busy", "hmx_busy")]
        cells += (
            ["", "", ""] if pd.isna(row["return_gain"]) else [row["versus"], gain(row), gain(row, "miss_rate", 100.0)]
        )
        lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


def gain(row: pd.Series, figure: str = "return", scale: float = 1.0) -> str:
    """A gain with its interval."""
    value, low, high = (scale * float(row[f"{figure}_{end}"]) for end in ("gain", "low", "high"))
    return interval_text(value, low, high)


def verdict(row: pd.Series, figure: str = "return") -> int:
    """1 if the gain is surely above 0, -1 if surely below, 0 if the interval holds 0."""
    return int(row[f"{figure}_low"] > 0.0) - int(row[f"{figure}_high"] < 0.0)


def tally(rows: pd.DataFrame, figure: str = "return") -> str:
    """``better in A, worse in B, undecided in C of N cells``."""
    signs = [verdict(row, figure) for _, row in rows.iterrows()]
    return (
        f"better in {signs.count(1)}, worse in {signs.count(-1)}, undecided in {signs.count(0)} of {len(signs)} cells"
    )
