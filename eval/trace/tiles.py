"""The tracks of the same schedule played tile by tile: every DMA descriptor, HVX phase and HMX job."""

from __future__ import annotations

from eval.trace.events import Span, TraceFile, Value
from eval.trace.recording import Recording, arrows
from hexenv.engine.layout import MAX_SLOTS, Mode
from hexenv.errors import ConfigError
from hexenv.tilesim import Chip, Play, play
from hexenv.tilesim.schedule import recorded

MODES = (Mode.SERIAL, Mode.FUSED)
"""What the tile simulator can replay."""
_QUEUES = (("ddr", "DMA"), ("hmx", "HMX"), ("storage", "storage"))


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
    spans: list[Span] = []
    for stage, run in zip(recording.stages, tiles.stages, strict=True):
        thread = slots[stage.slot]
        dispatch, ready, body, end = (_ns(t) for t in (run.dispatch_us, run.ready_us, run.body_us, run.end_us))
        spans.append(process.slice(thread, stage.name, "stage", dispatch, end, stage.args))
        for name, start, stop in (("dispatch", dispatch, ready), ("prologue", ready, body), ("body", body, end)):
            if stop > start:
                process.slice(thread, name, "phase", start, stop, {}, inner=True)
    for source, target in arrows(recording):
        file.flow(recording.tables.stream_names[recording.stages[target].stream], spans[source], spans[target], process)
    vectors = [process.thread(f"HVX for slot {k}") for k in range(MAX_SLOTS)]
    queues = {
        engine: process.thread(name) for engine, name in _QUEUES if any(r.engine == engine for r in tiles.records)
    }
    steps: list[tuple[int, int]] = []
    for record in tiles.records:
        stage = recording.stages[record.stage]
        start, end = _ns(record.start_us), _ns(record.end_us)
        args: dict[str, Value] = {"stage": stage.name, "job": stage.job, "tile": record.tile}
        if record.engine == "hvx":
            args["contexts"] = record.contexts
            steps += [(start, record.contexts), (end, -record.contexts)]
        thread = vectors[stage.slot] if record.engine == "hvx" else queues[record.engine]
        process.slice(thread, record.kind, record.engine, start, end, args)
    busy, levels = 0, {0: 0}
    for ns, change in sorted(steps):
        busy += change
        levels[ns] = busy
    for ns, contexts in levels.items():
        process.counter("HVX", ns, {"contexts forked over": contexts})


def _ns(us: float) -> int:
    return round(1e3 * us)
