"""What PPO leaves behind, written so that a crash at any instant leaves the last complete state.

``RUN/checkpoint.zip`` (the layout of Stable-Baselines3) holds policy, optimizer and counters.
"""

from __future__ import annotations

import contextlib
import json
import os
import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from gymnasium import spaces

from agents.learned import CHECKPOINT, build_actor, read_weights
from hexenv.errors import ConfigError
from train.ppo import TimedPPO

_COUNTERS = ("num_timesteps", "_n_updates", "lane_episodes")
"""Attributes of the model that a resumed run takes over, as they are named in the checkpoint's ``data``."""


def save(model: TimedPPO, run: Path) -> None:
    """Replace the run's checkpoint by the present state of ``model``.

    Raises:
        ConfigError: the folder cannot be written (any more).
    """
    try:
        with _replacing(run / CHECKPOINT) as temporary:
            model.save(temporary)
    except OSError as error:
        raise ConfigError(f"checkpoint {run / CHECKPOINT} cannot be written: {error.strerror}") from error


def read_counters(run: Path) -> dict[str, Any]:
    """Counters of the run's checkpoint: decisions trained for, gradient passes, episodes a lane.

    Raises:
        ConfigError: the checkpoint is missing or broken.
    """
    path = run / CHECKPOINT
    try:
        with zipfile.ZipFile(path) as archive:
            data = json.loads(archive.read("data"))
        return {name: data[name] for name in _COUNTERS}
    except FileNotFoundError:
        raise ConfigError(f"no checkpoint at {path}: the run was stopped before its first save") from None
    except (OSError, ValueError, KeyError, zipfile.BadZipFile) as error:
        raise ConfigError(f"{path} is not a readable checkpoint: {error!r}") from error


def restore(model: TimedPPO, run: Path) -> None:
    """Put the checkpoint's policy, optimizer and counters into a model that was built from the run's config.

    Raises:
        ConfigError: the checkpoint is missing or broken, or is of other spaces (another K excepted).
    """
    path = run / CHECKPOINT
    for name, value in read_counters(run).items():
        setattr(model, name, value)
    assert isinstance(model.observation_space, spaces.Dict)
    build_actor(read_weights(path), model.observation_space, path)  # explains a misfit
    model.set_parameters(str(path), device=model.device)


@contextlib.contextmanager
def _replacing(path: Path) -> Iterator[Path]:
    """A temporary file beside ``path`` that takes its place when the block ends well, and is removed when it fails."""
    temporary = path.with_name(f".{path.stem}.tmp{path.suffix}")
    try:
        yield temporary
        with temporary.open("rb") as file:
            os.fsync(file.fileno())
        os.replace(temporary, path)
    finally:
        temporary.unlink(missing_ok=True)
