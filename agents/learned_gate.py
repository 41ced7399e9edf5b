"""The learned gate: triage and gate with settings that follow the state, from a file of weights.

The weights are found by ``python -m train`` (evolution strategy, ``train.evolution``) and are few (settings x
features, :mod:`agents.kernels.adaptive`): a runtime can take them as a table. A decision costs about what one of
``slack_gate`` does.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from agents.kernels.adaptive import (
    FEATURES,
    N_FEATURES,
    N_SETTINGS,
    SETTINGS,
    act_adaptively,
    chamber,
    describe,
    settings_of,
)
from agents.kernels.predict import costs_of
from agents.scheduler import Scheduler
from hexenv.engine.layout import Tables
from hexenv.errors import ConfigError

GATE = "gate.json"
"""File name of a run's weights."""
SHIPPED_NAME = "learned_gate"
"""Name of the gate with the shipped weights."""
SHIPPED = Path(__file__).with_name("learned_gate.json")
"""The weights of the published table."""


class LearnedGate(Scheduler):
    """Plays the gate with learned settings.

    Args:
        weights: (settings, features), see :data:`agents.kernels.adaptive.SETTINGS` and ``FEATURES``.
        name: name in reports.
    """

    def __init__(self, weights: np.ndarray, name: str = SHIPPED_NAME) -> None:
        self.name = name
        self.overrides: dict[str, Any] = {"mode": "fused"}
        self.weights = np.ascontiguousarray(weights, np.float64)

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`."""
        del batch, seed
        self._costs = costs_of(tables)
        self._space = chamber(tables)

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """See :meth:`Scheduler.act`."""
        actions = np.empty(len(views), np.int64)
        act_adaptively(views, masks, self._costs, self.weights, self._space, actions)
        return actions

    def settings(self, views: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Features (B, :data:`FEATURES`) of some decisions, and what they lead to, (B, :data:`SETTINGS`).

        The margin is in ms. Call it after :meth:`start`.
        """
        features, settings = np.empty((len(views), N_FEATURES)), np.empty((len(views), N_SETTINGS))
        for i, view in enumerate(views):
            describe(view, self._costs, self._space.jobs, features[i])
            triage, pairing = settings_of(self.weights @ features[i])
            settings[i] = (
                triage.speed,
                pairing.margin / 1e6,
                pairing.least_gain,
                pairing.guard,
                triage.rest_power,
                triage.loss_power,
                triage.soft,
                pairing.guest_gain,
                pairing.tile_price,
            )
        return features, settings


def learned_gate() -> LearnedGate:
    """The learned gate with the shipped weights."""
    return LearnedGate(read_gate(SHIPPED)["weights"])


def gate_text(weights: np.ndarray, **more: Any) -> str:
    """Content of a file of weights; ``more`` goes into it as it is."""
    values = {"features": list(FEATURES), "settings": list(SETTINGS), "weights": weights.tolist(), **more}
    return json.dumps(values, indent=1) + "\n"


def read_gate(path: Path) -> dict[str, Any]:
    """What :func:`gate_text` wrote, the weights as an array.

    Raises:
        ConfigError: the file is missing or broken, or its weights are of other features or settings.
    """
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
        weights = np.array(values["weights"], np.float64)
    except FileNotFoundError:
        raise ConfigError(f"no weights of a learned gate at {path}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} does not hold the weights of a learned gate: {error!r}") from error
    for name, known in (("features", FEATURES), ("settings", SETTINGS)):
        if values.get(name) != list(known):
            raise ConfigError(f"{path}: its {name} are not those of this version, {', '.join(known)}; train again")
    if weights.shape != (len(SETTINGS), len(FEATURES)) or not np.isfinite(weights).all():
        raise ConfigError(f"{path}: its weights are not {len(SETTINGS)} x {len(FEATURES)} finite numbers")
    return values | {"weights": weights}
