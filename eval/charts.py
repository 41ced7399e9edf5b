"""The report's charts: misses against throughput, latency distributions, engine busy shares."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.text import Annotation
from matplotlib.transforms import Bbox

from eval.evidence.bound import Bound
from eval.metrics import deadline_ends_ns, deadline_streams, percentile_us
from eval.play import Outcome
from eval.summary import is_learned
from eval.theme import MARKERS, WIDTH_IN, Drawing, figure, light, scheduler_slots
from hexenv.engine.layout import NO_DEADLINE

_SIZE_IN = (WIDTH_IN, 3.3)
_ROOT_TICKS = (0, 1, 2, 5, 10, 20, 30, 50, 75, 100)
"""Ticks of the axis of misses, which shows square roots: much happens at a few percent."""
_CURVE_POINTS = 240
_MARKED = (95, 99)
"""Percentiles with a mark on each latency curve."""
_LONGEST_IN_DEADLINES = 3.0
"""Latency axes end here at the latest, so that starved jobs do not squeeze the rest."""
_NEAR_PT = 12.0
_LEADER = {"arrowstyle": "-", "linewidth": 0.6, "color": light("muted"), "shrinkA": 0.0, "shrinkB": 4.0}
_OFFSETS_PT = sorted(
    ((dx, dy) for dx in (0, 8, -8, 20, -20, 36, -36, 56) for dy in (0, 10, -10, 22, -22, 34, -34, 48, -48) if dx or dy),
    key=lambda offset: abs(offset[0]) + abs(offset[1]),
)
"""Where a point's label may stand, from near to far."""


def trade_off(summary: pd.DataFrame, shown: Sequence[str], bound: Bound | None = None) -> Drawing:
    """Throughput over miss rate, a point a scheduler with its paired 95 % intervals; one scenario's rows.

    Those that are ``shown`` elsewhere have their colours, the others are grey. No schedule lies above the bound.
    """
    drawing = figure(*_SIZE_IN)
    axes = drawing.subplots()
    slots = scheduler_slots(list(shown))
    for _, row in summary.iterrows():
        name = row["scheduler"]
        colour = light(f"scheduler-{slots[name]}" if name in slots else "muted")
        x, y = 100.0 * row["miss_rate"], row["throughput"]
        point, _, _ = axes.errorbar(
            x,
            y,
            xerr=[[x - 100.0 * row["miss_rate_low"]], [100.0 * row["miss_rate_high"] - x]],
            yerr=[[y - row["throughput_low"]], [row["throughput_high"] - y]],
            fmt=MARKERS[slots[name]] if name in slots else ".",
            markersize=7 if is_learned(name) else 5.5,
            color=colour,
            elinewidth=1.0,
        )
        drawing.note(point, f"point-{name}", f"{name}: {x:.2f} % missed, throughput {y:.3f}")
    axes.set_xlabel("missed deadlines, % of due")
    axes.set_ylabel("throughput, ms of reference work per ms")
    axes.grid(True, linewidth=0.6)
    axes.margins(0.14)
    axes.set_xscale("function", functions=(_root, np.square))
    most = 100.0 * float(summary["miss_rate_high"].max(skipna=True))
    axes.set_xlim(0.0, max(1.15 * most, 1.0))
    axes.set_xticks([tick for tick in _ROOT_TICKS if tick <= axes.get_xlim()[1]])
    axes.minorticks_off()
    if bound is not None:
        _draw_bound(drawing, axes, bound)
    drawing.draw_without_rendering()
    _label_points(axes, summary, shown)
    return drawing


def _root(values: np.ndarray) -> np.ndarray:
    return np.sqrt(np.maximum(values, 0.0))


def _draw_bound(drawing: Drawing, axes: Axes, bound: Bound) -> None:
    """The ceiling on throughput, and how far up a schedule without a miss can get."""
    low, _ = axes.get_ylim()
    top = bound.throughput + 0.07 * (bound.throughput - low)
    axes.set_ylim(low, top)
    area = axes.axhspan(bound.throughput, top, color=light("grid"), linewidth=0)
    drawing.note(area, "bound", f"no schedule has a throughput above {bound.throughput:.3f}, whatever it misses")
    axes.annotate(
        "out of reach of any schedule", (0.99, bound.throughput), xycoords=("axes fraction", "data"), xytext=(0, 2),
        textcoords="offset points", ha="right", va="bottom", fontsize=7.5, color=light("muted"),
    )  # fmt: skip
    if bound.throughput_without_miss is not None:
        (mark,) = axes.plot(
            0.0, bound.throughput_without_miss, "_", color=light("miss"), markersize=12, markeredgewidth=2, zorder=4
        )
        text = f"no schedule without a miss has a throughput above {bound.throughput_without_miss:.3f}"
        drawing.note(mark, "bound-without-miss", text)


def _label_points(axes: Axes, summary: pd.DataFrame, shown: Sequence[str]) -> None:
    """Write the name of each scheduler that is shown beside its point, at the nearest place that covers least."""
    places = list(zip(100.0 * summary["miss_rate"], summary["throughput"], strict=True))
    taken = [Bbox.from_bounds(x - 6, y - 6, 12, 12) for x, y in axes.transData.transform(places)]
    for _, row in summary.iterrows():
        corners = [(100.0 * row[f"miss_rate_{end}"], row[f"throughput_{end}"]) for end in ("low", "high")]
        (x0, y0), (x1, y1) = axes.transData.transform(corners)
        x, y = axes.transData.transform((100.0 * row["miss_rate"], row["throughput"]))
        taken += [Bbox([[x0, y - 1], [x1, y + 1]]), Bbox([[x - 1, y0], [x + 1, y1]])]
    frame = axes.get_window_extent()
    named = [item for item in zip(summary["scheduler"], places, strict=True) if item[0] in shown]
    top_down = sorted(named, key=lambda item: -item[1][1])
    for name, place in top_down:
        trials = [_label(axes, name, place, offset) for offset in _OFFSETS_PT]
        boxes = [trial.get_window_extent() for trial in trials]
        for trial in trials:
            trial.remove()
        hidden = [sum(box.overlaps(other) for other in taken) + 9 * (not _inside(box, frame)) for box in boxes]
        chosen = int(np.argmin(hidden))
        taken.append(boxes[chosen])
        dx, dy = _OFFSETS_PT[chosen]
        _label(axes, name, place, (dx, dy), _LEADER if abs(dx) + abs(dy) > _NEAR_PT else None)


def _label(
    axes: Axes, name: str, place: tuple[float, float], offset: tuple[float, float], leader: dict[str, Any] | None = None
) -> Annotation:
    """A point's name at an offset in points, with a thin line to the point if it is not right beside it."""
    dx, dy = offset
    return axes.annotate(
        name,
        place,
        xytext=offset,
        textcoords="offset points",
        fontsize=8.5,
        fontweight="bold" if is_learned(name) else "normal",
        ha="left" if dx > 0 else "right" if dx < 0 else "center",
        va="center" if dx else "bottom" if dy > 0 else "top",
        arrowprops=leader,
    )


def _inside(box: Bbox, frame: Bbox) -> bool:
    return bool(box.x0 >= frame.x0 and box.x1 <= frame.x1 and box.y0 >= frame.y0 and box.y1 <= frame.y1)


def latency_streams(outcomes: Sequence[Outcome]) -> list[int]:
    """The streams that get a latency chart: those with deadlines and finished jobs, or all that finished any."""
    tables = outcomes[0].tables
    served = [s for s in range(len(tables.stream_names)) if any(o.latency_ns(s).size for o in outcomes)]
    timed = set(deadline_streams(tables).tolist())
    return [s for s in served if s in timed] or served


def latencies(outcomes: Sequence[Outcome], stream: int) -> Drawing:
    """Share of a stream's jobs that finished within a latency, a curve a scheduler.

    Jobs that were dropped or rejected never finish, so a curve ends below 100 % by their share. The marks are p95 and
    p99 of the finished jobs, the figures of the tables. Of deadlines that differ the ends are drawn.
    """
    drawing = figure(*_SIZE_IN)
    axes = drawing.subplots()
    slots = scheduler_slots([o.scheduler for o in outcomes])
    served = [o for o in outcomes if o.latency_ns(stream).size]
    ends_ns = deadline_ends_ns(outcomes[0].tables, stream)
    end_ms = max(percentile_us(o.latency_ns(stream), _MARKED[-1]) / 1e3 for o in served)
    if ends_ns[1] < NO_DEADLINE:
        longest_ms = ends_ns[1] / 1e6
        end_ms = min(max(end_ms, longest_ms), _LONGEST_IN_DEADLINES * longest_ms)
        for deadline_ns in set(ends_ns):
            axes.axvline(deadline_ns / 1e6, color=light("miss"), linewidth=1.0, linestyle=(0, (4, 3)))
        axes.text(longest_ms, 1.01, "deadline", transform=axes.get_xaxis_transform(), ha="right", color=light("miss"))
    end_ms *= 1.04
    for outcome in sorted(served, key=lambda o: is_learned(o.scheduler)):
        _draw_curve(axes, outcome, stream, slots[outcome.scheduler], end_ms)
    axes.set_xlim(0.0, end_ms)
    axes.set_ylim(0.0, 102.0)
    axes.set_xlabel("latency from arrival, ms")
    axes.set_ylabel("jobs finished, % of all that ended")
    axes.grid(True, linewidth=0.6)
    return drawing


def _draw_curve(axes: Axes, outcome: Outcome, stream: int, slot: int, end_ms: float) -> None:
    latency_ns, learned = outcome.latency_ns(stream), is_learned(outcome.scheduler)
    finished = latency_ns.size / (latency_ns.size + outcome.lost(stream))
    shares = np.linspace(0.0, 1.0, _CURVE_POINTS)
    latency_ms = np.quantile(latency_ns, shares, method="inverted_cdf") / 1e6
    colour = light(f"scheduler-{slot}")
    axes.step(
        [*latency_ms, max(end_ms, latency_ms[-1])],
        [*(100.0 * finished * shares), 100.0 * finished],
        where="post",
        color=colour,
        linewidth=2.4 if learned else 1.3,
        gid=f"curve-{outcome.scheduler}",
    )
    axes.plot(
        [percentile_us(latency_ns, p) / 1e3 for p in _MARKED],
        [p * finished for p in _MARKED],
        MARKERS[slot],
        color=colour,
        markersize=6.5 if learned else 5.5,
        markeredgecolor=light("surface"),
        markeredgewidth=0.7,
    )


def busy(summary: pd.DataFrame) -> Drawing:
    """Busy share of the three engines, a bar a scheduler; ``summary``: one scenario's rows."""
    drawing = figure(_SIZE_IN[0], 0.9 + 0.29 * len(summary))
    panels = drawing.subplots(1, 3, sharey=True)
    places = np.arange(len(summary))
    for axes, engine in zip(panels, ("hvx", "hmx", "dma"), strict=True):
        shares = 100.0 * summary[f"{engine}_busy"].to_numpy()
        bars = axes.barh(places, shares, height=0.68, color=light(engine))
        for bar, name in zip(bars, summary["scheduler"], strict=True):
            drawing.note(bar, f"bar-{engine}-{name}", f"{name}: {engine.upper()} busy {bar.get_width():.1f} %")
        axes.bar_label(bars, [f"{share:.0f}" for share in shares], padding=2, fontsize=8)
        axes.set_title(engine.upper())
        axes.set_xlim(0.0, 118.0)
        axes.set_xticks([0, 50, 100])
        axes.tick_params(left=False)
        axes.grid(True, axis="x", linewidth=0.6)
    panels[0].set_yticks(places, summary["scheduler"])
    panels[0].tick_params(axis="y", labelcolor=light("ink"))
    panels[0].invert_yaxis()
    panels[1].set_xlabel("busy, % of simulated time")
    return drawing
