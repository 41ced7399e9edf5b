"""Pairs made offline, from profiles alone, and the rule that runs them."""

from __future__ import annotations

from typing import Any

import numpy as np

from agents.kernels.jit import njit
from agents.kernels.predict import Costs, Placed, corun_ns, dispatch_ns, fastest_pick, own_contexts, variant_row
from agents.kernels.tasks import EDF, action_of, before, first_task, resident_slot
from hexenv.engine.layout import N_SHARES, N_VARIANTS, Phase

_PENDING = int(Phase.PENDING)


@njit
def _unplaced(costs: Costs, op: int, row: int) -> Placed:
    """Variant ``row`` of ``op`` as it would start on an empty device."""
    latency = dispatch_ns(costs.config)
    return Placed(row, 1.0, latency, np.inf, latency + costs.ops[op].ref_ns)


@njit
def _static_pair(costs: Costs, a_op: int, b_op: int, share: int, least_gain: float) -> int:
    """Code of the pair of variants and the share with the least joint time, -1 if it gains too little.

    Both stay in the version of their fastest variant, and must fit VTCM together. ``share`` -1 searches the share of
    ``b_op``; else it is that class where both stages use HVX.
    """
    best_gain, best = least_gain, -1
    for i in range(N_VARIANTS):
        for j in range(N_VARIANTS):
            a_row, b_row = variant_row(costs, a_op, i), variant_row(costs, b_op, j)
            if a_row < 0 or b_row < 0:
                continue
            va, vb = costs.variants[a_row], costs.variants[b_row]
            same_versions = va.version == costs.variants[costs.ops[a_op].fastest].version
            same_versions &= vb.version == costs.variants[costs.ops[b_op].fastest].version
            if not same_versions or va.vtcm_bytes + vb.vtcm_bytes > costs.config.vtcm_bytes:
                continue
            a, b = _unplaced(costs, a_op, a_row), _unplaced(costs, b_op, b_row)
            for s in range(N_SHARES):
                fixed = share if va.uses_hvx and vb.uses_hvx else 0
                contexts = own_contexts(costs, a_row, b_row, s)
                if contexts < 0 or (share >= 0 and s != fixed):
                    continue
                gain = (a.work + b.work) / max(corun_ns(costs, a, b, contexts))
                if gain > best_gain:
                    best_gain, best = gain, (i * N_VARIANTS + j) * N_SHARES + s
    return best


@njit
def find_static_pairs(costs: Costs, share: int, least_gain: float, pairs: np.ndarray) -> None:
    """Fill ``pairs`` (ops, ops), by resident and joining operator, with ``_static_pair``."""
    for a in range(pairs.shape[0]):
        for b in range(pairs.shape[1]):
            pairs[a, b] = _static_pair(costs, a, b, share, least_gain)


@njit
def _static_partner(view: Any, pairs: np.ndarray, op: int, not_task: int) -> int:
    """The most urgent task other than ``not_task`` that has a pair with ``op``, -1 if none."""
    best = -1
    for task in range(view.n_tasks):
        known = task != not_task and pairs[op, view.tasks[task].op] >= 0
        if known and (best < 0 or before(view.tasks[task], view.tasks[best], EDF)):
            best = task
    return best


@njit
def act_in_static_pairs(
    views: np.ndarray, masks: np.ndarray, costs: Costs, pairs: np.ndarray, joins: bool, actions: np.ndarray
) -> None:
    """Earliest deadline first, with the most urgent partner that ``pairs`` holds, whatever the state.

    ``joins`` lets a partner join a running stage; otherwise a pair is launched as one.
    """
    for lane in range(views.shape[0]):
        view, mask = views[lane], masks[lane]
        slot = resident_slot(view)
        actions[lane] = 0
        if slot < 0:
            task = first_task(view, mask, EDF, -1)
            if task < 0:
                continue
            op = view.tasks[task].op
            other = _static_partner(view, pairs, op, task)
            if other >= 0:
                variant = pairs[op, view.tasks[other].op] // (N_VARIANTS * N_SHARES)
                actions[lane] = action_of(task, variant, 0)
            if not mask[actions[lane]] or other < 0:
                actions[lane] = fastest_pick(view, mask, costs, task)
        elif joins or view.residents[slot].phase == _PENDING:
            op = view.residents[slot].op
            task = _static_partner(view, pairs, op, -1)
            if task >= 0:
                code = pairs[op, view.tasks[task].op] % (N_VARIANTS * N_SHARES)
                action = action_of(task, code // N_SHARES, code % N_SHARES)
                actions[lane] = action if mask[action] else 0
