"""The short way from names to tables."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from hexenv.device import load_device
from hexenv.engine.layout import Tables
from hexenv.workload.compiler import compile_scenario
from hexenv.workload.scenario import load_scenario, override


def build(scenario: str, device: str = "v79", split: str = "train", **overrides: Any) -> Tables:
    """Tables of a scenario (name or path of a .toml file) on a device (name or path).

    ``overrides`` replace fields of the scenario's ``[engine]`` table, for example ``mode="serial"``, ``visible=4`` or
    ``placement="host"``. Equal arguments give the same object.

    Raises:
        ConfigError: unknown scenario, device, split or override, or a value that is not allowed.
    """
    loaded = load_scenario(scenario)
    settings = replace(loaded, engine=override(loaded.engine, overrides))
    return _compiled(settings, load_device(device), split)


_compiled = lru_cache(maxsize=64)(compile_scenario)
