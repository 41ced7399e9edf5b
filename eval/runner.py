"""A whole evaluation: every scheduler on the same held-out episodes, then table, CSV files and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import agents
from agents.scheduler import Scheduler
from eval.episodes import Episode, held_out
from eval.play import Outcome, run
from eval.progress import progress_bar
from eval.summary import episode_frame, stream_frame, summary_frame
from eval.table import console, results_table, trade_off_markdown
from hexenv.engine.layout import Tables
from hexenv.files import csv_text, require_writable, write_all
from hexenv.workload import build

EPISODES = 60
"""Held-out episodes of a scenario, unless asked otherwise."""
REPORT = "report.html"


@dataclass(frozen=True)
class Plan:
    """What an evaluation runs. Equal plans give equal bytes in the CSV files."""

    scenarios: tuple[str, ...]
    device: str
    schedulers: tuple[Scheduler, ...]
    episodes: int = EPISODES
    """Episodes of each scenario, the same for every scheduler."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Engine settings for all schedulers (``hexenv.workload.build``); they win over a scheduler's own."""
    split: str = "heldout"
    command: tuple[str, ...] = ()
    """The arguments of ``python -m eval`` that repeat this evaluation, for the report."""

    def tables(self, scenario: str, scheduler: Scheduler) -> Tables:
        """What ``scheduler`` runs on: the scenario under its own engine settings and those of the plan."""
        return build(scenario, self.device, self.split, **{**scheduler.overrides, **self.settings})


def execute(plan: Plan, folder: Path, markdown: bool = False) -> Path:
    """Check the plan and the folder, play, print the tables and write all results; returns the report's path.

    Raises:
        ConfigError: anything in the plan is wrong or ``folder`` cannot be written; no episode has been played.
    """
    work = check(plan)
    require_writable(folder)
    return publish(plan, play_all(plan, work), folder, markdown)


Work = list[tuple[Scheduler, Tables, tuple[Episode, ...]]]


def check(plan: Plan) -> Work:
    """Who plays what, in order. Raises :class:`hexenv.errors.ConfigError` if anything in the plan is wrong."""
    pairs = [(scheduler, plan.tables(name, scheduler)) for name in plan.scenarios for scheduler in plan.schedulers]
    return [(scheduler, tables, held_out(tables, plan.episodes)) for scheduler, tables in pairs]


def play_all(plan: Plan, work: Work) -> list[Outcome]:
    """Play all of ``work``, showing a progress bar."""
    outcomes = []
    with progress_bar(plan.episodes * len(work)) as bar:
        for i, (scheduler, tables, episodes) in enumerate(work):
            bar.begin(f"{tables.scenario}, {scheduler.name}", plan.episodes * i)
            outcomes.append(run(scheduler, tables, episodes, bar.update))
    return outcomes


def publish(plan: Plan, outcomes: Sequence[Outcome], folder: Path, markdown: bool = False) -> Path:
    """Write CSV files and report into ``folder``; print the tables (or one in Markdown) and the report's path."""
    from eval.report import report_html  # matplotlib takes a second to import: not before it is needed

    summary, streams = summary_frame(outcomes), stream_frame(outcomes)
    texts = {
        "summary.csv": csv_text(summary),
        "streams.csv": csv_text(streams),
        "episodes.csv": csv_text(episode_frame(outcomes)),
        REPORT: report_html(plan, outcomes, summary, streams),
    }
    write_all(folder, texts)
    screen = console()
    if markdown:
        screen.print(trade_off_markdown(summary), soft_wrap=True, highlight=False, markup=False)
    else:
        for scenario in summary["scenario"].unique():
            of_scenario, of_streams = (frame[frame["scenario"] == scenario] for frame in (summary, streams))
            screen.print(results_table(scenario, of_scenario, of_streams, screen.width))
    path = folder / REPORT
    screen.print(f"report: {path}", soft_wrap=True, highlight=False)
    return path


def evaluate_run(
    run_dir: Path,
    episodes: int | None = None,
    *,
    schedulers: Sequence[str] | None = None,
    out: Path | None = None,
    markdown: bool = False,
) -> Path:
    """Evaluate a training run beside the rules, from its config and checkpoint alone; returns the report's path.

    Args:
        run_dir: the run's folder.
        episodes: held-out episodes a scheduler; by default as many as the run's config says.
        schedulers: the rules to compare with; all of :func:`agents.names` by default.
        out: where the results go; the run's folder by default.
        markdown: print a Markdown table.

    Raises:
        ConfigError: the run, its checkpoint or an argument is wrong, or the output folder cannot be written.
    """
    plan = plan_of_run(run_dir, episodes, schedulers, out)
    return execute(plan, run_dir if out is None else out, markdown)


def plan_of_run(
    run_dir: Path, episodes: int | None = None, schedulers: Sequence[str] | None = None, out: Path | None = None
) -> Plan:
    """The plan of :func:`evaluate_run`: every rule in its own mode, the policy in the mode it was trained in."""
    from agents.learned import Learned
    from train.checkpoint import read_config

    config = read_config(run_dir)
    episodes = config.eval_episodes if episodes is None else episodes
    settings = config.overrides()
    rules = [agents.make(name) for name in (agents.names() if schedulers is None else schedulers)]
    policy = Learned(run_dir)
    policy.overrides = {"mode": settings.pop("mode")}
    command = ["--checkpoint", str(run_dir), "--episodes", str(episodes)]
    command += ["--schedulers", ",".join(schedulers)] if schedulers is not None else []
    command += ["--out", str(out)] if out is not None else []
    return Plan((config.scenario,), config.device, (*rules, policy), episodes, settings, command=tuple(command))
