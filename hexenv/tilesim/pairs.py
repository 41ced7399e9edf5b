"""Random pairs of stages, played by the fluid engine and tile by tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from hexenv.device import Device
from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import NO_DEADLINE, Arrival, Tables
from hexenv.tilesim.chip import Chip
from hexenv.tilesim.machine import Launch, play
from hexenv.tilesim.schedule import launches_of

MAX_TRIES = 100
"""Draws for one pair; most fail because the two do not fit VTCM together."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one of the two models says about a schedule, us."""

    ends_us: tuple[float, ...]
    """End of each launch."""
    busy_us: dict[str, float]

    @property
    def first_us(self) -> float:
        """End of the first to finish."""
        return min(self.ends_us)

    @property
    def makespan_us(self) -> float:
        """End of the last to finish."""
        return max(self.ends_us)


@dataclass(frozen=True, slots=True)
class Pair:
    """Two stages that share the device, and what both models make of it."""

    title: str
    launches: tuple[Launch, ...]
    fluid: Outcome
    tiles: Outcome


def pairs(tables: list[Tables], device: Device, chip: Chip, count: int, seed: int) -> Iterator[Pair]:
    """``count`` random pairs of the scenarios' variants: half launched together, half joining a resident stage.

    Operators are drawn first, so that those with many variants do not crowd out the rest; noise is off.
    """
    rng = np.random.default_rng(seed)
    for _ in range(count):
        yield next(pair for pair in _draws(tables, chip, rng) if pair is not None)


def _draws(tables: list[Tables], chip: Chip, rng: np.random.Generator) -> Iterator[Pair | None]:
    for _ in range(MAX_TRIES):
        yield _draw(tables[rng.integers(len(tables))], chip, rng)
    raise RuntimeError(f"no pair fitted in {MAX_TRIES} draws")


def _draw(tables: Tables, chip: Chip, rng: np.random.Generator) -> Pair | None:
    """One pair, or None where it does not fit or the first stage is gone before the second comes."""
    chosen = [int(rng.choice(op[op >= 0])) for op in tables.ops["variant"][rng.integers(len(tables.ops), size=2)]]
    joins = bool(rng.integers(2))
    alone_us = float(tables.variants["alone_ns"][chosen[0], chip.contexts]) / 1e3
    offset_us = float(rng.uniform(0.0, alone_us)) if joins else 0.0
    share = int(rng.integers(3))
    simulator = Simulator(_restricted(tables, chosen, offset_us), trace=TraceLevel.ALL)
    simulator.reset(np.zeros(1, np.uint64))
    if not _pick(simulator, 0, tables, chosen[0], 0):
        return None
    while joins and not simulator.lanes["over"][0] and simulator.views["now_ns"][0] < round(offset_us * 1e3):
        simulator.step(np.zeros(1, np.int64))
    if simulator.lanes["over"][0] or not _pick(simulator, 0, tables, chosen[1], share):
        return None
    while not simulator.lanes["over"][0]:
        simulator.step(np.zeros(1, np.int64))
    schedule = launches_of(simulator.trace(0), tables.costs)
    if len(schedule.launches) < 2:
        return None
    names = [f"{tables.op_names[tables.variants['op'][v]]} {tables.costs[v].version.name}" for v in chosen]
    how = f"{names[1]} joins {names[0]} after {offset_us:.0f} us" if joins else f"{names[0]} with {names[1]}"
    lane = simulator.lanes[0]
    fluid = Outcome(tuple(schedule.ends_us), {e: float(lane[f"busy_{e}_ns"]) / 1e3 for e in ENGINES})
    tiled = play(chip, schedule.absolute())
    tiles = Outcome(tuple(run.end_us for run in tiled.stages), tiled.busy_us)
    return Pair(how, schedule.absolute(), fluid, tiles)


ENGINES = ("ddr", "hvx", "hmx", "storage")


def _pick(simulator: Simulator, task: int, tables: Tables, variant: int, share: int) -> bool:
    """Pick a variant with a share, or with share 0 where shares have no effect. Returns whether it is legal."""
    row = tables.variants[variant]
    base = 1 + ((task * 3 + int(row["version"])) * 4 + int(row["tile"])) * 3
    for action in (base + share, base):
        if simulator.masks[0, action]:
            simulator.step(np.array([action]))
            return True
    return False


def _restricted(tables: Tables, chosen: list[int], offset_us: float) -> Tables:
    """The tables cut down to two jobs of one stage each; the second arrives ``offset_us`` after the first."""
    ops: Any = np.zeros(2, tables.ops.dtype)
    stages: Any = np.zeros(2, tables.stages.dtype)
    templates: Any = np.zeros(2, tables.templates.dtype)
    streams: Any = np.zeros(2, tables.streams.dtype)
    variants = tables.variants.copy()
    for i, variant in enumerate(chosen):
        row = variants[variant]
        ops[i] = tables.ops[row["op"]]
        ops[i]["variant"] = -1
        ops[i]["variant"][row["version"], row["tile"]] = variant
        ops[i]["fastest"] = variant
        stages[i]["op"] = i
        templates[i]["first_stage"], templates[i]["n_stages"] = i, 1
        templates[i]["root_start"], templates[i]["root_end"] = 0, 1
        templates[i]["ref_ns"] = ops[i]["ref_ns"]
        streams[i]["arrival"], streams[i]["deadline_ns"], streams[i]["queue"] = Arrival.TRACE, NO_DEADLINE, 1
        streams[i]["first_job"], streams[i]["template_start"], streams[i]["template_count"] = i, i, 1
        streams[i]["trace_start"], streams[i]["trace_end"] = i, i + 1
        if not (i and chosen[0] == variant):
            variants[variant]["op"] = i
    config = tables.config.copy()
    config["n_streams"], config["noise"], config["horizon_ns"] = 2, 0.0, 1_000_000_000
    config["batch_ns"] = 0  # paid once a job
    settings = tables.settings[:1].copy()
    settings["active"], settings["load"] = 1, 1.0
    return replace(
        tables,
        config=config,
        variants=variants,
        ops=ops,
        stages=stages,
        templates=templates,
        streams=streams,
        settings=settings,
        links=np.zeros(1, np.int32),
        trace_ns=np.array([0, round(offset_us * 1e3)], np.int64),
    )
