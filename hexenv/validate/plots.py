"""Plots as SVG or PNG bytes, readable in print: predicted against measured, and the strongest constants."""

from __future__ import annotations

import io
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from hexenv.errors import ConfigError
from hexenv.validate.rules import Case
from hexenv.validate.sensitivity import Effect

FORMATS = ("svg", "png")
MARKERS = "os^Dv<>PX*hp"
COLOURS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#000000", "#7f7f7f")
"""Okabe-Ito: told apart by colour-blind readers, and by grey value in print."""
TORNADO_BARS = 20
BAND = 0.25
"""Grey band around equality: the target for 90 % of the rows."""


def plot_format(path: Path) -> str:
    """Format by file name, or a ConfigError."""
    suffix = path.suffix.removeprefix(".").lower()
    if suffix not in FORMATS:
        raise ConfigError(f"plot file {str(path)!r}; allowed: a name that ends in .{' or .'.join(FORMATS)}")
    return suffix


def scatter(cases: Sequence[Case], file_format: str) -> bytes:
    """Predicted over measured time, log-log, a marker a family; open markers for other devices than v79."""
    axes, figure = _figure(6.2, 6.0)
    timed = [case for case in cases if case.family != "primitive"]
    measured = [case.predicted(unit="us") / case.ratio() for case in timed]
    ends = (0.6 * min(measured), 1.7 * max(measured))
    axes.fill_between(
        ends, [end * (1 - BAND) for end in ends], [end * (1 + BAND) for end in ends], color="#dddddd", lw=0
    )
    axes.plot(ends, ends, color="#555555", lw=0.8)
    for index, family in enumerate(sorted({case.family for case in timed})):
        style = {"marker": MARKERS[index % len(MARKERS)], "color": COLOURS[index % len(COLOURS)]}
        for filled in (True, False):
            chosen = [i for i, case in enumerate(timed) if case.family == family and (case.device == "v79") == filled]
            if chosen:
                axes.plot(
                    [measured[i] for i in chosen],
                    [timed[i].predicted(unit="us") for i in chosen],
                    ls="",
                    ms=6,
                    mfc=style["color"] if filled else "none",
                    label=family if filled else f"{family} (not v79)",
                    **style,
                )
    axes.set(
        xscale="log", yscale="log", xlim=ends, ylim=ends, xlabel="measured time (us)", ylabel="predicted time (us)"
    )
    axes.set_aspect("equal")
    axes.set_axisbelow(True)
    axes.grid(True, which="major", lw=0.3, color="#bbbbbb")
    axes.legend(fontsize=7, loc="upper left", frameon=True, framealpha=0.9)
    return _bytes(figure, file_format)


def tornado(effects: Sequence[Effect], file_format: str) -> bytes:
    """The constants with the largest effect, each on the prediction that it moves most."""
    strongest: dict[str, Effect] = {}
    for effect in effects:
        strongest.setdefault(effect.constant, effect)
    shown = list(strongest.values())[:TORNADO_BARS][::-1]
    axes, figure = _figure(8.0, 0.32 * len(shown) + 1.2)
    places = range(len(shown))
    axes.barh(places, [100 * e.at_low for e in shown], color=COLOURS[0], label="constant at its low end")
    axes.barh(places, [100 * e.at_high for e in shown], color=COLOURS[1], label="constant at its high end")
    axes.set_yticks(places, [f"{e.constant}\n{e.prediction}" for e in shown], fontsize=6)
    axes.axvline(0.0, color="#000000", lw=0.8)
    axes.set_xlabel("change of the predicted time (%)")
    axes.set_axisbelow(True)
    axes.grid(True, axis="x", lw=0.3, color="#bbbbbb")
    axes.legend(fontsize=7, loc="lower right")
    return _bytes(figure, file_format)


def _figure(width: float, height: float) -> tuple[Any, Any]:
    from matplotlib.figure import Figure  # imported late: half a second that most runs do not need

    figure = Figure(figsize=(width, height), layout="constrained")
    return figure.add_subplot(), figure


def _bytes(figure: Any, file_format: str) -> bytes:
    """The same bytes for the same figure: no date, no random names."""
    from matplotlib import rc_context

    content = io.BytesIO()
    metadata = {"Date": None} if file_format == "svg" else {}
    with rc_context({"svg.hashsalt": "hexenv"}):
        figure.savefig(content, format=file_format, dpi=150, metadata=metadata)
    return content.getvalue()
