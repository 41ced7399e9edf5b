"""Look-ahead: actions tried out in rollouts on forks of a lane."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from agents.kernels.deadlines import Known
from agents.kernels.jit import njit
from agents.kernels.pairs import Pairing
from agents.kernels.predict import Costs, corun_ns, fresh, own_contexts, placed, variant_row
from agents.kernels.tasks import action_of, resident_slot, share_of, task_of, variant_of
from agents.kernels.triage import Triage, Ward, act_after_triage
from hexenv.engine import clock
from hexenv.engine.dispatch import fill_mask
from hexenv.engine.jobs import job_slots
from hexenv.engine.layout import MAX_SLOTS, NO_DEADLINE, Phase
from hexenv.engine.rng import draw
from hexenv.engine.view import fill_view, predicted_left_ns

_FREE = int(Phase.FREE)
_NEVER = int(NO_DEADLINE)

_PLANNING = 16
"""Purpose tag of the draws that reseed a look-ahead's forks."""
_SPREAD = 0.15
"""Gain that a task's next candidate loses for each one listed before it, so that all tasks get some."""


class Policy(NamedTuple):
    """A rule that goes on after an action."""

    triage: Triage
    pairing: Pairing


class Outlook(NamedTuple):
    """How a look-ahead tries actions out and values what they led to."""

    budget: int  # engine decisions to spend at a decision; a round is always finished
    span: int  # ns of simulated time that a rollout covers
    candidates: int  # actions that are tried at most
    confidence: float  # standard errors by which an action must beat the base rule's
    speed: float  # ns that the device takes for a ns of queued work by itself
    doubt: float  # predicted lateness over which a deadline turns from safe to lost, as a part of the time allowed
    exact: bool  # clairvoyant: exact forks, one rollout an action


class Bench(NamedTuple):
    """Room for one rollout at a time, and for what is tried at one decision."""

    lanes: np.ndarray  # LANE, (1,)
    views: np.ndarray  # VIEW, (1,)
    masks: np.ndarray  # bool, (1, A)
    actions: np.ndarray  # int64, (1,)
    trace: np.ndarray  # TRACE, (1,), never written
    room: Ward
    known: Known
    gains: np.ndarray  # (A,)
    arms: np.ndarray  # int64, (N, 2): action, and place of the rule that goes on after it
    sums: np.ndarray  # (N,) of the values of an arm's rollouts
    squares: np.ndarray  # (N,) of the squared differences to the first arm's


@njit
def _resident_done_ns(tables: Any, slot: Any) -> float:
    """Reference work of the stage in ``slot`` that is done, by the predicted rest."""
    variant = tables.variants[slot.variant]
    left = min(1.0, predicted_left_ns(variant, slot) / variant.alone_ns[slot.contexts])
    return (1.0 - left) * tables.ops[variant.op].ref_ns


@njit
def _demand_ns(tables: Any, lane: Any, costs: Costs, due_ns: int) -> float:
    """Work that must be done before the deadline ``due_ns`` under earliest deadline first, one stage at a time.

    It is the rest of the live jobs with deadlines up to then, and the mean demand of the arrivals to come whose
    deadlines are not after it (demand bound function of Baruah et al., RTSS 1990).
    """
    demand = 0.0
    for j in range(job_slots(tables)):
        job = lane.jobs[j]
        if job.live and not job.dropped and job.due_ns <= due_ns:
            demand += costs.stretch[job.stream] * (tables.templates[job.template].ref_ns - job.earned_ns)
    for k in range(MAX_SLOTS):
        slot = lane.slots[k]
        if slot.phase != _FREE and not lane.jobs[slot.job].dropped and lane.jobs[slot.job].due_ns <= due_ns:
            demand -= _resident_done_ns(tables, slot)
    setting = tables.settings[lane.setting]
    for s in range(tables.config[0].n_streams):
        stream = tables.streams[s]
        if setting.active[s] == 0 or stream.period_ns == 0 or stream.deadline_ns >= _NEVER:
            continue
        period = stream.period_ns / (setting.load if stream.scales else 1.0)
        jobs = (due_ns - lane.now_ns - stream.deadline_ns * setting.tightness) / period
        demand += max(0.0, jobs) * costs.stretch[s] * tables.templates[stream.template_start].ref_ns
    return demand


@njit
def _worth_ns(tables: Any, lane: Any, costs: Costs, outlook: Outlook) -> float:
    """Return so far, work in progress, and what the deadlines of the live jobs are expected to cost, in ns."""
    weight = tables.config[0].miss_weight
    worth = lane.credit_ns - weight * lane.charge_ns
    for k in range(MAX_SLOTS):
        slot = lane.slots[k]
        if slot.phase != _FREE and not lane.jobs[slot.job].dropped:
            worth += _resident_done_ns(tables, slot)
    for j in range(job_slots(tables)):
        job = lane.jobs[j]
        if job.live and not job.dropped and job.due_ns < _NEVER:
            late = outlook.speed * _demand_ns(tables, lane, costs, job.due_ns) - (job.due_ns - lane.now_ns)
            stream = tables.streams[job.stream]
            loss = weight * stream.weight * tables.templates[job.template].ref_ns
            if stream.firm:
                loss += job.earned_ns
            doubt = outlook.doubt * (job.deadline_ns - job.arrival_ns)
            worth -= min(1.0, max(0.0, 0.5 + late / doubt)) * loss
    return worth


@njit
def _act(views: np.ndarray, masks: np.ndarray, costs: Costs, policy: Policy, bench: Bench) -> None:
    """Set ``bench.actions`` to what ``policy`` does at the decision of ``views`` (1,) and ``masks`` (1, A)."""
    room, known = bench.room, bench.known
    act_after_triage(views, masks, costs, policy.triage, policy.pairing, room, known, bench.actions)


@njit
def _rollout(
    tables: Any, costs: Costs, policy: Policy, outlook: Outlook, bench: Bench, action: int
) -> tuple[float, int]:
    """``(value, decisions)`` of ``action`` on ``bench.lanes``, then ``policy``, over the outlook's span.

    The value is ``_worth_ns`` at the end. A rollout ends with the step that passes the span; the time past it is
    charged as if the device did nothing but earn, so that a longer last step gains nothing.
    """
    lane = bench.lanes[0]
    end = lane.now_ns + outlook.span
    decisions = 0
    while True:
        clock.step(tables, lane, bench.trace, action)
        decisions += 1
        if lane.over or lane.now_ns >= end:
            past = max(0.0, float(lane.now_ns - end))
            return _worth_ns(tables, lane, costs, outlook) - past, decisions
        fill_view(tables, lane, bench.views[0])
        fill_mask(tables, lane, bench.masks[0])
        _act(bench.views, bench.masks, costs, policy, bench)
        action = bench.actions[0]


@njit
def _add_arm(bench: Bench, n: int, action: int) -> int:
    for i in range(n):
        if bench.arms[i, 0] == action:
            return n
    bench.arms[n, 0] = action
    return n + 1


@njit
def _fill_gains(view: Any, mask: np.ndarray, costs: Costs, gains: np.ndarray) -> None:
    """Predicted gain of each legal pick: work over time, alone on an empty device, else beside its resident."""
    slot = resident_slot(view)
    for action in range(1, mask.shape[0]):
        gains[action] = -np.inf
        if not mask[action]:
            continue
        task = task_of(action)
        row = variant_row(costs, view.tasks[task].op, variant_of(action))
        b = fresh(view, costs, task, row)
        if slot < 0:
            gains[action] = b.work / (b.latency + costs.variants[row].alone_ns[costs.config.contexts])
        else:
            a = placed(view, costs, slot)
            a_end, b_end = corun_ns(costs, a, b, own_contexts(costs, a.row, row, share_of(action)))
            gains[action] = (a.work + b.work) / max(a_end, b_end)


@njit
def _lets_go(view: Any, sorted_out: Any) -> bool:
    """Whether a deadline of ``view`` has gone from ``sorted_out``, which a triage made of it."""
    gone = False
    for k in range(view.n_tasks):
        gone |= view.tasks[k].deadline_ns != sorted_out.tasks[k].deadline_ns
    return gone


@njit
def _list_arms(
    views: np.ndarray, masks: np.ndarray, costs: Costs, policies: tuple[Policy, ...], outlook: Outlook, bench: Bench
) -> int:
    """Fill ``bench.arms``; returns their number. The first arm is what the first policy does by itself.

    Candidates are what the policies do, wait, and the picks of the highest predicted gain, spread over the tasks. Each
    is one arm with each policy. Where a policy lets a deadline go, the first arm is the only one: the value of a
    rollout takes earliest deadline first for granted, which says little where not every deadline can be met.
    """
    n = 0
    for policy in policies:
        _act(views, masks, costs, policy, bench)
        n = _add_arm(bench, n, bench.actions[0])
        if _lets_go(views[0], bench.room.views[0]):
            return 1
    n = _add_arm(bench, n, 0)
    gains = bench.gains
    _fill_gains(views[0], masks[0], costs, gains)
    while n < outlook.candidates:
        best = 0
        for action in range(1, gains.shape[0]):
            if gains[action] > -np.inf and (best == 0 or gains[action] > gains[best]):
                best = action
        if best == 0:
            break
        n = _add_arm(bench, n, best)
        task = task_of(best)
        for action in range(action_of(task, 0, 0), action_of(task + 1, 0, 0)):
            gains[action] -= _SPREAD
        gains[best] = -np.inf
    for i in range(n * len(policies)):
        bench.arms[i, 0], bench.arms[i, 1] = bench.arms[i % n, 0], i // n
    return n * len(policies)


@njit
def _try_arms(
    tables: Any,
    lane: Any,
    costs: Costs,
    policies: tuple[Policy, ...],
    outlook: Outlook,
    bench: Bench,
    n: int,
    key: np.uint64,
) -> int:
    """One rollout of each of the first ``n`` arms, all in the future of ``key``; returns the decisions spent."""
    spent, first = 0, 0.0
    for i in range(n):
        bench.lanes[0] = lane
        if not outlook.exact:
            clock.reseed(tables, bench.lanes, key)
        policy = policies[bench.arms[i, 1]]
        value, decisions = _rollout(tables, costs, policy, outlook, bench, bench.arms[i, 0])
        first = value if i == 0 else first
        bench.sums[i] += value
        bench.squares[i] += (value - first) ** 2
        spent += decisions
    return spent


@njit
def _note_advantages(bench: Bench, n: int, rollouts: int, advantages: np.ndarray) -> None:
    """Write how much better than the first arm each action did, with the best policy after it, ns."""
    for i in range(n):
        advantages[bench.arms[i, 0]] = -np.inf
    for i in range(n):
        action = bench.arms[i, 0]
        advantages[action] = max(advantages[action], (bench.sums[i] - bench.sums[0]) / rollouts)


@njit
def _keep_best(bench: Bench, n: int, keep: int) -> None:
    """Move the ``keep`` best of ``n`` arms to the front; the first arm stays where it is."""
    arms, sums, squares = bench.arms, bench.sums, bench.squares
    for i in range(1, keep):
        best = i
        for j in range(i + 1, n):
            if sums[j] > sums[best]:
                best = j
        sums[i], sums[best] = sums[best], sums[i]
        squares[i], squares[best] = squares[best], squares[i]
        arms[i, 0], arms[best, 0] = arms[best, 0], arms[i, 0]
        arms[i, 1], arms[best, 1] = arms[best, 1], arms[i, 1]


@njit
def _winner(bench: Bench, n: int, rollouts: int, confidence: float) -> int:
    """The arm of the highest mean, if it beats the first one by ``confidence`` standard errors of the difference."""
    best = 0
    for i in range(1, n):
        if bench.sums[i] > bench.sums[best]:
            best = i
    mean = (bench.sums[best] - bench.sums[0]) / rollouts
    variance = max(0.0, bench.squares[best] / rollouts - mean * mean) / max(1, rollouts - 1)
    return best if mean > confidence * math.sqrt(variance) else 0


@njit
def look_ahead(
    tables: Any,
    lanes: Any,
    views: np.ndarray,
    masks: np.ndarray,
    which: np.ndarray,
    seed: np.uint64,
    costs: Costs,
    policies: tuple[Policy, ...],
    outlook: Outlook,
    bench: Bench,
    actions: np.ndarray,
    advantages: np.ndarray,
    spent: np.ndarray,
) -> None:
    """Choose an action in each lane of ``which`` by rollouts on forks of it, by sequential halving.

    Each round gives every arm left the same futures, until its part of the budget is spent, and drops the worse half
    (Karnin et al., ICML 2013); the first arm, the base rule, stays. The futures are a function of the seed, the lane's
    place and its decision number alone.

    Args:
        which: int64, (n,), places of the lanes.
        actions: int64, (n,), written.
        advantages: (n, A), written: value of a candidate less that of the base rule's choice, ns; NaN = not tried.
        spent: int64, (n,), written: engine decisions.
    """
    for i in range(which.shape[0]):
        at = which[i]
        lane = lanes[at]
        actions[i], spent[i], advantages[i, :] = 0, 0, np.nan
        if lane.over:
            continue
        n = _list_arms(views[at : at + 1], masks[at : at + 1], costs, policies, outlook, bench)
        actions[i] = bench.arms[0, 0]
        advantages[i, actions[i]] = 0.0
        bench.sums[:n], bench.squares[:n] = 0.0, 0.0
        rounds = 1 if outlook.exact else max(1, math.ceil(math.log2(n)))
        rollouts = 0
        for round_ in range(rounds):
            allowed = outlook.budget * (round_ + 1) // rounds
            enough = n < 2
            while not enough:
                key = draw(seed + np.uint64(at), _PLANNING, lane.decisions, rollouts, 0)
                spent[i] += _try_arms(tables, lane, costs, policies, outlook, bench, n, key)
                rollouts += 1
                enough = outlook.exact or (spent[i] >= allowed and rollouts > 1)
            if n > 1:
                _note_advantages(bench, n, rollouts, advantages[i])
            if round_ + 1 < rounds:
                keep = max(2, (n + 1) // 2)
                _keep_best(bench, n, keep)
                n = min(n, keep)
        if n > 1:
            confidence = 0.0 if outlook.exact else outlook.confidence
            actions[i] = bench.arms[_winner(bench, n, rollouts, confidence), 0]
