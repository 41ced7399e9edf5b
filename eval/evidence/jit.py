"""What compiling fused kernels at run time costs: the same episodes with all built ahead, an empty and a full cache."""

from __future__ import annotations

import pandas as pd

from eval.evidence.context import Context
from eval.evidence.marks import Series, draw_dots
from eval.summary import paired
from eval.theme import Drawing
from hexenv.engine.layout import Mode

EPISODES = 24
"""At most so many."""
STATES = ("off", "cold", "warm")
"""All built ahead of time; an empty cache at the start of each episode; every combination in the cache."""


def jit_frame(context: Context) -> pd.DataFrame:
    """A row a scheduler of a fused mode: return, misses and throughput in each state, paired changes of the return.

    Returns in ms of reference work an episode; changes are to ``off``, with 95 % intervals.
    """
    fused = [o.scheduler for o in context.shown if int(o.tables.config["mode"][0]) in (Mode.FUSED, Mode.FUSED_SERIAL)]
    if not fused:
        return pd.DataFrame()
    games = [(name, context.tables(name, jit=state)) for name in fused for state in STATES]
    played = context.play(games, EPISODES)
    rows = []
    for place, name in enumerate(fused):
        own = dict(zip(STATES, played[len(STATES) * place :], strict=False))
        row: dict[str, object] = {"scheduler": name, "episodes": len(own["off"].episodes)}
        for state, outcome in own.items():
            frame = outcome.episodes
            row[f"{state}_return"] = float(frame["return"].mean())
            row[f"{state}_throughput"] = float(frame["credit_ms"].sum() / frame["simulated_ms"].sum())
            row[f"{state}_miss_rate"] = float(frame["misses"].sum() / max(frame["due"].sum(), 1))
            if state != "off":
                change = paired(outcome, own["off"], "return")
                row |= {f"{state}_change": change.value, f"{state}_low": change.low, f"{state}_high": change.high}
        rows.append(row)
    return pd.DataFrame(rows)


def draw_jit(frame: pd.DataFrame) -> Drawing:
    """Change of the return with a cold and with a warm cache."""
    series = [
        Series("cold", "cold_change", "hvx", "o", "cold_low", "cold_high"),
        Series("warm", "warm_change", "hmx", "s", "warm_low", "warm_high"),
    ]
    return draw_dots(frame, series, "change of the return, ms an episode")
