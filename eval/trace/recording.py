"""One episode of one scheduler, with all that the tracks are made of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from agents.scheduler import Scheduler
from eval.choices import Watched
from eval.episodes import Episode
from eval.play import play
from eval.trace.events import Args, Value
from hexenv.action import SHARE_NAMES, TILE_NAMES, VERSION_NAMES, decode
from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Event, Mode, Split, Tables

CUT_OFF = "cut off by the horizon"


@dataclass(frozen=True)
class Decision:
    """One decision and what was in view."""

    t_ns: int
    action: int
    args: Args


@dataclass(frozen=True)
class Stage:
    """One launch."""

    slot: int
    start_ns: int
    end_ns: int
    name: str
    """Operator and version."""
    vtcm_bytes: int
    dispatch_ns: int
    """From the dispatch to its first work: batch, entry, decision, compilation; what the trace's launch record says."""
    stream: int
    job: int
    stage: int
    """Relative to the job's template."""
    args: Args


@dataclass(frozen=True)
class Recording:
    """What one scheduler did in one episode."""

    scheduler: str
    tables: Tables
    episode: Episode
    trace: np.ndarray  # TRACE, (events,)
    lane: np.void  # LANE at the end
    decisions: tuple[Decision, ...]
    stages: tuple[Stage, ...]
    """In order of launch."""

    @property
    def end_ns(self) -> int:
        """The episode's end."""
        return int(self.lane["now_ns"])

    @property
    def mode(self) -> Mode:
        """The execution mode."""
        return Mode(int(self.tables.config["mode"][0]))

    def of(self, event: Event) -> np.ndarray:
        """The trace's records of one kind."""
        return self.trace[self.trace["event"] == event]


class _Watched(Watched):
    """Acts as the scheduler inside, on one lane, and writes its decisions down."""

    def __init__(self, scheduler: Scheduler) -> None:
        super().__init__(scheduler)
        self.decisions: list[Decision] = []

    def see(self, simulator: Simulator, actions: np.ndarray) -> None:
        """See :meth:`Watched.see`."""
        view, action = simulator.views[0], int(actions[0])
        args = _decision_args(action, view, simulator.masks[0], simulator.tables)
        self.decisions.append(Decision(int(view["now_ns"]), action, args))


def _decision_args(action: int, view: np.void, mask: np.ndarray, tables: Tables) -> Args:
    args: dict[str, Value] = {
        "action": action,
        "legal_actions": int(mask.sum()),
        "visible_tasks": int(view["n_tasks"]),
    }
    pick = decode(action)
    if pick is None:
        return args
    task = view["tasks"][pick.task]
    return args | {
        "task": pick.task,
        "stream": tables.stream_names[task["stream"]],
        "operator": tables.op_names[task["op"]],
        "version": VERSION_NAMES[pick.version],
        "tile_class": TILE_NAMES[pick.tile],
        "share": SHARE_NAMES[pick.share],
    }


def record(scheduler: Scheduler, tables: Tables, episode: Episode, place: int) -> Recording:
    """Play the episode at ``place`` of the held-out list, writing everything down."""
    watched = _Watched(scheduler)
    simulator, _ = play(watched, tables, [episode], place, TraceLevel.ALL)
    trace, lanes = simulator.trace(0), simulator.lanes.copy()
    stages = _stages(trace, tables, int(lanes["now_ns"][0]))
    return Recording(scheduler.name, tables, episode, trace, lanes[0], tuple(watched.decisions), stages)


def template_of(tables: Tables, stream: int, job: int) -> np.void:
    """The TEMPLATE record that job ``job`` of a stream runs."""
    own = tables.streams[stream]
    return tables.templates[own["template_start"] + job % own["template_count"]]


def _stages(trace: np.ndarray, tables: Tables, end_ns: int) -> tuple[Stage, ...]:
    lost = trace[trace["event"] == Event.UNCREDITED]
    uncredited = set(zip(lost["slot"].tolist(), lost["t_ns"].tolist(), strict=True))
    stages = []
    for record in trace[trace["event"] == Event.LAUNCH]:
        stream, job, stage, slot = (int(record[key]) for key in ("stream", "job", "stage", "slot"))
        start, end = int(record["t_ns"]), int(record["end_ns"])
        over = end > start  # a stage that the horizon cuts off has no end
        outcome = CUT_OFF if not over else "uncredited" if (slot, end) in uncredited else "credited"
        variant = tables.variants[record["variant"]]
        op = int(variant["op"])
        args: dict[str, Value] = {
            "stream": tables.stream_names[stream],
            "job": job,
            "stage": tables.stage_names[template_of(tables, stream, job)["first_stage"] + stage],
            "operator": tables.op_names[op],
            "version": VERSION_NAMES[variant["version"]],
            "tile_class": TILE_NAMES[variant["tile"]],
            "contexts_at_launch": int(record["contexts"]),
            "vtcm_bytes": int(variant["vtcm_bytes"]),
            "dispatch_us": float(record["value"]) / 1e3,
            "predicted_alone_us": int(variant["alone_ns"][record["contexts"]]) / 1e3,
            "reference_us": int(tables.ops["ref_ns"][op]) / 1e3,
            "outcome": outcome,
        }
        name = f"{tables.op_names[op]} {VERSION_NAMES[variant['version']]}"
        stages.append(
            Stage(
                slot, start, end if over else end_ns, name, int(variant["vtcm_bytes"]), int(record["value"]), stream,
                job, stage, args,
            )
        )  # fmt: skip
    return tuple(stages)


def arrows(recording: Recording) -> list[tuple[int, int]]:
    """Pairs of launches of one job: each stage with the one it waited for that ended last."""
    tables = recording.tables
    done: dict[tuple[int, int, int], int] = {}
    found = []
    for i, stage in enumerate(recording.stages):
        template = template_of(tables, stage.stream, stage.job)
        row = tables.stages[template["first_stage"] + stage.stage]
        before = [
            done[key]
            for p in tables.links[row["pred_start"] : row["pred_end"]].tolist()
            if (key := (stage.stream, stage.job, p)) in done
        ]
        if before:
            found.append((max(before, key=lambda j: recording.stages[j].end_ns), i))
        done[stage.stream, stage.job, stage.stage] = i
    return found


def vtcm_levels(stages: Sequence[Stage], config: np.void) -> list[tuple[int, int, int]]:
    """Instants in ns with bytes of VTCM in use and the largest free block from then on.

    Follows the engine's allocator: a stage holds its bytes from its launch to its end, at the lowest address that fits
    once what ends at that instant has been freed. ``stages`` are in order of launch, ``config`` is a CONFIG record.
    """
    total = int(config["vtcm_bytes"])
    static = Mode(int(config["mode"])) is Mode.CONCURRENT and Split(int(config["vtcm_split"])) is Split.STATIC
    part = total // int(config["slots"]) if static else 0
    held: dict[int, tuple[int, int]] = {}
    levels: dict[int, tuple[int, int]] = {0: (0, total)}
    changes = [(stage.end_ns, 0, i) for i, stage in enumerate(stages)]
    changes += [(stage.start_ns, 1, i) for i, stage in enumerate(stages)]
    for ns, begins, i in sorted(changes):
        if begins:
            size = stages[i].vtcm_bytes
            start = stages[i].slot * part if static else _lowest(held, total, size)
            held[i] = (start, start + size)
        else:
            del held[i]
        levels[ns] = _level(held, total)
    return [(ns, *level) for ns, level in levels.items()]


def _lowest(held: dict[int, tuple[int, int]], total: int, size: int) -> int:
    return next(start for start, end in _gaps(held, total) if end - start >= size)


def _gaps(held: dict[int, tuple[int, int]], total: int) -> list[tuple[int, int]]:
    """Free blocks in address order, empty ones included."""
    edges = [0, *(edge for region in sorted(held.values()) for edge in region), total]
    return list(zip(edges[::2], edges[1::2], strict=True))


def _level(held: dict[int, tuple[int, int]], total: int) -> tuple[int, int]:
    used = sum(end - start for start, end in held.values())
    return used, max(end - start for start, end in _gaps(held, total))
