"""The ladder: what each mechanism adds to the one below it, with paired intervals."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import pandas as pd

from agents.policy import POLICIES
from eval.play import Outcome
from eval.summary import paired
from eval.theme import WIDTH_IN, Drawing, figure, light

_RUNGS: tuple[tuple[str, tuple[str, ...]], ...] = (
    ("one stage at a time", ("serial",)),
    ("legal concurrency", ("concurrent",)),
    ("online scheduling, no fusion", ("online_unfused",)),
    ("fusion in static pairs", ("static_pairs",)),
    ("pairs chosen online", ("online_pairs",)),
    ("versions chosen too", ("online_versions", "slack_gate")),
    ("deadlines chosen too", ("triage_gate",)),
    ("learned policy", POLICIES),
)
"""What a rung adds, and who stands for it: the first that ran (`online_versions` and `slack_gate` are one rule)."""
_FIGURES = ("return", "throughput", "miss_rate")


def rungs_of(outcomes: Sequence[Outcome]) -> list[tuple[str, Outcome]]:
    """The rungs that ran, from the lowest up: what each adds and its outcome."""
    by_name = {outcome.scheduler: outcome for outcome in outcomes}
    found = [(adds, next((by_name[name] for name in names if name in by_name), None)) for adds, names in _RUNGS]
    return [(adds, outcome) for adds, outcome in found if outcome is not None]


def ladder_frame(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """A row a rung of one scenario: its figures and their paired differences to the rung below, 95 % intervals.

    Returns in ms of reference work an episode. The lowest rung has no differences.
    """
    rows = []
    below: Outcome | None = None
    for adds, outcome in rungs_of(outcomes):
        row: dict[str, object] = {"adds": adds, "scheduler": outcome.scheduler}
        row |= {"above": "" if below is None else below.scheduler}
        row |= {"return": float(outcome.episodes["return"].mean())}
        for name in _FIGURES:
            ends = [np.nan] * 3
            if below is not None:
                step = paired(outcome, below, name)
                ends = [step.value, step.low, step.high]
            row |= dict(zip((f"{name}_step", f"{name}_step_low", f"{name}_step_high"), ends, strict=True))
        rows.append(row)
        below = outcome
    return pd.DataFrame(rows)


def draw_ladder(frame: pd.DataFrame) -> Drawing:
    """A waterfall of returns from rung to rung; one scenario's rows."""
    drawing = figure(WIDTH_IN, 0.7 + 0.48 * len(frame))
    axes = drawing.subplots()
    before = float("nan")
    for place, row in enumerate(frame.to_dict("records")):
        value, step = row["return"], row["return_step"]
        low, high = row["return_step_low"], row["return_step_high"]
        text = f"{value:.1f}"
        if place == 0:
            (mark,) = axes.plot(value, place, "o", color=light("ink"), markersize=6)
        else:
            clear = low > 0.0 or high < 0.0
            colour = light(("gain" if step > 0.0 else "loss") if clear else "unclear")
            (mark,) = axes.barh(place, step, left=before, height=0.42, color=colour)
            axes.plot([before + low, before + high], [place, place], color=light("ink"), linewidth=1.2)
            axes.plot(
                [before, before], [place - 0.79, place + 0.21], color=light("muted"), linewidth=0.7, linestyle=":"
            )
            text = f"{step:+.1f}"
        drawing.note(mark, f"rung-{row['scheduler']}", _note(row))
        # Beside the bar, on the side away from the rung above, so that it covers neither bar nor whisker.
        right = place == 0 or step >= 0.0
        edge = value if place == 0 else max(value, before + high) if right else min(value, before + low)
        axes.annotate(
            text,
            (edge, place),
            xytext=(7 if right else -7, 0),
            textcoords="offset points",
            ha="left" if right else "right",
            va="center",
            fontsize=8.5,
        )
        before = value
    for place, row in enumerate(frame.to_dict("records")):
        text = f"{'+ ' if place else ''}{row['adds']} ({row['scheduler']})"
        axes.text(0.0, place - 0.3, text, transform=axes.get_yaxis_transform(), va="bottom", fontsize=8.5)
    axes.set_yticks([])
    axes.spines["left"].set_visible(False)
    axes.set_ylim(len(frame) - 0.55, -0.75)
    low, high = axes.dataLim.intervalx
    axes.set_xlim(low - 0.14 * (high - low), high + 0.2 * (high - low))
    axes.set_xlabel("return, ms of reference work an episode")
    axes.grid(True, axis="x", linewidth=0.6)
    return drawing


def _note(row: dict[Hashable, Any]) -> str:
    head = f"{row['scheduler']}: return {row['return']:.1f}"
    if np.isnan(row["return_step"]):
        return head
    return (
        f"{head}, {row['return_step']:+.1f} [{row['return_step_low']:+.1f}, {row['return_step_high']:+.1f}] to "
        f"{row['above']}; throughput {row['throughput_step']:+.3f}; missed {100 * row['miss_rate_step']:+.1f} points"
    )
