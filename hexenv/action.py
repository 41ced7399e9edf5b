"""Actions: the bijection between indices and (task, version, tile class, share), and the two action spaces.

Index 0 is *wait*. A pick has index ``1 + ((task * 3 + version) * 4 + tile) * 3 + share`` with

========  =======  =================================================================
part      values   meaning
========  =======  =================================================================
task      0..K-1   row of the observation's ``tasks``
version   0..2     HVX, HMX, HYBRID (``hexenv.kernels.Version``)
tile      0..3     tile class: a VTCM budget of 1/8, 1/4, 1/2 or all of VTCM
share     0..2     HVX contexts while sharing the device: a quarter, half, three quarters
========  =======  =================================================================

Every index in ``0..36 K`` decodes to exactly one of these and back.
"""

from __future__ import annotations

from copy import deepcopy
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from gymnasium import spaces
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from hexenv.engine.dispatch import decode as decode_pick
from hexenv.engine.layout import N_SHARES, N_TILES, N_VARIANTS, N_VERSIONS, Tables
from hexenv.errors import ConfigError

WAIT = 0
"""The index of wait, the one action that is legal in every state."""

ACTIONS_PER_TASK = N_VARIANTS * N_SHARES
VERSION_NAMES = ("HVX", "HMX", "HYBRID")
TILE_NAMES = ("1/8", "1/4", "1/2", "1")
SHARE_NAMES = ("1/4", "1/2", "3/4")


class Pick(NamedTuple):
    """What an action other than wait puts on the device."""

    task: int
    """Row of the visible tasks, 0 .. K-1."""
    version: int
    """0 HVX, 1 HMX, 2 HYBRID."""
    tile: int
    """Tile class, 0 .. 3."""
    share: int
    """Share class, 0 .. 2."""


def encode(task: int, version: int, tile: int, share: int) -> int:
    """Index of a pick. Raises ValueError if a part is out of range (the task's upper end depends on K)."""
    for name, value, size in (("version", version, N_VERSIONS), ("tile", tile, N_TILES), ("share", share, N_SHARES)):
        if not 0 <= value < size:
            raise ValueError(f"{name} {value} is not in 0..{size - 1}")
    if task < 0:
        raise ValueError(f"task {task} is negative")
    return 1 + ((task * N_VERSIONS + version) * N_TILES + tile) * N_SHARES + share


def decode(index: int) -> Pick | None:
    """The pick behind an index, None for wait. Raises ValueError for a negative index."""
    if index < 0:
        raise ValueError(f"action {index} is negative")
    if index == WAIT:
        return None
    return Pick(*decode_pick(int(index)))


def describe(index: int, view: np.void, tables: Tables) -> str:
    """One line for people: the action decoded, with the stage it names.

    Args:
        index: the action.
        view: the VIEW record of the decision it answers.
        tables: the compiled scenario.
    """
    if not 0 <= index < tables.n_actions:
        return f"action {index}: outside 0..{tables.n_actions - 1}"
    pick = decode(index)
    if pick is None:
        return "wait"
    choice = f"{VERSION_NAMES[pick.version]}, tile {TILE_NAMES[pick.tile]}, share {SHARE_NAMES[pick.share]}"
    if pick.task >= view["n_tasks"]:
        return f"task {pick.task} (no such task: {int(view['n_tasks'])} are visible), {choice}"
    task = view["tasks"][pick.task]
    stream = tables.stream_names[task["stream"]]
    return f"task {pick.task} ({stream}: {tables.op_names[task['op']]}), {choice}"


class MaskedDiscrete(spaces.Discrete):
    """A ``Discrete`` whose sample without a mask is 0, the only action that is legal whatever the state.

    A space doesn't know the state, so a uniform draw would nearly always be illegal. For a random legal action write
    ``action_space.sample(info["action_mask"])``.
    """

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Draw among the mask's ones (int8, shape (n,)), or by probability; without either, wait."""
        if mask is None and probability is None:
            return self.start
        return super().sample(mask, probability)


class MaskedMultiDiscrete(spaces.MultiDiscrete):
    """The batch of ``MaskedDiscrete`` spaces: a sample without masks is all wait.

    ``sample(tuple(infos["action_mask"]))`` draws a legal action a sub-environment.
    """

    def sample(self, mask: Any = None, probability: Any = None) -> Any:
        """Draw an action a sub-environment from a tuple of n masks (int8); without masks, all wait."""
        if mask is None and probability is None:
            return self.start.copy()
        return super().sample(mask, probability)


@batch_space.register(MaskedDiscrete)
def _batch_masked_discrete(space: MaskedDiscrete, n: int = 1) -> MaskedMultiDiscrete:
    return MaskedMultiDiscrete([int(space.n)] * n, dtype=space.dtype.type, seed=deepcopy(space.np_random))


class FlatActions:
    """The ``Discrete(1 + K*V*T*S)`` flavour: indices go to the engine as they are."""

    def __init__(self, tables: Tables):
        self.n_actions = tables.n_actions

    def space(self) -> spaces.Discrete:
        """A new action space of one sub-environment."""
        return MaskedDiscrete(self.n_actions)

    def to_index(self, actions: NDArray[Any], masks: NDArray[np.bool_]) -> tuple[NDArray[np.int64], None]:
        """Engine indices (n,) for actions (n,); nothing is ever repaired."""
        return actions.astype(np.int64, copy=False), None

    def masks(self, masks: NDArray[Any]) -> NDArray[Any]:
        """Action masks (n, A) for the engine's masks (n, A), bool or int8 as they are: a copy."""
        return masks.copy()


class FactoredActions:
    """The ``MultiDiscrete([1 + K, V, T, S])`` flavour: part 0 is wait (0) or the task plus one.

    Independent parts can't say which mixes are legal. An infeasible mix becomes the nearest legal variant of the same
    task: the nearest version first, then the nearest tile class, then the nearest share, the lower one at a tie. If
    the task has no legal variant, it becomes wait.
    """

    def __init__(self, tables: Tables):
        self.nvec = np.array([1 + tables.visible, N_VERSIONS, N_TILES, N_SHARES])
        self._distance = _variant_distances()

    def space(self) -> spaces.MultiDiscrete:
        """A new action space of one sub-environment."""
        return spaces.MultiDiscrete(self.nvec)

    def to_index(self, actions: NDArray[Any], masks: NDArray[np.bool_]) -> tuple[NDArray[np.int64], NDArray[np.bool_]]:
        """Engine indices (n,) and which of them were repaired, for actions (n, 4) and the engine's masks (n, A)."""
        parts = actions.astype(np.int64, copy=False)
        if ((parts < 0) | (parts >= self.nvec)).any():
            raise ValueError(f"action parts {parts.tolist()} are not all in 0..{(self.nvec - 1).tolist()}")
        task = parts[:, 0] - 1
        asked = (parts[:, 1] * N_TILES + parts[:, 2]) * N_SHARES + parts[:, 3]
        legal = masks[:, 1:].reshape(len(masks), -1, ACTIONS_PER_TASK)[np.arange(len(masks)), np.maximum(task, 0)]
        nearest = np.where(legal, self._distance[asked], np.inf).argmin(axis=1)
        picks = 1 + task * ACTIONS_PER_TASK + nearest
        index = np.where((task >= 0) & legal.any(axis=1), picks, WAIT)
        repaired = (task >= 0) & (index != 1 + task * ACTIONS_PER_TASK + asked)
        return index, repaired

    def masks(self, masks: NDArray[Any]) -> NDArray[Any]:
        """Masks (n, 1+K+V+T+S), one after the other as sb3-contrib expects; a value is on if any legal action has it.

        They are bool or int8 like the engine's masks (n, A). Where only wait is legal the other three parts don't
        matter, and all of their values are on.
        """
        n = len(masks)
        legal = masks[:, 1:].reshape(n, -1, N_VERSIONS, N_TILES, N_SHARES)
        tasks = np.any(legal, axis=(2, 3, 4))
        idle = ~np.any(tasks, axis=1, keepdims=True)
        parts = [np.any(legal, axis=axes) | idle for axes in ((1, 3, 4), (1, 2, 4), (1, 2, 3))]
        return np.concatenate([masks[:, :1], tasks, *parts], axis=1)


Actions: TypeAlias = FlatActions | FactoredActions
_FLAVOURS: dict[str, type[Actions]] = {"flat": FlatActions, "factored": FactoredActions}


def make_actions(flavour: str, tables: Tables) -> Actions:
    """The action flavour called ``flat`` or ``factored``; ConfigError for another name."""
    if flavour not in _FLAVOURS:
        raise ConfigError(f"actions {flavour!r} is unknown; allowed are {', '.join(_FLAVOURS)}")
    return _FLAVOURS[flavour](tables)


def _variant_distances() -> NDArray[np.float64]:
    """Lexicographic distance (version, tile, share) between any two of a task's 36 choices, shape (36, 36)."""
    version, tile, share = np.unravel_index(np.arange(ACTIONS_PER_TASK), (N_VERSIONS, N_TILES, N_SHARES))

    def gap(part: NDArray[np.intp]) -> NDArray[np.intp]:
        return np.abs(part[:, None] - part[None, :])

    return ((gap(version) * N_TILES + gap(tile)) * N_SHARES + gap(share)).astype(np.float64)
