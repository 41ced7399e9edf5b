"""What the registry knows of a rule: how to build it, and which of its settings may be tuned over which values."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from agents.scheduler import Scheduler


@dataclass(frozen=True)
class Parameter:
    """A setting of a rule that the tuning may choose."""

    name: str
    """Keyword of the rule's builder."""
    choices: tuple[Any, ...]
    """Values tried, in order; of equal scores the first wins."""
    owner: str = ""
    """Rule that it is tuned for; the others that name it take the same value. The rule itself by default."""


@dataclass(frozen=True)
class Rule:
    """An entry of the registry."""

    build: Callable[..., Scheduler]
    parameters: tuple[Parameter, ...] = ()
    per_scenario: bool = False
    """Its parameters are tuned for each scenario by itself, and looked up by the scenario's name when it starts."""

    def own(self, name: str) -> tuple[Parameter, ...]:
        """The parameters that are tuned for this rule, called ``name``, itself."""
        return tuple(p for p in self.parameters if p.owner in ("", name))
