"""The folder of a training run: its ``config.json``, which never changes while the run trains."""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import platform
from pathlib import Path
from typing import Any

from hexenv import __version__
from hexenv.errors import ConfigError
from hexenv.files import write_file
from train.config import LEARNERS, TrainConfig

CONFIG = "config.json"
_PACKAGES = ("torch", "stable-baselines3", "sb3-contrib", "gymnasium", "numpy", "numba", "cma")


def create_run(run: Path, config: TrainConfig) -> None:
    """Make the folder of a new run and write its ``config.json``.

    Raises:
        ConfigError: the folder cannot be written, or already holds a run.
    """
    if (run / CONFIG).exists():
        raise ConfigError(f"{run} already holds a run: go on with --resume {run}, or choose another --out")
    try:
        run.mkdir(parents=True, exist_ok=True)
        write_config(run, config)
    except OSError as error:
        raise ConfigError(f"output folder {run} cannot be written: {error.strerror}") from error


def write_config(run: Path, config: TrainConfig) -> None:
    """Write ``config.json`` atomically."""
    versions = {"hexenv": __version__, "python": platform.python_version()}
    versions |= {package: importlib.metadata.version(package) for package in _PACKAGES}
    values: dict[str, Any] = {"learner": config.learner, "train": dataclasses.asdict(config), "versions": versions}
    write_file(run / CONFIG, json.dumps(values, indent=2) + "\n")


def read_config(run: Path) -> TrainConfig:
    """Settings of the run in folder ``run``.

    Raises:
        ConfigError: there is no run, or its ``config.json`` is broken.
    """
    path = run / CONFIG
    try:
        content = json.loads(path.read_text())
        learner, values = content["learner"], content["train"]
        kind = LEARNERS[learner]
    except OSError as error:
        raise ConfigError(f"no training run in {run}: {path}: {error.strerror}") from error
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not the config of a training run: {error!r}") from error
    return kind.from_dict(values, str(path))
