"""One sentence a scenario that says who is better, from the numbers alone."""

from __future__ import annotations

import pandas as pd

from eval.summary import LEARNED
from eval.table import number, percent


def verdict(summary: pd.DataFrame) -> str:
    """The verdict on one scenario's summary rows: the learned policy against the best rule, else rule against reference."""
    rows = summary.set_index("scheduler")
    scenario, best, reference = (str(summary[name].iloc[0]) for name in ("scenario", "best_rule", "reference"))
    if LEARNED in rows.index and best != LEARNED:
        row, other, prefix = rows.loc[LEARNED], rows.loc[best], "vs_best_rule"
        subject, against = "the learned policy", f"the best rule ({best})"
    else:
        row, other, prefix = rows.loc[best], rows.loc[reference], "vs_reference"
        subject, against = f"the best scheduler ({best})", reference
    if row.name == other.name:
        return f"On {scenario}, {row.name} has the highest return of all that ran."
    change, low, high = row[prefix], row[f"{prefix}_low"], row[f"{prefix}_high"]
    return (
        f"On {scenario}, {subject} {_relation(low, high)} {against}: {change:+.1f} ms of reference work an episode "
        f"(95 % paired interval {low:+.1f} to {high:+.1f}, {row['episodes']} episodes), at throughput "
        f"{number(row['throughput'], 3)} against {number(other['throughput'], 3)} and {percent(row['miss_rate'])} % "
        f"against {percent(other['miss_rate'])} % missed deadlines."
    )


def _relation(low: float, high: float) -> str:
    if low > 0.0:
        return "beats"
    if high < 0.0:
        return "loses to"
    return "does not differ clearly from"
