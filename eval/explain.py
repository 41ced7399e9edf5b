"""Explains a scheduler: ``python -m eval --explain``. Single decisions of one episode, and habits over many.

The page and the CSV files are made of two parts: :mod:`eval.choices` (what the schedulers choose at the same states of
one episode, and what each choice leads to) and :mod:`eval.habits` (versions, waiting and pairing over all episodes). To
both, a learned gate adds its settings (:mod:`eval.explain_gate`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.table import Table

from agents.learned import Learned
from agents.scheduler import Scheduler
from eval.choices import Recording, candidates_frame, choices_frame, most_telling, policy_probabilities, record
from eval.episodes import Episode, held_out
from eval.explain_gate import GateSettings, gate_settings, moves_table
from eval.habits import OVERVIEW_HEADINGS, overview_cells, overview_row, play_log, versions_frame, waits_frame
from eval.progress import progress_bar
from eval.runner import Plan
from eval.table import console, number
from eval.trained import policy_of
from hexenv.engine.layout import Mode, Tables
from hexenv.errors import ConfigError
from hexenv.files import csv_text, require_writable, write_all

BASELINES = ("triage_gate", "slack_gate", "online_pairs", "greedy_versions")
"""Rules that a learned policy is explained beside, unless others are named."""
PAGE = "explain.html"


@dataclass(frozen=True)
class Question:
    """Which decisions are explained, and how far their consequences are followed."""

    episode: int = 0
    """Place in the held-out list."""
    decisions: int = 8
    """How many are picked by :func:`eval.choices.most_telling`."""
    at: tuple[int, ...] = ()
    """Numbers of the decisions, from 0, in place of picking them."""
    span_us: float = 20_000.0
    """Simulated time after a choice."""
    futures: int = 64
    """Forks of a choice."""


@dataclass(frozen=True)
class Answer:
    """All that was found; frames as in :mod:`eval.choices` and :mod:`eval.habits`."""

    recording: Recording
    episode: Episode
    left_out: tuple[str, ...]
    """Baselines of other execution modes."""
    choices: pd.DataFrame
    candidates: pd.DataFrame
    overview: pd.DataFrame
    versions: pd.DataFrame
    waits: pd.DataFrame
    gate: GateSettings | None
    """Of a learned gate; None if something else is explained."""

    @property
    def left_out_text(self) -> str:
        """Who could not be asked, and why; empty if all could."""
        names = ", ".join(self.left_out)
        reason = "other execution mode or settings, so not the same states and actions"
        return f"Left out: {names} ({reason})." if names else ""


def explain(plan: Plan, explained: Scheduler, question: Question, folder: Path) -> Path:
    """Explain one of the plan's schedulers beside the others; returns the page's path.

    Args:
        plan: one scenario, its episodes and schedulers.
        explained: the one of ``plan.schedulers`` to explain.
        question: what is asked.
        folder: where ``explain.html`` and the CSV files go.

    Raises:
        ConfigError: something in the plan or the question is wrong, or ``folder`` cannot be written.
    """
    from eval.explain_html import explain_page  # matplotlib takes a second to import: not before it is needed

    episodes = _check(plan, explained, question)
    tables, others, left_out = _comparable(plan, explained)
    require_writable(folder)
    recording = record(explained, others, tables, episodes[question.episode], question.episode)
    decisions = _decisions(explained, recording, question)
    policy = policy_of(explained)
    probabilities = policy_probabilities(policy, recording, decisions) if isinstance(policy, Learned) else None
    answer = Answer(
        recording,
        episodes[question.episode],
        left_out,
        choices_frame(explained, recording, decisions, probabilities, question.futures, question.span_us),
        candidates_frame(recording, decisions, probabilities),
        *_habits([explained, *others], tables, episodes[: plan.episodes]),
        gate_settings(explained, recording, decisions, episodes[: plan.episodes]),
    )
    texts = {
        "explain_choices.csv": csv_text(answer.choices),
        "explain_candidates.csv": csv_text(answer.candidates),
        "explain_overview.csv": csv_text(answer.overview),
        "explain_versions.csv": csv_text(answer.versions),
        "explain_waits.csv": csv_text(answer.waits),
        PAGE: explain_page(plan, question, answer),
    }
    if answer.gate is not None:
        texts |= {"explain_states.csv": csv_text(answer.gate.states)}
        texts |= {"explain_settings.csv": csv_text(answer.gate.moves)}
    write_all(folder, texts)
    screen = console()
    screen.print(_choices_table(answer, question))
    screen.print(_overview_table(plan, answer))
    if answer.gate is not None:
        screen.print(moves_table(answer.gate.moves))
    if answer.left_out:
        screen.print(answer.left_out_text, soft_wrap=True, highlight=False)
    screen.print(f"page: {folder / PAGE}", soft_wrap=True, highlight=False)
    return folder / PAGE


def _check(plan: Plan, explained: Scheduler, question: Question) -> tuple[Episode, ...]:
    """The held-out list, as far as it is needed."""
    if len(plan.scenarios) != 1:
        raise ConfigError(f"--explain takes one scenario; got {', '.join(plan.scenarios)}")
    if question.decisions < 1:
        raise ConfigError(f"--decisions {question.decisions} is not allowed; at least 1")
    tables = plan.tables(plan.scenarios[0], explained)
    available = len(tables.settings) * tables.seeds[1]
    if not 0 <= question.episode < available:
        raise ConfigError(f"--episode {question.episode} is not allowed; 0 to {available - 1}")
    held_out(tables, plan.episodes)
    return held_out(tables, max(plan.episodes, question.episode + 1))


def _comparable(plan: Plan, explained: Scheduler) -> tuple[Tables, list[Scheduler], tuple[str, ...]]:
    """The explained scheduler's tables, the others that play on the very same ones, and names of those that do not."""
    tables = plan.tables(plan.scenarios[0], explained)
    others = [one for one in plan.schedulers if one is not explained]
    same = [one for one in others if plan.tables(plan.scenarios[0], one).config.tobytes() == tables.config.tobytes()]
    if not same:
        mode = Mode(int(tables.config["mode"][0])).name.lower()
        names = ", ".join(one.name for one in others) or "none"
        raise ConfigError(
            f"{explained.name!r} has nobody to be compared with: none of the other schedulers ({names}) runs under its "
            f"settings (mode {mode}); name one in --schedulers, or give all of them one --mode"
        )
    return tables, same, tuple(one.name for one in others if one not in same)


def _decisions(explained: Scheduler, recording: Recording, question: Question) -> list[int]:
    """The decisions to explain, in order of time."""
    last = len(recording.lanes) - 1
    for decision in question.at:
        if not 0 <= decision <= last:
            raise ConfigError(f"--at {decision} is not allowed: episode {question.episode} has decisions 0 to {last}")
    decisions = sorted(set(question.at)) or most_telling(explained, recording, question.decisions, question.span_us)
    if not decisions:
        raise ConfigError(
            f"all schedulers agree at each of the {last + 1} decisions of episode {question.episode}: name others, "
            "another --episode, or decisions with --at"
        )
    return decisions


def _habits(
    schedulers: Sequence[Scheduler], tables: Tables, episodes: Sequence[Episode]
) -> tuple[pd.DataFrame, pd.DataFrame, pd.DataFrame]:
    """Overview, versions and waits of all schedulers, each playing the episodes by itself."""
    rows, versions, waits = [], [], []
    with progress_bar(len(episodes) * len(schedulers)) as bar:
        for i, scheduler in enumerate(schedulers):
            bar.begin(f"{tables.scenario}, {scheduler.name}", len(episodes) * i)
            log, mean_return = play_log(scheduler, tables, episodes)
            rows.append(overview_row(scheduler.name, log, mean_return, len(episodes)))
            versions.append(versions_frame(scheduler.name, log, tables))
            waits.append(waits_frame(scheduler.name, log))
    return pd.DataFrame(rows), pd.concat(versions, ignore_index=True), pd.concat(waits, ignore_index=True)


def _choices_table(answer: Answer, question: Question) -> Table:
    table = Table(
        title=f"What each choice led to within {question.span_us / 1e3:g} ms, mean of {question.futures} futures",
        caption="return: ms of reference work; gain: paired difference to the explained scheduler's own choice, "
        "with its standard error",
        box=SIMPLE_HEAD,
    )
    for heading in ("decision", "ms", "chosen by", "choice", "prob.", "return", "gain", "+-", "misses", "finished"):
        table.add_column(heading, justify="left" if heading in ("chosen by", "choice") else "right")
    for _, row in answer.choices.iterrows():
        cells = [str(row["decision"]), number(row["time_ms"], 2), row["chosen_by"], row["choice"]]
        figures = [number(row[name], 2) for name in ("probability", "return", "return_gain", "return_se")]
        table.add_row(*cells, *figures, number(row["misses"], 2), number(row["finished"], 2))
    return table


def _overview_table(plan: Plan, answer: Answer) -> Table:
    table = Table(
        title=f"What they do over {plan.episodes} episodes, each playing by itself",
        caption="waits: of all decisions; idle waits: of those on an idle device; pairs: of those beside a resident; "
        "free: picks with a choice of version, and the versions taken there",
        box=SIMPLE_HEAD,
    )
    for heading in OVERVIEW_HEADINGS:
        table.add_column(heading, justify="left" if heading == "scheduler" else "right")
    for cells in overview_cells(answer.overview):
        table.add_row(*cells)
    return table
