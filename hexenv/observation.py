"""Observations: VIEW records as a dict of float32 arrays with finite bounds and fixed scaling.

Only predicted values are used, never a true duration, and never the time to the horizon. There are no running
statistics: the same state always gives the same bytes. Scales:

* *log*: ``min(1, log2(1 + t / 1 us) / 20)`` of a time t, linear between powers of two: 1 us is 0.05, 1 ms 0.50, 10 ms
  0.66, 1 s 1.
* *signed*: ``t / (|t| + 10 ms)`` of a time that may be negative, within -1 .. 1.
* *ratio*: ``x / (x + c)`` of a count or weight, within 0 .. 1.

Rows that stand for nothing (fewer than K tasks, a free slot, a stream outside the mix) are all zeros. The tables of
features below are the documentation of each index; the observation takes about 3 KiB at K = 8.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from gymnasium import spaces
from numpy.typing import NDArray

from hexenv.engine.jit import njit
from hexenv.engine.layout import MAX_SLOTS, MAX_STREAMS, N_TILES, N_VARIANTS, NO_DEADLINE, Phase, Tables

PROFILE_PARTS = 5
"""Parts of a profile p_i: HVX demand, HMX demand, VTCM footprint, DMA traffic, predicted duration, each 0 .. 1."""
VTCM_CELLS = 16
"""Cells of the VTCM occupancy map, in address order."""


class Feature(NamedTuple):
    """One number of an observation row."""

    name: str
    meaning: str
    low: float = 0.0
    high: float = 1.0


TASKS = (
    Feature("present", "1 for a task, 0 for an empty row"),
    Feature("head", "1 if it is the first task of its stream's oldest job"),
    Feature("firm", "1 if its job is dropped when late"),
    Feature("soft", "1 if its job has a deadline and finishes late"),
    Feature("best_effort", "1 if its job has no deadline"),
    Feature("slack", "deadline - now - critical path, signed; 1 for best effort", -1.0),
    Feature("slack_per_chain", "slack / (|slack| + critical path); 1 for best effort", -1.0),
    Feature("critical", "predicted rest of the chain from this stage on, log"),
    Feature("left_ddr", "DDR time of the job's unfinished stages, log"),
    Feature("left_hvx", "HVX context-time of the job's unfinished stages, log"),
    Feature("left_hmx", "HMX time of the job's unfinished stages, log"),
    Feature("job_ref", "reference time of the whole job, log"),
    Feature("earned", "part of the job's reference time already credited (what a drop forfeits)"),
    Feature("weight", "weight of a miss, ratio with c = 1"),
    Feature("since_arrival", "time since the job arrived, log"),
    Feature("deadline", "deadline relative to arrival, log; 1 for best effort"),
    Feature("backlog", "live jobs of its stream, ratio with c = 4"),
    Feature("stream", "(index of its stream + 1) / 8"),
)
"""Columns of ``tasks`` (K rows, earliest deadline first, each stream's head before others)."""

RESIDENTS = (
    Feature("pending", "1 if picked at this instant and not launched"),
    Feature("queued", "1 if launched but behind the other stage's barrier (mode fused_serial)"),
    Feature("launch", "1 while it is launching, joining or waiting for contexts"),
    Feature("prologue", "1 in its serial prologue"),
    Feature("body", "1 in its tiles"),
    Feature("drain", "1 in its fill and drain latency"),
    Feature("dropped", "1 if its job is gone and it runs out uncredited"),
    Feature("hvx_version", "1 for the HVX version"),
    Feature("hmx_version", "1 for the HMX version"),
    Feature("hybrid_version", "1 for the HYBRID version"),
    Feature("tile", "(tile class + 1) / 4"),
    Feature("contexts", "HVX contexts it works with / all contexts"),
    Feature("left", "predicted rest alone on its present contexts, log"),
    Feature("tiles_left", "tiles left, ratio with c = 32"),
    Feature("slack", "its slack, signed; 1 for best effort", -1.0),
    Feature("best_effort", "1 if its job has no deadline"),
    Feature("profile_hvx", "profile: HVX demand"),
    Feature("profile_hmx", "profile: HMX demand"),
    Feature("profile_vtcm", "profile: VTCM footprint"),
    Feature("profile_dma", "profile: DMA traffic"),
    Feature("profile_duration", "profile: predicted duration"),
    Feature("vtcm_offset", "start of its VTCM region / VTCM"),
    Feature("vtcm_size", "size of its VTCM region / VTCM"),
    Feature("stream", "(index of its stream + 1) / 8"),
)
"""Columns of ``residents`` (a row a slot, pending picks included)."""

VTCM = (
    Feature("free", "free VTCM / VTCM"),
    Feature("largest", "largest free block / VTCM"),
    *(Feature(f"cell_{i}", f"occupied part of cell {i} of the map") for i in range(VTCM_CELLS)),
)
"""Entries of ``vtcm``."""

STREAMS = (
    Feature("active", "1 if the stream takes part in this episode"),
    Feature("firm", "1 if its late jobs are dropped"),
    Feature("closed_loop", "1 if its next job follows the end of the last"),
    Feature("backlog", "live jobs, ratio with c = 4"),
    Feature("since_arrival", "time since its last arrival, log"),
    Feature("period", "mean time between arrivals, log; 0 for a closed loop"),
    Feature("deadline", "deadline relative to arrival, log; 1 for best effort"),
)
"""Columns of ``streams`` (8 rows, in the scenario's order)."""

_PENDING = int(Phase.PENDING)
_FREE = int(Phase.FREE)
_NEVER = int(NO_DEADLINE)
_SIGNED_NS = 10e6
_BACKLOG = 4.0
_TILES = 32.0

Observation = dict[str, NDArray[np.float32]]


def observation_space(tables: Tables) -> spaces.Dict:
    """The space of one sub-environment's observation: boxes with the bounds of the feature tables."""
    features = {"tasks": TASKS, "residents": RESIDENTS, "vtcm": VTCM, "streams": STREAMS}
    boxes: dict[str, spaces.Space[Any]] = {
        key: _box(shape, features[key]) if key in features else spaces.Box(0.0, 1.0, shape, np.float32)
        for key, shape in shapes(tables).items()
    }
    return spaces.Dict(boxes)


def flat_observation_space(tables: Tables) -> spaces.Dict:
    """The same with each box flattened to one dimension: what the Gymnasium environments show.

    Stable-Baselines3 takes a box of two dimensions for a mistake.
    """
    rows = observation_space(tables)
    flat: dict[str, spaces.Space[Any]] = {key: spaces.flatten_space(box) for key, box in rows.items()}
    return spaces.Dict(flat)


def flatten(observation: Observation, batch: int) -> Observation:
    """Views of the arrays with all axes but the leading one of ``batch`` flattened."""
    return {key: array.reshape(batch, -1) for key, array in observation.items()}


def shapes(tables: Tables) -> dict[str, tuple[int, ...]]:
    """Shape of each array of one observation."""
    return {
        "tasks": (tables.visible, len(TASKS)),
        "profiles": (tables.visible, N_VARIANTS * PROFILE_PARTS),
        "residents": (MAX_SLOTS, len(RESIDENTS)),
        "vtcm": (len(VTCM),),
        "streams": (MAX_STREAMS, len(STREAMS)),
        "device": tables.constants.shape,
    }


def empty(tables: Tables, batch: int) -> Observation:
    """Uninitialised arrays for ``batch`` observations, each with a leading batch axis."""
    return {key: np.empty((batch, *shape), np.float32) for key, shape in shapes(tables).items()}


def encode(views: NDArray[Any], tables: Tables, out: Observation, start: int = 0, stop: int | None = None) -> None:
    """Fill ``out`` for the lanes ``start .. stop`` from VIEW records, in one pass and without the GIL.

    Args:
        views: VIEW records, shape (B,).
        tables: the scenario they come from.
        out: arrays as :func:`empty` makes them; every number of the lanes is written.
        start: first lane.
        stop: one past the last lane, by default B.
    """
    _encode(
        views,
        tables.ops,
        tables.variants,
        tables.config,
        tables.constants,
        out["tasks"],
        out["profiles"],
        out["residents"],
        out["vtcm"],
        out["streams"],
        out["device"],
        start,
        len(views) if stop is None else stop,
    )


def _box(shape: tuple[int, ...], features: tuple[Feature, ...]) -> spaces.Box:
    low = np.array([feature.low for feature in features], np.float32)
    high = np.array([feature.high for feature in features], np.float32)
    return spaces.Box(np.broadcast_to(low, shape), np.broadcast_to(high, shape), shape, np.float32)


@njit
def _log(ns: float) -> float:
    """Log scale of a duration: 0 at 0, 1 from about 1 s on.

    ``log2(1 + t / 1 us) / 20`` with the logarithm linear between powers of two, read off the exponent and mantissa of
    the double: monotone, at most 0.0043 below the true one, and several times cheaper (a third of an observation).
    """
    bits = np.float64(1.0 + max(ns, 0.0) * 1e-3).view(np.int64)
    exponent = (bits >> 52) - 1023
    mantissa = (bits & 0xFFFFFFFFFFFFF) * (1.0 / 4503599627370496.0)
    return min(1.0, (exponent + mantissa) * 0.05)


@njit
def _signed(ns: float) -> float:
    """Bounded signed scale of a slack."""
    return ns / (abs(ns) + _SIGNED_NS)


@njit
def _encode_task(task: Any, view: Any, row: Any) -> None:
    """Fill a row of ``tasks``, shape (F,)."""
    best_effort = task.deadline_ns >= _NEVER
    row[0] = 1.0
    row[1] = task.head
    row[2] = task.firm
    row[3] = not (best_effort or task.firm)
    row[4] = best_effort
    row[5] = 1.0
    row[6] = 1.0
    if not best_effort:
        row[5] = _signed(task.slack_ns)
        row[6] = task.slack_ns / max(1.0, abs(task.slack_ns) + task.critical_ns)
    row[7] = _log(task.critical_ns)
    row[8] = _log(task.left_ddr_ns)
    row[9] = _log(task.left_hvx_ns)
    row[10] = _log(task.left_hmx_ns)
    row[11] = _log(task.job_ref_ns)
    row[12] = min(1.0, max(0.0, task.earned_ns / max(1, task.job_ref_ns)))
    row[13] = task.weight / (task.weight + 1.0)
    row[14] = _log(view.now_ns - task.arrival_ns)
    row[15] = 1.0
    if not best_effort:
        row[15] = _log(task.deadline_ns - task.arrival_ns)
    backlog = view.streams[task.stream].backlog
    row[16] = backlog / (backlog + _BACKLOG)
    row[17] = (task.stream + 1) / MAX_STREAMS


@njit
def _encode_resident(resident: Any, variant: Any, op: Any, config: Any, row: Any) -> None:
    """Fill a row of ``residents`` of an occupied slot, shape (F,)."""
    for phase in range(6):
        row[phase] = resident.phase == _PENDING + phase
    row[6] = resident.dropped
    for version in range(3):
        row[7 + version] = variant.version == version
    row[10] = (variant.tile + 1) / N_TILES
    row[11] = resident.contexts / config.contexts
    row[12] = _log(resident.left_ns)
    row[13] = resident.tiles_left / (resident.tiles_left + _TILES)
    best_effort = resident.deadline_ns >= _NEVER
    row[14] = 1.0 if best_effort else _signed(resident.slack_ns)
    row[15] = best_effort
    for part in range(PROFILE_PARTS):
        row[16 + part] = op.profile[variant.version * N_TILES + variant.tile, part]
    row[21] = resident.vtcm_offset / config.vtcm_bytes
    row[22] = resident.vtcm_bytes / config.vtcm_bytes
    row[23] = (resident.stream + 1) / MAX_STREAMS


@njit
def _encode_vtcm(view: Any, vtcm_bytes: int, row: Any) -> None:
    """Fill ``vtcm``, shape (F,): free, largest free block, and how much of each cell the residents hold."""
    row[0] = view.vtcm_free_bytes / vtcm_bytes
    row[1] = view.vtcm_largest_bytes / vtcm_bytes
    row[2:] = 0.0
    cell_bytes = vtcm_bytes / VTCM_CELLS
    for slot in range(MAX_SLOTS):
        resident = view.residents[slot]
        if resident.phase == _FREE or resident.vtcm_bytes <= 0:
            continue
        begin = resident.vtcm_offset / cell_bytes
        end = (resident.vtcm_offset + resident.vtcm_bytes) / cell_bytes
        for cell in range(int(begin), min(VTCM_CELLS, int(end) + 1)):
            held = min(end, cell + 1.0) - max(begin, np.float64(cell))
            row[2 + cell] = min(1.0, row[2 + cell] + held)


@njit
def _encode_stream(stream: Any, row: Any) -> None:
    """Fill a row of ``streams`` of an active stream, shape (F,)."""
    row[0] = 1.0
    row[1] = stream.firm
    row[2] = stream.period_ns == 0
    row[3] = stream.backlog / (stream.backlog + _BACKLOG)
    row[4] = _log(stream.since_arrival_ns)
    row[5] = _log(stream.period_ns)
    row[6] = _log(stream.deadline_ns)


@njit
def _encode(
    views: Any,
    ops: Any,
    variants: Any,
    config: Any,
    constants: Any,
    tasks: Any,
    profiles: Any,
    residents: Any,
    vtcm: Any,
    streams: Any,
    device: Any,
    start: int,
    stop: int,
) -> None:
    """See :func:`encode`."""
    for lane in range(start, stop):
        view = views[lane]
        for k in range(tasks.shape[1]):
            if k >= view.n_tasks:
                tasks[lane, k] = 0.0
                profiles[lane, k] = 0.0
                continue
            task = view.tasks[k]
            _encode_task(task, view, tasks[lane, k])
            profile = ops[task.op].profile
            for variant in range(N_VARIANTS):
                for part in range(PROFILE_PARTS):
                    profiles[lane, k, variant * PROFILE_PARTS + part] = profile[variant, part]
        for slot in range(MAX_SLOTS):
            resident = view.residents[slot]
            if resident.phase == _FREE:
                residents[lane, slot] = 0.0
            else:
                variant_row, op = variants[resident.variant], ops[resident.op]
                _encode_resident(resident, variant_row, op, config[0], residents[lane, slot])
        _encode_vtcm(view, config[0].vtcm_bytes, vtcm[lane])
        for s in range(MAX_STREAMS):
            if view.streams[s].active:
                _encode_stream(view.streams[s], streams[lane, s])
            else:
                streams[lane, s] = 0.0
        for i in range(constants.shape[0]):
            device[lane, i] = constants[i]
