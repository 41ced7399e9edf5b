"""An upper bound on the return of any schedule of an episode, by linear programming.

Every run of the engine, under any scheduler, gives a feasible point of the program whose value is at least the return:

* **Work.** Credited stages did all their work between their job's release and its deadline (a firm job that is not
  dropped, a soft one on time) or the horizon, at the actual durations of the episode. A stage may be split over its
  versions, each with its least demand (:mod:`eval.bounds.demand`). Work of stages that earn nothing is left out.
* **Engines.** In each interval between releases and deadlines no engine gives more than its capacity. Each engine may
  cut a job's work over the intervals of its window in its own way, so no stage need be whole on one of them.
* **Order.** A stage counts only if its chain, alone on the device at its fastest, lets it end in time; a closed loop
  unlocks jobs at its fastest. A stage is done at most as far as the stages before it, a job of a closed loop at most as
  far as the one before it. Otherwise stages of a job may run at any time, and many at once.
* **Rewards.** A firm job due before the horizon earns all or nothing and a miss is charged for the rest, in any
  fraction. Late soft jobs, and jobs due after the horizon, earn stage by stage. A soft closed loop that is late ``m``
  times has lived at most ``m`` periods plus one a job; what its host gaps and jobs leave of the episode is charged.

Launches count (the least a stage and its job pay); interference, lock hand-offs, context splits, VTCM
fragmentation, full queues (but their misses) and the state a job hands to the next do not.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence

import numpy as np

from eval.bounds.demand import Demands, Engine, demands_of
from eval.bounds.jobs import Job, episode_jobs
from eval.bounds.program import Program
from eval.episodes import Episode
from hexenv.engine.layout import NO_DEADLINE, Arrival, Tables

NS_PER_MS = 1e6
_ROUNDING_NS = 1.0
"""Ends of chains are sums of rounded times: nothing is ruled out for less."""
_WINDOWS = 24
"""Releases of work that may last until the horizon are told apart at no more than so many instants."""

_Demand = list[list[tuple[int, float]]]
"""For each engine what it is asked for, ms: terms of the program."""


def return_bound(tables: Tables, episode: Episode) -> float:
    """Upper bound on the episode's return under any scheduler, ms of reference work.

    It knows the episode's arrivals and actual durations, and the mode and splits of ``tables``.
    """
    demands = demands_of(tables)
    return _Relaxation(tables, demands, episode_jobs(tables, episode, demands)).upper_bound()


class _Relaxation:
    """The program of one episode."""

    def __init__(self, tables: Tables, demands: Demands, jobs: Sequence[Job]) -> None:
        self._tables = tables
        self._demands = demands
        self._horizon = int(tables.config["horizon_ns"][0])
        self._program = Program()
        self._constant = 0.0
        self._versions: dict[int, np.ndarray] = {}
        jobs = [job for job in jobs if job.release_ns < self._horizon]
        due = {t for job in jobs if job.due_ns <= self._horizon for t in (job.release_ns, job.due_ns)}
        self._instants = sorted({0, self._horizon} | due)
        self._flows: list[list[list[int]]] = [[[] for _ in self._instants[1:]] for _ in Engine]
        self._until_horizon: list[tuple[int, list[int]]] = []
        for s in range(int(tables.config["n_streams"][0])):
            self._add_stream(tables.streams[s], [job for job in jobs if job.stream == s])
        self._spread_until_horizon()
        self._limit_engines()

    def upper_bound(self) -> float:
        """The bound, ms."""
        return self._program.upper_bound() + self._constant

    def _add_stream(self, stream: np.void, jobs: list[Job]) -> None:
        if stream["arrival"] == Arrival.CLOSED_LOOP:
            if stream["firm"] and stream["deadline_ns"] < NO_DEADLINE:
                for job in jobs:
                    self._add_partial(job)
            else:
                self._add_loop(jobs)
            return
        for job in jobs:
            if job.due_ns > self._horizon:
                self._add_partial(job)
            elif job.firm:
                self._add_on_time(job)
            else:
                self._add_partial(job, unless=self._add_on_time(job))

    def _add_on_time(self, job: Job) -> int:
        """A job that is due before the horizon; returns the variable of being on time."""
        program = self._program
        self._constant -= job.charge_ns / NS_PER_MS
        if job.end_ns.max() > job.due_ns + _ROUNDING_NS:
            return program.variable(0.0, 0.0)
        reference = float(self._tables.ops["ref_ns"][job.ops].sum())
        on_time = program.variable((reference + job.charge_ns) / NS_PER_MS, 1.0)
        demand = self._demand(job, [on_time] * len(job.ops), on_time)
        first, last = self._instants.index(job.release_ns), self._instants.index(job.due_ns)
        for engine in Engine:
            if demand[engine]:
                parts = [program.variable() for _ in range(first, last)]
                program.at_most([*demand[engine], *((part, -1.0) for part in parts)])
                for interval, part in zip(range(first, last), parts, strict=True):
                    self._flows[engine][interval].append(part)
        return on_time

    def _add_partial(self, job: Job, unless: int | None = None) -> list[int]:
        """A job that earns by the stage until the horizon, as far as ``unless`` is not 1.

        Returns the variables of its stages being done.
        """
        program, tables = self._program, self._tables
        reachable = job.end_ns <= self._horizon + _ROUNDING_NS
        values = tables.ops["ref_ns"][job.ops] / NS_PER_MS
        done = [program.variable(v, float(r)) for v, r in zip(values.tolist(), reachable.tolist(), strict=True)]
        for stage, before in zip(done, job.before, strict=True):
            for b in before:
                program.at_most([(stage, 1.0), (done[b], -1.0)])
            if not before and unless is not None:
                program.at_most([(stage, 1.0), (unless, 1.0)], 1.0)
        begun = program.variable(0.0, 1.0)
        for stage, before in zip(done, job.before, strict=True):
            if not before:
                program.at_most([(stage, 1.0), (begun, -1.0)])
        totals = []
        for terms in self._demand(job, done, begun):
            totals.append(program.variable())
            program.at_most([*terms, (totals[-1], -1.0)])
        self._until_horizon.append((job.release_ns, totals))
        return done

    def _add_loop(self, jobs: list[Job]) -> None:
        """A closed loop without deadlines, or with soft ones.

        A job that lives for time t misses ``ceil(t / deadline) - 1`` deadlines. All lives and gaps fill the episode.
        """
        if not jobs:
            return
        program, deadline_ns = self._program, jobs[0].allowed_ns
        complete: list[int] = []
        for job in jobs:
            done = self._add_partial(job)
            if complete:
                for stage, before in zip(done, job.before, strict=True):
                    if not before:
                        program.at_most([(stage, 1.0), (complete[-1], -1.0)])
            complete.append(program.variable(0.0, 1.0))
            for stage in set(range(len(done))).difference(*job.before):
                program.at_most([(complete[-1], 1.0), (done[stage], -1.0)])
        if deadline_ns < NO_DEADLINE:
            misses = program.variable(-min(job.charge_ns for job in jobs) / NS_PER_MS)
            periods = (self._horizon - jobs[0].release_ns) / deadline_ns
            gained = [(c, -1.0 - job.gap_ns / deadline_ns) for c, job in zip(complete, jobs, strict=True)]
            program.at_most([(misses, -1.0), *gained], 1.0 - periods)

    def _demand(self, job: Job, done: Sequence[int], begun: int) -> _Demand:
        """What a job asks of each engine, given the variables of its stages being done and of its batch."""
        program, demands = self._program, self._demands
        terms: _Demand = [[] for _ in Engine]
        terms[Engine.SLOT].append((begun, demands.batch_ns / NS_PER_MS))
        terms[Engine.SLOT] += [(stage, demands.slot_launch_ns / NS_PER_MS) for stage in done]
        stages: dict[int, list[tuple[int, float]]] = {}
        for op, stage, noise in zip(job.ops.tolist(), done, job.noise.tolist(), strict=True):
            stages.setdefault(op, []).append((stage, noise))
        for op, amounts in stages.items():
            versions = self._versions_of(op) / NS_PER_MS
            if len(versions) > 1:
                mixed = [program.variable() for _ in versions]
                program.at_most([*amounts, *((version, -1.0) for version in mixed)])
                amounts = [(version, 1.0) for version in mixed]
            for i, (variable, amount) in enumerate(amounts):
                work = versions[i if len(versions) > 1 else 0]
                for engine in Engine:
                    if work[engine] > 0.0:
                        terms[engine].append((variable, amount * float(work[engine])))
        return terms

    def _versions_of(self, op: int) -> np.ndarray:
        """Least demands of the operator's versions that no other one is below on all engines, (versions, engines)."""
        if op not in self._versions:
            rows = self._tables.ops["variant"][op].ravel()
            rows = rows[(rows >= 0) & self._demands.legal[rows]]
            self._versions[op] = _undominated(self._demands.work[rows])
        return self._versions[op]

    def _spread_until_horizon(self) -> None:
        """Work that may last until the horizon: what is released at or after an instant is done after it."""
        if not self._until_horizon:
            return
        program = self._program
        starts = [bisect_right(self._instants, release) - 1 for release, _ in self._until_horizon]
        places = sorted(set(starts))
        places = places[:: -(-len(places) // _WINDOWS)]
        released = [(start, totals) for start, (_, totals) in zip(starts, self._until_horizon, strict=True)]
        for engine in Engine:
            parts = [program.variable() for _ in self._flows[engine]]
            for part, flow in zip(parts, self._flows[engine], strict=True):
                flow.append(part)
            for place in places:
                work = [(totals[engine], 1.0) for start, totals in released if start >= place]
                program.at_most([*work, *((part, -1.0) for part in parts[place:])])

    def _limit_engines(self) -> None:
        for engine in Engine:
            for interval, parts in enumerate(self._flows[engine]):
                length = (self._instants[interval + 1] - self._instants[interval]) / NS_PER_MS
                self._program.at_most([(part, 1.0) for part in parts], float(self._demands.capacity[engine]) * length)


def _undominated(work: np.ndarray) -> np.ndarray:
    """The rows of ``work`` that no other row is at or below in every column; of equal rows the first."""
    kept: list[int] = []
    for row in np.lexsort(work.T):
        if not any((work[k] <= work[row]).all() for k in kept):
            kept.append(int(row))
    return work[sorted(kept)]
