"""The tracks of the same schedule played tile by tile: every DMA descriptor, HVX phase and HMX job."""

from __future__ import annotations

from collections import defaultdict

from eval.trace.engine import add_arrows
from eval.trace.events import Process, Span, TraceFile, Value
from eval.trace.recording import Recording, Stage
from hexenv.engine.layout import MAX_SLOTS, Mode
from hexenv.errors import ConfigError
from hexenv.tilesim import Chip, Play, StageRun, play
from hexenv.tilesim.schedule import recorded

MODES = (Mode.SERIAL, Mode.FUSED)
"""What the tile simulator can replay."""
_QUEUES = {"ddr": "DMA", "hmx": "HMX", "storage": "storage"}


def replay(recording: Recording, chip: Chip) -> Play:
    """The launches of ``recording`` tile by tile, in their order; a stage that takes longer delays all after it.

    Raises:
        ConfigError: the mode is one that the tile simulator does not know.
    """
    if recording.mode not in MODES:
        allowed = " or ".join(mode.name.lower() for mode in MODES)
        raise ConfigError(
            f"--tiles: scheduler {recording.scheduler!r} runs in mode {recording.mode.name.lower()}; allowed: {allowed}"
        )
    return play(chip, recorded(recording.trace, recording.tables).shifting())


def add_tiles(file: TraceFile, recording: Recording, tiles: Play) -> None:
    """Add a process with the tracks of ``tiles``, the replay of ``recording``. The replay has no VTCM allocator."""
    process = file.process(f"{recording.scheduler}: tile by tile")
    slots = [process.thread(f"slot {k}") for k in range(MAX_SLOTS)]
    runs = zip(recording.stages, tiles.stages, strict=True)
    add_arrows(file, process, recording, [_add_stage(process, slots[stage.slot], stage, run) for stage, run in runs])
    _add_work(process, recording, tiles)
    _add_contexts(process, tiles)


def _add_stage(process: Process, thread: int, stage: Stage, run: StageRun) -> Span:
    dispatch, ready, body, end = (_ns(t) for t in (run.dispatch_us, run.ready_us, run.body_us, run.end_us))
    span = process.slice(thread, stage.name, "stage", dispatch, end, stage.args)
    for name, start, stop in (("dispatch", dispatch, ready), ("prologue", ready, body), ("body", body, end)):
        if stop > start:
            process.slice(thread, name, "phase", start, stop, {}, inner=True)
    return span


def _add_work(process: Process, recording: Recording, tiles: Play) -> None:
    """A bar a DMA descriptor, HVX phase, HMX job and read from storage."""
    vectors = [process.thread(f"HVX for slot {k}") for k in range(MAX_SLOTS)]
    used = {record.engine for record in tiles.records}
    queues = {engine: process.thread(name) for engine, name in _QUEUES.items() if engine in used}
    for record in tiles.records:
        stage = recording.stages[record.stage]
        thread = vectors[stage.slot] if record.engine == "hvx" else queues[record.engine]
        args: dict[str, Value] = {"stage": stage.name, "job": stage.job, "tile": record.tile}
        args |= {"contexts": record.contexts} if record.engine == "hvx" else {}
        process.slice(thread, record.kind, record.engine, _ns(record.start_us), _ns(record.end_us), args)


def _add_contexts(process: Process, tiles: Play) -> None:
    """How many HVX contexts the phases under way were forked over."""
    changes: dict[int, int] = defaultdict(int)
    for record in tiles.records:
        changes[_ns(record.start_us)] += record.contexts
        changes[_ns(record.end_us)] -= record.contexts
    busy = 0
    for ns in sorted(changes):
        busy += changes[ns]
        process.counter("HVX", ns, {"contexts forked over": busy})


def _ns(us: float) -> int:
    return round(1e3 * us)
