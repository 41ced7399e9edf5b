"""VTCM over time: how much is taken, and how much of what is free is cut off from the largest free block.

A trace says which variant entered which slot when. Where it lies follows from the allocator's rule (lowest address at
which it fits, or the slot's own half under a static split), which is repeated here.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
import pandas as pd

from eval.theme import WIDTH_IN, Drawing, figure, light
from eval.timeline import Take, stages_of
from hexenv.engine.layout import MAX_SLOTS, Mode, Split

_BINS = 240
VTCM_STEP = np.dtype([("t_ns", np.int64), ("used", np.int64), ("largest", np.int64)])
"""From ``t_ns`` on: bytes taken, and bytes of the largest free block."""


def vtcm_steps(take: Take) -> np.ndarray:
    """VTCM whenever it changes, VTCM_STEP records (changes,), from 0 on."""
    config = take.tables.config[0]
    size = int(config["vtcm_bytes"])
    static = config["mode"] == Mode.CONCURRENT and config["vtcm_split"] == Split.STATIC
    stages = stages_of(take.trace)
    needed = take.tables.variants["vtcm_bytes"][stages["variant"]]
    # At one instant stages leave before others enter.
    order = np.lexsort(
        (np.tile([1, 0], (len(stages), 1)).ravel(), np.column_stack([stages["t_ns"], stages["end_ns"]]).ravel())
    )
    regions: list[tuple[int, int]] = [(0, 0)] * MAX_SLOTS
    steps = [(0, 0, size)]
    for event in order.tolist():
        stage, leaves = divmod(event, 2)
        slot = int(stages["slot"][stage])
        if leaves:
            regions[slot] = (0, 0)
        else:
            offset = slot * (size // int(config["slots"])) if static else _lowest(regions, int(needed[stage]))
            regions[slot] = (offset, offset + int(needed[stage]))
        time = int(stages["end_ns" if leaves else "t_ns"][stage])
        if steps[-1][0] == time:
            steps.pop()
        steps.append((time, sum(end - start for start, end in regions), _largest_gap(regions, size)))
    return np.array(steps, VTCM_STEP)


def _lowest(regions: Sequence[tuple[int, int]], needed: int) -> int:
    """The lowest address at which ``needed`` bytes touch no region."""
    start = 0
    for low, high in sorted(region for region in regions if region[1] > region[0]):
        if start + needed <= low:
            break
        start = max(start, high)
    return start


def _largest_gap(regions: Sequence[tuple[int, int]], size: int) -> int:
    edges = [0, *(edge for region in sorted(r for r in regions if r[1] > r[0]) for edge in region), size]
    return max(high - low for low, high in zip(edges[::2], edges[1::2], strict=True))


def vtcm_frame(takes: Iterable[Take]) -> pd.DataFrame:
    """A row a scheduler, pooled over its traces, parts of VTCM or of the time.

    ``used`` and ``peak``: mean and largest part taken; ``cut_off``: mean part that is free outside the largest free
    block; ``fragmented``: part of the time in which there is some; ``largest_of_free``: mean largest free block over
    all free bytes, while any are free.
    """
    pooled: dict[str, list[np.ndarray]] = {}
    for take in takes:
        steps, size = vtcm_steps(take), float(take.tables.config["vtcm_bytes"][0])
        end_ns = max(int(take.trace["end_ns"].max(initial=0)), int(steps["t_ns"][-1]))
        length = np.diff(np.append(steps["t_ns"], end_ns)).astype(np.float64)
        cut_off = size - steps["used"] - steps["largest"]
        pooled.setdefault(take.scheduler, []).append(np.column_stack([length, steps["used"] / size, cut_off / size]))
    rows = []
    for name, parts in pooled.items():
        length, used, cut_off = np.concatenate(parts).T
        some = used < 1.0
        whole = 1.0 - cut_off[some] / (1.0 - used[some])
        share = np.average(whole, weights=length[some]) if length[some].sum() else np.nan
        rows.append(
            {
                "scheduler": name,
                "used": float(np.average(used, weights=length)),
                "peak": float(used[length > 0.0].max()),
                "cut_off": float(np.average(cut_off, weights=length)),
                "fragmented": float(np.average(cut_off > 0.0, weights=length)),
                "largest_of_free": float(share),
            }
        )
    return pd.DataFrame(rows)


def occupancy(take: Take) -> pd.DataFrame:
    """Mean parts of VTCM in equal parts of the episode: ``time_ms``, ``used``, ``cut_off``."""
    steps, size = vtcm_steps(take), float(take.tables.config["vtcm_bytes"][0])
    end_ns = max(int(take.trace["end_ns"].max(initial=1)), int(steps["t_ns"][-1]))
    times = np.append(steps["t_ns"], end_ns).astype(np.float64)
    edges = np.linspace(0.0, end_ns, _BINS + 1)
    columns = {"time_ms": edges[:-1] / 1e6}
    for name, bytes_ in (("used", steps["used"]), ("cut_off", int(size) - steps["used"] - steps["largest"])):
        total = np.append(0.0, np.cumsum(np.diff(times) * bytes_ / size))
        columns[name] = np.diff(np.interp(edges, times, total)) / np.diff(edges)
    return pd.DataFrame(columns)


def draw_vtcm(takes: Sequence[Take]) -> Drawing:
    """VTCM over one episode, a panel a scheduler: taken, cut off, and the largest free block above."""
    drawing = figure(WIDTH_IN, 0.8 + 1.25 * len(takes))
    for axes, take in zip(drawing.subplots(len(takes), 1, sharex=True, squeeze=False)[:, 0], takes, strict=True):
        frame = occupancy(take)
        time, used, cut_off = (frame[name].to_numpy() for name in ("time_ms", "used", "cut_off"))
        area = axes.fill_between(time, 100.0 * used, step="post", color=light("hvx"), linewidth=0, label="taken")
        note = f"{take.scheduler}: {100 * used.mean():.0f} % of VTCM taken on average"
        drawing.note(area, f"vtcm-used-{take.scheduler}", note)
        area = axes.fill_between(
            time, 100.0 * used, 100.0 * (used + cut_off), step="post", color=light("miss"), linewidth=0,
            label="free, outside the largest block",
        )  # fmt: skip
        note = f"{take.scheduler}: {100 * cut_off.mean():.1f} % of VTCM cut off on average"
        drawing.note(area, f"vtcm-cut-off-{take.scheduler}", note)
        axes.set_title(take.scheduler)
        axes.set_ylim(0.0, 100.0)
        axes.set_yticks([0, 50, 100])
        axes.set_ylabel("% of VTCM")
    axes.set_xlabel("time in the episode, ms")
    axes.set_xlim(0.0, float(time[-1]))
    drawing.legend(*axes.get_legend_handles_labels(), loc="outside upper left", ncols=2, frameon=False, fontsize=8)
    return drawing
