"""The interactive timeline of a page: two schedulers one above the other on the same episode (``timeline.js``)."""

from __future__ import annotations

import json
from collections.abc import Sequence
from html import escape
from typing import Any

import numpy as np

from eval.evidence.memory import vtcm_steps
from eval.timeline import Take, Window, differences, stages_of, utilisation
from hexenv.engine.layout import NO_DEADLINE, Event, Tables

_BINS = 2000
"""Parts of the episode in which engine use is averaged."""
_TENTHS = 100.0
"""ns in a unit of time of the page: a tenth of a microsecond."""
_ENDS = (Event.FINISH, Event.MISS, Event.REJECT)
_HELP = (
    "Drag or arrow keys to move, + and - or Ctrl and wheel or two fingers to zoom, Home for all, n and p for the next "
    "and previous deadline that only one of them misses, full stop and comma to go from stage to stage, o for the "
    "other scheduler."
)
_BUTTONS = {
    "left": ("&#9664;", "earlier"),
    "right": ("&#9654;", "later"),
    "in": ("+", "zoom in"),
    "out": ("&#8722;", "zoom out"),
    "all": ("all", "whole episode"),
    "previous": ("&#9664; difference", "previous deadline that only one of them misses"),
    "next": ("difference &#9654;", "next deadline that only one of them misses"),
}


def viewer_html(name: str, takes: Sequence[Take], window: Window) -> str:
    """The element that ``timeline.js`` brings to life, data included."""
    data = json.dumps(timeline_data(takes, window), separators=(",", ":")).replace("<", "\\u003c")
    buttons = "".join(
        f'<button type="button" data-do="{key}" aria-label="{text}" title="{text}">{sign}</button>'
        for key, (sign, text) in _BUTTONS.items()
    )
    label = escape(f"timeline of {' and '.join(take.scheduler for take in takes)} on the same episode")
    return (
        f'<div class="timeline" id="{name}"><div class="buttons">{buttons}</div>'
        f'<div class="view" tabindex="0" role="group" aria-label="{label}" aria-describedby="{name}-help"><svg></svg>'
        "</div>"
        f'<p class="status" aria-live="polite">&#8203;</p><p class="quiet" id="{name}-help">{_HELP}</p>'
        f'<div class="tip" hidden></div><script type="application/json">{data}</script></div>'
        "<noscript><p>The timeline needs JavaScript.</p></noscript>"
    )


def timeline_data(takes: Sequence[Take], window: Window) -> dict[str, Any]:
    """What the page draws. Times are tenths of us, use is in percent, VTCM in KiB.

    A stage is (start, length, slot, stream, version, row of ``ops``, contexts, job, KiB), a job's end (time, stream,
    place in finished, missed, refused; job), a step of VTCM (time, taken, largest free block).
    """
    end_ns = max(int(take.trace["end_ns"].max(initial=1)) for take in takes)
    tables = takes[0].tables
    used = sorted({int(op) for take in takes for op in take.tables.variants["op"][stages_of(take.trace)["variant"]]})
    place = {op: i for i, op in enumerate(used)}
    return {
        "end": _time(end_ns),
        "view": [_time(window.start_ns), _time(window.end_ns)],
        "vtcm": int(tables.config["vtcm_bytes"][0]) // 1024,
        "streams": list(tables.stream_names),
        "ops": [tables.op_names[op] for op in used],
        "differences": [_time(t) for t in differences(takes)],
        "takes": [_take(take, place, Window(0.0, end_ns)) for take in takes],
    }


def _time(ns: float) -> int:
    return round(ns / _TENTHS)


def _take(take: Take, place: dict[int, int], whole: Window) -> dict[str, Any]:
    contexts, tables = int(take.tables.config["contexts"][0]), take.tables
    ends = take.trace[np.isin(take.trace["event"], _ENDS)]
    timed = tables.streams["deadline_ns"][ends["stream"]] < NO_DEADLINE
    ends = ends[(ends["event"] != Event.REJECT) | ~timed]  # with a deadline it is a miss too
    return {
        "scheduler": take.scheduler,
        "stages": [_stage(stage, place, tables) for stage in stages_of(take.trace)],
        "ends": [
            [_time(end["t_ns"]), int(end["stream"]), _ENDS.index(Event(end["event"])), int(end["job"])] for end in ends
        ],
        "use": {
            engine: np.rint(100.0 * utilisation(take.trace, whole, engine, contexts, _BINS)).astype(int).tolist()
            for engine in ("hvx", "hmx", "dma")
        },
        "vtcm": [[_time(t), int(taken) // 1024, int(largest) // 1024] for t, taken, largest in vtcm_steps(take)],
    }


def _stage(stage: np.void, place: dict[int, int], tables: Tables) -> list[int]:
    variant = tables.variants[stage["variant"]]
    start = _time(stage["t_ns"])
    return [
        *(start, _time(stage["end_ns"]) - start, int(stage["slot"]), int(stage["stream"])),
        *(int(variant["version"]), place[int(variant["op"])], int(stage["contexts"]), int(stage["job"])),
        int(variant["vtcm_bytes"]) // 1024,
    ]
