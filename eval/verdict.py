"""One sentence a scenario that says who is better, from the numbers alone."""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

import pandas as pd

from eval.summary import is_learned, learned_in
from eval.table import number, percent


def verdict(summary: pd.DataFrame) -> str:
    """The learned policy against the best rule; without it, the best rule against the reference."""
    rows = {str(row["scheduler"]): row for row in summary.to_dict("records")}
    scenario, best, reference = (str(summary[name].iloc[0]) for name in ("scenario", "best_rule", "reference"))
    learned = learned_in(rows)
    if learned is not None and not is_learned(best):
        name, other, prefix = learned, best, "vs_best_rule"
        subject, against = "the learned policy", f"the best rule ({best})"
    else:
        name, other, prefix = best, reference, "vs_reference"
        subject, against = f"the best scheduler ({best})", reference
    if name == other:
        return f"On {scenario}, {name} has the highest return of all that ran."
    row, beside = rows[name], rows[other]
    low, high = row[f"{prefix}_low"], row[f"{prefix}_high"]
    return (
        f"On {scenario}, {subject} {_relation(low, high)} {against}: {row[prefix]:+.1f} ms of reference work an "
        f"episode ({_interval_text(low, high, row)}), at throughput "
        f"{number(row['throughput'], 3)} against {number(beside['throughput'], 3)} and {percent(row['miss_rate'])} % "
        f"against {percent(beside['miss_rate'])} % missed deadlines."
    )


def _interval_text(low: float, high: float, row: dict[Hashable, Any]) -> str:
    """The interval and what it is over."""
    seeds, episodes = int(row["train_seeds"]), f"{row['episodes']} episodes"
    over = f"{seeds} training seeds x {episodes}" if seeds > 1 else episodes
    text = f"95 % paired interval {low:+.1f} to {high:+.1f} over {over}"
    return f"{text}; 1 training seed: no interval over seeds" if seeds == 1 else text


def _relation(low: float, high: float) -> str:
    """What an interval of a difference says."""
    if low > 0.0:
        return "beats"
    if high < 0.0:
        return "loses to"
    return "does not differ clearly from"
