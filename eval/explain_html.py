"""The page of ``python -m eval --explain``: one HTML file that opens offline, in the manner of the report."""

from __future__ import annotations

import shlex
from html import escape
from typing import TYPE_CHECKING

import numpy as np
import pandas as pd
from matplotlib.figure import Figure

from eval.choices import situation
from eval.explain_gate import moves_html, state_html
from eval.habits import AXES, LOAD_BINS, OVERVIEW_HEADINGS, VERSIONS, overview_cells
from eval.page import fragment, page_html, table_html
from eval.table import number
from eval.theme import MARKERS, figure, inline_svg, light, scheduler_slots, styled
from hexenv import __version__

if TYPE_CHECKING:
    from eval.explain import Answer, Question
    from eval.runner import Plan

_FAMILIES = 6
"""Operator families with panels of their own, those with the most free choices of version."""
_TITLES = {"slack": "least slack in view", "backlog": "jobs waiting or running"}
_COLOURS = {"hvx": "hvx", "hmx": "hmx", "hybrid": "scheduler-4"}
_CANDIDATE_HEADINGS = {
    "chosen_by": "chosen by", "probability": "probability", "action": "action", "stream": "stream",
    "operator": "operator", "version": "version", "tile": "tile", "share": "share", "contexts": "contexts",
    "ddr_us": "D, us", "hvx_us": "V, us", "hmx_us": "M, us", "vtcm_kib": "VTCM, KiB", "alone_us": "alone, us",
    "slack_us": "slack, us", "due_us": "due in, us",
}  # fmt: skip
_HABITS_TEXT = (
    "Each scheduler plays the {episodes} episodes by itself. Pairs: of the decisions beside a resident stage, those "
    "that add another. Idle waits: of the decisions on an idle device. Share: of the HVX contexts that a joining stage "
    "takes. Free: picks of a task with at least two legal versions, and how often each version was taken there."
)
_VERSIONS_TEXT = (
    "Only picks with a free choice of version count, their number is above each bar. Load: the part of the engine's "
    "time that the resident stage asks for by itself."
)
_DECISIONS_TEXT = (
    "Episode {episode} (seed {seed}), played by {explained}. At each decision the others were asked at the very same "
    "state. Every choice was then carried out on {futures} forks with resampled arrivals and durations, the same ones "
    "for all choices of a decision, and {explained} went on for {span:g} ms. Gains are paired differences to its own "
    "choice, with their standard errors. {how}"
)
_PICKED_TEXT = "These are the decisions where another choice makes the largest difference, at least 5 ms apart."
_GAINS_TEXT = (
    "Return gained by another's choice, ms of reference work, with two standard errors. Right of 0: it was better. "
    "A share has no effect for a stage that is alone on the device."
)


def explain_page(plan: Plan, question: Question, answer: Answer) -> str:
    """The whole page."""
    names = list(answer.recording.actions)
    explained, tables = names[0], answer.recording.tables
    setting = tables.settings[answer.episode.setting]
    with styled():
        lines = [
            (heading, inline_svg(_lines(answer.waits, key, names), f"by-{key}", heading))
            for key, heading in (("waits", "When they wait"), ("pairs", "When they pair"))
        ]
        versions = inline_svg(_versions(answer.versions, explained), "versions", "Versions chosen against load")
        gains = inline_svg(_gains(answer.choices, names), "gains", "What the others' choices would have gained")
    decisions_text = _DECISIONS_TEXT.format(
        episode=question.episode,
        seed=answer.episode.seed,
        explained=explained,
        futures=question.futures,
        span=question.span_us / 1e3,
        how="" if question.at else _PICKED_TEXT,
    )
    body = fragment(
        "explain.html",
        habits_text=escape(_HABITS_TEXT.format(episodes=plan.episodes)),
        overview=table_html(OVERVIEW_HEADINGS, overview_cells(answer.overview)),
        habits="".join(f"<figure><h3>{escape(heading)}</h3>{svg}</figure>" for heading, svg in lines),
        versions_heading=escape(f"Versions that {explained} chooses, against the load of HVX and HMX"),
        versions=versions,
        versions_text=escape(_VERSIONS_TEXT),
        settings="" if answer.gate is None else moves_html(answer.gate.moves),
        decisions_text=escape(f"{decisions_text} Load {setting['load']:g}, deadlines x {setting['tightness']:g}."),
        gains=gains,
        gains_text=escape(_GAINS_TEXT),
        decisions="\n".join(_decision(answer, number) for number in answer.choices["decision"].unique()),
        command=escape(shlex.join(["python", "-m", "eval", *plan.command])),
    )
    return page_html(
        f"What {explained} does on {tables.scenario}, and why",
        f"hexenv {__version__}, device {plan.device}, beside {', '.join(names[1:])}. {answer.left_out_text} "
        "Figures come from a calibrated model of the device, not from a device.",
        body,
    )


def _decision(answer: Answer, decision: int) -> str:
    choices = answer.choices[answer.choices["decision"] == decision]
    candidates = answer.candidates[answer.candidates["decision"] == decision]
    learned = bool(choices["probability"].notna().any())
    time_ms = choices["time_ms"].iloc[0]
    states = None if answer.gate is None else answer.gate.states[answer.gate.states["decision"] == decision]
    return (
        f"<h3 class=apart>Decision {decision} at {time_ms:.2f} ms</h3>"
        f"<p class=quiet>{escape(situation(answer.recording, decision))}</p>"
        f'<div class="choices">{_choices_table(choices, learned)}</div>'
        f"{'' if states is None else state_html(states)}"
        f"<details><summary>all {len(candidates)} candidates with their profiles</summary>"
        f"{_candidates_table(candidates, learned)}</details>"
    )


def _choices_table(choices: pd.DataFrame, learned: bool) -> str:
    headings = ["chosen by", "choice", *(["probability"] if learned else []), "return", "gain", "misses", "gain"]
    rows = []
    for place, row in enumerate(choices.to_dict("records")):
        cells = [row["chosen_by"].replace(" ", ", "), row["choice"]]
        cells += [number(row["probability"], 3)] if learned else []
        for name in ("return", "misses", "finished"):
            gain = "-" if place == 0 else f"{row[f'{name}_gain']:+.2f}\n± {row[f'{name}_se']:.2f}"
            cells += [number(row[name], 2), gain]
        rows.append(cells)
    return table_html([*headings, "finished", "gain"], rows)


def _candidates_table(candidates: pd.DataFrame, learned: bool) -> str:
    shown = {key: text for key, text in _CANDIDATE_HEADINGS.items() if learned or key != "probability"}
    ordered = candidates.sort_values("probability", ascending=False, kind="stable") if learned else candidates
    rows = [[_candidate_cell(key, row[key]) for key in shown] for row in ordered.to_dict("records")]
    return table_html(list(shown.values()), rows)


def _candidate_cell(key: str, value: object) -> str:
    if isinstance(value, float):
        return number(value, {"probability": 3, "contexts": 0, "vtcm_kib": 0}.get(key, 1))
    return str(value).replace(" ", ", ") if key == "chosen_by" else str(value)


def _lines(waits: pd.DataFrame, key: str, names: list[str]) -> Figure:
    """A figure of the waits frame against slack and backlog, a line a scheduler."""
    drawing = figure(5.2, 4.7)
    slots = scheduler_slots(names)
    for axes, axis in zip(drawing.subplots(2, 1), _TITLES, strict=True):
        for name in names:
            own = waits[(waits["scheduler"] == name) & (waits["against"] == axis)]
            colour = light(f"scheduler-{slots[name]}")
            width = 2.2 if name == names[0] else 1.1
            shares = 100.0 * own[key].to_numpy()
            axes.plot(
                range(len(AXES[axis])),
                shares,
                color=colour,
                marker=MARKERS[slots[name]],
                linewidth=width,
                markersize=4.5,
                label=name,
            )
        axes.set_xticks(range(len(AXES[axis])), AXES[axis])
        axes.set_title(_TITLES[axis])
        axes.set_ylabel("% of decisions")
        axes.set_ylim(bottom=0.0)
        axes.grid(True, axis="y", linewidth=0.6)
    handles, labels = drawing.axes[0].get_legend_handles_labels()
    drawing.legend(handles, labels, loc="outside upper left", ncols=4, frameon=False, fontsize=7.5)
    return drawing


def _versions(versions: pd.DataFrame, explained: str) -> Figure:
    """Bars of the versions chosen, a row of panels an engine, a column an operator family."""
    own = versions[versions["scheduler"] == explained]
    picks = own[own["engine"] == "hvx"].groupby("family", sort=False)["picks"].sum()
    families = picks.sort_values(ascending=False, kind="stable").index[:_FAMILIES].tolist()
    drawing = figure(11.0, 4.4)
    if not families:
        drawing.text(0.5, 0.5, "no pick had a choice of version", ha="center")
        return drawing
    panels = drawing.subplots(2, len(families), sharex=True, sharey=True, squeeze=False)
    for row, engine in zip(panels, ("hvx", "hmx"), strict=True):
        for axes, family in zip(row, families, strict=True):
            part = own[(own["family"] == family) & (own["engine"] == engine)]
            total = part["picks"].to_numpy()
            floor = np.zeros(len(part))
            for version in VERSIONS:
                height = 100.0 * part[version].to_numpy() / np.maximum(total, 1)
                axes.bar(range(len(part)), height, 0.8, floor, color=light(_COLOURS[version]), label=version.upper())
                floor += height
            for place, count in enumerate(total):
                axes.text(place, 103.0, f"{count}", ha="center", fontsize=6, color=light("muted"))
            axes.set_xticks(range(len(LOAD_BINS)), LOAD_BINS, rotation=45, ha="right", fontsize=7)
            axes.set_ylim(0.0, 112.0)
        row[0].set_ylabel(f"% of picks,\nby {engine.upper()} load")
    for axes, family in zip(panels[0], families, strict=True):
        axes.set_title(family)
    drawing.legend(*panels[0, 0].get_legend_handles_labels(), loc="outside upper right", ncols=3, frameon=False)
    return drawing


def _gains(choices: pd.DataFrame, names: list[str]) -> Figure:
    """Gain in return of every other choice with two standard errors, a line a decision and choice."""
    slots = scheduler_slots(names)
    others = choices[choices.groupby("decision").cumcount() > 0].reset_index(drop=True)
    drawing = figure(6.4, 0.9 + 0.24 * max(len(others), 1))
    axes = drawing.subplots()
    axes.axvline(0.0, color=light("muted"), linewidth=1.0)
    labels = []
    for place, row in enumerate(others.to_dict("records")):
        who = row["chosen_by"].split(" ")
        slot = slots[who[0]]
        axes.errorbar(
            row["return_gain"],
            place,
            xerr=2.0 * row["return_se"],
            fmt=MARKERS[slot],
            color=light(f"scheduler-{slot}"),
            markersize=5.5,
        )
        labels.append(f"{row['decision']}: {', '.join(who)}")
    axes.set_yticks(range(len(labels)), labels)
    axes.set_ylim(max(len(labels), 1) - 0.5, -0.5)
    axes.set_xlabel("gain in return, ms")
    axes.grid(True, axis="x", linewidth=0.6)
    return drawing
