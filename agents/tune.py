"""Tune the settings of a rule on training episodes: ``python -m agents.tune NAME --scenario ...``.

Only the training split is played: its seeds and settings. A rule's score is its mean return for each ms of simulated
time, averaged over the scenarios, all with equal weight. Every combination of the declared values is a candidate and
plays the same episodes; of equal scores the first wins. All candidates together must stay within a budget of engine
decisions.
"""

from __future__ import annotations

import argparse
import hashlib
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import product
from math import gcd
from pathlib import Path
from typing import Any

import numpy as np

import agents
from agents.rule import Parameter
from agents.scheduler import Scheduler
from agents.tuned import COMMON, FILE, record
from hexenv.cli import Parser, command
from hexenv.engine import Simulator, episode_key
from hexenv.engine.layout import Tables
from hexenv.errors import ConfigError
from hexenv.files import require_writable_file
from hexenv.workload import build, scenario_names

BUDGET = 2_200_000
"""Decisions a scenario: what ``python -m train --learner ppo`` takes."""
EPISODES = 24
"""Training episodes of a scenario that each candidate plays."""

Values = dict[str, Any]


@dataclass(frozen=True)
class Found:
    """What a tuning found."""

    values: Values
    score: float
    """Mean return for each ms simulated, over the scenarios."""
    decisions: int
    """Engine decisions spent, all scenarios together."""


def training_tables(scenario: str, device: str, scheduler: Scheduler) -> Tables:
    """The training split of ``scenario`` under the engine settings of ``scheduler``."""
    return build(scenario, device, "train", **scheduler.overrides)


def play(scheduler: Scheduler, tables: Tables, episodes: int) -> tuple[float, int]:
    """``(score, decisions)`` over the first training episodes: a seed each, and settings spread over all there are."""
    first_seed, seeds = tables.seeds
    if tables.split != "train" or not 1 <= episodes <= seeds:
        raise ConfigError(f"episodes {episodes}: allowed are 1 to {seeds} of the training split of {tables.scenario!r}")
    simulator = Simulator(tables, episodes)
    keys = np.array([episode_key(first_seed + i, 0) for i in range(episodes)], np.uint64)
    simulator.reset(keys, settings=spread(episodes, len(tables.settings)))
    scheduler.start(tables, episodes, 0)
    scheduler.attach(simulator)
    earned = 0.0
    while not (over := simulator.lanes["over"]).all():
        playing = ~over
        simulator.step(scheduler.act(simulator.views, simulator.masks), where=playing)
        earned += float(simulator.rewards[playing].sum())
    simulated_ms = float(simulator.lanes["now_ns"].sum()) / 1e6
    return earned / simulated_ms, int(simulator.lanes["decisions"].sum())


def spread(count: int, rows: int) -> np.ndarray:
    """``count`` of ``rows`` rows, int64: any prefix lies evenly, and each row comes once before one comes again."""
    # Steps of the golden ratio lie most evenly; a step without a common divisor visits every row.
    step = next(s for s in range(max(1, round(0.618 * rows)), 2 * rows + 2) if gcd(s, rows) == 1)
    return np.arange(count) * step % rows


def candidates(parameters: Sequence[Parameter]) -> list[Values]:
    """Every combination of the declared values, in order."""
    names = [parameter.name for parameter in parameters]
    return [dict(zip(names, values, strict=True)) for values in product(*(p.choices for p in parameters))]


def tune(
    name: str,
    scenarios: Sequence[str],
    device: str = "v79",
    budget: int = BUDGET,
    episodes: int = EPISODES,
) -> Found:
    """Find the best settings of the rule ``name`` over ``scenarios``.

    Args:
        name: a rule with settings of its own.
        scenarios: names or paths.
        device: name or path.
        budget: engine decisions a scenario.
        episodes: training episodes of a scenario for each candidate.

    Raises:
        ConfigError: the rule has nothing to tune, an argument is unknown, or the budget does not reach for every
            combination of its declared values.
    """
    parameters = agents.rule(name).own(name)
    if not parameters:
        tunable = [rule for rule in agents.names() if agents.rule(rule).own(rule)]
        raise ConfigError(f"scheduler {name!r} has no settings of its own; allowed: {', '.join(tunable)}")
    best: tuple[float, Values] | None = None
    spent, allowed = 0, budget * len(scenarios)
    for values in candidates(parameters):
        total = 0.0
        for scenario in scenarios:
            scheduler = agents.make(name, **values)
            score, decisions = play(scheduler, training_tables(scenario, device, scheduler), episodes)
            total += score
            spent += decisions
        if spent > allowed:
            raise ConfigError(
                f"budget {budget} decisions a scenario does not reach for the {len(candidates(parameters))} candidates "
                f"of {name!r} with {episodes} episodes each; give more budget or fewer episodes"
            )
        if best is None or total > best[0]:
            best = total, values
    assert best is not None
    return Found(best[1], best[0] / len(scenarios), spent)


def entry(name: str, found: Found, scenarios: Sequence[str], device: str, budget: int, episodes: int) -> dict[str, Any]:
    """What the file of tuned settings keeps of a tuning."""
    scheduler = agents.make(name, **found.values)
    tables = [training_tables(scenario, device, scheduler) for scenario in scenarios]
    seeds = [[t.seeds[0], t.seeds[0] + episodes - 1] for t in tables]
    return {
        "values": found.values,
        "score": round(found.score, 6),
        "scenarios": [t.scenario for t in tables],
        "device": tables[0].device,
        "budget": budget,
        "decisions": found.decisions,
        "episodes": episodes,
        "seeds": seeds[0] if all(s == seeds[0] for s in seeds) else seeds,
        "settings": settings_hash(tables),
    }


def settings_hash(tables: Sequence[Tables]) -> str:
    """Which scenarios, device and engine settings a tuning saw: a digest of their compiled tables."""
    digest = hashlib.sha256()
    for one in tables:
        for array in one.arrays:
            digest.update(np.ascontiguousarray(array).tobytes())
    return digest.hexdigest()[:16]


def _parser() -> argparse.ArgumentParser:
    parser = Parser(
        prog="python -m agents.tune", description="Tune rules on training episodes and keep the best settings."
    )
    parser.add_argument("names", nargs="+", metavar="NAME", help="rules with settings")
    parser.add_argument("--scenario", metavar="NAME,...", help="scenarios tuned over together (default: all bundled)")
    parser.add_argument("--device", default="v79", metavar="NAME", help="device (default: v79)")
    parser.add_argument(
        "--budget", type=int, default=BUDGET, metavar="N", help=f"engine decisions a scenario (default: {BUDGET})"
    )
    parser.add_argument(
        "--episodes", type=int, default=EPISODES, metavar="N", help=f"a candidate and scenario (default: {EPISODES})"
    )
    parser.add_argument("--out", type=Path, default=FILE, metavar="FILE", help="file of tuned settings")
    return parser


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, or 2 for wrong input."""
    options = _parser().parse_args(argv)
    scenarios = tuple(options.scenario.split(",")) if options.scenario else scenario_names()
    how: Mapping[str, Any] = {key: getattr(options, key) for key in ("device", "budget", "episodes")}
    require_writable_file(options.out)
    for name in options.names:
        scopes = [(s,) for s in scenarios] if agents.rule(name).per_scenario else [scenarios]
        for scope in scopes:
            found = tune(name, scope, **how)
            kept = entry(name, found, scope, **how)
            where = kept["scenarios"][0] if agents.rule(name).per_scenario else COMMON
            record(name, where, kept, options.out)
            print(f"{name}, {where}: {found.values}, score {found.score:.4f}, {found.decisions} decisions")
    return 0


if __name__ == "__main__":
    sys.exit(main())
