"""How much of PPO's training loop is the environment: ``python -m train.bench``.

The same loop runs over the scenario and over a stand-in that hands out recorded steps at no cost, in turn, and the
ratio of their times is reported. The spaces, the masks and the numbers that the learner sees are of the same kind.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from typing import Any

import numpy as np
from stable_baselines3.common.logger import Logger
from stable_baselines3.common.vec_env.base_vec_env import VecEnvObs, VecEnvStepReturn

import agents
from hexenv.cli import Parser, command
from hexenv.errors import ConfigError
from hexenv.workload import build
from train.config import PpoConfig
from train.loop import build_model
from train.vec_env import SimulatorVecEnv

_FRAMES = 256
"""Recorded steps; then they come again."""


class RecordedVecEnv(SimulatorVecEnv):
    """Looks like the environment that it was recorded from, takes any action, and costs nothing."""

    def __init__(self, config: PpoConfig, frames: int = _FRAMES) -> None:
        tables = build(config.scenario, config.device, **config.overrides())
        super().__init__(tables, config.lanes, tables.seeds[0])
        rule = agents.make("slack_gate")
        rule.start(tables, config.lanes, 0)
        self._first = super().reset(), super().action_masks()
        self._frames: list[tuple[VecEnvStepReturn, np.ndarray]] = []
        for _ in range(frames):
            self.step_async(rule.act(self.views, super().action_masks()))
            self._frames.append((super().step_wait(), super().action_masks()))
        self._next, self._masks = 0, self._first[1]

    def reset(self) -> VecEnvObs:
        """The first recorded observation."""
        observation, self._masks = self._first
        self._next = 0
        return observation

    def step_wait(self) -> VecEnvStepReturn:
        """The next recorded step."""
        step, self._masks = self._frames[self._next]
        self._next = (self._next + 1) % len(self._frames)
        return step

    def action_masks(self) -> np.ndarray:
        """The masks recorded with it."""
        return self._masks


def seconds(config: PpoConfig, env: SimulatorVecEnv, steps: int) -> float:
    """Wall time of ``steps`` steps of a new learner on ``env``."""
    model = build_model(config, env.tables, env)
    model.set_logger(Logger(None, []))
    start = time.perf_counter()
    model.learn(steps)
    return time.perf_counter() - start


def compare(config: PpoConfig, steps: int, rounds: int) -> list[tuple[float, float]]:
    """``(seconds over the scenario, seconds over the stand-in)`` of each round; the order changes with every round."""
    if rounds < 1 or steps < 1:
        raise ConfigError(f"{rounds} rounds of {steps} steps: give at least 1 of each")
    recorded = RecordedVecEnv(config)
    live = SimulatorVecEnv(recorded.tables, config.lanes, recorded.tables.seeds[0])
    seconds(config, live, config.lanes)  # compiles, and warms up torch
    found = []
    for i in range(rounds):
        pair: dict[bool, float] = {}
        for real in (True, False) if i % 2 == 0 else (False, True):
            pair[real] = seconds(config, live if real else recorded, steps)
        found.append((pair[True], pair[False]))
    return found


def _parser() -> Parser:
    parser = Parser(prog="python -m train.bench", description="The training loop over the scenario and over nothing.")
    parser.add_argument("--scenario", default="camera_decode", metavar="NAME", help="default: camera_decode")
    parser.add_argument("--steps", type=int, default=65_536, metavar="N", help="of a measurement (default: 65536)")
    parser.add_argument("--rounds", type=int, default=5, metavar="N", help="measurements of each (default: 5)")
    return parser


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, or 2 for wrong input."""
    options: Any = _parser().parse_args(argv)
    config = PpoConfig(scenario=options.scenario, teacher="none", imitate_steps=0)
    pairs = compare(config, options.steps, options.rounds)
    ratios = sorted(real / nothing for real, nothing in pairs)
    speed = options.steps / float(np.median([real for real, _ in pairs]))
    print(f"{speed:,.0f} steps/s over {options.scenario}; time over that of the stand-in, round by round: ", end="")
    print(f"{', '.join(f'{ratio:.3f}' for ratio in ratios)}; median {float(np.median(ratios)):.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
