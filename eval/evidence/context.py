"""What the pieces of evidence that play again need to know: the plan, one scenario of it, and how to play."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from agents.scheduler import Scheduler
from eval.episodes import held_out
from eval.play import Outcome, join
from eval.runner import Plan
from eval.units import cut, play_units
from hexenv.engine.layout import Tables
from hexenv.workload import build


@dataclass(frozen=True)
class Context:
    """One scenario of a finished evaluation."""

    plan: Plan
    scenario: str
    """As the plan names it: a bundled name, or the path of a file."""
    outcomes: tuple[Outcome, ...]
    shown: tuple[Outcome, ...]
    """Those that figures with a line a scheduler show (:mod:`eval.evidence.selection`)."""
    workers: int = 1
    kept: Path | None = None
    """Folder for finished units of work (:mod:`eval.units`)."""

    def scheduler(self, name: str) -> Scheduler:
        """One of the plan's schedulers."""
        return next(one for one in self.plan.schedulers if one.name == name)

    def tables(self, name: str, **settings: Any) -> Tables:
        """What a scheduler of the plan runs on, with some engine settings changed."""
        own = {**self.scheduler(name).overrides, **self.plan.settings, **settings}
        return build(self.scenario, self.plan.device, self.plan.split, **own)

    def play(self, games: Sequence[tuple[str, Tables]], episodes: int) -> list[Outcome]:
        """Play the first episodes of the held-out list: (scheduler, tables) by (scheduler, tables)."""
        count = min(self.plan.episodes, episodes)
        units = [cut(self.scheduler(name), tables, held_out(tables, count)) for name, tables in games]
        blocks = iter(play_units([unit for own in units for unit in own], self.workers, self.kept))
        return [
            join(name, tables, [next(blocks) for _ in own]) for (name, tables), own in zip(games, units, strict=True)
        ]
