"""Static against online pairing when the load is not the one that was tuned for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import product

import numpy as np
import pandas as pd

from eval.studies.page import gain, tally
from eval.studies.plots import lines, slots
from eval.studies.study import Cell, Entry, Study
from eval.theme import Figure, figure, styled
from hexenv.engine.layout import Arrival
from hexenv.workload.scenario import Scenario

_SCENARIO = "camera_decode"
_LOADS = (0.5, 0.8, 1.1, 1.4, 1.7)
_RAMP = (0.5, 1.7)
_RAMP_NAME = f"{_RAMP[0]:g} to {_RAMP[1]:g}"
_TUNED_AT = ("0.5", "1.7")
_OWN = "its own load"
_STATIC = tuple({"share": share, "least_gain": least} for share, least in product((0, 1, 2), (1.001, 1.3)))
_MARGINS_US = (0.0, 1500.0, 3000.0, 6000.0)
_CANDIDATES = (
    *(Entry(f"static, share {v['share']}, gain {v['least_gain']:g}", "static_pairs", v) for v in _STATIC),
    *(Entry(f"online, margin {margin:g}", "online_pairs", {"margin_us": margin}) for margin in _MARGINS_US),
)


def ramp(scenario: Scenario) -> Scenario:
    """The load rises linearly over each episode: streams that scale get recorded arrivals of that density."""
    horizon_us = scenario.engine.horizon_us
    streams = tuple(
        replace(s, arrival=Arrival.TRACE, trace_us=_arrivals(s.period_us, horizon_us), scales=False) if s.scales else s
        for s in scenario.streams
    )
    return replace(scenario, streams=streams)


def _arrivals(period_us: float, horizon_us: float) -> tuple[float, ...]:
    """Instants at which the integral of a rate that rises linearly passes 0.5, 1.5, ... periods."""
    times = np.linspace(0.0, horizon_us, 4001)
    low, high = _RAMP
    jobs = (low * times + 0.5 * (high - low) * times**2 / horizon_us) / period_us
    return tuple(np.interp(np.arange(0.5, jobs[-1]), jobs, times).tolist())


def _plan() -> Sequence[tuple[Cell, Sequence[Entry]]]:
    cells = [
        Cell({"split": split, "load": f"{load:g}"}, _SCENARIO, load, split=split)
        for split in ("train", "heldout")
        for load in _LOADS
    ]
    cells.append(Cell({"split": "heldout", "load": _RAMP_NAME}, _SCENARIO, 1.0, edit=ramp))
    return [(cell, _CANDIDATES) for cell in cells]


def _choose(episodes: pd.DataFrame) -> pd.DataFrame:
    """Of each kind the candidate with the best mean return on training episodes of a load, played on held-out ones."""
    episodes = episodes.astype({"load": str})
    means = episodes[episodes["split"] == "train"].groupby(["load", "entry"], sort=False)["return"].mean()
    heldout = episodes[episodes["split"] == "heldout"].drop(columns="split")
    chosen = []
    for load, cell in heldout.groupby("load", sort=False):
        for kind, at in product(_KINDS, (*_TUNED_AT, _OWN)):
            if at == _OWN and load == _RAMP_NAME:
                continue
            own = means[load if at == _OWN else at]
            best = own[own.index.str.startswith(kind)].idxmax()
            rows = cell[cell["entry"] == best].assign(setting_used=best)
            names = [_name(kind, at)] + ([_lost(kind, at)] if at in _TUNED_AT else [])
            chosen += [rows.assign(entry=name) for name in names]
    frame = pd.concat(chosen, ignore_index=True)
    frame.insert(1, "case", np.where(frame["load"] == _RAMP_NAME, "drifts within an episode", "constant"))
    return frame


def _name(kind: str, at: str) -> str:
    return f"{kind}, tuned at {at}"


def _lost(kind: str, at: str) -> str:
    """The entry that is compared with the same kind tuned at its own load."""
    return f"{_name(kind, at)} (2)"


_KINDS = ("static", "online")
_NAMES = [_name(kind, at) for kind in _KINDS for at in (*_TUNED_AT, _OWN)]
_VERSUS = {_name("online", at): _name("static", at) for at in (*_TUNED_AT, _OWN)}
_VERSUS |= {_lost(kind, at): _name(kind, _OWN) for kind in _KINDS for at in _TUNED_AT}


def _draw(frame: pd.DataFrame) -> Figure:
    colours = slots(_NAMES)
    with styled():
        drawing = figure(10.0, 4.2)
        left, right = drawing.subplots(1, 2)
        lines(left, frame, "load", "return", colours, apart=(_RAMP_NAME,))
        lines(right, frame, "load", "return_gain", colours, apart=(_RAMP_NAME,))
        left.set_ylabel("return, ms")
        right.set_ylabel("online less static tuned at the same load, ms")
        drawing.legend(*left.get_legend_handles_labels(), loc="outside lower center", ncols=3, frameon=False)
    return drawing


def _answer(frame: pd.DataFrame) -> str:
    text = []
    for name in (_name("online", at) for at in (*_TUNED_AT, _OWN)):
        own = frame[frame["entry"] == name]
        parts = [f"{gain(row)} at {row['load']}" for _, row in own.iterrows()]
        text.append(f"* {name.capitalize()}, against {_VERSUS[name]}: {tally(own)}. By load: {'; '.join(parts)}.")
    for kind, at in product(_KINDS, _TUNED_AT):
        own = frame[(frame["entry"] == _lost(kind, at)) & (frame["load"] != _RAMP_NAME)]
        parts = [f"{gain(row)} at {row['load']}" for _, row in own.iterrows()]
        text.append(f"* {_name(kind, at).capitalize()}, against {_name(kind, _OWN)}: {tally(own)}. {'; '.join(parts)}.")
    return "\n".join(text)


DRIFT = Study(
    "drift",
    "Static against online pairing when the load drifts",
    f"""*Static*: `static_pairs`, pairs fixed offline; its settings (share class 0 to 2, least gain 1.001 or 1.3) are
chosen by mean return on training episodes of one load. *Online*: `online_pairs`, which looks at slack, with a
margin (0 to 6 ms) chosen in the same way. Both run fused and keep each stage's fastest version. They are tuned
at load {_TUNED_AT[0]}, at {_TUNED_AT[1]}, and at the load that they are played at; then played on held-out
episodes of `{_SCENARIO}` at loads from {_LOADS[0]:g} to {_LOADS[-1]:g}. In the last case the load rises from
{_RAMP[0]:g} to {_RAMP[1]:g} within each episode (arrivals without jitter, so its episodes differ in host gaps
and durations only).""",
    _plan,
    _VERSUS,
    _draw,
    _answer,
    _choose,
)
