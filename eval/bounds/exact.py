"""The exact optimum of a small open-loop episode: depth-first branch and bound over forks of the engine.

Every decision sequence that the engine allows is covered, waits included, by trying all legal actions from a copy of
the lane. A branch ends early where

* what it has earned and an optimistic rest cannot beat the best schedule found (:class:`_Rest`), or
* the same state was reached before with at least the same value: its future is a function of the state alone.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from eval.bounds.demand import Engine, demands_of
from eval.bounds.jobs import Job, episode_jobs, require_open_loop
from eval.episodes import Episode
from hexenv.engine import Simulator
from hexenv.engine.jit import njit
from hexenv.engine.layout import MAX_STAGES, Phase, Tables

MAX_NODES = 200_000
NS_PER_MS = 1e6
_TINY_NS = 1e-3
"""A schedule must be better by this much to count as better."""
_ROUNDING_NS = 1.0

_SUMMED = ("credit_ns", "charge_ns", "due", "missed", "finished", "rejected", "decisions", "n_trace")
_DERIVED = ("reward", "elapsed_ns", "busy_ddr_ns", "busy_hvx_ns", "busy_hmx_ns", "busy_storage_ns")
_DERIVED_TASKS = ("visible_job", "visible_stage", "visible_head")
_DERIVED_RATES = ("rate", "rising", "limit", "ddr_tile_ns", "hmx_tile_ns", "storage_tile_ns", "slowdown", "trace_row")


@dataclass(frozen=True)
class Optimum:
    """The best schedule of an episode that a search found."""

    value: float
    """Its return, ms of reference work."""
    actions: tuple[int, ...]
    """What to step through from the reset, to the end of the episode."""
    nodes: int
    """Steps of the engine that the search took."""
    proven: bool
    """Whether nothing is better; otherwise the search hit its node limit."""


def optimum(tables: Tables, episode: Episode, max_nodes: int = MAX_NODES) -> Optimum:
    """The best return of any decision sequence in the mode of ``tables``, with full knowledge of the episode.

    Meant for episodes of a few jobs of a few stages. Waits end at the next event or after ``wait_max_ns``, so a
    scenario with a long ``wait_max_ns`` has far fewer sequences.

    Raises:
        ConfigError: a stream of the episode is a closed loop.
    """
    require_open_loop(tables, episode.setting)
    return _Search(tables, episode, max_nodes).run()


class _Search:
    """One search; a node is a copy of the simulator's only lane."""

    def __init__(self, tables: Tables, episode: Episode, max_nodes: int) -> None:
        self._simulator = Simulator(tables)
        arrays = (self._simulator.lanes, self._simulator.views, self._simulator.masks)
        self._bytes = tuple(array.view(np.uint8) for array in arrays)  # copied many times faster than records
        self._rest = _Rest(tables, episode)
        self._episode = episode
        self._max_nodes = max_nodes
        self._nodes = 0
        self._reached: dict[bytes, float] = {}
        self._best = -np.inf
        self._best_actions: tuple[int, ...] = ()
        self._alone_ns = tables.variants["alone_ns"][:, int(tables.config["contexts"][0])]
        self._ops = tables.ops
        self._miss_weight = float(tables.config["miss_weight"][0])

    def run(self) -> Optimum:
        simulator, path = self._simulator, list[int]()
        simulator.reset(np.array([self._episode.key], np.uint64), settings=np.array([self._episode.setting]))
        stack = [self._node()] if not self._is_closed(path) else []
        while stack and self._nodes < self._max_nodes:
            state, actions = stack[-1]
            action = next(actions, None)
            if action is None:
                stack.pop()
                if path:
                    path.pop()
                continue
            for array, saved in zip(self._bytes, state, strict=True):
                array[:] = saved
            simulator.step(np.array([action]))
            self._nodes += 1
            path.append(action)
            if self._is_closed(path):
                path.pop()
            else:
                stack.append(self._node())
        return Optimum(self._best / NS_PER_MS, self._best_actions, self._nodes, proven=not stack)

    def _node(self) -> tuple[tuple[np.ndarray, ...], Iterator[int]]:
        """A copy of the state, and what to try from it: the first tasks in their fastest variants, wait at last."""
        simulator = self._simulator
        view = simulator.views[0]
        legal = np.flatnonzero(simulator.masks[0])[1:]
        ops = view["tasks"]["op"][(legal - 1) // 36]
        variants = self._ops["variant"].reshape(len(self._ops), -1)[ops, (legal - 1) // 3 % 12]
        order = np.lexsort((self._alone_ns[variants], (legal - 1) // 36))
        state = tuple(array.copy() for array in self._bytes)
        return state, iter([*legal[order].tolist(), 0])

    def _is_closed(self, path: list[int]) -> bool:
        """Whether nothing better can come after ``path``, which has led to the simulator's state; keeps the best."""
        lane = self._simulator.lanes[0]
        value = float(lane["credit_ns"]) - self._miss_weight * float(lane["charge_ns"])
        if lane["over"]:
            if value > self._best + _TINY_NS:
                self._best, self._best_actions = value, tuple(path)
            return True
        if value + self._rest.at_most(lane) <= self._best + _TINY_NS:
            return True
        state = _digest(self._simulator.lanes)
        if self._reached.get(state, -np.inf) >= value:
            return True
        self._reached[state] = value
        return False


def _digest(lanes: np.ndarray) -> bytes:
    """A hash (128 bits) of what the future of a lane depends on."""
    lane: Any = lanes.copy()
    for name in (*_SUMMED, *_DERIVED, *_DERIVED_TASKS):
        lane[name] = 0
    slots, jobs = lane["slots"][0], lane["jobs"][0]
    for name in _DERIVED_RATES:
        slots[name] = 0
    slots[slots["phase"] == Phase.FREE] = 0
    jobs[~jobs["live"]] = 0
    jobs["ready"][np.arange(jobs["ready"].shape[1]) >= jobs["n_ready"][:, None]] = 0
    return hashlib.blake2b(lane.tobytes(), digest_size=16).digest()


@dataclass(frozen=True)
class _Prospect:
    """What a job may still bring, stage by stage."""

    job: Job
    refs: np.ndarray  # float (stages,)
    work: np.ndarray  # float (stages, engines): least engine time, launch included
    tail: np.ndarray  # float (stages,): least time from a stage's launch to the job's end
    own: np.ndarray  # float (stages,): the stage's part of it
    all: np.ndarray  # bool (stages,): true


class _Rest:
    """An upper bound of what a lane can still earn.

    Jobs with their least demands compete for one engine at a time: what is due by an instant gets no more of it than
    there is until then. Each stage (each firm job) is an item that may be taken in parts, which greedy choice by value
    an engine time solves exactly, since the limits are nested. The smallest result over the engines holds.
    """

    def __init__(self, tables: Tables, episode: Episode) -> None:
        demands = demands_of(tables)
        self._capacity = demands.capacity
        self._horizon = int(tables.config["horizon_ns"][0])
        self._prospects: dict[tuple[int, int], _Prospect] = {}
        for job in episode_jobs(tables, episode, demands):
            least = np.array([demands.least(tables.ops["variant"][op].ravel()) for op in job.ops])
            work = least * job.noise[:, None]
            own = work[:, Engine.SLOT] + demands.launch_ns
            work[:, Engine.SLOT] += demands.slot_launch_ns
            tail = own.copy()
            for stage in reversed(range(len(own))):
                for before in job.before[stage]:
                    tail[before] = max(tail[before], own[before] + tail[stage])
            refs = tables.ops["ref_ns"][job.ops].astype(np.float64)
            self._prospects[job.stream, job.index] = _Prospect(job, refs, work, tail, own, np.ones(len(refs), np.bool_))
        asked = sum((prospect.work.sum(axis=0) for prospect in self._prospects.values()), np.zeros(len(Engine)))
        self._engines = tuple(int(engine) for engine in np.flatnonzero(asked))

    def at_most(self, lane: np.void) -> float:
        """The bound, ns of reference work, for a lane that is not over. It may be negative: misses are sure to come."""
        now = int(lane["now_ns"])
        base = 0.0
        gains: list[np.ndarray] = []
        works: list[np.ndarray] = []
        dues: list[np.ndarray] = []
        for prospect, earned, missed, waiting, running in self._open(lane):
            job = prospect.job
            start = max(now, job.release_ns)
            rest = np.where(waiting, prospect.tail, np.where(running, prospect.tail - prospect.own, 0.0)).max(
                initial=0.0
            )
            due = job.due_ns <= self._horizon and not missed
            late = start + rest > job.due_ns + _ROUNDING_NS
            if due and late:
                base -= job.charge_ns
            left = waiting | running
            work = np.where(waiting[:, None], prospect.work, 0.0)
            if due and job.firm:
                if late:
                    base -= earned
                else:
                    base -= earned + job.charge_ns
                    gains.append(np.array([earned + job.charge_ns + prospect.refs[left].sum()]))
                    works.append(work.sum(axis=0, keepdims=True))
                    dues.append(np.array([job.due_ns - now], np.float64))
            else:
                gains.append(prospect.refs[left])
                works.append(work[left])
                dues.append(np.full(int(left.sum()), self._horizon - now, np.float64))
        if not gains:
            return base
        gain, work, until = np.concatenate(gains), np.concatenate(works), np.concatenate(dues)
        order = np.argsort(until, kind="stable")
        gain, work, until = gain[order], work[order], until[order]
        free, room = np.empty(len(gain), np.bool_), np.empty(len(gain))
        return base + min(
            _fill(gain, work[:, engine].copy(), until * self._capacity[engine], free, room) for engine in self._engines
        )

    def _open(self, lane: np.void) -> Iterator[tuple[_Prospect, float, bool, np.ndarray, np.ndarray]]:
        """Live and future jobs: ``(prospect, earned, missed, stages not begun, stages in slots)``."""
        jobs, slots = lane["jobs"], lane["slots"]
        for j in np.flatnonzero(jobs["live"] & ~jobs["dropped"]):
            job = jobs[j]
            prospect = self._prospects[int(job["stream"]), int(job["index"])]
            count = len(prospect.refs)
            done = np.unpackbits(job["done"].view(np.uint8), bitorder="little", count=min(MAX_STAGES, count)) > 0
            running = np.zeros(count, np.bool_)
            running[slots["stage"][(slots["phase"] != Phase.FREE) & (slots["job"] == j)]] = True
            yield prospect, float(job["earned_ns"]), bool(job["missed"]), ~(done | running), running
        for (s, index), prospect in self._prospects.items():
            if index >= lane["next_index"][s]:
                yield prospect, 0.0, False, prospect.all, ~prospect.all


@njit
def _fill(gain: np.ndarray, work: np.ndarray, until: np.ndarray, free: np.ndarray, room: np.ndarray) -> float:
    """Most gain of items taken in parts, where those up to any one have ``until`` of it for their work.

    Items ascend in ``until``; ``free`` and ``room`` are scratch of their length.
    """
    n = len(gain)
    total = 0.0
    for i in range(n):
        free[i] = work[i] > 0.0
        room[i] = until[i]
        if not free[i]:
            total += gain[i]
    while True:
        best = -1
        for i in range(n):
            if free[i] and (best < 0 or gain[i] * work[best] > gain[best] * work[i]):
                best = i
        if best < 0:
            return total
        free[best] = False
        taken = work[best]
        for i in range(best, n):
            taken = min(taken, room[i])
        taken = max(taken, 0.0)
        total += gain[best] * taken / work[best]
        for i in range(best, n):
            room[i] -= taken
