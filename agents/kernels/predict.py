"""What the rules read of a scenario, and predicted times of one or two stages."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from agents.kernels.jit import njit
from agents.kernels.tasks import action_of, resident_slot
from hexenv.engine.layout import N_SHARES, N_TILES, N_VARIANTS, NO_DEADLINE, Mode, Phase, Split, Tables

_PENDING = int(Phase.PENDING)
_CONCURRENT = int(Mode.CONCURRENT)
_FUSED_SERIAL, _FUSED = int(Mode.FUSED_SERIAL), int(Mode.FUSED)
_STATIC = int(Split.STATIC)
_NEVER = int(NO_DEADLINE)

HMX_BOUND, HVX_BOUND, DMA_BOUND, UNKNOWN = range(4)
"""The engine that a variant keeps busy."""


class Costs(NamedTuple):
    """What the rules read of the scenario's tables."""

    config: Any  # CONFIG record
    ops: Any  # OP records, (n_ops,)
    variants: Any  # VARIANT records, (n_variants,)
    ref_ns: np.ndarray  # (n_streams,): mean reference time of a job
    stretch: np.ndarray  # (n_streams,): time of a job's rest with the dispatch of its stages, over its reference time


def costs_of(tables: Tables) -> Costs:
    """Gather what the rules need."""
    config = tables.config[0]
    ref_ns, stretch = np.zeros(len(tables.streams)), np.ones(len(tables.streams))
    for s, stream in enumerate(tables.streams):
        jobs = tables.templates[stream["template_start"] : stream["template_start"] + stream["template_count"]]
        ref_ns[s] = jobs["ref_ns"].mean()
        stretch[s] += dispatch_ns(config) * jobs["n_stages"].sum() / jobs["ref_ns"].sum()
    return Costs(config, tables.ops, tables.variants, ref_ns, stretch)


@njit
def dispatch_ns(config: Any) -> float:
    """Decision and dispatch of one stage by itself, inside a batch that has started."""
    entry = config.entry_ns if config.mode >= _FUSED_SERIAL else config.op_ns
    return float(entry + config.decision_ns)


class Placed(NamedTuple):
    """A stage on the device, or one that may be put there, as the predictions see it."""

    row: int  # of the variant table
    part: float  # of it that is left, 0 to 1
    latency: float  # ns of dispatch before it starts
    due: float  # deadline from now, ns; inf = best effort
    work: float  # what it still takes by itself, ns: the queue of a deadline shrinks by it


@njit
def variant_row(costs: Costs, op: int, variant: int) -> int:
    """Row of the variant table of ``variant`` (``version * 4 + tile class``) of an operator, -1 if it has none."""
    return costs.ops[op].variant[variant // N_TILES, variant % N_TILES]


@njit
def own_contexts(costs: Costs, other: int, row: int, share: int) -> int:
    """HVX contexts variant ``row`` gets beside variant ``other`` (-1 = nobody); -1 if ``share`` is not offered."""
    config = costs.config
    if config.mode == _CONCURRENT and (config.context_split == _STATIC or other >= 0):
        contexts = max(1, config.contexts // 2)
    elif other < 0 or config.mode != _FUSED or not costs.variants[other].uses_hvx:
        contexts = config.contexts if costs.variants[row].uses_hvx or other < 0 else 0
    elif costs.variants[row].uses_hvx:
        return config.share[share]
    else:
        contexts = 0
    return contexts if share == 0 else -1


@njit
def due_in(view: Any, deadline_ns: int) -> float:
    """Time from now to a deadline, ns; inf = best effort."""
    return float(deadline_ns - view.now_ns) if deadline_ns < _NEVER else np.inf


@njit
def fresh(view: Any, costs: Costs, task: int, row: int) -> Placed:
    """Describe a visible task as it would start now in variant ``row``; its work is that of its fastest variant."""
    latency = dispatch_ns(costs.config)
    work = latency + costs.ops[view.tasks[task].op].ref_ns
    return Placed(row, 1.0, latency, due_in(view, view.tasks[task].deadline_ns), work)


@njit
def placed(view: Any, costs: Costs, slot: int) -> Placed:
    """Describe the stage in ``slot``; its work is the rest of the variant it runs in, alone on all contexts."""
    resident = view.residents[slot]
    times = costs.variants[resident.variant].alone_ns
    left, whole = float(resident.left_ns), float(times[resident.contexts])
    latency = dispatch_ns(costs.config) if resident.phase == _PENDING else max(0.0, left - whole)
    part = min(1.0, left / whole)
    work = latency + part * times[costs.config.contexts]
    return Placed(resident.variant, part, latency, due_in(view, resident.deadline_ns), work)


@njit
def corun_ns(costs: Costs, a: Placed, b: Placed, b_contexts: int) -> tuple[float, float]:
    """Predicted ends of ``a`` and ``b`` when they run together from now on and ``b`` gets ``b_contexts`` contexts.

    Each needs at least its own time on its contexts. While both run, the sum of their DDR times and the sum of their
    HMX times bound the overlap. What is then left of the longer one runs alone on all contexts. Mode ``fused_serial``
    only saves the second dispatch.
    """
    config = costs.config
    va, vb = costs.variants[a.row], costs.variants[b.row]
    if config.mode == _FUSED_SERIAL:
        a_end = a.latency + a.part * va.alone_ns[config.contexts]
        return a_end, a_end + b.part * vb.alone_ns[config.contexts]
    a_own = a.latency + a.part * va.alone_ns[config.contexts - b_contexts]
    b_own = b.latency + b.part * vb.alone_ns[b_contexts]
    overlap = min(a_own, b_own)
    if overlap <= 0.0:
        return a_own, b_own
    a_done, b_done = a.part * overlap / a_own, b.part * overlap / b_own
    ddr = a_done * (va.ddr_ns + va.prologue_ddr_ns) + b_done * (vb.ddr_ns + vb.prologue_ddr_ns)
    both = max(overlap, ddr / (config.eta_shared * config.ddr_free), a_done * va.hmx_ns + b_done * vb.hmx_ns)
    a_rest = (a.part - a_done) * va.alone_ns[config.contexts]
    b_rest = (b.part - b_done) * vb.alone_ns[config.contexts]
    return both + a_rest, both + b_rest


@njit
def fastest_pick(view: Any, mask: np.ndarray, costs: Costs, task: int, tile_price: float = 0.0) -> int:
    """Legal pick of ``task`` that runs fastest by itself on the contexts it would get.

    A tile class must be faster than the one below it by ``tile_price``, a part of the time.
    """
    best_ns, best = np.inf, 0
    slot = resident_slot(view)
    other = view.residents[slot].variant if slot >= 0 else -1
    for variant in range(N_VARIANTS):
        for share in range(N_SHARES):
            action = action_of(task, variant, share)
            if mask[action]:
                row = variant_row(costs, view.tasks[task].op, variant)
                own_ns = float(costs.variants[row].alone_ns[own_contexts(costs, other, row, share)])
                own_ns *= 1.0 + tile_price * (variant % N_TILES)
                if own_ns < best_ns:
                    best_ns, best = own_ns, action
    return best


@njit
def bound_by(costs: Costs, row: int, busy: float) -> int:
    """The engine that variant ``row`` alone keeps busy most, if for at least the part ``busy`` of its time."""
    variant, config = costs.variants[row], costs.config
    alone = float(variant.alone_ns[config.contexts])
    hmx = variant.hmx_ns / alone
    hvx = (variant.hvx_ns + variant.prologue_hvx_ns) / (alone * config.contexts)
    ddr = (variant.ddr_ns + variant.prologue_ddr_ns) / (alone * config.ddr_free)
    if max(hmx, hvx, ddr) < busy:
        return UNKNOWN
    if hmx >= max(hvx, ddr):
        return HMX_BOUND
    return HVX_BOUND if hvx >= ddr else DMA_BOUND
