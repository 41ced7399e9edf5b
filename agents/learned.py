"""The learned scheduler: plays a trained policy greedily. torch is imported only when a checkpoint is read."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from agents.scheduler import Scheduler
from hexenv.action import WAIT
from hexenv.engine.layout import Tables
from hexenv.errors import ConfigError
from hexenv.observation import empty, encode, observation_space

if TYPE_CHECKING:
    import torch
    from gymnasium import spaces

    from agents.network import Actor

LEARNED = "learned"
"""Name in results of the policy of a training run."""
CHECKPOINT = "checkpoint.zip"
"""File name of a run's checkpoint."""
POLICY = "policy.pth"
"""Its member with the policy's weights (the layout of Stable-Baselines3)."""


class Learned(Scheduler):
    """Waits if a trained policy is more likely to wait than to pick, and else takes its most probable legal pick.

    (Wait is one action and picks are many, often alike: the single most probable action would wait far too often.)
    Logits are computed in float64 and compared in float32, so that neither the batch size nor the machine's matrix
    routines change which action is the largest; at a tie the lowest index wins.

    Args:
        checkpoint: a training run's folder, or its ``checkpoint.zip``.

    Raises:
        ConfigError: the checkpoint is missing or broken (here), or does not fit the environment (at :meth:`start`).
    """

    def __init__(self, checkpoint: Path | str) -> None:
        path = Path(checkpoint)
        self.name = LEARNED
        self.overrides: dict[str, Any] = {"mode": "fused"}
        import torch

        torch.set_num_threads(1)  # the matrices are small: more threads spend their time waiting for each other
        self._path = path / CHECKPOINT if path.is_dir() else path
        self._weights = read_weights(self._path)

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`; ``seed`` has no effect."""
        del seed
        self._tables = tables
        self._actor = build_actor(self._weights, observation_space(tables), self._path).double()
        self._observation = empty(tables, batch)

    def logits(self, views: np.ndarray, masks: np.ndarray) -> torch.Tensor:
        """Logits of all actions, float64 of shape (B, A); those of illegal ones are -inf."""
        import torch

        encode(views, self._tables, self._observation)
        with torch.inference_mode():
            inputs = {key: torch.from_numpy(array).double() for key, array in self._observation.items()}
            return self._actor(inputs).masked_fill_(~torch.from_numpy(masks), -torch.inf)

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """See :meth:`Scheduler.act`."""
        import torch

        with torch.inference_mode():
            logits = self.logits(views, masks)
            wait, picks = logits[:, WAIT], logits[:, 1:]
            waits = wait.float() >= torch.logsumexp(picks, -1).float()
            return torch.where(waits, WAIT, 1 + picks.float().argmax(-1)).numpy()


def read_weights(checkpoint: Path) -> dict[str, torch.Tensor]:
    """The actor's tensors in a checkpoint. Nothing is unpickled.

    Raises:
        ConfigError: the file is missing, or is not a checkpoint of this project.
    """
    import torch

    prefix = "actor."
    try:
        with zipfile.ZipFile(checkpoint) as archive, archive.open(POLICY) as member:
            state = torch.load(member, map_location="cpu", weights_only=True)
    except FileNotFoundError:
        raise ConfigError(f"no checkpoint at {checkpoint}") from None
    except Exception as error:
        # torch documents no exception types for a damaged file
        raise ConfigError(f"{checkpoint} is not a readable checkpoint: {error}") from error
    return {name.removeprefix(prefix): tensor for name, tensor in state.items() if name.startswith(prefix)}


def build_actor(weights: dict[str, torch.Tensor], space: spaces.Dict, source: Path) -> Actor:
    """The actor with these weights, for an observation space with any K; ``source`` is named in errors.

    Raises:
        ConfigError: the weights are of another network, or of one for other observations.
    """
    from agents.network import Actor, input_sizes

    n_task, n_context = input_sizes(space)
    try:
        width, reads_task = weights["encoder.task.0.weight"].shape
        context_width, reads_all = weights["encoder.trunk.0.weight"].shape
        reads_context = reads_all - 2 * width
        if (reads_task, reads_context) != (n_task, n_context):
            raise ConfigError(
                f"{source}: its policy reads {reads_task} numbers a task and {reads_context} of the rest of the "
                f"state; this environment has {n_task} and {n_context}"
            )
        actor = Actor(n_task, n_context, width, context_width)
        actor.load_state_dict(weights)
    except (KeyError, RuntimeError) as error:
        raise ConfigError(f"{source}: these are not the weights of a hexenv policy: {error}") from error
    return actor
