"""A proxy for energy: busy time times a range of power. Nobody has published what each engine draws.

The only published figures are of a whole phone (Snapdragon 8 Gen 3) while it decodes: about 4.3 W with a 3B model,
below 5 W with a 1.5B model (arXiv 2509.23324, section 7.2.3). While a model decodes, DMA is busy nearly all the time.
So both of these agree with the measurement, and the range lies between them: all power goes with the time that DMA is
busy, at 4.3 W; or the phone draws 5 W throughout, whatever the engines do. Confidence D: another chip, no split by
engine.
"""

from __future__ import annotations

import re

import pandas as pd

from eval.theme import MARKERS, WIDTH_IN, Drawing, figure, light, scheduler_slots

LOW_W, HIGH_W = 4.3, 5.0
_HEXAGON = re.compile(r"v\d\d")


def is_known(device: str) -> bool:
    """Whether the published figures say anything about a device: it is a Hexagon."""
    return _HEXAGON.match(device) is not None


def energy_frame(summary: pd.DataFrame) -> pd.DataFrame:
    """A row a scheduler: the two ends of the range, mJ for a ms of reference work."""
    shown = summary[["scheduler"]].copy()
    shown["mj_low"] = LOW_W * summary["dma_busy"] / summary["throughput"]
    shown["mj_high"] = HIGH_W / summary["throughput"]
    return shown


def draw_energy(frame: pd.DataFrame) -> Drawing:
    """The range of each scheduler."""
    drawing = figure(WIDTH_IN, 0.75 + 0.25 * len(frame))
    axes = drawing.subplots()
    slots = scheduler_slots(list(frame["scheduler"]))
    for place, row in enumerate(frame.to_dict("records")):
        low, high, slot = row["mj_low"], row["mj_high"], slots[row["scheduler"]]
        ends = [low, high]
        (mark,) = axes.plot(
            ends, [place] * 2, MARKERS[slot], linestyle="-", linewidth=3, color=light(f"scheduler-{slot}"), markersize=5
        )
        drawing.note(mark, f"energy-{row['scheduler']}", f"{row['scheduler']}: {low:.2f} to {high:.2f} mJ")
    axes.set_yticks(range(len(frame)), frame["scheduler"])
    axes.tick_params(axis="y", labelcolor=light("ink"), length=0)
    axes.set_ylim(len(frame) - 0.5, -0.5)
    axes.set_xlim(left=0.0)
    axes.set_xlabel("mJ a ms of reference work (proxy)")
    axes.grid(True, axis="x", linewidth=0.6)
    return drawing
