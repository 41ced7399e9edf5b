"""Slowdown of a task: latency of its jobs over their time alone on the device."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from eval.metrics import PERCENTILES
from eval.play import Outcome
from eval.theme import MARKERS, WIDTH_IN, Drawing, figure, light, scheduler_slots


def slowdowns(outcome: Outcome, stream: int) -> np.ndarray:
    """Latency over time alone of all finished jobs of a stream, float (jobs,).

    Alone: the job's stages one after another, each in its fastest version, launches left out.
    """
    tables = outcome.tables
    row = tables.streams[stream]
    index = np.concatenate([log.index[stream] for log in outcome.jobs]).astype(np.int64)
    template = int(row["template_start"]) + index % max(int(row["template_count"]), 1)
    return outcome.latency_ns(stream) / tables.templates["ref_ns"][template]


def slowdown_frame(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """A row a stream and scheduler: finished jobs and percentiles of their slowdown (nearest rank)."""
    rows = []
    for s, name in enumerate(outcomes[0].tables.stream_names):
        for outcome in outcomes:
            values = slowdowns(outcome, s)
            row: dict[str, object] = {"stream": name, "scheduler": outcome.scheduler, "finished": len(values)}
            for p in PERCENTILES:
                found = np.percentile(values, p, method="inverted_cdf") if len(values) else np.nan
                row[f"p{p}"] = float(found)
            rows.append(row)
    return pd.DataFrame(rows)


def draw_slowdown(frame: pd.DataFrame) -> Drawing:
    """Median to p95 of each stream's slowdown, a line a scheduler, p99 as a tick."""
    streams, names = list(frame["stream"].unique()), list(frame["scheduler"].unique())
    slots = scheduler_slots(names)
    group = len(names) + 1.5
    drawing = figure(WIDTH_IN, 0.7 + 0.115 * group * len(streams))
    axes = drawing.subplots()
    for i, stream in enumerate(streams):
        axes.axhspan(i * group - 1.0, i * group + len(names), color=light("grid"), alpha=0.35 * (i % 2), linewidth=0)
        own = frame[(frame["stream"] == stream) & (frame["finished"] > 0)].set_index("scheduler")
        for name in own.index:
            row, y = own.loc[name], i * group + names.index(name)
            colour = light(f"scheduler-{slots[name]}")
            axes.plot([row["p50"], row["p95"]], [y, y], color=colour, linewidth=1.6)
            axes.plot(row["p99"], y, "|", color=colour, markersize=5)
            (mark,) = axes.plot(row["p50"], y, MARKERS[slots[name]], color=colour, markersize=4.5)
            text = f"{stream}, {name}: p50 {row['p50']:.2f}, p95 {row['p95']:.2f}, p99 {row['p99']:.2f}"
            drawing.note(mark, f"slowdown-{stream}-{name}", f"{text} times the time alone")
    axes.set_xscale("log")
    low, high = axes.get_xlim()
    ticks = [tick for tick in (1, 2, 3, 5, 10, 20, 50, 100) if low <= tick <= high]
    axes.set_xticks(ticks, [str(tick) for tick in ticks])
    axes.minorticks_off()
    axes.axvline(1.0, color=light("muted"), linewidth=0.8)
    axes.set_yticks([i * group + (len(names) - 1) / 2 for i in range(len(streams))], streams)
    axes.tick_params(axis="y", labelcolor=light("ink"), length=0)
    axes.set_ylim(len(streams) * group - 1.0, -1.5)
    axes.set_xlabel("latency over time alone")
    axes.grid(True, axis="x", linewidth=0.6)
    return drawing
