"""Pictures of a lane: a text table, and a Gantt chart as an array of pixels (no display needed)."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from hexenv.action import TILE_NAMES, VERSION_NAMES
from hexenv.engine.layout import MAX_SLOTS, MAX_STREAMS, N_TILES, NO_DEADLINE, Event, Mode, Phase, Tables

if TYPE_CHECKING:
    from hexenv.engine import Simulator

WINDOW_NS = 50_000_000
"""Time span of the Gantt chart; its right edge is now."""
WIDTH, HEIGHT = 960, 540
"""Size of the Gantt chart, pixels."""

_BAR = 64
_LEFT, _RIGHT, _TOP, _BOTTOM = 110, 950, 40, 490
_LANE_PX = _RIGHT - _LEFT
_ENGINES = ("DMA", "HVX", "HMX")

Colour = tuple[int, int, int]
_STREAM_COLOURS: tuple[Colour, ...] = (
    (78, 121, 167),
    (242, 142, 43),
    (89, 161, 79),
    (176, 122, 161),
    (118, 183, 178),
    (237, 201, 72),
    (255, 157, 167),
    (156, 117, 95),
)
_VERSION_COLOURS: tuple[Colour, ...] = ((31, 90, 160), (200, 60, 20), (120, 40, 140))
_ENGINE_COLOUR: Colour = (110, 110, 110)
_MARKS: dict[Event, tuple[str, Colour]] = {
    Event.ARRIVE: ("arrival", (150, 150, 150)),
    Event.FINISH: ("finish", (44, 140, 44)),
    Event.MISS: ("miss", (214, 39, 40)),
    Event.DROP: ("drop", (120, 0, 0)),
}
_DEADLINE: tuple[str, Colour] = ("deadline", (30, 30, 200))


class Renderer:
    """Draws lanes of a simulator in one render mode.

    Args:
        tables: the compiled scenario.
        mode: ``ansi`` or ``rgb_array``.
    """

    def __init__(self, tables: Tables, mode: str):
        self._tables = tables
        self._chart = GanttChart(tables) if mode == "rgb_array" else None

    def frame(self, simulator: Simulator, lane: int) -> str | NDArray[np.uint8]:
        """Text, or uint8 of shape (HEIGHT, WIDTH, 3). The chart needs a simulator that traces everything."""
        if self._chart is None:
            return text(self._tables, simulator.views[lane], simulator.masks[lane])
        return self._chart.frame(simulator.trace(lane), int(simulator.views[lane]["now_ns"]))


def text(tables: Tables, view: np.void, mask: NDArray[np.bool_]) -> str:
    """Clock, tasks, residents, VTCM and streams of a VIEW record as a table; ``mask`` (A,) gives the legal variants."""
    mode = Mode(int(tables.config["mode"][0])).name.lower()
    lines = [f"{tables.scenario} on {tables.device} ({tables.split}, {mode})   t = {_ms(view['now_ns'])} ms", ""]
    lines.append(f"{'task':>4} {'stream':<14} {'operator':<34} {'slack':>10} {'chain':>10}  legal variants")
    choices = np.any(mask[1:].reshape(tables.visible, len(VERSION_NAMES), N_TILES, -1), axis=3)
    for k, task in enumerate(view["tasks"][: view["n_tasks"]]):
        head = "*" if task["head"] else " "
        slack = "-" if task["slack_ns"] >= NO_DEADLINE else _ms(task["slack_ns"])
        stream, operator = tables.stream_names[task["stream"]], tables.op_names[task["op"]]
        lines.append(
            f"{k:>3}{head} {stream:<14.14} {operator:<34.34} {slack:>10} {_ms(task['critical_ns']):>10}  "
            f"{_variants(choices[k])}"
        )
    lines += ["", *(_resident_line(tables, slot, view["residents"][slot]) for slot in range(MAX_SLOTS))]
    lines += ["", _vtcm_line(tables, view), ""]
    for name, stream in zip(tables.stream_names, view["streams"], strict=False):
        state = f"backlog {stream['backlog']}, last arrival {_ms(stream['since_arrival_ns'])} ms ago"
        lines.append(f"stream {name:<14.14} {state if stream['active'] else 'not in this mix'}")
    return "\n".join(lines) + "\n"


def _ms(ns: Any) -> str:
    return f"{float(ns) / 1e6:.3f}"


def _variants(legal: NDArray[np.bool_]) -> str:
    """``HVX 1/8,1/4  HMX 1`` for legal (V, T); ``-`` if none is."""
    parts = [
        f"{version} {','.join(tile for tile, on in zip(TILE_NAMES, row, strict=True) if on)}"
        for version, row in zip(VERSION_NAMES, legal, strict=True)
        if row.any()
    ]
    return "  ".join(parts) or "-"


def _resident_line(tables: Tables, slot: int, resident: np.void) -> str:
    phase = Phase(int(resident["phase"]))
    if phase is Phase.FREE:
        return f"slot {slot}  free"
    variant = tables.variants[resident["variant"]]
    dropped = ", dropped" if resident["dropped"] else ""
    return (
        f"slot {slot}  {phase.name.lower()}{dropped}: {tables.stream_names[resident['stream']]} "
        f"{tables.op_names[resident['op']]}, {VERSION_NAMES[variant['version']]}, tile {TILE_NAMES[variant['tile']]}, "
        f"{resident['contexts']} contexts, {_ms(resident['left_ns'])} ms left"
    )


def _vtcm_line(tables: Tables, view: np.void) -> str:
    """A bar of VTCM in address order: the slot's number where it is held, a dot where it is free."""
    total = int(tables.config["vtcm_bytes"][0])
    bar = ["."] * _BAR
    for slot, resident in enumerate(view["residents"]):
        if resident["phase"] != Phase.FREE:
            begin = int(resident["vtcm_offset"]) * _BAR // total
            end = -(-int(resident["vtcm_offset"] + resident["vtcm_bytes"]) * _BAR // total)
            bar[begin:end] = str(slot) * (end - begin)
    mib = 1 << 20
    free, largest = view["vtcm_free_bytes"] / mib, view["vtcm_largest_bytes"] / mib
    return f"VTCM [{''.join(bar)}] {free:.2f} of {total / mib:.2f} MiB free, largest block {largest:.2f}"


class GanttChart:
    """The last WINDOW_NS of an episode: a row a slot, utilisation rows of the engines, a row of marks a stream.

    A stage's bar has its stream's colour with a band in its version's colour at the foot. Text and axes never change,
    so matplotlib draws them once and a frame only fills in rectangles.

    Args:
        tables: the compiled scenario.
    """

    def __init__(self, tables: Tables):
        self._tables = tables
        names = [f"slot {slot}" for slot in range(MAX_SLOTS)]
        names += _ENGINES
        names += tables.stream_names
        edges = np.linspace(_TOP, _BOTTOM, len(names) + 1).astype(int)
        self._rows = [(int(top) + 3, int(bottom) - 3) for top, bottom in pairwise(edges)]
        self._background = _background(names, self._rows, tables.stream_names)

    def frame(self, trace: NDArray[Any], now_ns: int) -> NDArray[np.uint8]:
        """The picture at ``now_ns`` from TRACE records in time order, uint8 of shape (HEIGHT, WIDTH, 3)."""
        pixels = self._background.copy()
        start_ns = now_ns - WINDOW_NS
        self._draw_stages(pixels, trace[trace["event"] == Event.LAUNCH], start_ns, now_ns)
        self._draw_engines(pixels, trace[trace["event"] == Event.SEGMENT], start_ns)
        self._draw_marks(pixels, trace, start_ns)
        return pixels

    def _draw_stages(self, pixels: NDArray[np.uint8], launches: NDArray[Any], start_ns: int, now_ns: int) -> None:
        for stage in launches:
            # A stage that is still resident has no end yet.
            end_ns = stage["end_ns"] if stage["end_ns"] > stage["t_ns"] else now_ns
            left, right = _column(stage["t_ns"], start_ns), _column(end_ns, start_ns)
            if right <= 0:
                continue
            top, bottom = self._rows[stage["slot"]]
            columns = slice(_LEFT + max(0, left), _LEFT + max(left + 1, right))
            pixels[top:bottom, columns] = _STREAM_COLOURS[stage["stream"] % MAX_STREAMS]
            band = bottom - (bottom - top) // 4
            pixels[band:bottom, columns] = _VERSION_COLOURS[self._tables.variants[stage["variant"]]["version"]]
            if left >= 0:
                pixels[top:bottom, _LEFT + left] = 255

    def _draw_engines(self, pixels: NDArray[np.uint8], segments: NDArray[Any], start_ns: int) -> None:
        if not len(segments):
            return
        edges = start_ns + np.arange(_LANE_PX + 1) * (WINDOW_NS / _LANE_PX)
        instants = np.stack([segments["t_ns"], segments["end_ns"]], axis=1).ravel()
        contexts = float(self._tables.config["contexts"][0])
        for row, (field, capacity) in enumerate((("value", 1.0), ("value2", contexts), ("value3", 1.0)), MAX_SLOTS):
            after = np.cumsum(segments[field])
            busy = np.stack([after - segments[field], after], axis=1).ravel()
            share = np.diff(np.interp(edges, instants, busy)) / (WINDOW_NS / _LANE_PX * capacity)
            top, bottom = self._rows[row]
            tops = bottom - np.rint(np.clip(share, 0.0, 1.0) * (bottom - top)).astype(int)
            filled = np.arange(top, bottom)[:, None] >= tops[None, :]
            pixels[top:bottom, _LEFT:_RIGHT][filled] = _ENGINE_COLOUR

    def _draw_marks(self, pixels: NDArray[np.uint8], trace: NDArray[Any], start_ns: int) -> None:
        for event, (_, colour) in _MARKS.items():
            records = trace[trace["event"] == event]
            self._ticks(pixels, records["stream"], records["t_ns"], start_ns, colour)
        arrivals = trace[trace["event"] == Event.ARRIVE]
        timed = arrivals[arrivals["value"] < NO_DEADLINE]
        self._ticks(pixels, timed["stream"], timed["t_ns"] + timed["value"], start_ns, _DEADLINE[1])

    def _ticks(
        self, pixels: NDArray[np.uint8], streams: NDArray[Any], t_ns: NDArray[Any], start_ns: int, colour: Colour
    ) -> None:
        """A vertical line in the stream's row at each instant inside the window; kinds are staggered by height."""
        kinds = [mark[1] for mark in _MARKS.values()] + [_DEADLINE[1]]
        part = kinds.index(colour)
        for stream, instant in zip(streams, t_ns, strict=True):
            column = _column(instant, start_ns)
            if 0 <= column < _LANE_PX:
                top, bottom = self._rows[MAX_SLOTS + len(_ENGINES) + stream]
                height = (bottom - top) / len(kinds)
                rows = slice(int(top + part * height), int(top + (part + 1) * height) + 1)
                pixels[rows, _LEFT + column : min(_RIGHT, _LEFT + column + 2)] = colour


def _column(t_ns: Any, start_ns: int) -> int:
    return int((int(t_ns) - start_ns) * _LANE_PX // WINDOW_NS)


def _background(names: list[str], rows: list[tuple[int, int]], streams: tuple[str, ...]) -> NDArray[np.uint8]:
    """Row names, time axis and legend, uint8 of shape (HEIGHT, WIDTH, 3)."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure
    from matplotlib.patches import Patch

    dpi = 100
    figure = Figure(figsize=(WIDTH / dpi, HEIGHT / dpi), dpi=dpi)
    canvas = FigureCanvasAgg(figure)
    axes = figure.add_axes((_LEFT / WIDTH, 1 - _BOTTOM / HEIGHT, _LANE_PX / WIDTH, (_BOTTOM - _TOP) / HEIGHT))
    axes.set_xlim(-WINDOW_NS / 1e6, 0)
    axes.set_ylim(_BOTTOM, _TOP)
    axes.set_xlabel("ms before now", fontsize=8)
    axes.set_yticks([(top + bottom) / 2 for top, bottom in rows], names)
    axes.tick_params(labelsize=8, length=2)
    for spine in axes.spines.values():
        spine.set_visible(False)
    kinds = dict(zip(VERSION_NAMES, _VERSION_COLOURS, strict=True))
    kinds.update(_MARKS.values())
    kinds.update([_DEADLINE])
    kinds = {**dict(zip(streams, _STREAM_COLOURS, strict=False)), **kinds}
    patches = [Patch(color="#{:02x}{:02x}{:02x}".format(*colour), label=label) for label, colour in kinds.items()]
    figure.legend(handles=patches, loc="upper left", ncols=8, fontsize=6, frameon=False, borderpad=0.2)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba())[..., :3].copy()
