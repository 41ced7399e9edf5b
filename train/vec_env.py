"""The batched engine as a Stable-Baselines3 VecEnv, without a Python object a lane."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium import spaces
from stable_baselines3.common.vec_env import VecEnv
from stable_baselines3.common.vec_env.base_vec_env import VecEnvIndices, VecEnvObs, VecEnvStepReturn

from hexenv.engine import Simulator, episode_key
from hexenv.engine.layout import Tables
from hexenv.observation import empty, encode, observation_space


class SimulatorVecEnv(VecEnv):
    """Lanes of one :class:`hexenv.engine.Simulator`; a finished lane starts its next episode at once.

    Lane i plays the episodes ``episode_key(seed + i, 0)``, ``episode_key(seed + i, 1)`` ..., and each episode draws its
    setting (load and mix) from its key. Every array that ``reset`` and ``step`` return is the caller's to keep.

    Observation: the Dict of ``hexenv.observation``, float32, leading axis ``num_envs``.
    Action: ``Discrete(1 + K * V * T * S)`` of ``hexenv.action``.
    Infos: ``elapsed_us`` (simulated time of the step); at the end of an episode also ``terminal_observation``,
    ``TimeLimit.truncated`` and ``episode`` with return ``r`` (ms of reference work) and length ``l`` (decisions).

    Args:
        tables: the compiled scenario.
        lanes: number of lanes.
        seed: seed of lane 0.
        first_episodes: number of each lane's next episode, shape (lanes,); zeros by default. A resumed run passes
            :attr:`episodes` here and so never repeats one.
    """

    def __init__(self, tables: Tables, lanes: int, seed: int, first_episodes: np.ndarray | None = None) -> None:
        self.tables = tables
        self._simulator = Simulator(tables, lanes)
        self._first_seed = seed
        self.episodes = np.zeros(lanes, dtype=np.int64) if first_episodes is None else first_episodes.copy()
        self._returns = np.zeros(lanes)
        self._lengths = np.zeros(lanes, dtype=np.int64)
        self._actions = np.zeros(lanes, dtype=np.int64)
        super().__init__(lanes, observation_space(tables), spaces.Discrete(tables.n_actions))

    def reset(self) -> VecEnvObs:
        """Start a new episode in every lane; seeds given by ``seed()`` start each lane's episodes anew."""
        if self._seeds[0] is not None:
            self._first_seed = self._seeds[0]
            self.episodes[:] = 0
        self._reset_seeds()
        self._reset_options()
        self._start(np.ones(self.num_envs, dtype=bool))
        return self._observe()

    def step_async(self, actions: np.ndarray) -> None:
        """Take the actions of the next step, int of shape (num_envs,)."""
        self._actions = np.asarray(actions, dtype=np.int64).reshape(self.num_envs)

    def step_wait(self) -> VecEnvStepReturn:
        """Play the step: observations, rewards (float32), dones (bool), infos (one dict a lane)."""
        simulator = self._simulator
        simulator.step(self._actions)
        rewards = simulator.rewards.astype(np.float32)
        dones = simulator.terminated | simulator.truncated
        self._returns += simulator.rewards
        self._lengths += 1
        infos: list[dict[str, Any]] = [{"elapsed_us": elapsed} for elapsed in (simulator.elapsed_ns / 1e3).tolist()]
        observation = self._observe()
        if dones.any():
            self._finish(dones, observation, infos)
        return observation, rewards, dones, infos

    def _finish(self, dones: np.ndarray, observation: dict[str, np.ndarray], infos: list[dict[str, Any]]) -> None:
        """Report the lanes of ``dones``, start their next episodes and put those into ``observation``."""
        simulator = self._simulator
        for lane in np.flatnonzero(dones):
            infos[lane].update(
                {
                    "terminal_observation": {key: array[lane].copy() for key, array in observation.items()},
                    "TimeLimit.truncated": bool(simulator.truncated[lane] and not simulator.terminated[lane]),
                    "episode": {"r": float(self._returns[lane]), "l": int(self._lengths[lane])},
                }
            )
        self._start(dones)
        for row in np.flatnonzero(dones).tolist():
            encode(simulator.views, self.tables, observation, row, row + 1)

    def _start(self, where: np.ndarray) -> None:
        keys = np.zeros(self.num_envs, dtype=np.uint64)
        for lane in np.flatnonzero(where):
            keys[lane] = episode_key(self._first_seed + int(lane), int(self.episodes[lane]))
        self.episodes[where] += 1
        self._returns[where] = 0.0
        self._lengths[where] = 0
        self._simulator.reset(keys, where)

    def _observe(self) -> dict[str, np.ndarray]:
        observation = empty(self.tables, self.num_envs)
        encode(self._simulator.views, self.tables, observation)
        return observation

    def action_masks(self) -> np.ndarray:
        """Legal actions, bool of shape (num_envs, n_actions)."""
        return self._simulator.masks.copy()

    @property
    def views(self) -> np.ndarray:
        """The decisions at hand in raw units, as rules read them: VIEW records, shape (num_envs,), the engine's own."""
        return self._simulator.views

    def close(self) -> None:
        """Nothing to release."""

    def has_attr(self, attr_name: str) -> bool:
        """Whether every lane has the attribute."""
        return attr_name == "render_mode" or hasattr(type(self), attr_name)

    def get_attr(self, attr_name: str, indices: VecEnvIndices = None) -> list[Any]:
        """The attribute, once for each of ``indices``."""
        value = None if attr_name == "render_mode" else getattr(self, attr_name)
        return [value for _ in self._get_indices(indices)]

    def set_attr(self, attr_name: str, value: Any, indices: VecEnvIndices = None) -> None:
        """Lanes share all attributes, so one lane cannot differ: always refused."""
        raise AttributeError(f"attribute {attr_name!r} of a SimulatorVecEnv lane cannot be set")

    def env_method(  # type: ignore[override]
        self, method_name: str, *method_args: Any, indices: VecEnvIndices = None, **method_kwargs: Any
    ) -> Sequence[Any]:
        """Only ``action_masks``: the bool array (len(indices), n_actions), a row a lane."""
        if method_name != "action_masks":
            raise AttributeError(f"a SimulatorVecEnv lane has no method {method_name!r}, only 'action_masks'")
        return self.action_masks()[list(self._get_indices(indices))]  # type: ignore[return-value]

    def env_is_wrapped(self, wrapper_class: type[gym.Wrapper], indices: VecEnvIndices = None) -> list[bool]:
        """No lane is wrapped."""
        return [False for _ in self._get_indices(indices)]
