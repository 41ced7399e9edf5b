"""How a learned gate sets itself: its settings at single decisions, and how they move over all that it makes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import NamedTuple

import numpy as np
import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table

from agents.kernels.adaptive import FEATURES, SETTINGS
from agents.learned_gate import LearnedGate
from agents.scheduler import Scheduler
from eval.choices import Recording, Watched
from eval.episodes import Episode
from eval.page import table_html
from eval.play import LANES, play
from eval.table import number
from eval.trained import policy_of
from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Tables

NAMES = tuple(text.partition(":")[0].replace("margin", "margin, ms") for text in SETTINGS)
"""What the settings are called here."""
JOB_BINS = ("0", "1", "2", "3", "4 or more")
"""Visible jobs that can still meet a deadline."""
_JOBS = 5
"""Place of the feature that counts them."""
PERCENTILES = (10, 50, 90)
_MOVES_TEXT = (
    "A setting is a weighted sum of features of the state. Over all decisions of the episodes that it plays by itself: "
    "median, and below it the 10th to the 90th percentile. Jobs: visible ones that can still meet a deadline."
)


class GateSettings(NamedTuple):
    """What is to be said of a learned gate beside its choices."""

    states: pd.DataFrame
    """The state of single decisions as the gate sees it, and what that led to: a row a decision and feature or setting.

    Columns: ``decision``, ``kind``, ``name``, ``value``.
    """
    moves: pd.DataFrame
    """How the settings move: a row a setting and bin.

    Columns: ``setting``, ``against`` (``all``, ``jobs`` or ``load``), ``bin``, ``decisions``, ``p10``, ``p50`` and
    ``p90``.
    """


def gate_settings(
    scheduler: Scheduler, recording: Recording, decisions: Sequence[int], episodes: Sequence[Episode]
) -> GateSettings | None:
    """The settings of a learned gate at ``decisions`` and over ``episodes``; None if ``scheduler`` is not one."""
    gate = policy_of(scheduler)
    if not isinstance(gate, LearnedGate):
        return None
    return GateSettings(states_frame(gate, recording, decisions), moves_frame(gate, recording.tables, episodes))


def states_frame(gate: LearnedGate, recording: Recording, decisions: Sequence[int]) -> pd.DataFrame:
    """See :attr:`GateSettings.states`."""
    gate.start(recording.tables, 1, 0)
    features, settings = gate.settings(recording.views[np.array(decisions, np.int64)])
    rows = [
        (decision, kind, name, value)
        for i, decision in enumerate(decisions)
        for kind, names, values in (("feature", FEATURES, features[i]), ("setting", NAMES, settings[i]))
        for name, value in zip(names, values.tolist(), strict=True)
    ]
    return pd.DataFrame(rows, columns=["decision", "kind", "name", "value"])


class _Settings(Watched):
    """Notes the settings of each decision, with the load of its episode and its number of jobs with deadlines."""

    def __init__(self, gate: LearnedGate, tables: Tables) -> None:
        super().__init__(gate)
        self._gate, self._loads = gate, tables.settings["load"]
        self.rows: list[np.ndarray] = []

    def see(self, simulator: Simulator, actions: np.ndarray) -> None:
        playing = ~simulator.lanes["over"]
        features, settings = self._gate.settings(simulator.views[playing])
        loads, jobs = self._loads[simulator.lanes["setting"][playing]], np.rint(4.0 * (features[:, _JOBS] + 0.5))
        self.rows.append(np.column_stack([loads, np.minimum(jobs, len(JOB_BINS) - 1), settings]))


def moves_frame(gate: LearnedGate, tables: Tables, episodes: Sequence[Episode]) -> pd.DataFrame:
    """See :attr:`GateSettings.moves`; the gate plays the episodes."""
    rows: list[np.ndarray] = []
    for start in range(0, len(episodes), LANES):
        log = _Settings(gate, tables)
        play(log, tables, episodes[start : start + LANES], start, TraceLevel.NONE)
        rows += log.rows
    notes = np.concatenate(rows)
    found = []
    for against, name, chosen in _bins(notes[:, 0], notes[:, 1]):
        for i, setting in enumerate(NAMES):
            ends = np.percentile(notes[chosen, 2 + i], PERCENTILES).tolist()
            found.append((setting, against, name, int(chosen.sum()), *ends))
    columns = ["setting", "against", "bin", "decisions", *(f"p{p}" for p in PERCENTILES)]
    return pd.DataFrame(found, columns=columns)


def _bins(loads: np.ndarray, jobs: np.ndarray) -> Iterator[tuple[str, str, np.ndarray]]:
    """Axis, name and decisions (bool) of each bin that has any."""
    yield "all", "all", np.ones(len(loads), bool)
    for i, name in enumerate(JOB_BINS):
        if (chosen := jobs == i).any():
            yield "jobs", name, chosen
    for load in np.unique(loads):
        yield "load", f"{load:g}", loads == load


def moves_html(moves: pd.DataFrame) -> str:
    """The section of the page on how the settings move."""
    bins = list(dict.fromkeys(zip(moves["against"], moves["bin"], strict=True)))
    headings = ["all decisions" if against == "all" else f"{against} {name}" for against, name in bins]
    cells = {
        (row["setting"], row["against"], row["bin"]): f"{row['p50']:.3f}\n{row['p10']:.3f} to {row['p90']:.3f}"
        for row in moves.to_dict("records")
    }
    rows = [[setting, *(cells[setting, *place] for place in bins)] for setting in NAMES]
    return (
        f"<h3 class=apart>How its settings move</h3><p>{escape(_MOVES_TEXT)}</p>"
        f"{table_html(['setting', *headings], rows)}"
    )


def state_html(states: pd.DataFrame) -> str:
    """One decision's part of the page: its settings, and the features folded away."""
    settings, features = (states[states["kind"] == kind] for kind in ("setting", "feature"))
    rows = [[name, number(value, 3)] for name, value in zip(features["name"], features["value"], strict=True)]
    return (
        f"{table_html(list(settings['name']), [[number(value, 3) for value in settings['value']]])}"
        f"<details><summary>the features that led to these settings</summary>{table_html(['feature', 'value'], rows)}"
        "</details>"
    )


def moves_table(moves: pd.DataFrame) -> Table:
    """The percentiles over all decisions, for a terminal."""
    table = Table(title="Its settings, percentiles over all decisions", box=SIMPLE_HEAD)
    table.add_column("setting")
    for percentile in PERCENTILES:
        table.add_column(f"{percentile} %", justify="right")
    for row in moves[moves["against"] == "all"].to_dict("records"):
        table.add_row(row["setting"], *(number(row[f"p{p}"], 3) for p in PERCENTILES))
    return table
