"""What the single and the vector environment share: a batch of seeded episodes, their observations and infos.

A single environment is a batch of one, so there is one implementation of everything below.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from itertools import accumulate, pairwise
from typing import Any

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hexenv import observation, workload
from hexenv.action import FactoredActions, make_actions
from hexenv.engine import Simulator, TraceLevel, episode_key
from hexenv.engine.jit import njit
from hexenv.engine.layout import Tables
from hexenv.errors import ConfigError
from hexenv.observation import Observation
from hexenv.render import Renderer

RENDER_MODES = ("ansi", "rgb_array")
_NUMBERS = ("elapsed_us", "time_us", "credit_ms", "charge_ms")


class Lanes:
    """A simulator with seeds, an action flavour and a renderer around it; arrays have a leading axis of n lanes.

    Args:
        scenario: name or path of a scenario.
        device: name or path of a device.
        split: ``train`` or ``heldout``.
        batch: n.
        threads: threads that advance and observe the lanes.
        actions: ``flat`` or ``factored``.
        render_mode: None, ``ansi`` or ``rgb_array``.
        overrides: engine settings in place of the scenario's own; those that are None are left alone.

    Raises:
        ConfigError: an argument is unknown or out of range.
    """

    def __init__(
        self,
        scenario: str,
        device: str,
        split: str,
        *,
        batch: int,
        threads: int,
        actions: str,
        render_mode: str | None,
        overrides: dict[str, Any],
    ):
        if render_mode is not None and render_mode not in RENDER_MODES:
            raise ConfigError(f"render_mode {render_mode!r} is unknown; allowed are {', '.join(RENDER_MODES)} and None")
        given = {name: value for name, value in overrides.items() if value is not None}
        self.tables: Tables = workload.build(scenario, device, split, **given)
        self.actions = make_actions(actions, self.tables)
        self._factored = isinstance(self.actions, FactoredActions)
        self._action_shape = self.actions.space().shape or ()
        trace = TraceLevel.NONE if render_mode is None else TraceLevel.ALL
        self.simulator = Simulator(self.tables, batch, threads=threads, trace=trace)
        self._masks = self.simulator.masks.view(np.int8)
        self.batch = batch
        self._shapes = [(key, (batch, *shape)) for key, shape in observation.shapes(self.tables).items()]
        self._numbers = np.empty((len(_NUMBERS), batch))
        self._settings = np.empty(batch, np.int64)
        self._flat, self._rows, self._spans = _first_lane_buffers(self._shapes)
        self._bounds = [part * batch // threads for part in range(threads + 1)]
        self._pool = ThreadPoolExecutor(threads) if threads > 1 else None
        self._renderer = None if render_mode is None else Renderer(self.tables, render_mode)
        self._seeds: list[int | None] = [None] * batch
        self._episodes = np.zeros(batch, np.int64)
        self._executed = np.zeros(batch, np.int64)
        self._repaired = np.zeros(batch, np.bool_)

    def observation_space(self) -> spaces.Dict:
        """A new observation space of one lane, its boxes flattened."""
        return observation.flat_observation_space(self.tables)

    def action_space(self) -> spaces.Discrete | spaces.MultiDiscrete:
        """A new action space of one lane."""
        return self.actions.space()

    def seed(self, seeds: Sequence[int | None], random: np.random.Generator) -> None:
        """Seed the lanes: an int starts its episodes over, None goes on counting, or draws a seed if there is none."""
        for lane, seed in enumerate(seeds):
            if seed is not None:
                self._seeds[lane], self._episodes[lane] = seed, 0
            elif self._seeds[lane] is None:
                self._seeds[lane] = int(random.integers(1 << 63))

    def reset(self, where: NDArray[np.bool_] | None = None, settings: NDArray[np.int64] | None = None) -> None:
        """Start the next episode of the lanes in ``where`` (n,), all by default, in settings (n,) if given."""
        keys = np.zeros(self.batch, np.uint64)
        for lane in range(self.batch) if where is None else np.flatnonzero(where):
            seed = self._seeds[lane]
            assert seed is not None, "seed() comes first"
            keys[lane] = episode_key(seed, int(self._episodes[lane]))
            self._episodes[lane] += 1
            self._executed[lane], self._repaired[lane] = 0, False
        self.simulator.reset(keys, where, settings)

    def check_settings(self, value: Any) -> NDArray[np.int64]:
        """Rows of the split's settings, shape (n,), from an int for all lanes or a list of n; ConfigError otherwise."""
        rows = np.asarray(value)
        count = len(self.tables.settings)
        if rows.dtype.kind not in "iu" or rows.shape not in ((), (self.batch,)) or ((rows < 0) | (rows >= count)).any():
            raise ConfigError(
                f"options['setting'] is {value!r}; allowed are 0..{count - 1}, one or a list of {self.batch} "
                f"(the {self.tables.split} settings of scenario {self.tables.scenario})"
            )
        return np.broadcast_to(rows, (self.batch,)).astype(np.int64)

    def step(self, actions: Any, where: NDArray[np.bool_] | None = None) -> None:
        """Apply actions (n,) or (n, 4) to the lanes in ``where``; all are checked before any of them moves."""
        array = np.asarray(actions)
        if array.dtype.kind not in "iu":
            raise ValueError(f"actions must be integers, not {array.dtype} ({actions!r})")
        if array.shape != (self.batch, *self._action_shape):
            raise ValueError(f"actions have shape {array.shape}; it must be {(self.batch, *self._action_shape)}")
        index, repaired = self.actions.to_index(array, self.simulator.masks)
        self.simulator.step(index, where)
        if repaired is not None:
            self._executed[:], self._repaired[:] = index, repaired

    def observe(self) -> Observation:
        """The observation of every lane in new arrays, rows not flattened yet."""
        out = {key: np.empty(shape, np.float32) for key, shape in self._shapes}
        if self._pool is None:
            observation.encode(self.simulator.views, self.tables, out)
        else:
            parts = (self._pool.submit(self._encode, out, part) for part in pairwise(self._bounds))
            for part in list(parts):
                part.result()
        return out

    def _encode(self, out: Observation, part: tuple[int, int]) -> None:
        observation.encode(self.simulator.views, self.tables, out, *part)

    def first(self) -> tuple[Observation, dict[str, Any]]:
        """Observation (boxes flattened) and infos of lane 0, in new arrays: what the single environment returns.

        The same numbers as ``observe`` and ``infos``; one allocation instead of one a key halves the time of a step.
        """
        observation.encode(self.simulator.views, self.tables, self._rows, 0, 1)
        flat = self._flat.copy()
        self._fill_numbers()
        infos: dict[str, Any] = dict(zip(_NUMBERS, self._numbers[:, 0].tolist(), strict=True))
        infos["action_mask"] = self.actions.masks(self._masks)[0]
        infos["setting"] = int(self._settings[0])
        if self._factored:
            infos["executed"], infos["repaired"] = int(self._executed[0]), bool(self._repaired[0])
        return {key: flat[start:stop] for key, start, stop in self._spans}, infos

    def observe_again(self, out: Observation, where: NDArray[np.bool_]) -> None:
        """Write the observations of the lanes in ``where`` into ``out`` once more."""
        for lane in np.flatnonzero(where):
            observation.encode(self.simulator.views, self.tables, out, int(lane), int(lane) + 1)

    def masks(self) -> NDArray[np.bool_]:
        """Action masks of the flavour, (n, M), a copy."""
        return self.actions.masks(self.simulator.masks)

    def infos(self) -> dict[str, NDArray[Any]]:
        """The documented info entries in new arrays, each (n, ...)."""
        self._fill_numbers()
        infos: dict[str, NDArray[Any]] = dict(zip(_NUMBERS, self._numbers.copy(), strict=True))
        infos["action_mask"] = self.actions.masks(self._masks)
        infos["setting"] = self._settings.copy()
        if self._factored:
            infos["executed"] = self._executed.copy()
            infos["repaired"] = self._repaired.copy()
        return infos

    def _fill_numbers(self) -> None:
        _fill_numbers(self.simulator.lanes, self.simulator.elapsed_ns, self._numbers, self._settings)

    def render(self, lane: int) -> Any:
        """The frame of a lane (text, or uint8 of shape (height, width, 3)); None without a render mode."""
        if self._renderer is None:
            return None
        return self._renderer.frame(self.simulator, lane)


def _first_lane_buffers(
    shapes: list[tuple[str, tuple[int, ...]]],
) -> tuple[NDArray[np.float32], Observation, list[tuple[str, int, int]]]:
    """One flat float32 buffer for an observation, its parts as ``encode`` fills them, and where they begin and end."""
    sizes = [math.prod(shape[1:]) for _, shape in shapes]
    stops = list(accumulate(sizes))
    flat = np.zeros(stops[-1], np.float32)
    spans = [(key, stop - size, stop) for (key, _), size, stop in zip(shapes, sizes, stops, strict=True)]
    rows = {
        key: flat[start:stop].reshape(1, *shape[1:])
        for (key, start, stop), (_, shape) in zip(spans, shapes, strict=True)
    }
    return flat, rows, spans


@njit
def _fill_numbers(lanes: Any, elapsed_ns: Any, numbers: Any, settings: Any) -> None:
    """Fill ``numbers`` (a row each of _NUMBERS, n) and ``settings`` (n,): one pass over the wide LANE records."""
    for i in range(lanes.shape[0]):
        lane = lanes[i]
        numbers[0, i] = elapsed_ns[i] / 1e3
        numbers[1, i] = lane.now_ns / 1e3
        numbers[2, i] = lane.credit_ns / 1e6
        numbers[3, i] = lane.charge_ns / 1e6
        settings[i] = lane.setting
