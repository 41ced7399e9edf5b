"""The exact optimum of an open-loop episode in mode ``serial``, by constraint programming (OR-Tools CP-SAT).

With one stage at a time the device is a single machine: every stage has one duration (its version that is fastest alone
on all contexts, at its actual noise, launch included), so what is left to decide is which stages to run and in which
order. Times are integer ns, as in the engine. A schedule can always be moved to the left until every stage starts at an
arrival or when the one before it ends, which are instants at which the engine lets a scheduler pick, so the optimum of
this model is the optimum of the engine.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval.bounds.demand import body_ns, demands_of
from eval.bounds.jobs import Job, episode_jobs, require_open_loop
from eval.episodes import Episode
from hexenv.engine import Simulator
from hexenv.engine.layout import N_SHARES, N_VARIANTS, NO_DEADLINE, Mode, Tables
from hexenv.errors import ConfigError

NS_PER_MS = 1e6
TIME_LIMIT_S = 60.0
_UNITS_PER_NS = 1000
"""The objective counts in integer parts of a ns, since a miss may be charged in fractions."""


@dataclass(frozen=True)
class SerialOptimum:
    """The best serial schedule that the solver found."""

    value: float
    """Its return, ms of reference work."""
    bound: float
    """No schedule's return is higher; equals ``value`` where the optimum is proven."""
    order: tuple[tuple[int, int, int], ...]
    """``(stream, job, stage)`` of each stage in order of launch; see :func:`replay`."""
    proven: bool


def serial_optimum(tables: Tables, episode: Episode, time_limit_s: float = TIME_LIMIT_S) -> SerialOptimum:
    """The best return of an episode in mode ``serial``, with full knowledge of it and all ready stages in view.

    Raises:
        ConfigError: another mode, a closed loop, or a queue that could be full when a job arrives.
        ImportError: OR-Tools is not installed (``pip install 'hexenv[bounds]'``).
    """
    from ortools.sat.python import cp_model

    if tables.config["mode"][0] != Mode.SERIAL:
        raise ConfigError(f"{tables.scenario}: mode = {Mode(tables.config['mode'][0]).name.lower()}, allowed: serial")
    require_open_loop(tables, episode.setting)
    horizon = int(tables.config["horizon_ns"][0])
    jobs = episode_jobs(tables, episode, demands_of(tables))
    _require_room(tables, jobs)
    jobs = [job for job in jobs if job.release_ns < horizon]
    model = _Model(cp_model.CpModel(), tables, jobs)
    solver = cp_model.CpSolver()
    solver.parameters.num_workers, solver.parameters.random_seed = 1, 0
    solver.parameters.max_time_in_seconds = time_limit_s
    status = solver.solve(model.program)
    if status not in (cp_model.OPTIMAL, cp_model.FEASIBLE):
        raise RuntimeError(f"CP-SAT found no schedule: {solver.status_name(status)}")
    scale = _UNITS_PER_NS * NS_PER_MS
    return SerialOptimum(
        value=solver.objective_value / scale,
        bound=solver.best_objective_bound / scale,
        order=model.order(solver),
        proven=status == cp_model.OPTIMAL,
    )


def replay(tables: Tables, episode: Episode, order: tuple[tuple[int, int, int], ...]) -> tuple[int, ...]:
    """The engine actions that run the stages of ``order``, each as soon as it can start, to the end of the episode."""
    simulator = Simulator(tables)
    simulator.reset(np.array([episode.key], np.uint64), settings=np.array([episode.setting]))
    actions: list[int] = []
    at = 0
    while not simulator.lanes["over"][0]:
        pick = _pick(tables, simulator, order[at]) if at < len(order) else 0
        at += pick > 0
        actions.append(pick)
        simulator.step(np.array([pick]))
    return tuple(actions)


def _pick(tables: Tables, simulator: Simulator, place: tuple[int, int, int]) -> int:
    """The action that runs a stage in its fastest version; 0 = wait if it is not ready."""
    lane, view = simulator.lanes[0], simulator.views[0]
    for k in range(int(view["n_tasks"])):
        task = view["tasks"][k]
        if (int(task["stream"]), int(lane["jobs"]["index"][task["job"]]), int(task["stage"])) == place:
            variant = min(_durations_ns(tables, int(task["op"]), 1.0))[1]
            return 1 + (k * N_VARIANTS + variant) * N_SHARES
    return 0


def _durations_ns(tables: Tables, op: int, noise: float) -> list[tuple[int, int]]:
    """``(duration in ns, version and tile class)`` of an operator's variants alone, launch left out.

    The engine rounds each phase up to full ns, less 1e-9 of a tile.
    """
    config = tables.config[0]
    h, free = int(config["contexts"]), float(config["ddr_free"])
    found = []
    for place, row in enumerate(tables.ops["variant"][op].ravel().tolist()):
        if row >= 0 and tables.variants["vtcm_bytes"][row] <= config["vtcm_bytes"]:
            variant = tables.variants[row]
            prologue = max(float(variant["prologue_ns"][h]), float(variant["prologue_ddr_ns"]) / free)
            phases = (
                prologue,
                float(body_ns(tables.variants[row : row + 1], free)[0, h]),
                float(variant["latency_ns"][h]),
            )
            found.append((sum(math.ceil(phase * noise - 1e-6) for phase in phases), place))
    return found


def _require_room(tables: Tables, jobs: list[Job]) -> None:
    """Raise :class:`ConfigError` if a queue could be full when a job arrives."""
    for s, name in enumerate(tables.stream_names):
        own = [job for job in jobs if job.stream == s]
        queue = int(tables.streams["queue"][s])
        for job, later in zip(own, own[queue:], strict=False):
            stages = zip(job.ops.tolist(), job.noise.tolist(), strict=True)
            longest = max(min(_durations_ns(tables, op, noise))[0] for op, noise in stages)
            launch = sum(int(tables.config[field][0]) for field in ("op_ns", "decision_ns", "batch_ns"))
            if not job.firm or job.due_ns + launch + longest > later.release_ns:
                raise ConfigError(
                    f"{tables.scenario}: queue = {queue} of stream {name} could be full when job {later.index} comes, "
                    "allowed: a queue that takes all jobs, or firm deadlines that empty it in time"
                )


@dataclass(frozen=True)
class _Stage:
    """Variables of a stage."""

    runs: Any
    start: Any
    end: Any
    opens: Any
    """It is the first of its job to be launched (0 where it cannot be)."""


class _Model:
    """Intervals on one machine."""

    def __init__(self, program: Any, tables: Tables, jobs: list[Job]) -> None:
        self.program = program
        self._tables = tables
        self._horizon = int(tables.config["horizon_ns"][0])
        self._intervals: list[Any] = []
        self._objective: list[Any] = []
        self._stages: dict[tuple[int, int], list[_Stage]] = {}
        for job in jobs:
            self._add_job(job)
        for i, job in enumerate(jobs):
            self._add_state(job, [other for other in jobs[:i] if other.stream == job.stream])
        program.add_no_overlap(self._intervals)
        program.maximize(sum(self._objective))

    def order(self, solver: Any) -> tuple[tuple[int, int, int], ...]:
        """The stages that run, in order of their start."""
        starts = [
            (solver.value(stage.start), (*job, i))
            for job, stages in self._stages.items()
            for i, stage in enumerate(stages)
            if solver.value(stage.runs)
        ]
        return tuple(place for _, place in sorted(starts))

    def _add_job(self, job: Job) -> None:
        program, config = self.program, self._tables.config[0]
        launch, batch = int(config["op_ns"]) + int(config["decision_ns"]), int(config["batch_ns"])
        begun = program.new_bool_var("")
        stages: list[_Stage] = []
        for op, noise, before in zip(job.ops.tolist(), job.noise.tolist(), job.before, strict=True):
            runs = program.new_bool_var("")
            opens = 0 if before else program.new_bool_var("")
            start = program.new_int_var(job.release_ns, self._horizon, "")
            end = program.new_int_var(job.release_ns, 2 * self._horizon, "")
            length = launch + min(_durations_ns(self._tables, op, noise))[0] + batch * opens
            self._intervals.append(program.new_optional_interval_var(start, length, end, runs, ""))
            program.add_implication(runs, begun)
            for b in before:
                program.add_implication(runs, stages[b].runs)
                program.add(start >= stages[b].end).only_enforce_if(runs)
            stages.append(_Stage(runs, start, end, opens))
        roots = [stage for stage, before in zip(stages, job.before, strict=True) if not before]
        program.add(sum(root.opens for root in roots) == begun)
        for root in roots:
            program.add_implication(root.opens, root.runs)
            for other in roots:
                if other is not root:
                    program.add(root.end <= other.start).only_enforce_if([root.opens, other.runs])
        self._stages[job.stream, job.index] = stages
        self._add_reward(job, stages)

    def _add_reward(self, job: Job, stages: list[_Stage]) -> None:
        """Credit, and the charge of a miss."""
        program = self.program
        refs = [int(ref) for ref in self._tables.ops["ref_ns"][job.ops]]
        due = job.due_ns <= self._horizon
        charge = round(job.charge_ns * _UNITS_PER_NS)
        on_time = program.new_bool_var("")
        if due:
            for stage in stages:
                program.add_implication(on_time, stage.runs)
                program.add(stage.end <= job.due_ns).only_enforce_if(on_time)
            self._objective.append(charge * (on_time - 1))
        if due and job.firm:
            self._objective.append(sum(refs) * _UNITS_PER_NS * on_time)
        else:
            for stage, ref in zip(stages, refs, strict=True):
                credited = program.new_bool_var("")
                program.add_implication(credited, stage.runs)
                program.add(stage.end <= self._horizon).only_enforce_if(credited)
                self._objective.append(ref * _UNITS_PER_NS * credited)
        if job.firm and job.due_ns < NO_DEADLINE:
            for stage in stages:
                program.add(stage.start < job.due_ns).only_enforce_if(stage.runs)

    def _add_state(self, job: Job, earlier_jobs: list[Job]) -> None:
        """What earlier jobs of the stream must have done, or be dropped, before a stage may start."""
        program, tables = self.program, self._tables
        first = int(tables.templates["first_stage"][job.template])
        for i, stage in enumerate(self._stages[job.stream, job.index]):
            row = tables.stages[first + i]
            for before in tables.links[row["prev_start"] : row["prev_end"]].tolist():
                for other in earlier_jobs:
                    earlier = self._stages[other.stream, other.index][before]
                    program.add(stage.start >= earlier.end).only_enforce_if([stage.runs, earlier.runs])
                    if other.firm and other.due_ns < NO_DEADLINE:
                        program.add(stage.start >= other.due_ns).only_enforce_if([stage.runs, ~earlier.runs])
                    else:
                        program.add_implication(stage.runs, earlier.runs)
