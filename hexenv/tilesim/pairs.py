"""Variants alone and random pairs of stages, played by the fluid engine and tile by tile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import N_SHARES, N_TILES, NO_DEADLINE, Arrival, Tables
from hexenv.tilesim.cases import ENGINES, Measure, cause_of
from hexenv.tilesim.chip import Chip
from hexenv.tilesim.machine import Launch, Play, play
from hexenv.tilesim.schedule import Schedule, recorded


def alone(tables: Tables, chip: Chip) -> Iterator[Measure]:
    """Every variant by itself on all contexts, launch excluded."""
    for row, cost in zip(tables.variants, tables.costs, strict=True):
        tiles = play(chip, [Launch(cost, chip.contexts, slot=0)])
        name = f"{tables.op_names[row['op']]} {cost.version.name} alone"
        fluid_us = float(row["alone_ns"][chip.contexts]) / 1e3
        yield Measure("alone", "end", name, fluid_us, tiles.makespan_us)


def pair(tables: Tables, chip: Chip, rng: np.random.Generator) -> list[Measure]:
    """One random pair: two operators, a variant of each, a share; half of them at one instant, half as a join.

    Draws again until the pair fits VTCM and, for a join, the first stage is still there when the second comes. A batch
    is paid once a job, so its time is left out.
    """
    while True:
        rows = [int(rng.choice(op[op >= 0])) for op in tables.ops["variant"][rng.integers(len(tables.ops), size=2)]]
        joins = bool(rng.integers(2))
        alone_us = float(tables.variants["alone_ns"][rows[0], chip.contexts]) / 1e3
        offset_us = float(rng.uniform(0.0, alone_us)) if joins else 0.0
        schedule, busy_us = _fluid(tables, rows, offset_us, share=int(rng.integers(N_SHARES)))
        if len(schedule.launches) == 2 and schedule.launches[1].at_us < schedule.ends_us[0]:
            return _measures(schedule, busy_us, play(chip, schedule.launches), offset_us)


def _measures(schedule: Schedule, busy_us: dict[str, float], tiles: Play, offset_us: float) -> list[Measure]:
    kind = "join" if offset_us else "composite"
    one, two = schedule.names
    case = f"{two} joins {one} after {offset_us:.0f} us" if offset_us else f"{one} with {two}"
    measures = []
    for i, launch in enumerate(schedule.launches):
        fluid_us, tiles_us = (end - launch.at_us for end in (schedule.ends_us[i], tiles.stages[i].end_us))
        measures.append(Measure(kind, "end", case, fluid_us, tiles_us, cause_of(tiles, i, fluid_us - tiles_us)))
    first = min((0, 1), key=lambda i: tiles.stages[i].end_us)
    measures.append(
        replace(
            measures[first], quantity="first end", fluid_us=min(schedule.ends_us), tiles_us=tiles.stages[first].end_us
        )
    )
    last = measures[1 - first].cause
    measures.append(Measure(kind, "makespan", case, schedule.last_us, tiles.makespan_us, last))
    for engine in ENGINES:
        if busy_us[engine] > 0.0:
            measures.append(Measure(kind, f"busy {engine}", case, busy_us[engine], tiles.busy_us[engine]))
    return measures


def _fluid(tables: Tables, rows: list[int], offset_us: float, share: int) -> tuple[Schedule, dict[str, float]]:
    """The engine's schedule of two variants and its busy times; the two do not meet where they do not fit together."""
    restricted = _restricted(tables, rows, offset_us)
    simulator = Simulator(restricted, trace=TraceLevel.ALL)
    simulator.reset(np.zeros(1, np.uint64))
    for row, choice in zip(rows, (0, share), strict=True):
        if simulator.lanes["over"][0] or not _pick(simulator, tables.variants[row], choice):
            break
    while not simulator.lanes["over"][0]:
        simulator.step(np.zeros(1, np.int64))
    lane = simulator.lanes[0]
    return recorded(simulator.trace(0), restricted), {e: float(lane[f"busy_{e}_ns"]) / 1e3 for e in ENGINES}


def _pick(simulator: Simulator, variant: np.void, share: int) -> bool:
    """Pick the first visible task in this variant, with share 0 where shares have no effect. Returns whether it can."""
    first = 1 + (int(variant["version"]) * N_TILES + int(variant["tile"])) * N_SHARES
    for action in (first + share, first):
        if simulator.masks[0, action]:
            simulator.step(np.array([action]))
            return True
    return False


def _restricted(tables: Tables, rows: list[int], offset_us: float) -> Tables:
    """The tables cut down to two jobs of one stage and one variant each; the second arrives ``offset_us`` later."""
    ops: Any = tables.ops[tables.variants["op"][rows]].copy()
    stages: Any = np.zeros(2, tables.stages.dtype)
    templates: Any = np.zeros(2, tables.templates.dtype)
    streams: Any = np.zeros(2, tables.streams.dtype)
    variants: Any = tables.variants[rows].copy()
    variants["op"] = ops["fastest"] = stages["op"] = templates["first_stage"] = (0, 1)
    ops["variant"] = -1
    for i, row in enumerate(tables.variants[rows]):
        ops["variant"][i, row["version"], row["tile"]] = i
    templates["n_stages"] = templates["root_end"] = 1
    streams["arrival"], streams["deadline_ns"], streams["queue"] = Arrival.TRACE, NO_DEADLINE, 1
    streams["first_job"] = streams["template_start"] = streams["trace_start"] = (0, 1)
    streams["template_count"], streams["trace_end"] = 1, (1, 2)
    config, settings = tables.config.copy(), tables.settings[:1].copy()
    config["n_streams"], config["noise"], config["horizon_ns"], config["batch_ns"] = 2, 0.0, 1_000_000_000, 0
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
        trace_deadline_ns=np.full(2, NO_DEADLINE),
        costs=tuple(tables.costs[row] for row in rows),
        op_names=tuple(tables.op_names[op] for op in tables.variants["op"][rows]),
    )
