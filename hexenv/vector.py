"""The native vector environment, ``gymnasium.make_vec("hexenv/Hexagon-v0", num_envs=n)``."""

from __future__ import annotations

import operator
from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hexenv.engine import Simulator
from hexenv.engine.layout import Tables
from hexenv.errors import ConfigError
from hexenv.lanes import RENDER_MODES, Lanes
from hexenv.observation import Observation, flatten

Step = tuple[Observation, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


class HexagonVectorEnv(VectorEnv[Observation, Any, NDArray[Any]]):
    """A batch of n environments in one engine; ``hexenv.env.HexagonEnv`` documents spaces, rewards and infos.

    Sub-environment i seeded with s behaves like the single environment seeded with s + i, byte for byte, over all its
    episodes, for any n and number of threads.

    Every info key holds an array with a leading axis n, with its mask ``_key``: ``action_mask`` is (n, A) int8. So
    ``envs.action_space.sample(tuple(infos["action_mask"]))`` draws a legal action for each (flat actions).

    Autoreset, as Gymnasium defines it:

    * ``next_step``: the step after an episode's end ignores that sub-environment's action, resets it and returns its
      first observation with reward 0;
    * ``same_step``: the step that ends an episode also resets it; ``infos["final_obs"]`` (object array of observation
      dicts) and ``infos["final_info"]`` hold the end, ``_final_obs`` and ``_final_info`` say where;
    * ``disabled``: ``reset(options={"reset_mask": bool array})`` resets; stepping past an end raises ResetNeeded.

    Args:
        num_envs: n.
        scenario, device, split, actions, render_mode, overrides: see ``HexagonEnv``.
        threads: threads that advance the sub-environments.
        autoreset_mode: ``next_step``, ``same_step``, ``disabled`` or an ``AutoresetMode``.

    Raises:
        ConfigError: an argument is unknown or out of range.
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 20}  # noqa: RUF012

    def __init__(
        self,
        num_envs: int = 1,
        scenario: str = "camera_decode",
        device: str = "v79",
        split: str = "train",
        *,
        actions: str = "flat",
        render_mode: str | None = None,
        threads: int = 1,
        autoreset_mode: str | AutoresetMode = "next_step",
        **overrides: Any,
    ):
        for name, value in (("num_envs", num_envs), ("threads", threads)):
            if value < 1:
                raise ConfigError(f"{name} is {value}; it must be at least 1")
        self._lanes = Lanes(
            scenario,
            device,
            split,
            batch=num_envs,
            threads=threads,
            actions=actions,
            render_mode=render_mode,
            overrides=overrides,
        )
        self.num_envs = num_envs
        self.render_mode = render_mode
        self._autoreset = _autoreset_mode(autoreset_mode)
        self.metadata = {**type(self).metadata, "autoreset_mode": self._autoreset}
        self.single_observation_space = self._lanes.observation_space()
        self.single_action_space = self._lanes.action_space()
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space: gym.Space[Any] = batch_space(self.single_action_space, num_envs)
        self._over: NDArray[np.bool_] | None = None  # (n,), None before the first reset

    @property
    def tables(self) -> Tables:
        """The compiled scenario."""
        return self._lanes.tables

    @property
    def simulator(self) -> Simulator:
        """The engine behind: views and masks in raw units, traces, fork."""
        return self._lanes.simulator

    def reset(
        self,
        *,
        seed: int | Sequence[int | None] | None = None,
        options: dict[str, Any] | None = None,
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode in every sub-environment, or in those of ``options["reset_mask"]``.

        Args:
            seed: s seeds sub-environment i with s + i; a list gives each its own; None goes on to the next episodes.
            options: ``reset_mask`` (bool array (n,)), ``setting`` (a row of the split's settings, or a list of n).

        Raises:
            ConfigError: an option or seed is unknown or out of range.
        """
        where, settings = self._options(options or {})
        seeds = self._seeds(seed)
        super().reset(seed=None if seed is None or isinstance(seed, Sequence) else operator.index(seed))
        if where is not None:
            seeds = [value if chosen else None for value, chosen in zip(seeds, where, strict=True)]
            if self._over is None and not where.all():
                raise ResetNeeded("the first reset must cover every sub-environment")
        self._lanes.seed(seeds, self.np_random)
        self._lanes.reset(where, settings)
        if self._over is None or where is None:
            self._over = np.zeros(self.num_envs, np.bool_)
        else:
            self._over[where] = False
        return flatten(self._lanes.observe(), self.num_envs), self._infos()

    def step(self, actions: Any) -> Step:
        """Decide in every sub-environment; all actions are checked before any of them moves.

        Raises:
            IllegalAction: an action is illegal; nothing has changed.
            gymnasium.error.ResetNeeded: before the first reset, or past an end with autoreset disabled.
        """
        lanes, over = self._lanes, self._over
        if over is None:
            raise ResetNeeded("call reset() first")
        if self._autoreset is AutoresetMode.DISABLED and over.any():
            raise ResetNeeded(f"episodes of sub-environments {np.flatnonzero(over).tolist()} are over: reset them")
        stale = over if over.any() else None
        lanes.step(actions, None if stale is None else ~stale)
        simulator = lanes.simulator
        rewards = simulator.rewards.copy()
        terminated, truncated = simulator.terminated.copy(), simulator.truncated.copy()
        if stale is not None:
            rewards[stale], terminated[stale], truncated[stale] = 0.0, False, False
            lanes.reset(stale)
        self._over = terminated | truncated
        observation = lanes.observe()
        final = {}
        if self._autoreset is AutoresetMode.SAME_STEP and self._over.any():
            final = self._reset_finished(observation)
        return flatten(observation, self.num_envs), rewards, terminated, truncated, {**self._infos(), **final}

    def action_masks(self) -> NDArray[np.bool_]:
        """Masks of the legal actions, bool (n, A), or (n, 1+K+V+T+S) for factored actions."""
        return self._lanes.masks()

    def render(self) -> tuple[Any, ...] | None:
        """A frame a sub-environment, None without a render mode."""
        if self.render_mode is None:
            return None
        return tuple(self._lanes.render(lane) for lane in range(self.num_envs))

    def _infos(self) -> dict[str, Any]:
        return _with_masks(self._lanes.infos(), np.ones(self.num_envs, np.bool_))

    def _reset_finished(self, observation: Observation) -> dict[str, Any]:
        """Reset the episodes that have just ended, in place of ``observation`` too; returns the final_* infos."""
        assert self._over is not None
        over = self._over
        self._over = np.zeros(self.num_envs, np.bool_)
        final_obs = np.full(self.num_envs, None, dtype=object)
        for lane in np.flatnonzero(over):
            final_obs[lane] = {key: value[lane].flatten() for key, value in observation.items()}
        final_info = self._lanes.infos()
        for value in final_info.values():
            value[~over] = 0
        self._lanes.reset(over)
        self._lanes.observe_again(observation, over)
        return _with_masks({"final_obs": final_obs, "final_info": _with_masks(final_info, over)}, over)

    def _seeds(self, seed: int | Sequence[int | None] | None) -> list[int | None]:
        if seed is None:
            return [None] * self.num_envs
        if not isinstance(seed, Sequence):
            first = operator.index(seed)
            return [first + lane for lane in range(self.num_envs)]
        if len(seed) != self.num_envs:
            raise ConfigError(f"{len(seed)} seeds are given for {self.num_envs} sub-environments")
        return list(seed)

    def _options(self, options: dict[str, Any]) -> tuple[NDArray[np.bool_] | None, NDArray[np.int64] | None]:
        unknown = options.keys() - {"setting", "reset_mask"}
        if unknown:
            raise ConfigError(f"reset option {sorted(unknown)[0]!r} is unknown; allowed are 'setting', 'reset_mask'")
        settings = self._lanes.check_settings(options["setting"]) if "setting" in options else None
        where = options.get("reset_mask")
        if where is None:
            return None, settings
        if not isinstance(where, np.ndarray) or where.dtype != np.bool_ or where.shape != (self.num_envs,):
            raise ConfigError(f"options['reset_mask'] must be a bool array of shape ({self.num_envs},), not {where!r}")
        if not where.any():
            raise ConfigError("options['reset_mask'] has no True value")
        return where, settings


def _autoreset_mode(mode: str | AutoresetMode) -> AutoresetMode:
    if isinstance(mode, AutoresetMode):
        return mode
    names = {member.name.lower(): member for member in AutoresetMode}
    if mode not in names:
        raise ConfigError(f"autoreset_mode {mode!r} is unknown; allowed are {', '.join(names)}")
    return names[mode]


def _with_masks(infos: dict[str, Any], where: NDArray[np.bool_]) -> dict[str, Any]:
    """Gymnasium's vector infos: each key with its mask ``_key`` of the sub-environments that have it."""
    return {**infos, **{f"_{key}": where.copy() for key in infos}}
