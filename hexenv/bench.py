"""Measure decisions/s of the environments, beside Gymnasium's CartPole in the same run.

What is timed is step() alone: observations, masks, infos and autoresets included. A random legal action for each
decision is drawn between the timed parts (a random action for CartPole). A sub-environment's step that only resets it
is not counted as a decision, though its time is.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from importlib import metadata
from itertools import count
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np

import hexenv
from hexenv.cli import Parser, command
from hexenv.engine.jit import njit
from hexenv.engine.rng import draw
from hexenv.errors import ConfigError

HEXAGON = "hexenv/Hexagon-v0"
CARTPOLE = "CartPole-v1"
LABELS = {
    "batched_1_thread": "hexenv, batched, 1 thread",
    "batched_2_threads": "hexenv, batched, 2 threads",
    "single": "hexenv, single",
    "cartpole_single": "CartPole, single",
    "cartpole_vector": "CartPole, vector",
}
"""The figures, by their key in the JSON file."""

_LIBRARIES = ("gymnasium", "numpy", "numba")
_WARM_UP_STEPS = 10

Sampler = Callable[[dict[str, Any], int], Any]
"""Actions for the infos of the i-th step."""


@njit
def random_actions(masks: Any, step: int, actions: Any) -> None:
    """Fill ``actions`` (n,) with a uniform legal action of each row of ``masks`` (n, A); ``step`` varies the draw."""
    for i in range(masks.shape[0]):
        legal = 0
        for action in range(masks.shape[1]):
            legal += masks[i, action]
        skip = int(draw(np.uint64(step), 0, i, 0, 0) % np.uint64(legal))
        for action in range(masks.shape[1]):
            if masks[i, action]:
                if skip == 0:
                    actions[i] = action
                    break
                skip -= 1


def machine() -> dict[str, Any]:
    """Processor, its logical cores, and system."""
    return {"processor": _processor(), "cores": os.cpu_count(), "system": platform.platform()}


def versions() -> dict[str, str]:
    """Versions of Python, hexenv and the libraries that set the speed."""
    libraries = {name: metadata.version(name) for name in _LIBRARIES}
    return {"python": platform.python_version(), "hexenv": hexenv.__version__, **libraries}


def measure(env: Any, num_envs: int, seconds: float, sample: Sampler) -> float:
    """Decisions/s over ``seconds`` of stepping.

    Args:
        env: a vector environment in ``next_step`` autoreset mode, or a single one (``num_envs`` 1), which is reset
            outside the timed part.
        num_envs: sub-environments.
        seconds: stepping time after a few steps of warm-up.
        sample: gives the actions.
    """
    single = isinstance(env, gymnasium.Env)
    _, infos = env.reset(seed=0)
    over = np.zeros(num_envs, np.bool_)
    decisions, spent = 0, 0.0
    for step in count(-_WARM_UP_STEPS):
        actions = sample(infos, step + _WARM_UP_STEPS)
        started = time.perf_counter()
        _, _, terminated, truncated, infos = env.step(actions)
        passed = time.perf_counter() - started
        if step >= 0:
            spent += passed
            decisions += num_envs - int(np.count_nonzero(over))
        if not single:
            over = np.logical_or(terminated, truncated)
        elif terminated or truncated:
            _, infos = env.reset()
        if spent > seconds:
            break
    return decisions / spent


def run(scenario: str, device: str, seconds: float, num_envs: int) -> dict[str, float]:
    """The figures of ``LABELS``, decisions/s, from ``seconds`` of stepping for each.

    Raises:
        ConfigError: the scenario, device or number of environments is not allowed.
    """
    setup: dict[str, Any] = {"scenario": scenario, "device": device}
    figures = {}
    for key, threads in (("batched_1_thread", 1), ("batched_2_threads", 2)):
        batch = gymnasium.make_vec(HEXAGON, num_envs, threads=threads, **setup)
        figures[key] = measure(batch, num_envs, seconds, _legal_sampler(num_envs))
    one = _legal_sampler(1)
    single = gymnasium.make(HEXAGON, **setup)
    figures["single"] = measure(
        single, 1, seconds, lambda info, i: one({"action_mask": info["action_mask"][None]}, i)[0]
    )
    pole = gymnasium.make(CARTPOLE)
    figures["cartpole_single"] = measure(pole, 1, seconds, lambda *_: pole.action_space.sample())
    poles = gymnasium.make_vec(CARTPOLE, num_envs, vectorization_mode="vector_entry_point")
    figures["cartpole_vector"] = measure(poles, num_envs, seconds, lambda *_: poles.action_space.sample())
    return figures


@command
def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = Parser(prog="python -m hexenv.bench", description=__doc__)
    parser.add_argument("--scenario", default="camera_decode", help="name or path (default: %(default)s)")
    parser.add_argument("--device", default="v79", help="name or path (default: %(default)s)")
    parser.add_argument("--seconds", type=float, default=3.0, help="stepping time of a figure (default: %(default)s)")
    parser.add_argument("--envs", type=int, default=1024, help="sub-environments of a batch (default: %(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the figures to FILE as well")
    options = parser.parse_args(arguments)
    figures = run(options.scenario, options.device, options.seconds, options.envs)
    if options.json is not None:
        _write(options.json, {**figures, "unit": "decisions/s", "machine": machine(), "versions": versions()})
    print(", ".join(f"{name} {value}" for name, value in {**machine(), **versions()}.items()))
    print(f"scenario {options.scenario}, device {options.device}, batches of {options.envs}")
    for key, label in LABELS.items():
        print(f"{label:<28} {figures[key]:>12,.0f} decisions/s")
    return 0


def _legal_sampler(num_envs: int) -> Sampler:
    actions = np.zeros(num_envs, np.int64)

    def sample(infos: dict[str, Any], step: int) -> Any:
        random_actions(infos["action_mask"], step, actions)
        return actions

    return sample


def _processor() -> str:
    """Name of the processor, as far as the system tells."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        for line in cpuinfo.read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _write(path: Path, figures: dict[str, Any]) -> None:
    try:
        path.write_text(json.dumps(figures, indent=2) + "\n")
    except OSError as error:
        raise ConfigError(f"--json {path}: cannot write this file ({error.strerror})") from error


if __name__ == "__main__":
    sys.exit(main())
