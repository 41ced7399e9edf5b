"""How wrong may predicted durations be?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pandas as pd

from eval.studies.page import gain
from eval.studies.plots import lines, slots
from eval.studies.study import Cell, Change, Entry, Study
from eval.theme import Figure, figure, styled
from hexenv.engine.layout import Tables
from hexenv.kernels import Version

_SCENARIO, _LOAD = "camera_decode", 1.1
_USUAL = 0.05
_NOISE = (0.0, 0.05, 0.1, 0.2, 0.4, 0.8)
_SPREAD = (0.1, 0.2, 0.4, 0.8)
_HMX = (0.5, 0.75, 1.5, 2.0)
_SEED = 7
_FIELDS = (
    "ddr_ns", "hvx_ns", "hmx_ns", "storage_ns", "body_hvx_ns", "unloaded_ns", "prologue_ddr_ns", "prologue_hvx_ns",
    "prologue_ns", "latency_ns",
)  # fmt: skip
"""What the engine moves a stage by. ``alone_ns``, the prediction in a scheduler's view, is not among them."""
_REFERENCE = "edf"
_ENTRIES = tuple(
    Entry(name, name)
    for name in (
        _REFERENCE,
        "concurrent",
        "static_pairs",
        "greedy_pair",
        "tacker",
        "orion",
        "online_pairs",
        "online_versions",
    )
)
_KINDS = ("noise", "operators wrong", "HMX wrong")


def _stretched(tables: Tables, factors: np.ndarray) -> Tables:
    """A device on which each variant takes ``factors`` (variants,) times the work that is predicted."""
    variants = tables.variants.copy()
    for name in _FIELDS:
        variants[name] *= factors.reshape((-1,) + (1,) * (variants[name].ndim - 1))
    return replace(tables, variants=variants)


def operators_wrong(sigma: float) -> Change:
    """Every operator takes its own log-normal factor of mean 1, the same for all its variants and always."""

    def change(tables: Tables) -> Tables:
        rng = np.random.default_rng(_SEED)
        of_op = np.exp(sigma * rng.standard_normal(len(tables.ops)) - 0.5 * sigma**2)
        return _stretched(tables, of_op[tables.variants["op"]])

    return change


def hmx_wrong(factor: float) -> Change:
    """Every HMX and hybrid variant takes ``factor`` times its prediction, HVX variants are right."""
    return lambda tables: _stretched(tables, np.where(tables.variants["version"] == Version.HVX, 1.0, factor))


def _plan() -> Sequence[tuple[Cell, Sequence[Entry]]]:
    cells = [Cell({"error": _KINDS[0], "size": s}, _SCENARIO, _LOAD, engine={"noise": s}) for s in _NOISE]
    cells += [Cell({"error": _KINDS[1], "size": s}, _SCENARIO, _LOAD, truth=operators_wrong(s)) for s in _SPREAD]
    cells += [Cell({"error": _KINDS[2], "size": f}, _SCENARIO, _LOAD, truth=hmx_wrong(f)) for f in _HMX]
    return [(cell, _ENTRIES) for cell in cells]


def _draw(frame: pd.DataFrame) -> Figure:
    colours = slots([entry.label for entry in _ENTRIES])
    with styled():
        drawing = figure(11.0, 5.6)
        rows = drawing.subplots(2, len(_KINDS), sharey="row")
        for kind, (top, bottom) in zip(_KINDS, rows.T, strict=True):
            own = frame[frame["error"] == kind]
            lines(top, own, "size", "return", colours)
            lines(bottom, own, "size", "return_gain", colours)
            top.set_title(kind)
        rows[0][0].set_ylabel("return, ms")
        rows[1][0].set_ylabel(f"return less that of {_REFERENCE}, ms")
        drawing.legend(*rows[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=8, frameon=False)
    return drawing


def _answer(frame: pd.DataFrame) -> str:
    text = []
    for kind in _KINDS:
        own = frame[frame["error"] == kind]
        best = [
            f"`{cell.sort_values('return')['entry'].iloc[-1]}` at {size:g}"
            for size, cell in own.groupby("size", sort=False)
        ]
        text.append(f"* **{kind}**: highest return: {', '.join(best)}.")
        for entry in ("static_pairs", "online_pairs", "online_versions"):
            parts = [f"{gain(row)} at {row['size']:g}" for _, row in own[own["entry"] == entry].iterrows()]
            text.append(f"  * `{entry}` less `{_REFERENCE}`: {'; '.join(parts)}.")
    return "\n".join(text)


DURATIONS = Study(
    "durations",
    "How wrong may predicted durations be?",
    f"""`{_SCENARIO}` at load {_LOAD}, three kinds of error:

* *noise*: actual over predicted duration of each stage is log-normal with mean 1 and this sigma, drawn anew for
  every stage. The scenario's own is {_USUAL}.
* *operators wrong*: each operator takes a log-normal factor of mean 1 and this sigma, always the same one (one draw of
  factors for all episodes: the intervals say nothing about other draws).
* *HMX wrong*: whatever uses HMX takes this factor of its prediction.

The last two are systematic and come on top of the usual noise: schedulers are told the usual costs, the device
has others. Predictions in a scheduler's view (rest of a stage, chain, slack) and what work earns stay those of
the usual costs. No rule here learns from what it sees.""",
    _plan,
    {entry.label: _REFERENCE for entry in _ENTRIES[1:]},
    _draw,
    _answer,
)
