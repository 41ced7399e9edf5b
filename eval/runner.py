"""A whole evaluation: every scheduler on the same held-out episodes, then table, CSV files, plan and report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import agents
from agents.scheduler import Scheduler
from eval.episodes import Episode, held_out
from eval.identity import EXECUTION, config_hash, config_parts
from eval.play import Outcome, join
from eval.summary import episode_frame, stream_frame, summary_frame
from eval.table import console, results_table, trade_off_markdown
from eval.trained import Trained, train_seed_of, trained_runs
from eval.units import FOLDER, Unit, all_cores, cut, play_units, require_workers
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

    def config(self, scenario: str) -> dict[str, Any]:
        """What other results on ``scenario`` must agree in (:func:`eval.identity.config_parts`)."""
        settings = {name: value for name, value in self.settings.items() if name not in EXECUTION}
        return config_parts(build(scenario, self.device, self.split, **settings))

    def config_hash(self, scenario: str) -> str:
        """Short hash of :meth:`config`."""
        return config_hash(self.config(scenario))


def execute(plan: Plan, folder: Path, markdown: bool = False, workers: int = 1, full: bool = False) -> Path:
    """Check the plan and the folder, play, print the tables and write all results; returns the report's path.

    The ``full`` report plays more and leaves more files (:mod:`eval.report_files`).

    Raises:
        ConfigError: anything in the plan is wrong or ``folder`` cannot be written; no episode has been played.
    """
    require_workers(workers)
    work = check(plan)
    require_writable(folder)
    return publish(plan, play_all(plan, work, workers, folder / FOLDER), folder, markdown, workers, full)


Work = list[tuple[Scheduler, Tables, tuple[Episode, ...]]]


def check(plan: Plan) -> Work:
    """Who plays what, in order. Raises :class:`hexenv.errors.ConfigError` if anything in the plan is wrong."""
    pairs = [(scheduler, plan.tables(name, scheduler)) for name in plan.scenarios for scheduler in plan.schedulers]
    return [(scheduler, tables, held_out(tables, plan.episodes)) for scheduler, tables in pairs]


def play_all(plan: Plan, work: Work, workers: int = 1, kept: Path | None = None) -> list[Outcome]:
    """Play all of ``work`` in this many processes, showing a progress bar; results do not depend on their number.

    With a folder ``kept``, finished units of work are kept there and not played again (:mod:`eval.units`).
    """
    units: list[list[Unit]] = [cut(scheduler, tables, episodes) for scheduler, tables, episodes in work]
    blocks = iter(play_units([unit for own in units for unit in own], workers, kept))
    configs = [plan.config_hash(scenario) for scenario in plan.scenarios for _ in plan.schedulers]
    return [
        join(scheduler.name, tables, [next(blocks) for _ in own], config, train_seed_of(scheduler))
        for (scheduler, tables, _), own, config in zip(work, units, configs, strict=True)
    ]


def publish(
    plan: Plan,
    outcomes: Sequence[Outcome],
    folder: Path,
    markdown: bool = False,
    workers: int = 1,
    full: bool = False,
) -> Path:
    """Write CSV files, plan and report into ``folder``; print the tables (or one in Markdown) and the report's path."""
    from eval.plan_file import PLAN, plan_text
    from eval.report import make_report  # matplotlib takes a second to import: not before it is needed
    from eval.report_files import CHARTS, files_beside, pictures

    summary, streams = summary_frame(outcomes), stream_frame(outcomes)
    results = {"summary": summary, "streams": streams, "episodes": episode_frame(outcomes)}
    plan_json = plan_text(plan, folder)  # before the report starts the plan's schedulers for its timelines
    report = make_report(*one_run_each(plan, outcomes), summary, streams, full, workers, folder / FOLDER)
    files: dict[str, str | bytes] = {f"{stem}.csv": csv_text(frame) for stem, frame in results.items()}
    files |= {PLAN: plan_json, REPORT: report.html}
    if full:
        files |= files_beside(plan, report, results)
        require_writable(folder / CHARTS)
        write_all(folder / CHARTS, pictures(report))
    write_all(folder, files)
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


def one_run_each(plan: Plan, outcomes: Sequence[Outcome]) -> tuple[Plan, list[Outcome]]:
    """The same with one training run of the learned scheduler: the one of median mean return (the lower of two)."""
    runs = [o for o in outcomes if o.train_seed is not None]
    if len(plan.scenarios) != 1 or len(runs) < 2:
        return plan, list(outcomes)
    runs.sort(key=lambda o: float(o.episodes["return"].mean()))
    kept = runs[(len(runs) - 1) // 2].train_seed
    schedulers = tuple(s for s in plan.schedulers if not isinstance(s, Trained) or s.train_seed == kept)
    return replace(plan, schedulers=schedulers), [o for o in outcomes if o.train_seed in (None, kept)]


def evaluate_run(run_dir: Path) -> Path:
    """Evaluate a training run beside all rules on all cores, from its config and checkpoint alone, into its folder.

    Returns the report's path. Raises :class:`hexenv.errors.ConfigError` if the run is wrong or cannot be written to.
    """
    return execute(plan_of_runs((run_dir,)), run_dir, workers=all_cores())


def plan_of_run(
    run_dir: Path, episodes: int | None = None, schedulers: Sequence[str] | None = None, out: Path | None = None
) -> Plan:
    """:func:`plan_of_runs` of a single run."""
    return plan_of_runs((run_dir,), episodes, schedulers, out)


def plan_of_runs(
    folders: Sequence[Path],
    episodes: int | None = None,
    schedulers: Sequence[str] | None = None,
    out: Path | None = None,
) -> Plan:
    """The learned scheduler beside the rules: every rule in its own mode, the policy in the mode it was trained in.

    Args:
        folders: training runs that differ in their seed only, or folders that hold such runs.
        episodes: held-out episodes a scheduler; by default as many as the runs' config says.
        schedulers: the rules to compare with; all of :func:`agents.names` by default.
        out: where the results go, for the command in the report.

    Raises:
        ConfigError: a run, its checkpoint or an argument is wrong.
    """
    runs = trained_runs(folders)
    config = runs[0].config
    episodes = config.eval_episodes if episodes is None else episodes
    settings = {name: value for name, value in config.overrides().items() if name != "mode"}
    rules = [agents.make(name) for name in (agents.names() if schedulers is None else schedulers)]
    command = ["--checkpoint", *map(str, folders), "--episodes", str(episodes)]
    command += ["--schedulers", ",".join(schedulers)] if schedulers is not None else []
    command += ["--out", str(out)] if out is not None else []
    return Plan((config.scenario,), config.device, (*rules, *runs), episodes, settings, command=tuple(command))
