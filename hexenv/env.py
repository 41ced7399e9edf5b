"""The single environment, ``gymnasium.make("hexenv/Hexagon-v0")``."""

from __future__ import annotations

from typing import Any

import gymnasium as gym
import numpy as np
from gymnasium.error import ResetNeeded
from numpy.typing import NDArray

from hexenv.engine import Simulator
from hexenv.engine.layout import Tables
from hexenv.errors import ConfigError
from hexenv.lanes import RENDER_MODES, Lanes
from hexenv.observation import Observation


class HexagonEnv(gym.Env[dict[str, Any], Any]):
    """Schedule camera, vision and language-model work on a phone NPU, one slot at a time.

    ## Description

    A Hexagon-like NPU has vector engines (HVX contexts), one matrix engine (HMX), a scratchpad (VTCM) and a DMA engine
    in front of DDR. Streams of jobs arrive; each job is a graph of stages (operators). A stage can run in up to three
    versions (HVX, HMX, HYBRID) and four tile classes, and two stages can share the device, with the vector contexts
    divided between them. Which stage to start, in which version, at which tile size and with which share is one joint
    decision under deadlines. A decision happens when a slot is free and at least one ready stage is legal; otherwise
    time runs on by itself. Picks at one instant stay pending until wait is chosen, the slots are full or nothing legal
    is left; then they launch together.

    ## Action Space

    ``Discrete(1 + K*3*4*3)``, K = 8 by default: 0 is wait, which is always legal; it launches what is pending and
    runs to the next arrival, completion, drop or the horizon, at most 200 us. A pick has index
    ``1 + ((task*3 + version)*4 + tile)*3 + share``; ``hexenv.action.encode`` and ``decode`` convert.

    | Part    | Values  | Meaning                                                              |
    |---------|---------|----------------------------------------------------------------------|
    | task    | 0..K-1  | row of the observation's ``tasks``                                   |
    | version | 0..2    | HVX, HMX, HYBRID                                                     |
    | tile    | 0..3    | tile class: 1/8, 1/4, 1/2 or all of VTCM                             |
    | share   | 0..2    | a quarter, half or three quarters of the contexts; 0 while alone     |

    Legality is exact: ``action_masks()`` (bool) and ``info["action_mask"]`` (int8) are on for just the legal actions,
    and of actions with equal effect only the canonical one is legal. An illegal action raises
    ``hexenv.engine.IllegalAction`` (a ValueError) with the action decoded, and the state stays as it was. A sample of
    the space without a mask is always wait; ``env.action_space.sample(info["action_mask"])`` is a random legal action.

    ``hexenv/HexagonMultiDiscrete-v0`` (``actions="factored"``) has ``MultiDiscrete([1 + K, 3, 4, 3])`` instead: part 0
    is wait (0) or the task plus one. Masks are those of the parts, one after the other, as sb3-contrib expects. An
    infeasible mix never raises: it becomes the nearest legal variant of the same task (nearest version first, then tile
    class, then share, the lower one at a tie), or wait if the task has none. ``info["executed"]`` holds the flat index
    that was executed, ``info["repaired"]`` whether it differs from what was asked.

    ## Observation Space

    A ``Dict`` of float32 boxes with finite bounds and fixed scaling, about 3 KiB at K = 8. All amounts are predictions.
    *log* is ``min(1, log2(1 + t / 1 us) / 20)`` with the logarithm linear between powers of two, *signed* is
    ``t / (|t| + 10 ms)``, *ratio c* is ``x / (x + c)``. Rows that stand for nothing are zeros. Each box has one
    dimension, the rows below one after the other: the tasks are ``observation["tasks"].reshape(K, 18)``.

    ``tasks``, K rows of 18: ready stages, earliest deadline first, each stream's head before others.

    | Index | Meaning                                                              | Min | Max |
    |-------|----------------------------------------------------------------------|-----|-----|
    | 0     | present: 1 for a task, 0 for an empty row                            | 0   | 1   |
    | 1     | head: first task of its stream's oldest job                          | 0   | 1   |
    | 2     | firm: its job is dropped when late                                   | 0   | 1   |
    | 3     | soft: its job has a deadline and finishes late                       | 0   | 1   |
    | 4     | best_effort: its job has no deadline                                 | 0   | 1   |
    | 5     | slack: deadline - now - critical path, signed; 1 for best effort     | -1  | 1   |
    | 6     | slack_per_chain: slack / (abs(slack) + critical path)                | -1  | 1   |
    | 7     | critical: predicted rest of the chain from this stage on, log        | 0   | 1   |
    | 8     | left_ddr: DDR time of the job's unfinished stages, log               | 0   | 1   |
    | 9     | left_hvx: HVX context-time of the job's unfinished stages, log       | 0   | 1   |
    | 10    | left_hmx: HMX time of the job's unfinished stages, log               | 0   | 1   |
    | 11    | job_ref: reference time of the whole job, log                        | 0   | 1   |
    | 12    | earned: part of it already credited, what a drop forfeits            | 0   | 1   |
    | 13    | weight: weight of a miss, ratio 1                                    | 0   | 1   |
    | 14    | since_arrival: time since the job arrived, log                       | 0   | 1   |
    | 15    | deadline: relative to arrival, log; 1 for best effort                | 0   | 1   |
    | 16    | backlog: live jobs of its stream, ratio 4                            | 0   | 1   |
    | 17    | stream: (index of its stream + 1) / 8                                | 0   | 1   |

    ``profiles``, K rows of 60: the task's 12 variants (version * 4 + tile) by 5 profile parts.

    | Index    | Meaning                                                           | Min | Max |
    |----------|-------------------------------------------------------------------|-----|-----|
    | 5 v + 0  | HVX demand of variant v; all five are 0 if it is not offered      | 0   | 1   |
    | 5 v + 1  | HMX demand                                                        | 0   | 1   |
    | 5 v + 2  | VTCM footprint                                                    | 0   | 1   |
    | 5 v + 3  | DMA traffic                                                       | 0   | 1   |
    | 5 v + 4  | predicted duration                                                | 0   | 1   |

    ``residents``, 2 rows of 24: a row a slot, pending picks included.

    | Index | Meaning                                                              | Min | Max |
    |-------|----------------------------------------------------------------------|-----|-----|
    | 0     | pending: picked at this instant, not launched                        | 0   | 1   |
    | 1     | queued: behind the other stage's barrier (fused_serial)              | 0   | 1   |
    | 2     | launch: launching, joining or waiting for contexts                   | 0   | 1   |
    | 3     | prologue                                                             | 0   | 1   |
    | 4     | body                                                                 | 0   | 1   |
    | 5     | drain                                                                | 0   | 1   |
    | 6     | dropped: its job is gone, it runs out uncredited                     | 0   | 1   |
    | 7     | hvx_version                                                          | 0   | 1   |
    | 8     | hmx_version                                                          | 0   | 1   |
    | 9     | hybrid_version                                                       | 0   | 1   |
    | 10    | tile: (tile class + 1) / 4                                           | 0   | 1   |
    | 11    | contexts: HVX contexts it works with / all                           | 0   | 1   |
    | 12    | left: predicted rest alone on its present contexts, log              | 0   | 1   |
    | 13    | tiles_left: ratio 32                                                 | 0   | 1   |
    | 14    | slack, signed; 1 for best effort                                     | -1  | 1   |
    | 15    | best_effort: its job has no deadline                                 | 0   | 1   |
    | 16-20 | profile of its variant, as in ``profiles``                           | 0   | 1   |
    | 21    | vtcm_offset: start of its region / VTCM                              | 0   | 1   |
    | 22    | vtcm_size: size of its region / VTCM                                 | 0   | 1   |
    | 23    | stream: (index of its stream + 1) / 8                                | 0   | 1   |

    ``vtcm``, shape (18,).

    | Index | Meaning                                                              | Min | Max |
    |-------|----------------------------------------------------------------------|-----|-----|
    | 0     | free: free VTCM / VTCM                                               | 0   | 1   |
    | 1     | largest: largest free block / VTCM                                   | 0   | 1   |
    | 2-17  | cell_0 .. cell_15: occupied part of each sixteenth, in address order | 0   | 1   |

    ``streams``, 8 rows of 7: the scenario's streams in order.

    | Index | Meaning                                                              | Min | Max |
    |-------|----------------------------------------------------------------------|-----|-----|
    | 0     | active: takes part in this episode                                   | 0   | 1   |
    | 1     | firm: its late jobs are dropped                                      | 0   | 1   |
    | 2     | closed_loop: its next job follows the end of the last                | 0   | 1   |
    | 3     | backlog: live jobs, ratio 4                                          | 0   | 1   |
    | 4     | since_arrival: time since its last arrival, log                      | 0   | 1   |
    | 5     | period: mean time between arrivals, log; 0 for a closed loop         | 0   | 1   |
    | 6     | deadline: relative to arrival, log; 1 for best effort                | 0   | 1   |

    ``device``: the scaled constants of the device, each 0 .. 1, constant over an episode.

    ## Starting State

    An empty device at time 0 with the streams' first arrivals drawn from the seed, advanced to the first decision. Load
    and mix are a row of the split's settings: ``options={"setting": i}`` chooses it, otherwise the seed does.
    ``reset(seed=s)`` starts episode 0 of seed s and each later ``reset()`` the next one, so that equal seeds give equal
    series of episodes; without any seed one is drawn at random.

    ## Rewards

    ``(credit gained - lambda * sum over misses of weight * reference time)`` in ms of reference work. A finished stage
    earns its reference time (its fastest variant, alone); a job dropped late forfeits what it had earned. A step that
    takes no simulated time earns 0.

    ## Episode End

    ### Termination

    Nothing is left to happen: no job is live and none will arrive.

    ### Truncation

    The scenario's horizon. The ids set no ``max_episode_steps``, and the time left is not observed.

    ## Information

    | Key           | Meaning                                                                              |
    |---------------|--------------------------------------------------------------------------------------|
    | action_mask   | int8 mask of the legal actions of the decision at hand                               |
    | elapsed_us    | simulated time of this step, for discounts ``exp(-elapsed_us / tau)``                |
    | time_us       | simulated time since the reset                                                       |
    | credit_ms     | credit so far, forfeits taken off                                                    |
    | charge_ms     | sum of weight * reference time over the misses so far                                |
    | setting       | row of the split's settings                                                          |
    | executed      | factored actions only: the flat index that was executed                              |
    | repaired      | factored actions only: whether it differs from what was asked                        |

    All arrays returned by ``reset``, ``step`` and ``action_masks`` are new and may be kept or changed.

    ## Arguments

    * ``scenario``: name or path of a scenario (``hexenv.workload.scenario_names()``), ``camera_decode`` by default.
    * ``device``: name or path of a device, ``v79`` by default.
    * ``split``: ``train`` or ``heldout``, the settings (load and mix) episodes are drawn from.
    * ``actions``: ``flat`` or ``factored``.
    * ``render_mode``: ``ansi`` (text) or ``rgb_array`` (a Gantt chart of the last 50 ms, uint8, headless).
    * ``mode``, ``visible`` (K), ``miss_weight`` (lambda), ``noise``, ``horizon_us``, ``hmx_lock``, ``vtcm_split``,
      ``context_split``, ``placement``: engine settings in place of the scenario's own (``hexenv.workload.build``).

    All of them are plain strings and numbers, so that ``env.spec.to_json()`` works. A wrong one raises
    ``hexenv.errors.ConfigError``.

    ## Version History

    * v0: first version.

    ## Example

    >>> import gymnasium, hexenv
    >>> env = gymnasium.make("hexenv/Hexagon-v0", scenario="camera_decode")
    >>> observation, info = env.reset(seed=7)
    >>> over = False
    >>> while not over:
    ...     action = env.action_space.sample(info["action_mask"])
    ...     observation, reward, terminated, truncated, info = env.step(action)
    ...     over = terminated or truncated
    """

    metadata: dict[str, Any] = {"render_modes": list(RENDER_MODES), "render_fps": 20}  # noqa: RUF012

    def __init__(
        self,
        scenario: str = "camera_decode",
        device: str = "v79",
        split: str = "train",
        *,
        actions: str = "flat",
        render_mode: str | None = None,
        **overrides: Any,
    ):
        self._lanes = Lanes(
            scenario,
            device,
            split,
            batch=1,
            threads=1,
            actions=actions,
            render_mode=render_mode,
            overrides=overrides,
        )
        self.render_mode = render_mode
        self.observation_space = self._lanes.observation_space()
        self.action_space = self._lanes.action_space()
        self._over = True

    @property
    def tables(self) -> Tables:
        """The compiled scenario."""
        return self._lanes.tables

    @property
    def simulator(self) -> Simulator:
        """The engine behind, a batch of one: views and masks in raw units, trace, fork."""
        return self._lanes.simulator

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[Observation, dict[str, Any]]:
        """Start an episode: the first one of ``seed``, or the next one without a seed.

        Args:
            seed: seed of this and the following episodes.
            options: ``{"setting": i}`` runs the i-th setting of the split in this episode.

        Raises:
            ConfigError: an option is unknown or out of range.
        """
        settings = self._settings(options or {})
        super().reset(seed=seed)
        self._lanes.seed([seed], self.np_random)
        self._lanes.reset(settings=settings)
        self._over = False
        return self._lanes.first()

    def step(self, action: Any) -> tuple[Observation, float, bool, bool, dict[str, Any]]:
        """Decide: see the class for what an action does.

        Raises:
            IllegalAction: the action is illegal; nothing has changed.
            gymnasium.error.ResetNeeded: the episode is over or none has begun.
        """
        if self._over:
            raise ResetNeeded("the episode is over (or none has begun): call reset() first")
        self._lanes.step([action])
        simulator = self._lanes.simulator
        terminated, truncated = bool(simulator.terminated[0]), bool(simulator.truncated[0])
        self._over = terminated or truncated
        reward = float(simulator.rewards[0])
        observation, info = self._lanes.first()
        return observation, reward, terminated, truncated, info

    def action_masks(self) -> NDArray[np.bool_]:
        """Mask of the legal actions, bool (A,), or (1+K+V+T+S,) for factored actions; as sb3-contrib expects."""
        return self._lanes.masks()[0]

    def render(self) -> Any:
        """Text (``ansi``) or a uint8 picture (``rgb_array``) of the present state."""
        return self._lanes.render(0)

    def _settings(self, options: dict[str, Any]) -> NDArray[np.int64] | None:
        unknown = options.keys() - {"setting"}
        if unknown:
            raise ConfigError(f"reset option {sorted(unknown)[0]!r} is unknown; allowed is 'setting'")
        return self._lanes.check_settings(options["setting"]) if "setting" in options else None
