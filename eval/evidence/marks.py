"""Figures that several pieces of evidence share: dots with intervals, and stacked bars, a row a scheduler."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from matplotlib.axes import Axes

from eval.theme import WIDTH_IN, Drawing, figure, light


@dataclass(frozen=True)
class Series:
    """One mark a row."""

    label: str
    value: str
    """Column of the frame."""
    colour: str
    marker: str = "o"
    low: str = ""
    """Columns of its interval, if it has one."""
    high: str = ""


def draw_dots(frame: pd.DataFrame, series: Sequence[Series], axis: str, log: bool = False) -> Drawing:
    """A row a scheduler of ``frame``, in it a dot a series, with its interval."""
    drawing = figure(WIDTH_IN, 0.95 + 0.3 * len(frame))
    axes = drawing.subplots()
    spread = 0.22 * (np.arange(len(series)) - (len(series) - 1) / 2)
    for shift, one in zip(spread, series, strict=True):
        places = np.arange(len(frame)) + shift
        if one.low:
            axes.hlines(places, frame[one.low], frame[one.high], color=light(one.colour), linewidth=1.2)
        for place, row in zip(places, frame.to_dict("records"), strict=True):
            (mark,) = axes.plot(row[one.value], place, one.marker, color=light(one.colour), markersize=5)
            ends = f" [{row[one.low]:.4g}, {row[one.high]:.4g}]" if one.low else ""
            note = f"{row['scheduler']}, {one.label}: {row[one.value]:.4g}{ends}"
            drawing.note(mark, f"{one.value}-{row['scheduler']}", note)
        axes.plot([], [], one.marker, color=light(one.colour), markersize=5, label=one.label)
    if log:
        axes.set_xscale("log")
    else:
        axes.axvline(0.0, color=light("muted"), linewidth=0.8)
    _name_rows(axes, list(frame["scheduler"]))
    axes.set_xlabel(axis)
    axes.grid(True, axis="x", linewidth=0.6)
    drawing.legend(loc="outside upper left", ncols=len(series), frameon=False, fontsize=8)
    return drawing


@dataclass(frozen=True)
class Stack:
    """One panel of stacked bars."""

    title: str
    parts: Mapping[str, tuple[str, str]]
    """Column of the frame -> its label and colour, from the left."""


def draw_stacks(frame: pd.DataFrame, stacks: Sequence[Stack]) -> Drawing:
    """A panel below the other, in each a bar a scheduler of shares that add up to 100 %."""
    drawing = figure(WIDTH_IN, len(stacks) * (1.05 + 0.2 * len(frame)))
    panels = drawing.subplots(len(stacks), 1, squeeze=False)[:, 0]
    for axes, stack in zip(panels, stacks, strict=True):
        left = np.zeros(len(frame))
        for column, (label, colour) in stack.parts.items():
            shares = 100.0 * frame[column].to_numpy()
            bars = axes.barh(range(len(frame)), shares, left=left, height=0.72, color=light(colour), label=label)
            for bar, name, share in zip(bars, frame["scheduler"], shares, strict=True):
                drawing.note(bar, f"{column}-{name}", f"{name}, {stack.title}, {label}: {share:.1f} %")
            left += shares
        axes.set_title(stack.title, loc="left", fontsize=9, pad=4 + 11 * -(-len(stack.parts) // 2))
        axes.legend(loc="lower left", bbox_to_anchor=(-0.02, 0.99), ncols=2, fontsize=7, frameon=False,
                    borderaxespad=0.1, handlelength=1.0, columnspacing=0.9, handletextpad=0.4)  # fmt: skip
        _name_rows(axes, list(frame["scheduler"]))
        axes.set_xlim(0.0, 100.0)
    panels[-1].set_xlabel("% of simulated time")
    return drawing


def _name_rows(axes: Axes, names: Sequence[str]) -> None:
    axes.set_yticks(range(len(names)), names)
    axes.tick_params(axis="y", labelcolor=light("ink"), length=0)
    axes.set_ylim(len(names) - 0.4, -0.6)
