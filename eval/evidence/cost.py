"""Wall time that a decision takes on this machine, beside the constant that the simulation charges."""

from __future__ import annotations

import pandas as pd

from eval.decision_cost import LANES, act_us
from eval.evidence.context import Context
from eval.evidence.marks import Series, draw_dots
from eval.theme import Drawing


def cost_frame(context: Context) -> pd.DataFrame:
    """A row a scheduler: us of a decision for a single lane, for each of many lanes at once, and charged."""
    rows = []
    for outcome in context.shown:
        scheduler, tables = context.scheduler(outcome.scheduler), outcome.tables
        lanes = min(LANES, len(tables.settings) * tables.seeds[1])
        row = {"scheduler": outcome.scheduler, "single_us": act_us(scheduler, tables, 1)}
        row |= {"batched_us": act_us(scheduler, tables, lanes)}
        rows.append(row | {"charged_us": float(tables.config["decision_ns"][0]) / 1e3})
    return pd.DataFrame(rows)


def draw_cost(frame: pd.DataFrame) -> Drawing:
    """Three dots a scheduler on a logarithmic axis."""
    series = [
        Series("one lane", "single_us", "hvx", "o"),
        Series("a lane of many", "batched_us", "dma", "s"),
        Series("charged", "charged_us", "hmx", "D"),
    ]
    return draw_dots(frame, series, "us a decision", log=True)
