"""Engine settings as options of a command line: what the scenario says holds unless one is given."""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

from hexenv.errors import ConfigError

_OPTIONS: dict[str, tuple[type, str]] = {
    "mode": (
        str,
        "run every scheduler in this mode: serial, concurrent, fused_serial or fused (default: each in its own)",
    ),
    "hmx_lock": (str, "mode concurrent: how long a graph holds the HMX lock: batch, op or chunk"),
    "vtcm_split": (str, "mode concurrent: how VTCM is divided: static or on_demand"),
    "context_split": (str, "mode concurrent: how HVX contexts are divided: static or shared"),
    "visible": (int, "tasks a scheduler sees at once (K), 1 to 16"),
    "miss_weight": (float, "weight of a deadline miss (lambda)"),
    "noise": (float, "spread of actual durations around the predicted ones (sigma of the log-normal)"),
    "horizon_us": (float, "length of an episode in us"),
    "placement": (str, "where the scheduler runs, which sets the cost of a decision: host or dsp"),
}


def flag(name: str) -> str:
    """The option that sets the engine setting ``name``."""
    return "--" + name.replace("_", "-")


def add_engine_options(parser: argparse.ArgumentParser) -> None:
    """Add an option a setting, in a group of their own."""
    group = parser.add_argument_group("engine settings (default: those of the scenario)")
    for name, (kind, text) in _OPTIONS.items():
        flags = [flag(name)] + (["--lambda"] if name == "miss_weight" else [])
        group.add_argument(*flags, dest=name, type=kind, default=argparse.SUPPRESS, metavar="X", help=text)


def engine_settings(options: Mapping[str, Any]) -> dict[str, Any]:
    """The settings that were given, as :func:`hexenv.workload.build` takes them."""
    return {name: options[name] for name in _OPTIONS if name in options}


def refuse_engine_options(options: Mapping[str, Any]) -> None:
    """Refuse what a run's own config decides: ``scenario``, ``device`` and the engine settings.

    Raises:
        ConfigError: one of them was given.
    """
    taken = [flag(name) for name in ("scenario", "device", *_OPTIONS) if options.get(name) is not None]
    if taken:
        raise ConfigError(f"{', '.join(taken)} cannot be given with --checkpoint: the run's config.json decides")
