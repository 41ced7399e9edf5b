"""Schedulers behind one interface, made by name. Learned policies come from a checkpoint: see ``agents.learned``."""

from __future__ import annotations

from collections.abc import Callable

from agents.ordered import concurrent, edf, serial
from agents.paired import greedy_pair, greedy_versions, slack_gate
from agents.scheduler import Scheduler
from agents.uniform import Uniform
from hexenv.errors import ConfigError

__all__ = ["Scheduler", "make", "names"]

_MAKERS: dict[str, Callable[[], Scheduler]] = {
    "random": Uniform,
    "serial": serial,
    "edf": edf,
    "concurrent": concurrent,
    "greedy_pair": greedy_pair,
    "greedy_versions": greedy_versions,
    "slack_gate": slack_gate,
}


def names() -> tuple[str, ...]:
    """Names of the rules that :func:`make` knows, from the simplest up."""
    return tuple(_MAKERS)


def make(name: str) -> Scheduler:
    """Build the rule called ``name`` with its default settings; ConfigError for an unknown name."""
    if name not in _MAKERS:
        raise ConfigError(f"scheduler {name!r} is unknown; allowed are {', '.join(_MAKERS)}")
    return _MAKERS[name]()
