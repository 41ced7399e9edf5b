"""Schedulers behind one interface, made by name. The policy of a training run: see ``agents.policy``.

``docs/schedulers.md`` says what each rule isolates, where it comes from and how it was tuned.
"""

from __future__ import annotations

from typing import Any

from agents.controls import online_barrier, online_pairs, online_serial, online_unfused, online_versions
from agents.learned_gate import SHIPPED_NAME, learned_gate
from agents.ordered import concurrent, edf, serial
from agents.orion import Orion
from agents.paired import greedy_pair, greedy_versions, slack_gate, slack_gate_tuned
from agents.pod import Pod
from agents.rule import Parameter, Rule
from agents.scheduler import Scheduler
from agents.search import oracle, search
from agents.static_pairs import hfuse, static_pairs
from agents.tacker import aker, tacker
from agents.triage import TriageGate
from agents.tuned import tuned_values
from agents.uniform import Uniform
from agents.window import window
from hexenv.errors import ConfigError

__all__ = ["Scheduler", "make", "names", "rule"]

_MARGINS_US = (0.0, 250.0, 500.0, 1000.0, 1500.0, 2000.0, 3000.0, 4000.0, 6000.0)
_GUARDS = (0.0, 0.04, 0.08, 0.16, 0.32, 0.5, 0.7)
_LEAST_GAINS = (1.001, 1.05, 1.1, 1.2, 1.3, 1.5)
_SHARED_MARGIN = Parameter("margin_us", _MARGINS_US, owner="slack_gate")
_LEGAL = (
    Parameter("hmx_lock", ("batch", "op", "chunk"), owner="concurrent"),
    Parameter("vtcm_split", ("static", "on_demand"), owner="concurrent"),
    Parameter("context_split", ("static", "shared"), owner="concurrent"),
)

_RULES: dict[str, Rule] = {
    "random": Rule(Uniform),
    "serial": Rule(serial),
    "edf": Rule(edf),
    "concurrent": Rule(concurrent, _LEGAL),
    "online_serial": Rule(online_serial, (_SHARED_MARGIN,)),
    "online_unfused": Rule(online_unfused, (_SHARED_MARGIN, *_LEGAL)),
    "online_barrier": Rule(online_barrier, (_SHARED_MARGIN,)),
    "static_pairs": Rule(static_pairs, (Parameter("share", (0, 1, 2)), Parameter("least_gain", _LEAST_GAINS))),
    "greedy_pair": Rule(greedy_pair),
    "greedy_versions": Rule(greedy_versions),
    "online_pairs": Rule(online_pairs, (_SHARED_MARGIN,)),
    "online_versions": Rule(online_versions, (_SHARED_MARGIN,)),
    "hfuse": Rule(hfuse, (Parameter("least_gain", _LEAST_GAINS),)),
    "pod": Rule(Pod),
    "orion": Rule(
        Orion,
        (Parameter("duration", (0.0, 0.025, 0.05, 0.1, 0.2, 0.5)), Parameter("contexts", (0.25, 1.0)), *_LEGAL),
    ),
    "window": Rule(window, (Parameter("tasks", (1, 2, 3, 4, 6)), Parameter("hold_us", (200.0, 400.0, 800.0, 1600.0)))),
    "tacker": Rule(tacker, (Parameter("guard", _GUARDS),)),
    "aker": Rule(aker, (Parameter("guard", _GUARDS),)),
    "slack_gate": Rule(slack_gate, (_SHARED_MARGIN,)),
    "slack_gate_tuned": Rule(slack_gate_tuned, (Parameter("margin_us", _MARGINS_US),), per_scenario=True),
    "triage_gate": Rule(
        TriageGate,
        (
            Parameter("margin_us", (750.0, 1500.0)),
            Parameter("least_gain", (0.97, 1.001)),
            Parameter("speed", (0.9, 1.0, 1.1)),
            Parameter("rest_power", (1.0, 2.0)),
        ),
    ),
}

_PLANNERS: dict[str, Rule] = {
    "search": Rule(search, (Parameter("budget", (100, 300, 1000, 3000)),)),
    "oracle": Rule(oracle),
}
"""Look-ahead, made by name but in no default list: a decision takes about a thousand times as long as a rule's."""

_POLICIES: dict[str, Rule] = {SHIPPED_NAME: Rule(learned_gate)}
"""Learned, not written: made by name, but in no list of rules."""


def names() -> tuple[str, ...]:
    """Names of the rules that :func:`make` knows, from the simplest up."""
    return tuple(_RULES)


def rule(name: str) -> Rule:
    """The registry's entry for ``name``; ConfigError for an unknown one."""
    entries = _RULES | _PLANNERS | _POLICIES
    if name not in entries:
        raise ConfigError(f"scheduler {name!r} is unknown; allowed are {', '.join(entries)}")
    return entries[name]


def make(name: str, **values: Any) -> Scheduler:
    """Build the rule called ``name``.

    Args:
        name: one of :func:`names`.
        values: settings of its builder; by default the tuned ones (``agents/tuned.toml``), else the builder's own.

    Raises:
        ConfigError: the rule, or a setting of it, is unknown.
    """
    entry = rule(name)
    allowed = [parameter.name for parameter in entry.parameters]
    for key in values:
        if key not in allowed:
            raise ConfigError(f"scheduler {name!r} has no setting {key!r}; allowed: {', '.join(allowed) or 'none'}")
    if entry.per_scenario:
        return entry.build(**values)
    tuned = {p.name: tuned_values(p.owner or name).get(p.name) for p in entry.parameters}
    return entry.build(**{key: value for key, value in tuned.items() if value is not None} | values)
