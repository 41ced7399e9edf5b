"""The report: one HTML file that opens offline, for phone and desktop, light and dark."""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
from collections.abc import Callable, Sequence
from functools import partial
from html import escape
from importlib import resources
from string import Template
from typing import TYPE_CHECKING

import pandas as pd
from matplotlib.figure import Figure

from eval.charts import busy, latencies, latency_streams, trade_off
from eval.episodes import held_out
from eval.play import Outcome
from eval.summary import LEARNED, best_rule_of, by_scenario, reference_of
from eval.table import interval_text, latency_text, number, percent
from eval.theme import css_variables, inline_svg, marker_svg, scheduler_slots, styled
from eval.timeline import choose_window, draw, most_different, record
from eval.verdict import verdict
from hexenv import __version__
from hexenv.engine.layout import NO_DEADLINE, HmxLock, Mode, Split, Tables

if TYPE_CHECKING:
    from eval.runner import Plan

_PACKAGES = ("numpy", "numba", "scipy", "pandas", "torch", "stable-baselines3", "sb3-contrib", "gymnasium")


def report_html(plan: Plan, outcomes: Sequence[Outcome], summary: pd.DataFrame, streams: pd.DataFrame) -> str:
    """The whole page. It plays two episodes of each scenario once more, for the timelines."""
    parts = resources.files("eval")
    groups = by_scenario(outcomes)
    sections = [
        _section(i, plan, group, summary[summary["scenario"] == scenario], streams[streams["scenario"] == scenario])
        for i, (scenario, group) in enumerate(groups.items())
    ]
    learned = any(o.scheduler == LEARNED for o in outcomes)
    names = ", ".join(groups)
    return Template(parts.joinpath("report.html").read_text(encoding="utf-8")).substitute(
        title=escape(f"{'Learned policy and rules' if learned else 'Rules'} on {names}"),
        subtitle=escape(
            f"hexenv {__version__}, device {plan.device}, {plan.episodes} held-out episodes of each scenario, the same "
            "for every scheduler. Figures come from a calibrated model of the device, not from a device."
        ),
        colours=css_variables(),
        style=parts.joinpath("report.css").read_text(encoding="utf-8"),
        sections="\n".join(sections),
        command=escape(shlex.join(["python", "-m", "eval", *plan.command])),
        settings=_settings_table(outcomes),
        versions=escape(_versions()),
    )


def _section(i: int, plan: Plan, group: list[Outcome], summary: pd.DataFrame, streams: pd.DataFrame) -> str:
    tables = group[0].tables
    with styled():
        charts = [_chart(f"s{i}-trade-off", partial(trade_off, summary), "Misses against throughput", _TRADE_OFF_TEXT)]
        charts.append(_chart(f"s{i}-busy", partial(busy, summary), "Engine use", _BUSY_TEXT))
        for stream in latency_streams(group):
            heading, text = f"Latency of {tables.stream_names[stream]}", _latency_text(tables, stream)
            charts.append(_chart(f"s{i}-latency-{stream}", partial(latencies, group, stream), heading, text))
        timeline = _timeline(i, plan, group)
    return "\n".join(
        [
            f"<h2>{escape(tables.scenario)}</h2>",
            f'<p class="verdict">{escape(verdict(summary))}</p>',
            _results_table(summary),
            f'<p class="quiet">{escape(_TABLE_TEXT.format(reference=summary["reference"].iloc[0]))}</p>',
            _legend(i, list(summary["scheduler"])),
            f'<div class="charts">{"".join(charts)}</div>',
            "<h3 class=apart>Latency, rate and misses of each stream</h3>",
            _streams_table(streams),
            timeline,
        ]
    )


_TABLE_TEXT = (
    "Return: ms of reference work an episode, net of what misses cost, with the 95 % interval of its paired difference "
    "to {reference}. Throughput: ms of reference work finished per ms. Missed: of due deadline periods. Latency: p50, "
    "p95 and p99 of finished jobs with deadlines; dropped jobs have none, so read it beside the misses. A reference ms "
    "is the time of an operator's fastest version, alone on the device."
)
_TRADE_OFF_TEXT = "Up and to the left is better. Bars: 95 % paired intervals."
_BUSY_TEXT = "Busy time of each engine over the simulated time; HVX counts all its contexts."
_TIMELINE_TEXT = (
    "Episode {place} (seed {seed}, load {load:g}), where the two differ most in misses, around the first deadline that "
    "one misses and the other does not. Each block is a stage in its slot, coloured by stream: V runs on HVX, M on "
    "HMX, H on both. Circles are jobs that finished, crosses missed deadlines. The strips show how busy each engine "
    "is, from 0 to 100 %."
)


def _latency_text(tables: Tables, stream: int) -> str:
    deadline_ns = int(tables.streams["deadline_ns"][stream])
    text = "Marks: p95 and p99 of the finished jobs. Jobs that were dropped or rejected keep a curve below 100 %."
    if deadline_ns < NO_DEADLINE:
        scaled = " x tightness" if (tables.settings["tightness"] != 1.0).any() else ""
        text = f"Deadline {deadline_ns / 1e6:g} ms{scaled}. {text}"
    return text


def _chart(name: str, make: Callable[[], Figure], heading: str, text: str) -> str:
    svg = inline_svg(make(), name, heading)
    return f"<figure><h3>{escape(heading)}</h3>{svg}<figcaption>{escape(text)}</figcaption></figure>"


def _timeline(i: int, plan: Plan, group: list[Outcome]) -> str:
    """The same episode under the learned policy and the best rule, or under the best rule and the reference."""
    best, reference = best_rule_of(group), reference_of(group)
    top = next((o for o in group if o.scheduler == LEARNED), best)
    bottom = best if top is not best else reference
    pair = [top] if top is bottom else [top, bottom]
    place = most_different(pair[0], pair[-1])
    episode = held_out(top.tables, plan.episodes)[place]
    schedulers = {scheduler.name: scheduler for scheduler in plan.schedulers}
    takes = [record(schedulers[o.scheduler], o.tables, episode, place) for o in pair]
    svg = inline_svg(draw(takes, choose_window(takes)), f"s{i}-timeline", "Timeline of one episode")
    load = group[0].episodes["load"].iloc[place]
    text = _TIMELINE_TEXT.format(place=place, seed=episode.seed, load=load)
    swatches = "".join(
        f'<li><span class="swatch" style="background:var(--stream-{s})"></span>{escape(name)}</li>'
        for s, name in enumerate(top.tables.stream_names)
    )
    return (
        f"<h3 class=apart>The same episode under {escape(' and '.join(o.scheduler for o in pair))}</h3>"
        f'<ul class="legend">{swatches}</ul><figure><div class="scroll wide">{svg}</div>'
        f"<figcaption>{escape(text)}</figcaption></figure>"
    )


def _legend(i: int, names: list[str]) -> str:
    slots = scheduler_slots(names)
    items = "".join(f"<li>{marker_svg(slots[name], f's{i}-marker-{name}')}{escape(name)}</li>" for name in names)
    return f'<ul class="legend">{items}</ul>'


def _results_table(summary: pd.DataFrame) -> str:
    headings = ["scheduler", "return", "against best rule", "throughput", "missed, %", "latency, ms"]
    headings += ["HVX, %", "HMX, %", "DMA, %"]
    rows = [
        [
            row["scheduler"],
            _with_interval(row, "return_mean", "return"),
            "best rule"
            if row["scheduler"] == row["best_rule"]
            else _with_interval(row, "vs_best_rule", "vs_best_rule"),
            number(row["throughput"], 3),
            percent(row["miss_rate"], 2),
            latency_text(row),
            *(percent(row[f"{engine}_busy"], 0) for engine in ("hvx", "hmx", "dma")),
        ]
        for _, row in summary.iterrows()
    ]
    return table_html(headings, rows)


def _streams_table(streams: pd.DataFrame) -> str:
    names = list(streams["stream"].unique())
    rows = []
    for scheduler, own in streams.groupby("scheduler", sort=False):
        by_name = own.set_index("stream")
        rows.append([str(scheduler), *(_stream_cell(by_name.loc[name]) for name in names)])
    return table_html(["scheduler", *(f"{name}, ms" for name in names)], rows)


def _stream_cell(row: pd.Series) -> str:
    missed = "" if pd.isna(row["miss_rate"]) else f", {percent(row['miss_rate'])} % missed"
    return f"{latency_text(row)}\n{number(row['jobs_per_s'], 1)} jobs/s{missed}"


def table_html(headings: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """A table whose first column names the scheduler; the second line of a cell is printed small."""
    lines = [f"<tr>{''.join(f'<th scope=col>{escape(text)}</th>' for text in headings)}</tr>"]
    for row in rows:
        mark = ' class="learned"' if row[0] == LEARNED else ""
        lines.append(f"<tr{mark}>{''.join(f'<td>{_cell(text)}</td>' for text in row)}</tr>")
    return f'<div class="scroll"><table>{"".join(lines)}</table></div>'


def _cell(text: str) -> str:
    first, _, second = text.partition("\n")
    return f"{escape(first)}<small>{escape(second)}</small>" if second else escape(first)


def _with_interval(row: pd.Series, name: str, prefix: str) -> str:
    return interval_text(row[name], row[f"{prefix}_low"], row[f"{prefix}_high"]).replace(" ", "\n", 1)


def _settings_table(outcomes: Sequence[Outcome]) -> str:
    """The engine settings that each scheduler ran under, a row a scenario and scheduler."""
    headings = [
        "scheduler",
        "scenario",
        "mode",
        "HMX lock",
        "VTCM split",
        "context split",
        "K",
        "lambda",
        "noise",
        "horizon, ms",
    ]
    return table_html(headings, [_settings_row(outcome) for outcome in outcomes])


def _settings_row(outcome: Outcome) -> list[str]:
    config = outcome.tables.config[0]
    splits = ["-", "-", "-"]
    if config["mode"] == Mode.CONCURRENT:
        vtcm = "on_demand" if config["vtcm_split"] == Split.SHARED else "static"
        splits = [HmxLock(config["hmx_lock"]).name.lower(), vtcm, Split(config["context_split"]).name.lower()]
    figures = [f"{value:g}" for value in (config["visible"], config["miss_weight"], config["noise"])]
    mode = Mode(config["mode"]).name.lower()
    return [outcome.scheduler, outcome.tables.scenario, mode, *splits, *figures, f"{config['horizon_ns'] / 1e6:g}"]


def _versions() -> str:
    found = {"hexenv": __version__, "python": platform.python_version()}
    found |= {name: importlib.metadata.version(name) for name in _PACKAGES}
    return ", ".join(f"{name} {version}" for name, version in found.items())
