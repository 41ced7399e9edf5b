"""The learned scheduler's networks: shared weights encode each task once, so they know neither K nor an order of tasks.

    task_i     = encoder(task features, profiles of its 12 variants)            (M, width)
    pooled     = mean and maximum of task_i over the tasks that are there       (B, 2 * width)
    context    = trunk(residents, vtcm, streams, device, pooled)                (B, context_width)
    logits_i   = head(task_i W + context U)                                     (M, V * T * S)
    wait       = linear(context)                                                (B, 1)

An empty task row is all zeros (``hexenv.observation``) and is left out. The critic has an encoder of its own: its
errors are far larger than the differences between good actions, and in shared weights one would drown the other.
Weights trained with one K load into a network for any other.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from sb3_contrib.common.maskable.distributions import MaskableDistribution
from sb3_contrib.common.maskable.policies import MaskableMultiInputActorCriticPolicy
from stable_baselines3.common.type_aliases import PyTorchObs, Schedule
from torch import nn

from hexenv.action import ACTIONS_PER_TASK

TASK_KEYS = ("tasks", "profiles")
"""Observation keys with one row a task; the axis that K sets."""
CONTEXT_KEYS = ("residents", "vtcm", "streams", "device")
"""Observation keys that describe the device and the streams."""

_MASKED = -1e8
"""Logit of an illegal action; finite, so that probability times log-probability is 0 and not NaN."""

Observation = dict[str, torch.Tensor]


class Encoding(NamedTuple):
    """Encoded states; M tasks are there in all B states together."""

    present: torch.Tensor  # (B, K) bool
    state: torch.Tensor  # (M,) which state a task belongs to
    row: torch.Tensor  # (M,) its row there
    tasks: torch.Tensor  # (M, width)
    context: torch.Tensor  # (B, context_width)


class StateEncoder(nn.Module):
    """Encodes tasks and context; what is done with them is the business of :class:`Actor` and :class:`Critic`.

    Args:
        n_task: numbers that describe one task (:func:`input_sizes`).
        n_context: numbers that describe the rest of the state.
        width: numbers that encode a task.
        context_width: numbers that encode the rest of the state.
    """

    def __init__(self, n_task: int, n_context: int, width: int, context_width: int) -> None:
        super().__init__()
        self.task = nn.Sequential(nn.Linear(n_task, width), nn.ReLU(), nn.Linear(width, width), nn.ReLU())
        self.trunk = nn.Sequential(
            nn.Linear(n_context + 2 * width, context_width),
            nn.ReLU(),
            nn.Linear(context_width, context_width),
            nn.ReLU(),
        )

    def forward(self, observation: Observation) -> Encoding:
        """Encode the tasks that are there (often fewer than half of K, so the others cost no time) and the context."""
        present = (observation["tasks"] != 0).any(-1)
        state, row = present.nonzero(as_tuple=True)
        tasks = self.task(torch.cat((observation["tasks"][state, row], observation["profiles"][state, row]), -1))
        spread = tasks.new_zeros(*present.shape, tasks.shape[-1]).index_put((state, row), tasks)
        # encoded tasks are >= 0 (ReLU), so the zeros of empty rows never win the maximum of the others
        pooled = (spread.sum(1) / present.sum(1, keepdim=True).clamp(min=1), spread.amax(1))
        context = self.trunk(torch.cat((*(observation[key].flatten(1) for key in CONTEXT_KEYS), *pooled), -1))
        return Encoding(present, state, row, tasks, context)


class Actor(nn.Module):
    """Logits of all actions, permutation-equivariant over tasks. Arguments as in :class:`StateEncoder`."""

    def __init__(self, n_task: int, n_context: int, width: int, context_width: int) -> None:
        super().__init__()
        self.encoder = StateEncoder(n_task, n_context, width, context_width)
        self.from_task = nn.Linear(width, width)
        self.from_context = nn.Linear(context_width, width, bias=False)
        self.head = nn.Sequential(nn.ReLU(), nn.Linear(width, width), nn.ReLU(), nn.Linear(width, ACTIONS_PER_TASK))
        self.wait = nn.Linear(context_width, 1)
        _initialise(self)
        # nearly equal logits, so that exploration starts out uniform
        nn.init.orthogonal_(self.head.get_parameter("3.weight"), 0.01)
        nn.init.orthogonal_(self.wait.weight, 0.01)

    def forward(self, observation: Observation) -> torch.Tensor:
        """Logits of wait and of each task's actions in the order of ``hexenv.action``, shape (B, 1 + K * V * T * S).

        Those of an empty row are 0.
        """
        present, state, row, tasks, context = self.encoder(observation)
        rows = self.head(self.from_task(tasks) + self.from_context(context)[state])
        spread = rows.new_zeros(*present.shape, ACTIONS_PER_TASK).index_put((state, row), rows)
        return torch.cat((self.wait(context), spread.flatten(1)), -1)


class Critic(nn.Module):
    """Value of the state, the same for any order of tasks. Arguments as in :class:`StateEncoder`."""

    def __init__(self, n_task: int, n_context: int, width: int, context_width: int) -> None:
        super().__init__()
        self.encoder = StateEncoder(n_task, n_context, width, context_width)
        self.head = nn.Sequential(nn.Linear(context_width, width), nn.ReLU(), nn.Linear(width, 1))
        _initialise(self)

    def forward(self, observation: Observation) -> torch.Tensor:
        """Value, shape (B, 1)."""
        return self.head(self.encoder(observation).context)


class TaskPolicy(MaskableMultiInputActorCriticPolicy):
    """sb3-contrib policy around :class:`Actor` and :class:`Critic`.

    The masked log-probabilities are computed once a call, without building distribution objects; ``get_distribution``
    still offers sb3-contrib's own, and both agree.

    Args:
        observation_space: the Dict of ``hexenv.observation``.
        action_space: ``Discrete(1 + K * V * T * S)``.
        lr_schedule: learning rate as a function of the remaining progress (1 to 0).
        width: numbers that encode a task.
        context_width: numbers that encode the rest of the state.
        kwargs: passed on to sb3-contrib (optimizer class and arguments).
    """

    def __init__(
        self,
        observation_space: spaces.Dict,
        action_space: spaces.Discrete,
        lr_schedule: Schedule,
        *,
        width: int = 64,
        context_width: int = 128,
        **kwargs: Any,
    ) -> None:
        self.width = width
        self.context_width = context_width
        super().__init__(observation_space, action_space, lr_schedule, net_arch=[], activation_fn=nn.ReLU, **kwargs)

    def _build(self, lr_schedule: Schedule) -> None:
        assert isinstance(self.observation_space, spaces.Dict)
        sizes = input_sizes(self.observation_space)
        self.actor = Actor(*sizes, self.width, self.context_width)
        self.critic = Critic(*sizes, self.width, self.context_width)
        options = {"lr": lr_schedule(1), **self.optimizer_kwargs}
        self.optimizer = self.optimizer_class(self.parameters(), **options)

    def _get_constructor_parameters(self) -> dict[str, Any]:
        data = super()._get_constructor_parameters()
        for fixed in (
            "net_arch",
            "activation_fn",
            "ortho_init",
            "features_extractor_class",
            "features_extractor_kwargs",
        ):
            data.pop(fixed)
        return data | {"width": self.width, "context_width": self.context_width}

    def forward(  # type: ignore[override]
        self, obs: Observation, deterministic: bool = False, action_masks: np.ndarray | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Actions, shape (B,), values, shape (B, 1), and log-probabilities, shape (B,)."""
        logits = _masked(self.actor(obs), action_masks)
        actions = logits.argmax(-1) if deterministic else torch.multinomial(torch.softmax(logits, -1), 1).squeeze(-1)
        return actions, self.critic(obs), _pick(torch.log_softmax(logits, -1), actions)

    def evaluate_actions(  # type: ignore[override]
        self, obs: Observation, actions: torch.Tensor, action_masks: torch.Tensor | None = None
    ) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
        """Values, shape (B, 1), log-probabilities of ``actions``, shape (B,), and entropies, shape (B,)."""
        logits = _masked(self.actor(obs), action_masks)
        log_probs = torch.log_softmax(logits, -1)
        # softmax again: the exponential of log-probabilities as small as _MASKED is many times slower
        entropy = -(torch.softmax(logits, -1) * log_probs).sum(-1)
        return self.critic(obs), _pick(log_probs, actions), entropy

    def predict_values(self, obs: PyTorchObs) -> torch.Tensor:
        """Values, shape (B, 1)."""
        assert isinstance(obs, dict)
        return self.critic(obs)

    def get_distribution(self, obs: PyTorchObs, action_masks: np.ndarray | None = None) -> MaskableDistribution:
        """sb3-contrib's distribution of the actions."""
        assert isinstance(obs, dict)
        distribution = self.action_dist.proba_distribution(self.actor(obs))
        if action_masks is not None:
            distribution.apply_masking(action_masks)
        return distribution


def _initialise(module: nn.Module) -> None:
    """Orthogonal weights and zero biases."""
    for layer in module.modules():
        if isinstance(layer, nn.Linear):
            nn.init.orthogonal_(layer.weight, math.sqrt(2))
            if layer.bias is not None:
                nn.init.zeros_(layer.bias)


def input_sizes(space: spaces.Dict) -> tuple[int, int]:
    """Numbers that describe one task, and numbers that describe the rest of the state."""
    n_task = sum(_shape(space, key)[-1] for key in TASK_KEYS)
    return n_task, sum(math.prod(_shape(space, key)) for key in CONTEXT_KEYS)


def _shape(space: spaces.Dict, key: str) -> tuple[int, ...]:
    shape = space[key].shape
    assert shape is not None
    return shape


def _masked(logits: torch.Tensor, masks: np.ndarray | torch.Tensor | None) -> torch.Tensor:
    if masks is None:
        return logits
    legal = torch.as_tensor(masks, dtype=torch.bool, device=logits.device)
    return logits.masked_fill(~legal.reshape(logits.shape), _MASKED)


def _pick(log_probs: torch.Tensor, actions: torch.Tensor) -> torch.Tensor:
    return log_probs.gather(-1, actions.long().reshape(-1, 1)).squeeze(-1)
