"""Learned policies by name: the one that ships, and whatever a training run has left."""

from __future__ import annotations

from pathlib import Path

from agents.learned import CHECKPOINT, LEARNED, Learned
from agents.learned_gate import GATE, SHIPPED_NAME, LearnedGate, read_gate
from agents.scheduler import Scheduler
from hexenv.errors import ConfigError

POLICIES = (LEARNED, SHIPPED_NAME)
"""Names of learned policies in results: of a training run, and the one with the shipped weights."""


def policy_file(run: Path) -> Path:
    """The file in a run's folder that holds its policy.

    Raises:
        ConfigError: there is none.
    """
    for name in (GATE, CHECKPOINT):
        if (run / name).exists():
            return run / name
    raise ConfigError(f"no policy in {run}, neither {GATE} nor {CHECKPOINT}: the run was stopped before its first save")


def load_policy(run: Path) -> Scheduler:
    """The policy of a training run, under the name :data:`agents.learned.LEARNED`.

    Raises:
        ConfigError: it is missing or broken, or is of another version.
    """
    path = policy_file(run)
    return LearnedGate(read_gate(path)["weights"], LEARNED) if path.name == GATE else Learned(path)
