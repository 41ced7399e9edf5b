"""A batch of lanes over one scenario: the only way in for the environments, the schedulers' evaluation and search."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor, wait
from typing import Any

import numpy as np

from hexenv.engine import clock
from hexenv.engine.dispatch import decode, fill_mask
from hexenv.engine.jit import njit
from hexenv.engine.layout import LANE, TRACE, VIEW, Tables
from hexenv.engine.trace import TraceLevel
from hexenv.engine.view import fill_view

_FIRST_TRACE_ROWS = 4096


class IllegalAction(ValueError):
    """An action that the mask forbids. Nothing has moved."""


@njit
def _reset_lanes(
    tables: Any, lanes: Any, traces: Any, views: Any, masks: Any, where: Any, keys: Any, settings: Any
) -> None:
    for i in range(lanes.shape[0]):
        if where[i]:
            clock.reset(tables, lanes[i], traces[i], keys[i], settings[i])
            fill_view(tables, lanes[i], views[i])
            fill_mask(tables, lanes[i], masks[i])


@njit
def _first_illegal(lanes: Any, masks: Any, where: Any, actions: Any) -> int:
    """Index of the first lane of ``where`` that is over or whose action its mask forbids, or -1."""
    for i in range(lanes.shape[0]):
        if where[i]:
            action = actions[i]
            if lanes[i].over or action < 0 or action >= masks.shape[1] or not masks[i, action]:
                return i
    return -1


@njit
def _step_lanes(tables: Any, lanes: Any, traces: Any, views: Any, masks: Any, where: Any, actions: Any) -> int:
    """Step the lanes of ``where`` if all their actions are legal, else none. Returns ``_first_illegal``."""
    illegal = _first_illegal(lanes, masks, where, actions)
    if illegal < 0:
        for i in range(lanes.shape[0]):
            if where[i]:
                clock.step(tables, lanes[i], traces[i], actions[i])
                fill_view(tables, lanes[i], views[i])
                fill_mask(tables, lanes[i], masks[i])
    return illegal


class Simulator:
    """``batch`` independent lanes of one compiled scenario.

    After ``reset`` and ``step``, ``views[i]`` and ``masks[i]`` describe the decision at hand in lane ``i``, and
    ``rewards``, ``elapsed_ns``, ``terminated`` and ``truncated`` what the last step did. The arrays are the simulator's
    own and change with the next call: copy what must last. Lane ``i`` depends on nothing but its key, its setting and
    its actions, so results are the same for any batch size and number of threads.

    Args:
        tables: the compiled scenario.
        batch: number of lanes, at least 1.
        threads: lanes are stepped in this many contiguous parts at once.
        trace: what to record; ``trace(i)`` returns it.
    """

    def __init__(
        self, tables: Tables, batch: int = 1, *, threads: int = 1, trace: TraceLevel = TraceLevel.NONE
    ) -> None:
        self.tables = tables
        self.batch = batch
        self.lanes = np.zeros(batch, LANE)
        self.views = np.zeros(batch, VIEW)
        self.masks = np.zeros((batch, tables.n_actions), np.bool_)
        self.rewards = self.lanes["reward"]
        self.elapsed_ns = self.lanes["elapsed_ns"]
        self.terminated = self.lanes["terminated"]
        self.truncated = self.lanes["truncated"]
        self._arrays = tables.arrays
        self._everywhere = np.ones(batch, np.bool_)
        self._any_setting = np.full(batch, -1, np.int64)
        self._level = trace
        self._traces = np.zeros((batch, _FIRST_TRACE_ROWS if trace else 1), TRACE)
        self._traces["contexts"][:, 0] = trace
        self._parts = [slice(p * batch // threads, (p + 1) * batch // threads) for p in range(min(threads, batch))]
        self._pool = ThreadPoolExecutor(len(self._parts)) if len(self._parts) > 1 else None

    def reset(self, keys: np.ndarray, where: np.ndarray | None = None, settings: np.ndarray | None = None) -> None:
        """Start episodes in the lanes of ``where`` (bool, (batch,); all by default) and run to their first decision.

        Args:
            keys: uint64, (batch,): the episodes' random keys (see ``episode_key``).
            where: lanes to reset.
            settings: int, (batch,): rows of ``tables.settings``; -1, the default, draws one from the key.

        Raises:
            IndexError: a setting out of range.
        """
        where = self._everywhere if where is None else where
        settings = self._any_setting if settings is None else np.asarray(settings, np.int64)
        if (settings >= len(self.tables.settings)).any() or (settings < -1).any():
            raise IndexError(f"settings must be -1 or a row of the {len(self.tables.settings)} settings")
        self._each_part(_reset_lanes, where, np.asarray(keys, np.uint64), settings)
        self._grow_traces()

    def step(self, actions: np.ndarray, where: np.ndarray | None = None) -> None:
        """Carry out one action (int64, (batch,)) in each lane of ``where`` (all by default).

        Raises:
            IllegalAction: an action its lane's mask forbids, or any action in a lane that is over; no lane has moved.
        """
        where = self._everywhere if where is None else where
        actions = np.asarray(actions, np.int64)
        # Several parts must not move before all are checked; a single part checks itself.
        lane = -1 if self._pool is None else _first_illegal(self.lanes, self.masks, where, actions)
        if lane < 0:
            lane = max(self._each_part(_step_lanes, where, actions))
        if lane >= 0:
            raise IllegalAction(self._explain(lane, int(actions[lane])))
        self._grow_traces()

    def fork(self, source: int, target: int, reseed: int | None = None) -> None:
        """Copy lane ``source`` over lane ``target``, exactly; with ``reseed``, resample its future.

        A reseeded fork draws new arrivals and new noise for everything not finished, so it knows no more of the future
        than a scheduler does. The trace is copied too.
        """
        for array in (self.lanes, self.views, self.masks, self._traces):
            array[target] = array[source]
        if reseed is not None:
            key = np.uint64(reseed % (1 << 64))
            clock.reseed(self._arrays, self.lanes[target : target + 1], key)

    def trace(self, lane: int) -> np.ndarray:
        """TRACE records of lane ``lane``'s present episode, in order of entry (non-decreasing ``t_ns``)."""
        return self._traces[lane, 1 : 1 + int(self.lanes["n_trace"][lane])].copy()

    def _each_part(self, kernel: Callable[..., Any], where: np.ndarray, *per_lane: np.ndarray) -> list[Any]:
        """Run a kernel over all lanes, a part a thread; returns what it returned for each part."""
        arrays = (self.lanes, self._traces, self.views, self.masks, where, *per_lane)
        if self._pool is None:
            return [kernel(self._arrays, *arrays)]
        jobs = [self._pool.submit(kernel, self._arrays, *(a[part] for a in arrays)) for part in self._parts]
        wait(jobs)
        return [job.result() for job in jobs]

    def _grow_traces(self) -> None:
        """Make room for the next step's records."""
        if not self._level:
            return
        used, rows = int(self.lanes["n_trace"].max()), self._traces.shape[1]
        if used >= rows:
            raise RuntimeError(f"{used} trace records in one step overflowed {rows} rows")
        if used > rows // 2:
            more = np.zeros((self.batch, rows), TRACE)
            self._traces = np.concatenate([self._traces, more], axis=1)

    def _explain(self, lane: int, action: int) -> str:
        if self.lanes["over"][lane]:
            return f"lane {lane}: the episode is over; reset it first. The state is unchanged."
        legal = np.flatnonzero(self.masks[lane])
        text = f"lane {lane}: action {action} is illegal"
        if 0 < action < self.tables.n_actions:
            task, version, tile, share = decode(action)
            name = ("HVX", "HMX", "HYBRID")[version]
            shown = int(self.views["n_tasks"][lane])
            text += f" (task {task} of {shown} visible, version {name}, tile class {tile}, share class {share})"
        else:
            text += f" (actions are 0 to {self.tables.n_actions - 1}, 0 = wait)"
        return f"{text}; {legal.size} actions are legal, for example {legal[:8].tolist()}. The state is unchanged."
