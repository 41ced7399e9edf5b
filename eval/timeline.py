"""One episode under two schedulers, one above the other: slots, engines, misses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from matplotlib.axes import Axes

from agents.scheduler import Scheduler
from eval.episodes import Episode
from eval.play import Outcome, play
from eval.theme import Drawing, figure, light
from hexenv.engine import TraceLevel
from hexenv.engine.layout import MAX_SLOTS, Event, Tables

_STAGES = 220
"""Stages in the window of the busier scheduler: enough for several jobs, few enough to be told apart."""
_LETTER_SHARE = 0.011
"""Stages shorter than this part of the window carry no letter."""
_STEPS = 300
VERSION_LETTERS = "VMH"
"""HVX (vector), HMX (matrix), hybrid."""


@dataclass(frozen=True)
class Take:
    """One scheduler's whole trace of the episode."""

    scheduler: str
    tables: Tables
    trace: np.ndarray  # TRACE, (events,)


@dataclass(frozen=True)
class Window:
    """The part of the episode that is drawn, ns."""

    start_ns: float
    end_ns: float

    def overlaps(self, trace: np.ndarray) -> np.ndarray:
        """Which records (events,) lie at least partly in the window."""
        return (trace["end_ns"] > self.start_ns) & (trace["t_ns"] < self.end_ns)


def most_different(left: Outcome, right: Outcome) -> int:
    """Place in the list of the episode whose misses, then return, differ most between two schedulers."""
    misses = (left.episodes["misses"] - right.episodes["misses"]).abs()
    returns = (left.episodes["return"] - right.episodes["return"]).abs()
    return int(np.lexsort((returns, misses))[-1])


def record(scheduler: Scheduler, tables: Tables, episode: Episode, place: int) -> Take:
    """Play the episode at ``place`` of the list once more, writing everything down."""
    simulator, _ = play(scheduler, tables, [episode], place, TraceLevel.ALL)
    return Take(scheduler.name, tables, simulator.trace(0))


def choose_window(takes: Sequence[Take]) -> Window:
    """About :data:`_STAGES` stages around the first deadline that one scheduler misses and another does not."""
    launches = max(int((take.trace["event"] == Event.LAUNCH).sum()) for take in takes)
    end_ns = max(int(take.trace["end_ns"].max(initial=1)) for take in takes)
    width_ns = end_ns * min(1.0, _STAGES / max(launches, 1))
    split = differences(takes)
    centre_ns = float(split[0]) - 0.1 * width_ns if split else 0.5 * end_ns
    start_ns = float(np.clip(centre_ns - 0.5 * width_ns, 0.0, end_ns - width_ns))
    return Window(start_ns, start_ns + width_ns)


def differences(takes: Sequence[Take]) -> list[int]:
    """Instants of misses at which the schedulers have not all missed the same streams the same number of times, ns."""
    misses = [take.trace[take.trace["event"] == Event.MISS] for take in takes]
    found = set()
    for stream in np.unique(np.concatenate([own["stream"] for own in misses])):
        times = [own["t_ns"][own["stream"] == stream] for own in misses]
        for t in np.unique(np.concatenate(times)):
            if len({int((own == t).sum()) for own in times}) > 1:
                found.add(int(t))
    return sorted(found)


def stages_of(trace: np.ndarray) -> np.ndarray:
    """The LAUNCH records, in order; a stage that was still running ends with the trace."""
    stages = trace[trace["event"] == Event.LAUNCH].copy()
    running = stages["end_ns"] <= stages["t_ns"]
    stages["end_ns"][running] = trace["end_ns"].max(initial=0)
    return stages


def draw(takes: Sequence[Take], window: Window) -> Drawing:
    """The takes one above the other on one time axis (ms)."""
    drawing = figure(12.0, 2.5 * len(takes))
    heights = ([1.7, 0.34, 0.34, 0.34, 0.05] * len(takes))[:-1]  # the thin row keeps the takes apart
    rows = drawing.subplots(len(heights), 1, sharex=True, gridspec_kw={"height_ratios": heights})
    for spacer in rows[4::5]:
        spacer.set_visible(False)
    for i, take in enumerate(takes):
        slots, *strips = rows[5 * i : 5 * i + 4]
        _draw_slots(slots, take, window)
        for axes, engine in zip(strips, ("hvx", "hmx", "dma"), strict=True):
            _draw_strip(axes, take, window, engine)
    rows[-1].set_xlim(window.start_ns / 1e6, window.end_ns / 1e6)
    rows[-1].tick_params(labelbottom=True)
    rows[-1].set_xlabel("time in the episode, ms")
    return drawing


def _draw_slots(axes: Axes, take: Take, window: Window) -> None:
    trace = take.trace[window.overlaps(take.trace)]
    finished, missed = (int((trace["event"] == event).sum()) for event in (Event.FINISH, Event.MISS))
    axes.set_title(f"{take.scheduler}: finished jobs {finished}, missed deadlines {missed}", fontweight="bold")
    launches = stages_of(take.trace)
    launches = launches[window.overlaps(launches)]
    for stream in np.unique(launches["stream"]):
        own = launches[launches["stream"] == stream]
        for slot in range(MAX_SLOTS):
            spans = [_span_ms(stage, window) for stage in own[own["slot"] == slot]]
            axes.broken_barh(
                spans,
                (slot + 0.06, 0.88),
                facecolor=light(f"stream-{stream}"),
                edgecolor=light("surface"),
                linewidth=0.5,
            )
    for stage in launches:
        start, width = _span_ms(stage, window)
        if width > _LETTER_SHARE * (window.end_ns - window.start_ns) / 1e6:
            version = int(take.tables.variants["version"][stage["variant"]])
            axes.text(
                start + width / 2, stage["slot"] + 0.5, VERSION_LETTERS[version], ha="center", va="center", fontsize=7
            )
    _draw_job_ends(axes, trace)
    axes.set_ylim(MAX_SLOTS + 0.75, 0.0)
    axes.set_yticks([0.5, 1.5, 2.4], ["slot 0", "slot 1", "job ends"])
    axes.tick_params(axis="both", length=0, labelbottom=False)
    axes.spines[["left", "bottom"]].set_visible(False)


def _draw_job_ends(axes: Axes, trace: np.ndarray) -> None:
    for event, marker, name in ((Event.FINISH, "o", None), (Event.MISS, "X", "miss")):
        ends = trace[trace["event"] == event]
        for stream in np.unique(ends["stream"]):
            times_ms = ends["t_ns"][ends["stream"] == stream] / 1e6
            axes.plot(
                times_ms,
                np.full(len(times_ms), 2.4),
                marker,
                markersize=7.5 if name else 6,
                color=light(f"stream-{stream}"),
                markeredgecolor=light(name or "muted"),
                markeredgewidth=1.1 if name else 0.6,
                zorder=3 if name else 2,
                clip_on=True,
            )


def _span_ms(stage: np.void, window: Window) -> tuple[float, float]:
    """Start and width of a stage inside the window, ms."""
    start, end = max(stage["t_ns"], window.start_ns), min(stage["end_ns"], window.end_ns)
    return start / 1e6, max(end - start, 0.0) / 1e6


def utilisation(trace: np.ndarray, window: Window, engine: str, contexts: int, parts: int = _STEPS) -> np.ndarray:
    """Mean use of an engine in each of some equal parts of the window, 0 to 1."""
    column, capacity = {"dma": ("value", 1.0), "hvx": ("value2", float(contexts)), "hmx": ("value3", 1.0)}[engine]
    segments = trace[(trace["event"] == Event.SEGMENT) & (trace["end_ns"] > trace["t_ns"])]
    edges = np.linspace(window.start_ns, window.end_ns, parts + 1)
    # Busy time grows linearly inside a segment and not at all between segments: read the running total at the edges.
    times = np.column_stack([segments["t_ns"], segments["end_ns"]]).ravel().astype(np.float64)
    totals = np.repeat(np.cumsum(segments[column]), 2)
    totals[0::2] -= segments[column]
    if not times.size:
        return np.zeros(parts)
    return np.diff(np.interp(edges, times, totals)) / (np.diff(edges) * capacity)


def _draw_strip(axes: Axes, take: Take, window: Window, engine: str) -> None:
    shares = utilisation(take.trace, window, engine, int(take.tables.config["contexts"][0]))
    edges = np.linspace(window.start_ns, window.end_ns, _STEPS + 1) / 1e6
    axes.stairs(100.0 * shares, edges, fill=True, color=light(engine))
    axes.set_ylim(0.0, 105.0)
    axes.set_yticks([50.0], [engine.upper()])
    axes.tick_params(axis="both", length=0, labelbottom=False)
    axes.spines["left"].set_visible(False)
    axes.spines["bottom"].set_color(light("grid"))
