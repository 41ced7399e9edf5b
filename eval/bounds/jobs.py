"""Every job that an episode could bring, whoever schedules it, with its actual durations."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from eval.bounds.demand import Demands, Engine
from eval.episodes import Episode
from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import NO_DEADLINE, Arrival, Event, Tables
from hexenv.engine.rng import ARRIVAL, draw, noise_factor, uniform
from hexenv.errors import ConfigError


@dataclass(frozen=True)
class Job:
    """One job of one episode."""

    stream: int
    index: int
    """Job ``index`` of its stream."""
    template: int
    release_ns: int
    """Its arrival; in a closed loop the earliest one possible."""
    due_ns: int
    """Its deadline, absolute; ``NO_DEADLINE`` = none, also in a closed loop, where it moves with the arrival."""
    allowed_ns: int
    """Its deadline from arrival; ``NO_DEADLINE`` = none."""
    firm: bool
    charge_ns: float
    """Reference work charged for a miss, lambda included."""
    ops: np.ndarray
    """int (stages,): rows of ``tables.ops``."""
    before: list[list[int]]
    """For each stage the stages of this job that come first; all have lower numbers."""
    noise: np.ndarray
    """float (stages,): actual over predicted duration."""
    end_ns: np.ndarray
    """float (stages,): earliest instant at which each stage could be done."""
    gap_ns: int
    """Closed loop: host time between the job's end and the next arrival."""


def arrivals(tables: Tables, episode: Episode) -> np.ndarray:
    """The episode's arrivals if nobody works: TRACE records of accepted and rejected jobs.

    In open loops nothing a scheduler does changes them. Of a closed loop this holds its first job only.
    """
    simulator = Simulator(tables, trace=TraceLevel.JOBS)
    simulator.reset(np.array([episode.key], np.uint64), settings=np.array([episode.setting]))
    wait = np.zeros(1, np.int64)
    while not simulator.lanes["over"][0]:
        simulator.step(wait)
    trace = simulator.trace(0)
    return trace[np.isin(trace["event"], (Event.ARRIVE, Event.REJECT))]


def require_open_loop(tables: Tables, setting: int) -> None:
    """Raise :class:`ConfigError` if a stream that takes part in ``setting`` is a closed loop."""
    for s, name in enumerate(tables.stream_names):
        if tables.settings["active"][setting, s] and tables.streams["arrival"][s] == Arrival.CLOSED_LOOP:
            raise ConfigError(
                f"{tables.scenario}: stream {name} is a closed loop, allowed for an exact optimum: periodic, poisson, "
                "trace"
            )


def episode_jobs(tables: Tables, episode: Episode, demands: Demands) -> list[Job]:
    """All jobs that could arrive before the horizon, stream by stream in order of arrival.

    A closed loop is unlocked at its fastest: each job ends at the earliest instant its chain allows, or at its deadline
    if it is firm and that comes first. By induction no schedule brings job n earlier.
    """
    records = arrivals(tables, episode)
    horizon_ns = int(tables.config["horizon_ns"][0])
    jobs: list[Job] = []
    for s, stream in enumerate(tables.streams[: int(tables.config["n_streams"][0])]):
        own = records[records["stream"] == s]
        if stream["arrival"] != Arrival.CLOSED_LOOP:
            jobs += [_job(tables, episode, demands, s, int(r["job"]), int(r["t_ns"]), int(r["value"])) for r in own]
        elif len(own):
            jobs += _loop(tables, episode, demands, s, int(own["t_ns"][0]), int(own["value"][0]), horizon_ns)
    return jobs


def _loop(
    tables: Tables, episode: Episode, demands: Demands, s: int, release_ns: int, allowed_ns: int, horizon_ns: int
) -> Iterator[Job]:
    """The jobs of closed loop ``s``, each as early as can be."""
    index = 0
    while release_ns < horizon_ns:
        job = _job(tables, episode, demands, s, index, release_ns, allowed_ns)
        yield job
        end_ns = int(job.end_ns.max())
        if job.firm:
            end_ns = min(end_ns, release_ns + allowed_ns)
        release_ns = max(end_ns, release_ns) + job.gap_ns
        index += 1


def _job(
    tables: Tables, episode: Episode, demands: Demands, s: int, index: int, release_ns: int, allowed_ns: int
) -> Job:
    stream = tables.streams[s]
    row = int(stream["template_start"]) + index % int(stream["template_count"])
    template = tables.templates[row]
    first, count = int(template["first_stage"]), int(template["n_stages"])
    sigma = float(tables.config["noise"][0])
    ops = tables.stages["op"][first : first + count]
    noise = np.array([noise_factor(episode.key, s, index, i, sigma) for i in range(count)])
    before = _before(tables, first, count)
    closed = stream["arrival"] == Arrival.CLOSED_LOOP
    return Job(
        stream=s,
        index=index,
        template=row,
        release_ns=release_ns,
        due_ns=int(NO_DEADLINE) if closed else min(int(NO_DEADLINE), release_ns + allowed_ns),
        allowed_ns=allowed_ns,
        firm=bool(stream["firm"]),
        charge_ns=float(tables.config["miss_weight"][0] * stream["weight"] * template["ref_ns"]),
        ops=ops,
        before=before,
        noise=noise,
        end_ns=_earliest_ends(tables, demands, ops, before, noise, release_ns),
        gap_ns=_gap_ns(episode.key, stream, s, index + 1) if closed else 0,
    )


def _gap_ns(key: np.uint64, stream: np.void, s: int, index: int) -> int:
    """The host gap before job ``index`` of a closed loop, as ``hexenv/engine/jobs.py`` draws it."""
    jitter = int(stream["jitter_ns"]) * (2.0 * uniform(np.uint64(draw(key, ARRIVAL, s, index, 0))) - 1.0)
    return max(0, round(int(stream["gap_ns"]) + jitter))


def _before(tables: Tables, first: int, count: int) -> list[list[int]]:
    own = slice(first, first + count)
    starts, stops = tables.stages["pred_start"][own].tolist(), tables.stages["pred_end"][own].tolist()
    return [tables.links[start:stop].tolist() for start, stop in zip(starts, stops, strict=True)]


def _earliest_ends(
    tables: Tables, demands: Demands, ops: np.ndarray, before: list[list[int]], noise: np.ndarray, release_ns: int
) -> np.ndarray:
    """Earliest end of each stage, alone in the fastest version, only the stages before it in the way; float (stages,).

    With a single root every stage comes after the batch.
    """
    fastest = {op: float(demands.least(tables.ops["variant"][op].ravel())[Engine.SLOT]) for op in set(ops.tolist())}
    batch = demands.batch_ns if sum(not stages for stages in before) == 1 else 0.0
    ends: list[float] = []
    for op, factor, stages in zip(ops.tolist(), noise.tolist(), before, strict=True):
        start = max((ends[b] for b in stages), default=release_ns + batch)
        ends.append(start + demands.launch_ns + fastest[op] * factor)
    return np.array(ends)
