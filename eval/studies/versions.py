"""When does moving work from HVX to HMX help, and when does it hurt?"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from eval.studies.offers import leaning_to
from eval.studies.page import gain, tally
from eval.studies.plots import lines, slots
from eval.studies.study import Cell, Entry, Study
from eval.theme import Figure, figure, styled
from hexenv.kernels import Version

_SCENARIOS = ("camera_decode", "hybrid_decode")
_LOADS = (0.4, 0.7, 1.0, 1.3, 1.6)
_LOAD, _VTCM_MIB, _CONTEXTS = 1.0, 8, 6
"""Of the cells in which something else is varied; VTCM and contexts are those of v79."""
_OTHER_VTCM_MIB = (2, 4, 16)
_OTHER_CONTEXTS = (2, 4, 8)
_AXES = {"load": "by load", "vtcm_mib": "by MiB of VTCM", "contexts": "by HVX contexts"}
_MIB = 1 << 20
_MATRIX = (Version.HMX, Version.HYBRID)
_FASTEST = "fastest alone"
_ALL = "to HMX, all"
"""Far behind where an operator's HMX version takes twice as long: left out of the picture."""
_ENTRIES = (
    Entry(_FASTEST, "online_pairs"),
    Entry("to HMX, up to 1.1", "online_pairs", offer=leaning_to(_MATRIX, 1.1)),
    Entry("to HMX, up to 1.3", "online_pairs", offer=leaning_to(_MATRIX, 1.3)),
    Entry("to HMX, up to 2", "online_pairs", offer=leaning_to(_MATRIX, 2.0)),
    Entry(_ALL, "online_pairs", offer=leaning_to(_MATRIX, np.inf)),
    Entry("to HVX, up to 1.3", "online_pairs", offer=leaning_to((Version.HVX,), 1.3)),
    Entry("chosen online", "online_versions"),
)


def _cell(name: str, load: float, mib: int, contexts: int) -> tuple[Cell, Sequence[Entry]]:
    labels = {"scenario": name, "load": load, "vtcm_mib": mib, "contexts": contexts}
    return Cell(labels, name, load, device={"vtcm_bytes": mib * _MIB, "contexts": contexts}), _ENTRIES


def _plan() -> Sequence[tuple[Cell, Sequence[Entry]]]:
    cells = []
    for name in _SCENARIOS:
        cells += [_cell(name, load, _VTCM_MIB, _CONTEXTS) for load in _LOADS]
        cells += [_cell(name, _LOAD, mib, _CONTEXTS) for mib in _OTHER_VTCM_MIB]
        cells += [_cell(name, _LOAD, _VTCM_MIB, contexts) for contexts in _OTHER_CONTEXTS]
    return cells


def _along(frame: pd.DataFrame, axis: str) -> pd.DataFrame:
    """The rows in which only ``axis`` differs from v79 and the common load, in its order."""
    usual = {"load": _LOAD, "vtcm_mib": _VTCM_MIB, "contexts": _CONTEXTS}
    for name, value in usual.items():
        if name != axis:
            frame = frame[frame[name] == value]
    return frame.sort_values(axis, kind="stable")


def _draw(frame: pd.DataFrame) -> Figure:
    colours = slots([entry.label for entry in _ENTRIES if entry.label not in (_FASTEST, _ALL)])
    with styled():
        drawing = figure(11.5, 5.6)
        rows = drawing.subplots(len(_SCENARIOS), 3)
        for name, row in zip(_SCENARIOS, rows, strict=True):
            for axis, axes in zip(_AXES, row, strict=True):
                lines(axes, _along(frame[frame["scenario"] == name], axis), axis, "return_gain", colours)
            row[0].set_ylabel(f"return gained, ms ({name})")
        drawing.legend(*rows[0][0].get_legend_handles_labels(), loc="outside lower center", ncols=6, frameon=False)
    return drawing


def _answer(frame: pd.DataFrame) -> str:
    text = []
    for entry in _ENTRIES[1:]:
        own = frame[frame["entry"] == entry.label]
        text.append(f"* **{entry.label}** against *{_FASTEST}*, by return: {tally(own)}.")
        for name in _SCENARIOS:
            for axis, unit in _AXES.items():
                rows = _along(own[own["scenario"] == name], axis)
                parts = [f"{gain(row)} at {row[axis]:g}" for _, row in rows.iterrows()]
                text.append(f"  * `{name}`, {unit}: {'; '.join(parts)}.")
    base = frame[frame["entry"] == _FASTEST]
    for name in _SCENARIOS:
        rows = _along(base[base["scenario"] == name], "contexts")
        busy = [f"{100 * row['hvx_busy']:.0f} % of {row['contexts']}" for _, row in rows.iterrows()]
        text.append(f"* HVX contexts busy with *{_FASTEST}*, `{name}`, load {_LOAD}: {', '.join(busy)}.")
    return "\n".join(text)


VERSIONS = Study(
    "versions",
    "When does moving work from HVX to HMX help, and when does it hurt?",
    f"""The same online rule with fused execution plays on what each entry leaves on offer:

* *{_FASTEST}*: every stage in the version that is fastest by itself (`online_pairs`).
* *to HMX, up to x*: an HMX or hybrid version instead, wherever it takes at most x times as long alone as the
  fastest; *all*: wherever there is one.
* *to HVX, up to 1.3*: the HVX version instead, wherever it takes at most 1.3 times as long alone.
* *chosen online*: all versions, chosen at each decision from what is predicted (`online_versions`).

What an operator earns does not change. The load multiplies the rates of the camera streams. Further cells, at
load {_LOAD}, vary VTCM and the number of HVX contexts, which makes HVX scarce: the load alone does not, since
filler takes what is left.""",
    _plan,
    {entry.label: _FASTEST for entry in _ENTRIES[1:]},
    _draw,
    _answer,
)
