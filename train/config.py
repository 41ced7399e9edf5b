"""All settings of a training run, each with its meaning and unit; the options of ``python -m train`` come from here."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import Any, ClassVar, Self

from agents.kernels.adaptive import N_FEATURES
from hexenv.errors import ConfigError


def _option(default: Any, meaning: str, low: float | None = None, high: float | None = None) -> Any:
    """Field with a default, its meaning for ``--help`` and its allowed range (ends included)."""
    return dataclasses.field(default=default, metadata={"help": meaning, "low": low, "high": high})


@dataclass(frozen=True)
class TrainConfig:
    """What all learners share; ``RUN/config.json`` holds all settings of a run.

    Raises:
        ConfigError: a value is out of its range.
    """

    learner: ClassVar[str]
    """Name of the learner."""
    length: ClassVar[str]
    """The option that says how long to train; a resumed run may change it."""

    scenario: str = _option("camera_decode", "scenario to train on: a name or the path of a TOML file")
    device: str = _option("v79", "device: a name or the path of a TOML file")
    mode: str = _option("fused", "execution mode of the engine: serial, concurrent, fused_serial or fused")
    visible: int | None = _option(None, "tasks the scheduler sees at once (K); the scenario's by default", 1, 16)
    miss_weight: float | None = _option(None, "weight of a deadline miss (lambda); the scenario's by default", 0.0)
    horizon_us: float | None = _option(None, "length of an episode in us; the scenario's by default", 1.0)
    seed: int = _option(0, "seed of everything random in the training, its episodes included", 0)
    checkpoint_s: float = _option(60.0, "seconds between two saved checkpoints", 0.0)
    eval_episodes: int = _option(60, "held-out episodes of each scheduler in the evaluation after it", 1)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):
            value, low, high = getattr(self, field.name), field.metadata["low"], field.metadata["high"]
            if value is None:
                continue
            if (low is not None and not value >= low) or (high is not None and not value <= high):
                allowed = f"at least {low}" if high is None else f"from {low} to {high}"
                raise ConfigError(f"option {field.name} is {value}, allowed is {allowed}")

    @property
    def total(self) -> int:
        """How long to train: the value of the option :attr:`length`."""
        return int(getattr(self, self.length))

    def overrides(self) -> dict[str, Any]:
        """Engine settings of the scenario that this run replaces (``hexenv.workload.build``)."""
        values = {name: getattr(self, name) for name in ("mode", "visible", "miss_weight", "horizon_us")}
        return {name: value for name, value in values.items() if value is not None}

    @classmethod
    def from_dict(cls, values: dict[str, Any], source: str) -> Self:
        """Rebuild a config from ``dataclasses.asdict``; ``source`` is the file it comes from, for error texts.

        Raises:
            ConfigError: a name is unknown or missing, or a value is out of its range.
        """
        names = {field.name for field in dataclasses.fields(cls)}
        if names != set(values):
            wrong = ", ".join(sorted(names ^ set(values)))
            raise ConfigError(f"{source}: training options unknown or missing: {wrong}")
        return cls(**values)


@dataclass(frozen=True)
class GateConfig(TrainConfig):
    """Settings of the learner ``gate``: an evolution strategy on the settings of a gate with triage."""

    learner = "gate"
    length = "generations"

    generations: int = _option(40, "generations of the search", 1)
    population: int = _option(16, "candidates in a generation", 4)
    episodes: int = _option(96, "training episodes that each candidate of a generation plays", 1)
    features: int = _option(
        N_FEATURES, "features of the state that the settings may follow; 1 for constants", 1, N_FEATURES
    )
    step: float = _option(0.3, "first standard deviation of the constants of the settings", 1e-6)
    threads: int = _option(2, "candidates played at once; no effect on the results", 1)


@dataclass(frozen=True)
class PpoConfig(TrainConfig):
    """Settings of the learner ``ppo``: MaskablePPO on observations and actions of the environment."""

    learner = "ppo"
    length = "steps"

    steps: int = _option(2_200_000, "decisions to train for, all lanes together", 1)
    lanes: int = _option(64, "episodes played side by side", 1)
    rollout: int = _option(256, "decisions a lane between two updates", 1)
    minibatch: int = _option(2048, "decisions in a gradient step", 2)
    epochs: int = _option(3, "passes over the decisions of a rollout", 1)
    teacher: str = _option("triage_gate", "rule that the warm start imitates (a name of agents.names()), or none")
    imitate_steps: int = _option(500_000, "decisions of the warm start, part of --steps", 0)
    imitate_learning_rate: float = _option(2e-3, "Adam's step size in the warm start; falls linearly to 0", 0.0)
    learning_rate: float = _option(3e-4, "Adam's step size at step 0; falls linearly to 0 at the last step", 0.0)
    clip: float = _option(0.2, "largest change of an action's probability ratio that is still rewarded", 0.0, 1.0)
    entropy: float = _option(0.0, "weight of the entropy bonus", 0.0)
    value_weight: float = _option(0.5, "weight of the value loss", 0.0)
    max_grad_norm: float = _option(0.5, "largest norm of a gradient", 0.0)
    discount_deadlines: float = _option(5.0, "time constant of the discount, in longest deadlines of the scenario", 5.0)
    trace_us: float = _option(10_000.0, "time constant in us of the advantage estimate's trace decay", 1.0)
    reward_scale: float = _option(0.03, "factor on rewards (ms of reference work) inside the learner", 0.0)
    width: int = _option(64, "numbers that encode a task in the network", 1)
    context_width: int = _option(128, "numbers that encode the rest of the state in the network", 1)
    torch_threads: int = _option(1, "CPU threads of torch", 1)


LEARNERS: dict[str, type[TrainConfig]] = {config.learner: config for config in (GateConfig, PpoConfig)}
"""The learners by name; the first is the default."""
PRESETS: dict[str, TrainConfig] = {"full": GateConfig(scenario="grid", generations=60, eval_episodes=180)}
"""Bundles of settings by name."""
