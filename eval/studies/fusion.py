"""When does fusion beat what a runtime may give two graphs side by side today?"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from eval.studies.page import gain, tally
from eval.studies.plots import lines, slots
from eval.studies.study import Cell, Entry, Study
from eval.theme import Figure, figure, styled

_SCENARIOS = ("camera_decode", "camera_prefill", "hybrid_decode", "camera_experts")
_LOADS = (0.6, 0.9, 1.2, 1.5)
_ENTRY_US = (1.0, 3.0, 10.0, 30.0)
"""Start of a composite; 3 us is the device file's guess, 1 to 10 its range."""
_BEST = "concurrent, all shared"
_WORST = "concurrent, HMX lock a batch"
"""So far behind that its gains are left out of the picture."""
_SHARED = {"hmx_lock": "chunk", "vtcm_split": "on_demand", "context_split": "shared"}
_ENTRIES = (
    Entry(_BEST, "online_unfused", _SHARED),
    Entry("concurrent, HMX lock an operator", "online_unfused", {**_SHARED, "hmx_lock": "op"}),
    Entry(_WORST, "online_unfused", {**_SHARED, "hmx_lock": "batch"}),
    Entry("concurrent, halves", "online_unfused", {**_SHARED, "vtcm_split": "static", "context_split": "static"}),
    Entry("fused", "online_pairs"),
)
_ENTRY_COLUMN = "entry_us"


def _plan() -> Sequence[tuple[Cell, Sequence[Entry]]]:
    cells: list[tuple[Cell, Sequence[Entry]]] = [
        (Cell({"scenario": name, "load": load, _ENTRY_COLUMN: 3.0}, name, load), _ENTRIES)
        for name in _SCENARIOS
        for load in _LOADS
    ]
    for us in (us for us in _ENTRY_US if us != 3.0):
        labels = {"scenario": _SCENARIOS[0], "load": 1.2, _ENTRY_COLUMN: us}
        cells.append((Cell(labels, _SCENARIOS[0], 1.2, device={"entry_dsp_us": us}), (_ENTRIES[0], _ENTRIES[-1])))
    return cells


def _draw(frame: pd.DataFrame) -> Figure:
    colours = slots([entry.label for entry in _ENTRIES])
    usual = frame[frame[_ENTRY_COLUMN] == 3.0]
    with styled():
        drawing = figure(11.0, 5.6)
        rows = drawing.subplots(2, len(_SCENARIOS), sharex=True)
        for name, (top, bottom) in zip(_SCENARIOS, rows.T, strict=True):
            own = usual[usual["scenario"] == name]
            lines(top, own[own["entry"] != _WORST], "load", "return_gain", colours)
            lines(bottom, own, "load", "miss_rate", colours, 100.0)
            top.set(title=name, xlabel="")
        rows[0][0].set_ylabel(f"return less that of\n{_BEST}, ms")
        rows[1][0].set_ylabel("deadlines missed, %")
        drawing.legend(*rows[1][0].get_legend_handles_labels(), loc="outside lower center", ncols=5, frameon=False)
    return drawing


def _answer(frame: pd.DataFrame) -> str:
    fused = frame[frame["entry"] == "fused"]
    usual = fused[fused[_ENTRY_COLUMN] == 3.0]
    text = [f"Fusion against the most permissive concurrency, by return: {tally(usual)}.", ""]
    for name in _SCENARIOS:
        own = usual[usual["scenario"] == name]
        parts = [f"{gain(row)} at load {row['load']:g}" for _, row in own.iterrows()]
        text.append(
            f"* `{name}`: {'; '.join(parts)}. Throughput {_range(own, 'throughput_gain', 1.0, 3)}, "
            f"misses {_range(own, 'miss_rate_gain', 100.0, 1)} points."
        )
    costs = fused[(fused["scenario"] == _SCENARIOS[0]) & (fused["load"] == 1.2)].sort_values(_ENTRY_COLUMN)
    parts = [f"{gain(row)} at {row[_ENTRY_COLUMN]:g} us" for _, row in costs.iterrows()]
    text.append(f"* Launch cost (start of a composite, `{_SCENARIOS[0]}`, load 1.2): {'; '.join(parts)}.")
    for entry in _ENTRIES[1:-1]:
        text.append(f"* {entry.label} against {_BEST}: {tally(frame[frame['entry'] == entry.label])}.")
    cells = usual.merge(_best_concurrent(frame), on=["scenario", "load", _ENTRY_COLUMN])
    ahead = int((cells["return"] > cells["best"]).sum())
    text.append(
        "* The best of the four concurrent settings cell by cell, chosen on these very episodes, which flatters it: "
        f"fused has the higher mean return in {ahead} of {len(cells)} cells."
    )
    return "\n".join(text)


def _best_concurrent(frame: pd.DataFrame) -> pd.DataFrame:
    """Highest mean return of a concurrent entry in each cell, column ``best``."""
    concurrent = frame[frame["entry"] != "fused"]
    return concurrent.groupby(["scenario", "load", _ENTRY_COLUMN])["return"].max().rename("best").reset_index()


def _range(rows: pd.DataFrame, column: str, scale: float, digits: int) -> str:
    return f"{scale * rows[column].min():+.{digits}f} to {scale * rows[column].max():+.{digits}f}"


FUSION = Study(
    "fusion",
    "When does fusion beat full legal concurrency?",
    """The same online rule (the slack gate that keeps each stage's fastest version) decides in all entries; what
differs is how its pairs run. *fused*: one entry, tiles of both stages interleave, shares of HVX contexts are
chosen (`online_pairs`). *concurrent*: two graphs side by side (`online_unfused`), as permissive as a runtime
may be (*all shared*: HMX lock held a chunk, VTCM on demand, contexts shared), with the lock held longer, and
with static halves of VTCM and contexts. The load multiplies the rates of the camera streams. The last cells
vary the cost of starting a composite, which nobody has published.""",
    _plan,
    {entry.label: _BEST for entry in _ENTRIES[1:]},
    _draw,
    _answer,
)
