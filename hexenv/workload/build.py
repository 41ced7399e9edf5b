"""The short way from names to tables."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import Any

from hexenv.device import Device, load_device
from hexenv.engine.layout import Tables
from hexenv.workload.compiler import compile_scenario
from hexenv.workload.scenario import load_scenario, override, read_fusions, read_techniques
from hexenv.workload.toml_reader import Table


def build(scenario: str, device: str | Device = "v79", split: str = "train", **overrides: Any) -> Tables:
    """Tables of a scenario (name or path of a .toml file) on a device (name, path, or one with values of your own).

    ``overrides`` replace fields of the scenario's ``[engine]`` table, for example ``mode="serial"``, ``visible=4`` or
    ``placement="host"``. Two more are tables of their own: ``kernels={"attention": {"exp": "table"}}`` selects
    techniques, on top of the scenario's, and ``fusions=("swiglu",)`` replaces its fusions, ``()`` by none. Equal
    arguments give the same object.

    Raises:
        ConfigError: unknown scenario, device, split or override, or a value that is not allowed.
    """
    loaded = load_scenario(scenario)
    graph: dict[str, Any] = {key: overrides.pop(key) for key in ("kernels", "fusions") if key in overrides}
    call = Table(graph, "", "overrides")
    settings = replace(
        loaded,
        engine=override(loaded.engine, overrides),
        techniques=loaded.techniques + read_techniques(call.table("kernels", {})),
        fusions=read_fusions(call, loaded.fusions),
    )
    return _compiled(settings, load_device(device) if isinstance(device, str) else device, split)


_compiled = lru_cache(maxsize=64)(compile_scenario)
