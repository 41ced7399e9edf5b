"""The tracks of an episode as the fluid engine played it."""

from __future__ import annotations

from collections.abc import Sequence

from eval.trace.events import Process, Span, TraceFile, Value
from eval.trace.recording import Recording, Stage, arrows, vtcm_levels
from hexenv.engine.layout import MAX_SLOTS, NO_DEADLINE, Event, Mode

_ENGINES = (
    ("HVX", "contexts busy", "value2"),
    ("HMX", "busy", "value3"),
    ("DMA", "busy", "value"),
    ("storage", "busy", "value4"),
)
"""Counter, its series and the field of a segment that holds the engine's busy time."""


def add_engine(file: TraceFile, recording: Recording) -> None:
    """Add a process with the tracks of ``recording``."""
    process = file.process(f"{recording.scheduler}: engine")
    decisions, deadlines = process.thread("decisions"), process.thread("deadlines")
    slots = [process.thread(f"slot {k}") for k in range(MAX_SLOTS)]
    _add_decisions(process, decisions, recording)
    _add_deadlines(process, deadlines, recording)
    spans = [_add_stage(process, slots[stage.slot], stage, recording.mode) for stage in recording.stages]
    add_arrows(file, process, recording, spans)
    _add_jobs(process, recording)
    _add_engines(process, recording)
    _add_vtcm(process, recording)


def add_arrows(file: TraceFile, process: Process, recording: Recording, spans: Sequence[Span]) -> None:
    """An arrow to each stage of a job from the one it waited for last; ``spans`` are the stages' bars."""
    for source, target in arrows(recording):
        name = recording.tables.stream_names[recording.stages[target].stream]
        file.flow(name, spans[source], spans[target], process)


def _add_decisions(process: Process, thread: int, recording: Recording) -> None:
    for decision in recording.decisions:
        name = f"pick {decision.args['version']}" if decision.action else "wait"
        process.instant(thread, name, "decision", decision.t_ns, decision.args)


def _add_stage(process: Process, thread: int, stage: Stage, mode: Mode) -> Span:
    span = process.slice(thread, stage.name, "stage", stage.start_ns, stage.end_ns, stage.args)
    # Behind the barrier of fused_serial a dispatch begins when the other stage ends, which its record does not say.
    if stage.dispatch_ns > 0 and mode is not Mode.FUSED_SERIAL:
        begun_ns = min(stage.start_ns + stage.dispatch_ns, stage.end_ns)
        process.slice(thread, "dispatch", "dispatch", stage.start_ns, begun_ns, {}, inner=True)
    return span


def _add_deadlines(process: Process, thread: int, recording: Recording) -> None:
    """Every deadline that fell due: met where it was, and each miss that was charged."""
    names = recording.tables.stream_names
    finish_ns = {(int(r["stream"]), int(r["job"])): int(r["t_ns"]) for r in recording.of(Event.FINISH)}
    for record in recording.of(Event.ARRIVE):
        stream, job = int(record["stream"]), int(record["job"])
        if record["value"] >= NO_DEADLINE:
            continue
        due_ns = int(record["t_ns"]) + int(record["value"])
        if due_ns <= recording.end_ns and finish_ns.get((stream, job), due_ns + 1) <= due_ns:
            spare_us = (due_ns - finish_ns[stream, job]) / 1e3
            args: dict[str, Value] = {"stream": names[stream], "job": job, "spare_us": spare_us}
            process.instant(thread, f"met: {names[stream]}", "deadline", due_ns, args)
    rejected = {(int(r["stream"]), int(r["job"])) for r in recording.of(Event.REJECT)}
    for record in recording.of(Event.MISS):
        stream, job = int(record["stream"]), int(record["job"])
        cause = "its queue was full" if (stream, job) in rejected else "late"
        charged_us = float(record["value"]) / 1e3
        missed: dict[str, Value] = {"stream": names[stream], "job": job, "charged_us": charged_us, "cause": cause}
        process.instant(thread, f"MISSED: {names[stream]}", "deadline", int(record["t_ns"]), missed)


def _add_jobs(process: Process, recording: Recording) -> None:
    """A bar a job from its arrival to its end, on a track a stream."""
    ends: dict[tuple[int, int], tuple[int, str]] = {}
    for event, outcome in ((Event.FINISH, "finished"), (Event.DROP, "dropped")):
        ends |= {(int(r["stream"]), int(r["job"])): (int(r["t_ns"]), outcome) for r in recording.of(event)}
    for record in recording.of(Event.ARRIVE):
        stream, job = int(record["stream"]), int(record["job"])
        end_ns, outcome = ends.get((stream, job), (recording.end_ns, "unfinished at the horizon"))
        args: dict[str, Value] = {"job": job}
        if record["value"] < NO_DEADLINE:
            args["deadline_us"] = float(record["value"]) / 1e3
        name = f"jobs: {recording.tables.stream_names[stream]}"
        process.life(name, "job", f"{stream}.{job}", int(record["t_ns"]), end_ns, args, {"outcome": outcome})


def _add_engines(process: Process, recording: Recording) -> None:
    """The engines' use: the fluid model has rates, constant in a segment, and no jobs of its own on an engine."""
    segments = recording.of(Event.SEGMENT)
    for name, series, column in _ENGINES:
        for segment in segments:
            start_ns, end_ns = int(segment["t_ns"]), int(segment["end_ns"])
            process.counter(name, start_ns, {series: float(segment[column]) / (end_ns - start_ns)})
        process.counter(name, recording.end_ns, {series: 0.0})


def _add_vtcm(process: Process, recording: Recording) -> None:
    """VTCM in use and its largest free block."""
    for ns, used, largest in vtcm_levels(recording.stages, recording.tables.config[0]):
        process.counter("VTCM", ns, {"used bytes": used, "largest free block bytes": largest})
