"""``plan.json`` beside the results: what is needed to play them again."""

from __future__ import annotations

import importlib.metadata
import json
import os
import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

import agents
from agents.scheduler import Scheduler
from eval.identity import code_hash, file_hash, scheduler_hash
from eval.trained import Trained
from hexenv import __version__
from hexenv.errors import ConfigError

if TYPE_CHECKING:
    from eval.runner import Plan

PLAN = "plan.json"
_PACKAGES = ("numpy", "numba", "torch")


def plan_text(plan: Plan, folder: Path) -> str:
    """The content of ``plan.json`` in ``folder``; paths are relative to it."""
    configs = {plan.config_hash(name): plan.config(name) for name in plan.scenarios}
    values = {
        "scenarios": [_path_from(folder, name) for name in plan.scenarios],
        "device": _path_from(folder, plan.device),
        "split": plan.split,
        "episodes": plan.episodes,
        "settings": dict(plan.settings),
        "schedulers": [_scheduler_entry(scheduler, folder) for scheduler in plan.schedulers],
        "command": ["python", "-m", "eval", *plan.command],
        "code": code_hash(),
        "versions": {"hexenv": __version__, "python": platform.python_version()}
        | {name: importlib.metadata.version(name) for name in _PACKAGES},
        "configs": {parts["scenario"]: {"config": config, **parts} for config, parts in configs.items()},
    }
    return json.dumps(values, indent=2) + "\n"


def read_plan_values(path: Path) -> dict[str, Any]:
    """What a ``plan.json`` holds. Raises :class:`hexenv.errors.ConfigError` if it cannot be read."""
    try:
        values = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); it is written beside the results") from error
    except ValueError as error:
        raise ConfigError(f"{path} is not a plan: {error}") from error
    if not isinstance(values, dict):
        raise ConfigError(f"{path} is not a plan: it holds no table")
    return values


def read_plan(path: Path) -> tuple[Plan, list[str]]:
    """The plan in a ``plan.json``, and what has changed since it was written, a line each.

    Raises:
        ConfigError: the file, a scheduler or a training run is missing or broken, or a policy is another one.
    """
    from eval.runner import Plan

    values, folder = read_plan_values(path), path.parent
    changed = []
    try:
        schedulers = [_scheduler(entry, folder) for entry in values["schedulers"]]
        for scheduler, entry in zip(schedulers, values["schedulers"], strict=True):
            if not isinstance(scheduler, Trained) and scheduler_hash(scheduler) != entry["hash"]:
                changed.append(f"settings or code of scheduler {scheduler.name} are not those of {path}")
        if values["code"] != code_hash():
            changed.append(f"code of engine, schedulers or measurement, or a library, is not that of {path}")
        plan = Plan(
            tuple(_path_to(folder, name) for name in values["scenarios"]),
            _path_to(folder, values["device"]),
            tuple(schedulers),
            values["episodes"],
            values["settings"],
            values["split"],
        )
    except (KeyError, TypeError) as error:
        raise ConfigError(f"{path} is not a plan: {error!r}") from error
    return plan, changed


def _scheduler_entry(scheduler: Scheduler, folder: Path) -> dict[str, Any]:
    if not isinstance(scheduler, Trained):
        return {"name": scheduler.name, "hash": scheduler_hash(scheduler)}
    return {
        "name": scheduler.name,
        "run": os.path.relpath(scheduler.folder, folder),
        "train_seed": scheduler.train_seed,
        "sha256": file_hash(scheduler.policy_file),
    }


def _scheduler(entry: dict[str, Any], folder: Path) -> Scheduler:
    if "run" not in entry:
        return agents.make(entry["name"])
    run = Trained(folder / entry["run"])
    found = file_hash(run.policy_file)
    if found != entry["sha256"]:
        raise ConfigError(
            f"{run.policy_file} has SHA-256 {found[:12]}, the results were made with {entry['sha256'][:12]}"
        )
    return run


def _path_from(folder: Path, name: str) -> str:
    """The name of a scenario or device; if it is the path of a file, as it is seen from ``folder``."""
    return os.path.relpath(name, folder) if name.endswith(".toml") else name


def _path_to(folder: Path, name: str) -> str:
    return os.path.normpath(folder / name) if name.endswith(".toml") else name
