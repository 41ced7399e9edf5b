"""Bubbles: why engines stand still, from full traces of a few episodes.

A trace says when each stage entered and left its slot (LAUNCH) and, between any two events, how long each engine worked
(SEGMENT). Rates are constant in a segment, so what limits them shows in it. What is told apart, and how:

* HVX idle: while a stage with vector work is resident (it launches, waits for data or its pipeline drains), while only
  others are, or while the device is empty.
* HMX waiting for data: a matrix stage is in its body (HMX works in the segment) and HMX is not full: its operands come
  too slowly, from DDR if DMA is at its limit in that segment, else from the HVX stages before it or its own pipeline.
  *Around its body*: a matrix stage is resident and HMX does not work at all: launch, prologue or drain.
* DMA contention: two resident stages that stream, and DDR time at exactly what the bandwidth gives to two.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
import pandas as pd

from eval.evidence.marks import Stack, draw_stacks
from eval.theme import Drawing
from eval.timeline import Take, stages_of
from hexenv.engine.layout import MAX_SLOTS, Event, Tables

EPISODES = 3
"""Traced ones."""
_ROUNDING_NS = 2.0
"""Ends of segments are full ns."""
_HVX = Stack(
    "HVX context-time",
    {
        "hvx_busy": ("busy", "hvx"),
        "hvx_beside": ("idle, vector stage resident", "hvx-2"),
        "hvx_none": ("idle, no vector stage", "grid"),
        "hvx_empty": ("device empty", "empty"),
    },
)
_HMX = Stack(
    "HMX",
    {
        "hmx_busy": ("busy", "hmx"),
        "hmx_waits_ddr": ("waits for DDR", "hmx-2"),
        "hmx_waits_hvx": ("waits for HVX or pipeline", "hmx-3"),
        "hmx_around": ("launch, prologue, drain", "stream-1"),
        "hmx_none": ("no matrix stage", "grid"),
        "hmx_empty": ("device empty", "empty"),
    },
)
_DMA = Stack(
    "DMA, by time",
    {
        "dma_contended": ("two streams at the limit", "dma"),
        "dma_full": ("one stream at the limit", "dma-2"),
        "dma_below": ("below the limit", "dma-3"),
        "dma_idle": ("no traffic", "grid"),
        "dma_empty": ("device empty", "empty"),
    },
)
STACKS = (_HVX, _HMX, _DMA)


def bubble_frame(takes: Iterable[Take]) -> pd.DataFrame:
    """A row a scheduler: parts of the simulated time, each engine's adding up to 1, pooled over its traces."""
    totals: dict[str, np.ndarray] = {}
    columns = [column for stack in STACKS for column in stack.parts]
    elapsed: dict[str, float] = {}
    for take in takes:
        parts = _parts(take)
        totals[take.scheduler] = totals.get(take.scheduler, 0.0) + np.array([parts[column] for column in columns])
        elapsed[take.scheduler] = elapsed.get(take.scheduler, 0.0) + parts["elapsed"]
    rows = [{"scheduler": name, **dict(zip(columns, totals[name] / elapsed[name], strict=True))} for name in totals]
    return pd.DataFrame(rows)


def draw_bubbles(frame: pd.DataFrame) -> Drawing:
    """A panel an engine, a bar a scheduler."""
    return draw_stacks(frame, STACKS)


def _parts(take: Take) -> dict[str, float]:
    """Time of each kind in one trace, ns; ``elapsed`` is all of it."""
    config, variants = take.tables.config[0], take.tables.variants
    segments = take.trace[(take.trace["event"] == Event.SEGMENT) & (take.trace["end_ns"] > take.trace["t_ns"])]
    length = (segments["end_ns"] - segments["t_ns"]).astype(np.float64)
    ddr, hvx, hmx = segments["value"], segments["value2"] / float(config["contexts"]), segments["value3"]
    resident = _residents(take, segments["t_ns"])
    some, variant = resident >= 0, np.maximum(resident, 0)
    streams = (some & _streams(take.tables)[variant]).sum(axis=0)
    occupied, vector, matrix = (
        (some & flags[variant]).any(axis=0)
        for flags in (np.ones(len(variants), bool), variants["uses_hvx"], variants["uses_hmx"])
    )
    free = float(config["ddr_free"])
    contended = (streams > 1) & (np.abs(ddr - float(config["eta_shared"]) * free * length) <= _ROUNDING_NS)
    full = ~contended & (ddr >= free * length - _ROUNDING_NS) & (ddr > 0.0)
    body = hmx > 0.0
    idle = length - hmx

    def during(time: np.ndarray, where: np.ndarray) -> float:
        return float(time[where].sum())

    return {
        "elapsed": float(length.sum()),
        "hvx_busy": float(hvx.sum()),
        "hvx_beside": during(length - hvx, vector),
        "hvx_none": during(length - hvx, occupied & ~vector),
        "hvx_empty": during(length - hvx, ~occupied),
        "hmx_busy": float(hmx.sum()),
        "hmx_waits_ddr": during(idle, body & (contended | full)),
        "hmx_waits_hvx": during(idle, body & ~(contended | full)),
        "hmx_around": during(idle, ~body & matrix),
        "hmx_none": during(idle, ~body & ~matrix & occupied),
        "hmx_empty": during(idle, ~occupied),
        "dma_contended": during(length, contended),
        "dma_full": during(length, full),
        "dma_below": during(length, ~contended & ~full & (ddr > 0.0)),
        "dma_idle": during(length, (ddr == 0.0) & occupied),
        "dma_empty": during(length, ~occupied),
    }


def _streams(tables: Tables) -> np.ndarray:
    """Which variants stream DDR, bool (variants,)."""
    return (tables.variants["ddr_ns"] > 0.0) | (tables.variants["prologue_ddr_ns"] > 0.0)


def _residents(take: Take, times_ns: np.ndarray) -> np.ndarray:
    """The variant in each slot from each instant on, -1 = none; int (slots, instants)."""
    stages = stages_of(take.trace)
    found = np.full((MAX_SLOTS, len(times_ns)), -1)
    for slot in range(MAX_SLOTS):
        own = stages[stages["slot"] == slot]
        if len(own):
            place = np.searchsorted(own["t_ns"], times_ns, side="right") - 1
            inside = (place >= 0) & (own["end_ns"][place] > times_ns)
            found[slot] = np.where(inside, own["variant"][place], -1)
    return found
