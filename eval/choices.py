"""Single decisions of one episode: what could be chosen, who chooses what, and what each choice leads to.

Schedulers of one execution mode are asked at the very same states. A choice is carried out on reseeded forks of the
lane, which know no future, and the explained scheduler goes on from there; all choices meet the same futures, so their
differences are paired.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from agents.learned import Learned
from agents.scheduler import Scheduler
from eval.episodes import Episode
from eval.metrics import NS_PER_MS
from eval.play import play
from hexenv.action import SHARE_NAMES, TILE_NAMES, VERSION_NAMES, decode, describe
from hexenv.engine import Simulator, TraceLevel, episode_key
from hexenv.engine.dispatch import contexts_of_share, occupied_slot
from hexenv.engine.layout import NO_DEADLINE, Tables

_LANES = 2048
"""Forks played at once. No effect on the results of a scheduler that draws nothing at random."""
_FUTURES = 1 << 40
"""First seed of the futures: no episode of any split has it."""
_POOL = 256
"""Decisions that are screened, at most."""
_SCREENS = 8
"""Futures of a screened choice."""
_APART_NS = 5_000_000
"""Decisions to explain lie at least this far apart: neighbours tell the same story."""


class Watched(Scheduler):
    """Plays as ``scheduler`` does and lets :meth:`see` look at each decision."""

    def __init__(self, scheduler: Scheduler) -> None:
        self.name, self.overrides = scheduler.name, scheduler.overrides
        self._scheduler = scheduler

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        """See :meth:`Scheduler.start`."""
        self._scheduler.start(tables, batch, seed)

    def attach(self, simulator: Simulator) -> None:
        """See :meth:`Scheduler.attach`."""
        self._simulator = simulator
        self._scheduler.attach(simulator)

    def act(self, views: np.ndarray, masks: np.ndarray) -> np.ndarray:
        """See :meth:`Scheduler.act`."""
        actions = self._scheduler.act(views, masks)
        self.see(self._simulator, actions)
        return actions

    @abstractmethod
    def see(self, simulator: Simulator, actions: np.ndarray) -> None:
        """Look at the decision at hand in all lanes and at the actions, int64 (B,), before they are carried out."""


@dataclass(frozen=True)
class Recording:
    """One episode as the explained scheduler played it: every decision, and what every scheduler chose there."""

    tables: Tables
    lanes: np.ndarray  # LANE, (decisions,)
    views: np.ndarray  # VIEW, (decisions,)
    masks: np.ndarray  # bool, (decisions, A)
    actions: dict[str, np.ndarray]
    """Scheduler -> int64, (decisions,); the explained one first."""

    @property
    def explained(self) -> np.ndarray:
        """The actions that were carried out, int64 (decisions,)."""
        return next(iter(self.actions.values()))

    def disagreements(self) -> np.ndarray:
        """Decisions at which some scheduler would have chosen otherwise, in order."""
        return np.flatnonzero(np.any([a != self.explained for a in self.actions.values()], axis=0))

    def choices(self, decision: int) -> dict[int, list[str]]:
        """The distinct actions chosen at a decision -> who chose them; that of the explained scheduler first."""
        found: dict[int, list[str]] = {}
        for name, actions in self.actions.items():
            found.setdefault(int(actions[decision]), []).append(name)
        return found


class _Recorder(Watched):
    def __init__(self, scheduler: Scheduler, others: Sequence[Scheduler]) -> None:
        super().__init__(scheduler)
        self._others = others
        self.lanes: list[np.ndarray] = []
        self.views: list[np.ndarray] = []
        self.masks: list[np.ndarray] = []
        self.actions: dict[str, list[int]] = {one.name: [] for one in (scheduler, *others)}

    def start(self, tables: Tables, batch: int, seed: int) -> None:
        for one in (self._scheduler, *self._others):
            one.start(tables, batch, seed)

    def attach(self, simulator: Simulator) -> None:
        super().attach(simulator)
        for one in self._others:
            one.attach(simulator)

    def see(self, simulator: Simulator, actions: np.ndarray) -> None:
        self.lanes.append(simulator.lanes[0].copy())
        self.views.append(simulator.views[0].copy())
        self.masks.append(simulator.masks[0].copy())
        self.actions[self.name].append(int(actions[0]))
        for one in self._others:
            self.actions[one.name].append(int(one.act(simulator.views, simulator.masks)[0]))


def record(
    scheduler: Scheduler, others: Sequence[Scheduler], tables: Tables, episode: Episode, place: int
) -> Recording:
    """Play the episode at ``place`` of the list with ``scheduler`` and ask the others at each of its decisions.

    A rule with a memory (``pod``, ``orion``, ``random``) remembers what it would have chosen, not what was carried out.
    """
    recorder = _Recorder(scheduler, others)
    play(recorder, tables, [episode], place, TraceLevel.NONE)
    actions = {name: np.array(chosen, np.int64) for name, chosen in recorder.actions.items()}
    return Recording(tables, np.array(recorder.lanes), np.array(recorder.views), np.array(recorder.masks), actions)


class Fates(NamedTuple):
    """What became of some choices, each in the same futures; all arrays have shape (choices, futures)."""

    returns: np.ndarray
    """ms of reference work, net of what misses cost."""
    misses: np.ndarray
    finished: np.ndarray
    """Jobs."""


def carry_out(
    scheduler: Scheduler, recording: Recording, cases: Sequence[tuple[int, int]], futures: range, span_us: float
) -> Fates:
    """Carry out each (decision, action) of ``cases`` on a fork a future; ``scheduler`` goes on for ``span_us``.

    A fork stops at its first decision after the span; it never meets the episode's horizon. ``scheduler`` starts afresh
    on the forks. The recording does not change.
    """
    config = recording.tables.config.copy()
    config["horizon_ns"] = NO_DEADLINE
    tables = replace(recording.tables, config=config)
    size = max(1, _LANES // len(futures))
    parts = [
        _play_forks(scheduler, tables, recording, cases[start : start + size], futures, 1000.0 * span_us)
        for start in range(0, len(cases), size)
    ]
    return Fates(*(np.concatenate(figures) for figures in zip(*parts, strict=True)))


def _play_forks(
    scheduler: Scheduler,
    tables: Tables,
    recording: Recording,
    cases: Sequence[tuple[int, int]],
    futures: range,
    span_ns: float,
) -> Fates:
    shape = len(cases), len(futures)
    decisions, actions = (np.repeat(np.array(part, np.int64), len(futures)) for part in zip(*cases, strict=True))
    simulator = Simulator(tables, len(decisions))
    simulator.lanes[:] = recording.lanes[decisions]
    simulator.views[:] = recording.views[decisions]
    simulator.masks[:] = recording.masks[decisions]
    for i, decision in enumerate(decisions):
        simulator.fork(i, i, reseed=int(episode_key(_FUTURES + int(decision), futures[i % len(futures)])))
    lanes = simulator.lanes
    before, until_ns = _score(lanes, tables), lanes["now_ns"] + span_ns
    scheduler.start(tables, len(lanes), 0)
    scheduler.attach(simulator)
    simulator.step(actions)
    while (going := ~lanes["over"] & (lanes["now_ns"] < until_ns)).any():
        simulator.step(scheduler.act(simulator.views, simulator.masks), where=going)
    gained = [after - start for after, start in zip(_score(lanes, tables), before, strict=True)]
    return Fates(*(figure.reshape(shape) for figure in gained))


def _score(lanes: np.ndarray, tables: Tables) -> Fates:
    """Return, misses and finished jobs so far, each (B,)."""
    charge_ns = float(tables.config["miss_weight"][0]) * lanes["charge_ns"]
    return Fates((lanes["credit_ns"] - charge_ns) / NS_PER_MS, lanes["missed"].sum(1), lanes["finished"].sum(1))


def most_telling(scheduler: Scheduler, recording: Recording, count: int, span_us: float) -> list[int]:
    """The ``count`` decisions where another scheduler's choice makes the largest difference, in order of time.

    Out of the decisions at which the schedulers disagree (256 spread evenly, if there are more), each choice is carried
    out in a few futures over a quarter of the span, and the largest difference less its standard error counts. What is
    reported later comes from other futures, so that being chosen for a large difference does not flatter a decision.
    """
    pool = recording.disagreements()
    if len(pool) > _POOL:
        pool = pool[np.linspace(0, len(pool) - 1, _POOL).round().astype(int)]
    if not len(pool):
        return []
    cases = [(decision, action) for decision in pool.tolist() for action in recording.choices(decision)]
    returns = carry_out(scheduler, recording, cases, range(_SCREENS), span_us / 4.0).returns
    starts = [0, *np.cumsum([len(recording.choices(decision)) for decision in pool.tolist()])]
    sure: dict[int, float] = {}
    for i, decision in enumerate(pool.tolist()):
        gains = returns[starts[i] + 1 : starts[i + 1]] - returns[starts[i]]
        sure[decision] = float((np.abs(gains.mean(1)) - gains.std(1, ddof=1) / np.sqrt(_SCREENS)).max())
    taken: list[int] = []
    now_ns = recording.lanes["now_ns"]
    for decision in sorted(sure, key=lambda decision: -sure[decision]):
        if len(taken) < count and all(abs(now_ns[decision] - now_ns[other]) >= _APART_NS for other in taken):
            taken.append(decision)
    return sorted(taken)


def choices_frame(
    scheduler: Scheduler,
    recording: Recording,
    decisions: Sequence[int],
    probabilities: np.ndarray | None,
    futures: int,
    span_us: float,
) -> pd.DataFrame:
    """A row a decision and distinct choice: who chose it, and what it led to within the span, means over the futures.

    Figures named ``*_gain`` are paired differences to the explained scheduler's own choice, ``*_se`` their standard
    errors. ``probability`` is NaN without ``probabilities`` (decisions, A).
    """
    rows: list[dict[str, Any]] = []
    for i, decision in enumerate(decisions):
        choices = recording.choices(decision)
        cases = [(decision, action) for action in choices]
        fates = carry_out(scheduler, recording, cases, range(_SCREENS, _SCREENS + futures), span_us)
        view = recording.views[decision]
        for place, (action, names) in enumerate(choices.items()):
            row: dict[str, Any] = {
                "decision": decision,
                "time_ms": int(view["now_ns"]) / NS_PER_MS,
                "chosen_by": " ".join(names),
                "action": action,
                "choice": describe(action, view, recording.tables),
                "probability": float("nan") if probabilities is None else float(probabilities[i, action]),
            }
            for name, figures in zip(("return", "misses", "finished"), fates, strict=True):
                gain = figures[place] - figures[0]
                row[name] = float(figures[place].mean())
                row[f"{name}_gain"] = float(gain.mean())
                row[f"{name}_se"] = float(gain.std(ddof=1) / np.sqrt(futures))
            rows.append(row)
    return pd.DataFrame(rows)


def candidates_frame(
    recording: Recording, decisions: Sequence[int], probabilities: np.ndarray | None = None
) -> pd.DataFrame:
    """A row a decision and legal action, with the profile of what it would start.

    Times in us: ``ddr`` at full bandwidth, ``hvx`` context-time, ``hmx``, ``alone`` the predicted duration alone on the
    ``contexts`` it would get; ``slack`` and ``due`` from now on, NaN without a deadline. The row of wait has none.
    """
    rows: list[dict[str, Any]] = []
    for i, decision in enumerate(decisions):
        who = recording.choices(decision)
        for action in np.flatnonzero(recording.masks[decision]).tolist():
            row: dict[str, Any] = {"decision": decision, "action": action, "chosen_by": " ".join(who.get(action, ()))}
            row["probability"] = float("nan") if probabilities is None else float(probabilities[i, action])
            rows.append(row | _profile(recording, decision, action))
    return pd.DataFrame(rows)


def _profile(recording: Recording, decision: int, action: int) -> dict[str, Any]:
    pick = decode(action)
    if pick is None:
        return {"task": -1, "stream": "wait"}
    tables, view = recording.tables, recording.views[decision]
    task = view["tasks"][pick.task]
    row = int(tables.ops["variant"][task["op"], pick.version, pick.tile])
    variant, lane = tables.variants[row], recording.lanes[decision]
    contexts = contexts_of_share(tables.arrays, lane, occupied_slot(lane), row, pick.share)
    timed = task["deadline_ns"] < NO_DEADLINE
    return {
        "task": pick.task,
        "stream": tables.stream_names[task["stream"]],
        "operator": tables.op_names[task["op"]],
        "version": VERSION_NAMES[pick.version],
        "tile": TILE_NAMES[pick.tile],
        "share": SHARE_NAMES[pick.share],
        "contexts": contexts,
        "ddr_us": (variant["ddr_ns"] + variant["prologue_ddr_ns"]) / 1e3,
        "hvx_us": (variant["hvx_ns"] + variant["prologue_hvx_ns"]) / 1e3,
        "hmx_us": variant["hmx_ns"] / 1e3,
        "vtcm_kib": variant["vtcm_bytes"] / 1024,
        "alone_us": variant["alone_ns"][contexts] / 1e3,
        "slack_us": task["slack_ns"] / 1e3 if timed else float("nan"),
        "due_us": (task["deadline_ns"] - view["now_ns"]) / 1e3 if timed else float("nan"),
    }


def policy_probabilities(policy: Learned, recording: Recording, decisions: Sequence[int]) -> np.ndarray:
    """What a policy thinks of each action at some decisions, (decisions, A); illegal ones are 0."""
    import torch

    which = np.array(decisions, np.int64)
    policy.start(recording.tables, len(which), 0)
    return torch.softmax(policy.logits(recording.views[which], recording.masks[which]), -1).numpy()


def situation(recording: Recording, decision: int) -> str:
    """One line on the state of a decision: what is resident or pending, what waits, how much VTCM is free."""
    tables, view = recording.tables, recording.views[decision]
    residents = []
    for resident in view["residents"][view["residents"]["phase"] > 0]:
        stream, operator = tables.stream_names[resident["stream"]], tables.op_names[resident["op"]]
        version = VERSION_NAMES[int(tables.variants["version"][resident["variant"]])]
        left = f"{resident['contexts']} contexts, {resident['left_ns'] / 1e3:.0f} us left"
        residents.append(f"{stream}: {operator} on {version}, {left}")
    backlog = [
        f"{name} {int(stream['backlog'])}"
        for name, stream in zip(tables.stream_names, view["streams"], strict=False)
        if stream["backlog"]
    ]
    device = f"beside {' and '.join(residents)}" if residents else "device idle"
    return f"{device}; jobs: {', '.join(backlog) or 'none'}; free VTCM {view['vtcm_free_bytes'] / 1024:.0f} KiB"
