"""Tile class against pairing: does VTCM couple the two decisions?"""

from __future__ import annotations

from collections.abc import Sequence

import pandas as pd

from eval.studies.offers import best_tile, only_tiles
from eval.studies.page import gain, tally
from eval.studies.plots import lines, slots
from eval.studies.study import Cell, Change, Entry, Study
from eval.theme import Figure, figure, styled
from hexenv.engine.layout import Tables

_SCENARIOS = ("camera_decode", "camera_prefill")
_LOAD = 1.2
_MIB = 1 << 20
_VTCM_MIB = (2, 3, 4, 6, 8, 16)


def _everything(tables: Tables) -> Tables:
    return tables


_TILES: tuple[tuple[str, Change], ...] = (
    ("any tile", _everything),
    ("best tile alone", best_tile),
    ("small tiles", only_tiles(0, 1)),
)
_ENTRIES = tuple(
    Entry(f"{how}, {label}", rule, offer=change)
    for label, change in _TILES
    for how, rule in (("alone", "online_serial"), ("pairs", "online_pairs"))
)
_AGAIN = {"pairs, any tile (2)": "pairs, best tile alone", "pairs, small tiles (2)": "pairs, any tile"}
"""Entries that are compared once more, with each other."""
_VERSUS = {f"pairs, {label}": f"alone, {label}" for label, _ in _TILES} | _AGAIN


def _plan() -> Sequence[tuple[Cell, Sequence[Entry]]]:
    return [
        (Cell({"scenario": name, "vtcm_mib": mib}, name, _LOAD, device={"vtcm_bytes": mib * _MIB}), _ENTRIES)
        for name in _SCENARIOS
        for mib in _VTCM_MIB
    ]


def _draw(frame: pd.DataFrame) -> Figure:
    names = [entry.label for entry in _ENTRIES]
    pairs = frame[frame["entry"].isin(_VERSUS)]  # those compared once more have no colour
    with styled():
        drawing = figure(9.5, 5.6)
        rows = drawing.subplots(2, len(_SCENARIOS), sharex=True)
        for name, (top, bottom) in zip(_SCENARIOS, rows.T, strict=True):
            lines(top, pairs[pairs["scenario"] == name], "vtcm_mib", "return_gain", slots(names))
            lines(bottom, frame[frame["scenario"] == name], "vtcm_mib", "return", slots(names))
            top.set(title=name, xlabel="")
        rows[0][0].set_ylabel("return gained by pairing, ms")
        rows[1][0].set_ylabel("return, ms")
        drawing.legend(*rows[1][0].get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return drawing


def _answer(frame: pd.DataFrame) -> str:
    text = []
    for label, _ in _TILES:
        own = frame[frame["entry"] == f"pairs, {label}"]
        text.append(f"* Pairing against one stage at a time, *{label}*, by return: {tally(own)}.")
        text += _by_scenario(own)
    for name, other in _AGAIN.items():
        own = frame[frame["entry"] == name]
        text.append(f"* {name.removesuffix(' (2)').capitalize()} against {other}, by return: {tally(own)}.")
        text += _by_scenario(own)
    return "\n".join(text)


def _by_scenario(rows: pd.DataFrame) -> list[str]:
    lines = []
    for name in _SCENARIOS:
        parts = [f"{gain(row)} at {row['vtcm_mib']} MiB" for _, row in rows[rows["scenario"] == name].iterrows()]
        lines.append(f"  * `{name}`: {'; '.join(parts)}.")
    return lines


def _choose(episodes: pd.DataFrame) -> pd.DataFrame:
    """All that was played, and some of it once more, to be compared with something else."""
    again = [episodes[episodes["entry"] == name.removesuffix(" (2)")].assign(entry=name) for name in _AGAIN]
    return pd.concat([episodes, *again], ignore_index=True)


TILES = Study(
    "tiles",
    "Tile class against pairing: does VTCM couple the two decisions?",
    f"""A pair must fit VTCM together, so the tile class that is best alone can forbid the pair. The same online rule
plays one stage at a time (*alone*, `online_serial`) and in fused pairs (*pairs*, `online_pairs`), with three
offers: *any tile* class; of each version only its *best tile alone*; *small tiles* only (budgets of 1/8 and 1/4
of VTCM, where an operator fits one). VTCM is varied from {_VTCM_MIB[0]} to {_VTCM_MIB[-1]} MiB (v79 has 8), and
the budgets with it. Load {_LOAD}.""",
    _plan,
    _VERSUS,
    _draw,
    _answer,
    _choose,
)
