"""Colours of the report in light and dark, and figures as inline SVG whose colours follow the page.

Figures are drawn in the light colours; each known colour in the SVG then becomes a CSS variable with that name, so the
page switches all charts with one media query. Scheduler colours differ in lightness as well as hue, and each scheduler
has its own marker, so that no figure depends on colour vision.
"""

from __future__ import annotations

import re
from contextlib import AbstractContextManager
from html import escape
from io import BytesIO, StringIO
from typing import Any

from matplotlib import rc_context
from matplotlib.artist import Artist
from matplotlib.figure import Figure

from eval.summary import learned_in

COLOURS: dict[str, tuple[str, str]] = {
    "ink": ("#1b1f24", "#e6e8eb"),
    "muted": ("#59626d", "#a3acb7"),
    "grid": ("#dce0e5", "#333a42"),
    "surface": ("#fefefe", "#1a1d21"),
    "miss": ("#c0182c", "#ff6b78"),
    "scheduler-0": ("#0072b2", "#4fb0f0"),
    "scheduler-1": ("#3d434b", "#c9cfd6"),
    "scheduler-2": ("#d55e00", "#ff8b4a"),
    "scheduler-3": ("#00886a", "#3fd0a8"),
    "scheduler-4": ("#b3458c", "#f08cc8"),
    "scheduler-5": ("#b58900", "#e8c044"),
    "scheduler-6": ("#8c5a3c", "#c99a78"),
    "scheduler-7": ("#9299a3", "#78818c"),
    "stream-0": ("#9ecae9", "#2f6f9f"),
    "stream-1": ("#ffbf79", "#a8641a"),
    "stream-2": ("#a3d9a5", "#2f7d4f"),
    "stream-3": ("#d4a6c8", "#8a4f7d"),
    "stream-4": ("#f2cf5b", "#8a7412"),
    "stream-5": ("#9ad6cf", "#2d7d76"),
    "stream-6": ("#e6a5a0", "#9a4a45"),
    "stream-7": ("#c3b59e", "#6f6249"),
    "hvx": ("#4f7fc9", "#7aa5ff"),
    "hmx": ("#d9703f", "#ff9a68"),
    "dma": ("#2a9d7c", "#54c9a6"),
    "hvx-2": ("#aac3ec", "#46639c"),
    "hmx-2": ("#8f3a12", "#c25a2c"),
    "hmx-3": ("#f0b594", "#8a5238"),
    "dma-2": ("#7cc7ae", "#35806a"),
    "dma-3": ("#c4e5da", "#28574a"),
    "empty": ("#f1f3f5", "#24292e"),
    "gain": ("#1f8a54", "#4cc38a"),
    "loss": ("#c8553d", "#ff8a70"),
    "unclear": ("#8b949f", "#7a838e"),
}
"""Name -> (light, dark). The light colours are all different, since they are replaced by value."""

WIDTH_IN = 4.1
"""Width of a chart: on a phone its text is about as large as the page's small print."""
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "*")
_PREFERRED = ("serial", "greedy_pair", "slack_gate", "greedy_versions", "concurrent", "edf", "random")
_UNDATED = {"Date": None, "Creator": None}
_RC = {
    "svg.fonttype": "none",
    "svg.hashsalt": "hexenv",
    "font.size": 9.0,
    "axes.titlesize": 9.5,
    "axes.titlelocation": "left",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.axisbelow": True,
}


def light(name: str) -> str:
    """The colour to draw with."""
    return COLOURS[name][0]


def scheduler_slots(names: list[str]) -> dict[str, int]:
    """A colour and marker number for each scheduler: the known ones keep theirs, others take the free ones."""
    preferred = (learned_in(names), *_PREFERRED)
    known = {name: preferred.index(name) for name in names if name in preferred}
    free = [slot for slot in range(len(MARKERS)) if slot not in known.values()] or list(range(len(MARKERS)))
    others = [name for name in names if name not in known]
    return known | {name: free[i % len(free)] for i, name in enumerate(others)}


def css_variables() -> str:
    """The style rules that define every colour, light and dark."""
    day, night = ("".join(f"--{name}:{pair[i]};" for name, pair in COLOURS.items()) for i in (0, 1))
    return f":root{{{day}}}\n@media (prefers-color-scheme: dark){{:root{{{night}}}}}"


class Drawing(Figure):
    """A figure whose marks have names and notes."""

    notes: dict[str, str]
    """What a page shows when a reader points at a mark, by the mark's name."""

    def note(self, mark: Artist, name: str, text: str) -> None:
        """Name a mark, unique in this figure, and say what it stands for."""
        mark.set_gid(name)
        self.notes[name] = text


def figure(width_in: float, height_in: float) -> Drawing:
    """An empty figure with a transparent background."""
    result = Drawing(figsize=(width_in, height_in), layout="constrained")
    result.notes = {}
    result.patch.set_visible(False)
    return result


def styled() -> AbstractContextManager[None]:
    """Context in which figures are drawn and written."""
    settings: Any = (
        _RC
        | {key: light("muted") for key in ("xtick.color", "ytick.color", "axes.edgecolor", "axes.labelcolor")}
        | {key: light("ink") for key in ("text.color", "axes.titlecolor")}
        | {"axes.facecolor": "none", "grid.color": light("grid")}
    )
    return rc_context(settings)


def marker_svg(slot: int, name: str) -> str:
    """A scheduler's marker on a stroke of its line, for a legend."""
    with styled():
        drawing = Figure(figsize=(0.25, 0.25))
        drawing.patch.set_visible(False)
        axes = drawing.add_axes((0.0, 0.0, 1.0, 1.0))
        axes.set_axis_off()
        axes.plot(
            [0.0, 0.5, 1.0],
            [0.5, 0.5, 0.5],
            MARKERS[slot],
            color=light(f"scheduler-{slot}"),
            markevery=[1],
            linestyle="-",
            markersize=7,
        )
        axes.set(xlim=(0.0, 1.0), ylim=(0.0, 1.0))
        return inline_svg(drawing, name, "")


def _settle(drawing: Figure) -> None:
    """Round the layout, since its solver's last digits differ from run to run: equal results give equal bytes."""
    drawing.draw_without_rendering()
    drawing.set_layout_engine("none")
    for axes in drawing.axes:
        x, y, width, height = (round(edge, 5) for edge in axes.get_position().bounds)
        axes.set_position((x, y, width, height))


def files_of(drawing: Figure) -> dict[str, bytes]:
    """The figure in the light colours for a paper, by file ending: PNG at 200 dots an inch, and SVG."""
    _settle(drawing)
    files = {}
    for ending, options in (("png", {"dpi": 200, "metadata": {"Software": None}}), ("svg", {"metadata": _UNDATED})):
        buffer = BytesIO()
        drawing.savefig(buffer, format=ending, facecolor=light("surface"), bbox_inches="tight", **options)
        files[ending] = buffer.getvalue()
    return files


def inline_svg(drawing: Figure, name: str, description: str) -> str:
    """The figure as an SVG element for a page: scalable, with a text alternative, ids made unique by ``name``.

    Without a description it is decoration, hidden from screen readers.
    """
    _settle(drawing)
    buffer = StringIO()
    drawing.savefig(buffer, format="svg", metadata=_UNDATED)
    svg = buffer.getvalue()
    svg = svg[svg.index("<svg") :]
    svg = re.sub(r"<metadata>.*?</metadata>\s*", "", svg, flags=re.DOTALL)
    svg = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", svg, count=1)
    svg = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", svg, count=1)
    label = f'role="img" aria-label="{escape(description)}"' if description else 'aria-hidden="true"'
    svg = svg.replace("<svg", f"<svg {label}", 1)
    svg = re.sub(r'(\bid="|url\(#|href="#)', rf"\g<1>{name}-", svg)
    for mark, note in getattr(drawing, "notes", {}).items():
        svg = svg.replace(f'<g id="{name}-{mark}">', f'<g id="{name}-{mark}"><title>{escape(note)}</title>', 1)
    by_value = {pair[0]: f"var(--{key})" for key, pair in COLOURS.items()}
    return re.sub(r"#[0-9a-f]{6}\b", lambda match: by_value.get(match.group(), match.group()), svg)
