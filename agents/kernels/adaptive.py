"""The learned gate: a gate with triage whose settings are a function of the state, and how it plays whole episodes.

A setting is a weighted sum of the features below. With all weights zero the settings are those of ``triage_gate``.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from agents.kernels.deadlines import Known, nothing_known
from agents.kernels.jit import njit
from agents.kernels.pairs import ANY_ENGINES, Pairing
from agents.kernels.predict import Costs
from agents.kernels.tasks import resident_slot
from agents.kernels.triage import Triage, Ward, act_after_triage, ward
from hexenv.engine import clock
from hexenv.engine.dispatch import fill_mask
from hexenv.engine.layout import LANE, MAX_SLOTS, MAX_VISIBLE, NO_DEADLINE, TRACE, VIEW, Tables
from hexenv.engine.view import fill_view

_NEVER = int(NO_DEADLINE)

FEATURES = (
    "1",
    "deadline work that arrives in a ns, ns, less 1 (a closed loop counts one job a deadline)",
    "the part of it that is dropped when late, less 0.6",
    "d / (1 + d) - 0.5 of the largest demand d: queued work up to a deadline over the time until it",
    "s / (|s| + 5 ms) of the least time s that is left at a deadline after the queued work before it",
    "visible jobs that can still meet a deadline / 4, less 0.5",
    "visible best-effort tasks / 4, less 0.5",
    "s / (s + 2 ms) - 0.5 of the time s until the next expected arrival with a deadline",
    "0.5 beside a resident stage, -0.5 on an empty device",
    "0.5 beside a best-effort resident, -0.5 beside one with a deadline, 0 on an empty device",
)
"""What the settings depend on; at most about 1 in size."""
SETTINGS = (
    "speed: 1.1 x 2 ** (0.7 x)",
    "margin: 1.5 ms x 2 ** (1.4 x)",
    "least gain: 0.97 + 0.1 x",
    "guard: 0.2 x, at least 0",
    "rest power: 1 + 2 x",
    "loss power: 1 + 2 x",
    "soft: 3 x",
    "guest gain: 0.1 x",
    "tile price: 0.02 x",
)
"""The settings of triage and gate, each from its weighted sum x."""

N_FEATURES, N_SETTINGS = len(FEATURES), len(SETTINGS)


class Chamber(NamedTuple):
    """Room for one decision, and for one episode: the kernels allocate nothing."""

    room: Ward
    known: Known
    jobs: np.ndarray  # (MAX_VISIBLE + MAX_SLOTS, 3): slot, time until the deadline, rest; ns
    features: np.ndarray  # (N_FEATURES,)
    sums: np.ndarray  # (N_SETTINGS,)
    lanes: np.ndarray  # LANE, (1,)
    views: np.ndarray  # VIEW, (1,)
    masks: np.ndarray  # bool, (1, A)
    actions: np.ndarray  # int64, (1,)
    trace: np.ndarray  # TRACE, (1,), never written


def chamber(tables: Tables) -> Chamber:
    """Room to decide for one lane of ``tables`` at a time."""
    return Chamber(
        ward(),
        nothing_known(),
        np.zeros((MAX_VISIBLE + MAX_SLOTS, 3)),
        np.zeros(N_FEATURES),
        np.zeros(N_SETTINGS),
        np.zeros(1, LANE),
        np.zeros(1, VIEW),
        np.zeros((1, tables.n_actions), np.bool_),
        np.zeros(1, np.int64),
        np.zeros(1, TRACE),
    )


@njit
def _describe_arrivals(view: Any, costs: Costs, features: np.ndarray) -> None:
    work, firm, soon = 0.0, 0.0, np.inf
    for s in range(costs.config.n_streams):
        stream = view.streams[s]
        if not stream.active or stream.deadline_ns >= _NEVER:
            continue
        period = float(stream.period_ns if stream.period_ns > 0 else stream.deadline_ns)
        work += costs.ref_ns[s] / period
        if stream.firm:
            firm += costs.ref_ns[s] / period
        if stream.period_ns > 0:
            soon = min(soon, max(0.0, period - stream.since_arrival_ns))
    features[1] = work - 1.0
    features[2] = firm - 0.6
    features[7] = soon / (soon + 2e6) - 0.5 if soon < np.inf else 0.5


@njit
def _describe_queue(view: Any, jobs: np.ndarray, features: np.ndarray) -> None:
    n, guests = 0, 0
    for k in range(view.n_tasks):
        task = view.tasks[k]
        if task.deadline_ns >= _NEVER:
            guests += 1
        elif task.deadline_ns > view.now_ns:
            seen = False
            for i in range(n):
                seen |= jobs[i, 0] == task.job
            if not seen:
                jobs[n, 0], jobs[n, 1] = task.job, task.deadline_ns - view.now_ns
                jobs[n, 2] = max(task.critical_ns, task.job_ref_ns - task.earned_ns)
                n += 1
    demand, spare = 0.0, np.inf
    for i in range(n):
        queued = 0.0
        for j in range(n):
            if jobs[j, 1] <= jobs[i, 1]:
                queued += jobs[j, 2]
        demand = max(demand, queued / jobs[i, 1])
        spare = min(spare, jobs[i, 1] - queued)
    features[3] = demand / (1.0 + demand) - 0.5
    features[4] = spare / (abs(spare) + 5e6) if n > 0 else 1.0
    features[5] = n / 4.0 - 0.5
    features[6] = guests / 4.0 - 0.5


@njit
def describe(view: Any, costs: Costs, jobs: np.ndarray, features: np.ndarray) -> None:
    """Fill ``features``; ``jobs`` is scratch."""
    features[0] = 1.0
    _describe_arrivals(view, costs, features)
    _describe_queue(view, jobs, features)
    slot = resident_slot(view)
    features[8], features[9] = -0.5, 0.0
    if slot >= 0:
        features[8] = 0.5
        features[9] = 0.5 if view.residents[slot].deadline_ns >= _NEVER else -0.5


@njit
def settings_of(sums: np.ndarray) -> tuple[Triage, Pairing]:
    """The settings for the weighted sums ``sums`` (N_SETTINGS,)."""
    triage = Triage(1.1 * 2.0 ** (0.7 * sums[0]), 1.0 + 2.0 * sums[4], 1.0 + 2.0 * sums[5], 3.0 * sums[6])
    pairing = Pairing(
        True,  # any_version
        True,  # gated
        True,  # in_order
        1.5e6 * 2.0 ** (1.4 * sums[1]),  # margin
        max(0.0, 0.2 * sums[3]),  # guard
        False,  # guests
        True,  # joins
        False,  # knee
        ANY_ENGINES,
        0.97 + 0.1 * sums[2],  # least_gain
        1,  # window
        0.0,  # hold
        0.1 * sums[7],  # guest_gain
        0.02 * sums[8],  # tile_price
    )
    return triage, pairing


@njit
def act_adaptively(
    views: np.ndarray, masks: np.ndarray, costs: Costs, weights: np.ndarray, space: Chamber, actions: np.ndarray
) -> None:
    """Choose ``actions`` (B,) with ``weights`` (N_SETTINGS, N_FEATURES)."""
    for lane in range(views.shape[0]):
        describe(views[lane], costs, space.jobs, space.features)
        for i in range(N_SETTINGS):
            space.sums[i] = 0.0
            for j in range(N_FEATURES):
                space.sums[i] += weights[i, j] * space.features[j]
        triage, pairing = settings_of(space.sums)
        one = slice(lane, lane + 1)
        act_after_triage(views[one], masks[one], costs, triage, pairing, space.room, space.known, actions[one])


@njit
def play_episodes(
    tables: Any,
    keys: np.ndarray,
    settings: np.ndarray,
    costs: Costs,
    weights: np.ndarray,
    space: Chamber,
    returns: np.ndarray,
) -> int:
    """Play whole episodes, one after the other; returns the decisions made.

    Args:
        keys: uint64, (n,), of the episodes.
        settings: int64, (n,), rows of ``tables.settings``.
        returns: (n,), written: ms of reference work.
    """
    lane, decisions = space.lanes[0], 0
    for i in range(keys.shape[0]):
        clock.reset(tables, lane, space.trace, keys[i], settings[i])
        returns[i] = 0.0
        while not lane.over:
            fill_view(tables, lane, space.views[0])
            fill_mask(tables, lane, space.masks[0])
            act_adaptively(space.views, space.masks, costs, weights, space, space.actions)
            clock.step(tables, lane, space.trace, space.actions[0])
            returns[i] += lane.reward
            decisions += 1
    return decisions
