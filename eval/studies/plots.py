"""The pictures of the studies: lines with 95 % intervals, an entry a colour."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from io import BytesIO
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from eval.theme import MARKERS, Figure, light, styled


def lines(
    axes: Axes,
    frame: pd.DataFrame,
    x: str,
    y: str,
    colours: Mapping[str, int],
    scale: float = 1.0,
    apart: Sequence[object] = (),
) -> None:
    """A line an entry over the values of ``x``, evenly spaced; where ``y`` is a ``..._gain``, with its interval.

    ``apart`` are values that are not joined to the line.
    """
    places = {value: i for i, value in enumerate(frame[x].unique())}
    for entry, slot in colours.items():
        own = frame[frame["entry"] == entry]
        shift = 0.05 * (slot - (len(colours) - 1) / 2)
        style: dict[str, Any] = {"color": light(f"scheduler-{slot}"), "marker": MARKERS[slot], "markersize": 4.5}
        for rows, extra in (
            (own[~own[x].isin(apart)], {"linewidth": 1.2, "label": entry}),
            (own[own[x].isin(apart)], {"linestyle": "none"}),
        ):
            at, values = rows[x].map(places).to_numpy(np.float64) + shift, scale * rows[y].to_numpy()
            axes.errorbar(at, values, yerr=_ends(rows, y, scale), capsize=2.0, **style, **extra)
    axes.set_xticks([*places.values()], [f"{v:g}" if isinstance(v, float) else str(v) for v in places])
    axes.set_xlabel(x.replace("_mib", ", MiB").replace("vtcm", "VTCM").replace("contexts", "HVX contexts"))
    axes.grid(axis="y")
    if y.endswith("_gain"):
        axes.axhline(0.0, color=light("muted"), linewidth=0.8)


def _ends(rows: pd.DataFrame, y: str, scale: float) -> np.ndarray | None:
    """Lengths of the interval below and above the values (2, n); None for a figure without one."""
    if not y.endswith("_gain"):
        return None
    base, values = y.removesuffix("gain"), rows[y].to_numpy()
    below, above = values - rows[f"{base}low"].to_numpy(), rows[f"{base}high"].to_numpy() - values
    return np.maximum(scale * np.array([below, above]), 0.0)


def slots(entries: Sequence[str]) -> dict[str, int]:
    """A colour and marker an entry, in their order."""
    return {entry: i for i, entry in enumerate(entries)}


def svg(drawing: Figure) -> bytes:
    """The picture's file on a plain background."""
    buffer = BytesIO()
    with styled():
        drawing.savefig(buffer, format="svg", metadata={"Date": None, "Creator": None}, facecolor=light("surface"))
    return buffer.getvalue()
