"""A ceiling on throughput that is quick to find: what an episode brings, against what the engines can do.

It is the linear program of :mod:`eval.bounds.relaxation` without time, order, deadlines and misses: every stage that
could arrive may run at any instant of the episode. So no schedule finishes more, whatever it misses.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eval.bounds.demand import Engine, demands_of
from eval.bounds.jobs import episode_jobs
from eval.bounds.program import Program
from eval.episodes import Episode
from hexenv.engine.layout import Tables

NS_PER_MS = 1e6


def throughput_ceiling(tables: Tables, episodes: Sequence[Episode]) -> float:
    """Reference work that any schedule can finish in a ms, over all ``episodes``, in the mode of ``tables``."""
    horizon_ms = float(tables.config["horizon_ns"][0]) / NS_PER_MS
    return sum(most_work(tables, episode) for episode in episodes) / (len(episodes) * horizon_ms)


def most_work(tables: Tables, episode: Episode) -> float:
    """Upper bound on the reference work finished in an episode, ms, in the mode of ``tables``."""
    demands, program = demands_of(tables), Program()
    horizon_ns = float(tables.config["horizon_ns"][0])
    jobs = [job for job in episode_jobs(tables, episode, demands) if job.release_ns < horizon_ns]
    loads: list[list[tuple[int, float]]] = [[] for _ in Engine]
    work_of: dict[int, list[tuple[float, float]]] = {}
    for job in jobs:
        in_time = job.end_ns <= horizon_ns + 1.0
        for op, noise, reachable in zip(job.ops.tolist(), job.noise.tolist(), in_time.tolist(), strict=True):
            if reachable:
                work_of.setdefault(op, []).append((noise, 1.0))
    for op, stages in work_of.items():
        rows = tables.ops["variant"][op].ravel()
        rows = rows[(rows >= 0) & demands.legal[rows]]
        versions = np.unique(demands.work[rows], axis=0)
        mixed = [program.variable() for _ in versions]
        # Work in units of the operator at noise 1: what takes least of it comes first in any best solution.
        amounts = [
            (program.variable(float(tables.ops["ref_ns"][op]) / NS_PER_MS, count), noise) for noise, count in stages
        ]
        program.at_most([*amounts, *((version, -1.0) for version in mixed)])
        for version, work in zip(mixed, versions, strict=True):
            for engine in Engine:
                if work[engine] > 0.0:
                    loads[engine].append((version, float(work[engine]) / NS_PER_MS))
        loads[Engine.SLOT] += [(stage, demands.slot_launch_ns / NS_PER_MS) for stage, _ in amounts]
    for engine in Engine:
        program.at_most(loads[engine], float(demands.capacity[engine]) * horizon_ns / NS_PER_MS)
    return program.upper_bound()
