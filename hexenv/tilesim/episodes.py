"""Whole episodes: played by the engine under simple random policies, then replayed tile by tile."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np

from hexenv.engine import Simulator, TraceLevel, episode_key
from hexenv.engine.layout import Tables
from hexenv.tilesim.cases import Measure, cause_of
from hexenv.tilesim.chip import Chip
from hexenv.tilesim.machine import Play, play
from hexenv.tilesim.schedule import Schedule, recorded

Policy = Callable[[np.ndarray, np.random.Generator], int]
"""Chooses among the indices of the legal actions (0 = wait is always there)."""


def _any(legal: np.ndarray, rng: np.random.Generator) -> int:
    return int(rng.choice(legal))


def _busy(legal: np.ndarray, rng: np.random.Generator) -> int:
    return int(rng.choice(legal[1:])) if legal.size > 1 else 0


def _in_order(legal: np.ndarray, rng: np.random.Generator) -> int:
    del rng
    return int(legal[1]) if legal.size > 1 else 0


POLICIES: dict[str, Policy] = {"any": _any, "busy": _busy, "in order": _in_order}
"""Any legal action; any but wait; the first task in its first version and share."""


def episode(tables: Tables, chip: Chip, policy: str, seed: int) -> list[Measure]:
    """One episode: the ends of all its stages, each in its recorded surroundings, and the makespan with shifting time.

    The surroundings of a stage (see ``Schedule.around``) start at their recorded instants, so errors do not add up
    along the episode; in the makespan they do.
    """
    schedule = _record(tables, policy, seed)
    case = f"{tables.scenario}, {policy}, seed {seed}"
    return [*_stages(schedule, chip, case), *_whole(schedule, chip, case)]


def _record(tables: Tables, policy: str, seed: int) -> Schedule:
    rng = np.random.default_rng(seed)
    simulator = Simulator(tables, trace=TraceLevel.ALL)
    simulator.reset(np.array([episode_key(seed, 0)], np.uint64))
    while not simulator.lanes["over"][0]:
        action = POLICIES[policy](np.flatnonzero(simulator.masks[0]), rng)
        simulator.step(np.array([action]))
    return recorded(simulator.trace(0), tables)


def _stages(schedule: Schedule, chip: Chip, case: str) -> Iterator[Measure]:
    plays: dict[tuple[int, ...], Play] = {}  # neighbours often have the same surroundings
    for index, (launch, end_us) in enumerate(zip(schedule.launches, schedule.ends_us, strict=True)):
        if not np.isfinite(end_us):
            continue
        around = schedule.around(index)
        if around not in plays:
            plays[around] = play(chip, [schedule.launches[i] for i in around])
        tiles = plays[around]
        run = tiles.stages[around.index(index)]
        fluid_us, tiles_us = end_us - launch.at_us, run.end_us - run.dispatch_us
        name = f"{schedule.names[index]} at {launch.at_us:.0f} us of {case}"
        cause = cause_of(tiles, around.index(index), fluid_us - tiles_us)
        yield Measure("stage of an episode", "end", name, fluid_us, tiles_us, cause)


def _whole(schedule: Schedule, chip: Chip, case: str) -> Iterator[Measure]:
    """Makespan from the first dispatch to the last recorded end, and busy times of the stages that ended."""
    ended = [i for i, end in enumerate(schedule.ends_us) if np.isfinite(end)]
    tiles = play(chip, schedule.shifting())
    start = tiles.stages[0].dispatch_us
    makespan = max(tiles.stages[i].end_us for i in ended) - start
    yield Measure("episode", "makespan", case, schedule.last_us - schedule.first_us, makespan, "sum of all its stages")
