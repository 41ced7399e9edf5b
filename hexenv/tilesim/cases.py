"""What the fluid engine and the tile simulator each say about the same quantity, and why they differ."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from hexenv.tilesim.machine import Play

ENGINES = ("ddr", "hvx", "hmx", "storage")
QUEUE_PASSES = 2
"""A stage of one tile waits in the DMA queue to load and to store."""


@dataclass(frozen=True, slots=True)
class Measure:
    """One quantity of one case by both models, us."""

    kind: str
    """``alone``, ``composite``, ``join``, ``stage of an episode`` or ``episode``."""
    quantity: str
    """``first end``, ``end``, ``makespan`` or ``busy <engine>``; times count from the dispatch."""
    case: str
    fluid_us: float
    tiles_us: float
    cause: str = ""

    @property
    def error(self) -> float:
        """Fluid over tiles, less 1."""
        return self.fluid_us / self.tiles_us - 1.0


def cause_of(tiles: Play, index: int, error_us: float) -> str:
    """The likeliest reason why the end of launch ``index`` differs by ``error_us``: what in its play is as long."""
    foreign = [r for r in tiles.records if r.stage != index]
    longest_dma = max((r.end_us - r.start_us for r in foreign if r.engine == "ddr"), default=0.0)
    longest_phase = max((r.end_us - r.start_us for r in tiles.records if r.engine == "hvx"), default=0.0)
    if abs(error_us) <= QUEUE_PASSES * longest_dma:
        return "its loads and stores queue behind DMA tiles of the other stage"
    if abs(error_us) <= longest_phase:
        return "contexts change hands one long HVX phase earlier or later"
    return "the pipelines interleave unevenly over many tiles"


def table(measures: Sequence[Measure]) -> str:
    """Median, 95th percentile and largest absolute error of each kind and quantity, as a Markdown table."""
    lines = ["| kind | quantity | number | median | p95 | max | mean |", "| --- | --- | --: | --: | --: | --: | --: |"]
    groups: dict[tuple[str, str], list[float]] = {}
    for measure in measures:
        groups.setdefault((measure.kind, measure.quantity), []).append(measure.error)
    for (kind, quantity), errors in groups.items():
        size = np.abs(errors)
        figures = (np.median(size), np.percentile(size, 95), size.max())
        cells = " | ".join(f"{100 * figure:.1f} %" for figure in figures)
        lines.append(f"| {kind} | {quantity} | {len(errors)} | {cells} | {100 * np.mean(errors):+.1f} % |")
    return "\n".join(lines)


def worst(measures: Sequence[Measure], count: int = 10) -> list[Measure]:
    """The cases with the largest errors of an end or a makespan, one line a case."""
    timed = sorted((m for m in measures if not m.quantity.startswith("busy")), key=lambda m: -abs(m.error))
    found: dict[str, Measure] = {}
    for measure in timed:
        found.setdefault(measure.case, measure)
        if len(found) == count:
            break
    return list(found.values())


def write_csv(measures: Sequence[Measure], file: Path) -> None:
    """One row a measure."""
    with file.open("w", newline="", encoding="utf-8") as target:
        writer = csv.writer(target)
        writer.writerow(("kind", "quantity", "case", "fluid_us", "tiles_us", "error", "cause"))
        for m in measures:
            writer.writerow(
                (m.kind, m.quantity, m.case, f"{m.fluid_us:.3f}", f"{m.tiles_us:.3f}", f"{m.error:.5f}", m.cause)
            )
