"""The errors as a picture: how they are spread, one curve a kind of case."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import matplotlib
import numpy as np
from matplotlib.figure import Figure

from hexenv.errors import ConfigError
from hexenv.tilesim.cases import Measure

SHOWN = (
    ("alone", "end"),
    ("composite", "makespan"),
    ("join", "makespan"),
    ("stage of an episode", "end"),
    ("episode", "makespan"),
)
TARGET_MEDIAN, TARGET_P95 = 5.0, 15.0
"""Percent."""


def draw(measures: Sequence[Measure], file: Path) -> None:
    """Cumulative share of cases by absolute error, with the two targets.

    Raises:
        ConfigError: neither a .png nor a .svg file.
    """
    if file.suffix not in (".png", ".svg"):
        raise ConfigError(f"--plot {file}: allowed: a .png or .svg file")
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    for kind, quantity in SHOWN:
        errors = np.sort([100 * abs(m.error) for m in measures if (m.kind, m.quantity) == (kind, quantity)])
        if errors.size:
            axes.plot(errors, np.arange(1, errors.size + 1) / errors.size, label=f"{kind}: {quantity} ({errors.size})")
    axes.plot([TARGET_MEDIAN, TARGET_P95], [0.5, 0.95], "kx", label="targets: median 5 %, 95th percentile 15 %")
    axes.set(xlabel="error of the fluid engine against tiles, %", ylabel="share of cases", xlim=(0, 40), ylim=(0, 1))
    axes.grid(alpha=0.3)
    axes.legend(loc="lower right")
    with matplotlib.rc_context({"svg.hashsalt": "tilesim"}):
        figure.savefig(file, dpi=150, metadata={"Date": None} if file.suffix == ".svg" else None)
