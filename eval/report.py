"""The report: one HTML file that opens offline, for phone and desktop, light and dark.

Every evaluation makes one from what it has played, and two episodes more for the timeline. The full report
(``python -m eval --report``) plays further: :mod:`eval.evidence` says what.
"""

from __future__ import annotations

import importlib.metadata
import platform
import shlex
from collections.abc import Sequence
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING

import pandas as pd

from eval.charts import busy, latencies, latency_streams, trade_off
from eval.episodes import held_out
from eval.evidence.bound import Bound, bound_of
from eval.evidence.bubbles import EPISODES as TRACED
from eval.evidence.bubbles import bubble_frame, draw_bubbles
from eval.evidence.context import Context
from eval.evidence.cost import cost_frame, draw_cost
from eval.evidence.energy import draw_energy, energy_frame, is_known
from eval.evidence.jit import draw_jit, jit_frame
from eval.evidence.ladder import draw_ladder, ladder_frame
from eval.evidence.memory import draw_vtcm, vtcm_frame
from eval.evidence.selection import featured
from eval.evidence.sensitivity import draw_sensitivity, sensitivity_frame, sensitivity_text
from eval.evidence.slowdown import draw_slowdown, slowdown_frame
from eval.metrics import deadline_ends_ns
from eval.page import Chart, chart_html, fragment, page_html, script, table_html
from eval.play import Outcome
from eval.progress import progress_bar
from eval.summary import best_rule_of, by_scenario, is_learned, learned_in, reference_of
from eval.table import evidence_text, latency_text, number, percent, return_text
from eval.theme import Drawing, marker_svg, scheduler_slots, styled
from eval.timeline import Take, Window, choose_window, draw, most_different, record
from eval.verdict import verdict
from eval.viewer import viewer_html
from hexenv import __version__
from hexenv.engine.layout import NO_DEADLINE, HmxLock, Mode, Split, Tables

if TYPE_CHECKING:
    from eval.runner import Plan

_PACKAGES = ("numpy", "numba", "scipy", "pandas", "torch", "stable-baselines3", "sb3-contrib", "gymnasium")
_REPEAT = (
    "The command below plays the same episodes again and writes the same bytes to all CSV files, but for "
    "decision_cost.csv: that one holds wall times of the machine."
)


@dataclass(frozen=True)
class Report:
    """A page and what it was made of."""

    html: str
    charts: tuple[Chart, ...]
    frames: dict[str, pd.DataFrame]
    """The numbers of the charts by the stem of their CSV file; the first column is the scenario."""
    notes: dict[str, list[str]]
    """What was found, in sentences, by scenario; the verdict comes first."""


def make_report(
    plan: Plan,
    outcomes: Sequence[Outcome],
    summary: pd.DataFrame,
    streams: pd.DataFrame,
    full: bool = False,
    workers: int = 1,
    kept: Path | None = None,
) -> Report:
    """The page with its charts and numbers.

    Args:
        plan: what was played.
        outcomes: what came of it.
        summary: rows of ``summary.csv``.
        streams: rows of ``streams.csv``.
        full: also bounds, bubbles, VTCM, JIT, decision cost and sensitivity, which play more.
        workers: processes for that.
        kept: folder for finished units of that work.
    """
    groups = by_scenario(outcomes)
    sections: list[_Section] = []
    for scenario, (name, group) in zip(plan.scenarios, groups.items(), strict=True):
        shown = set(featured(group))
        context = Context(plan, scenario, tuple(group), tuple(o for o in group if o.scheduler in shown), workers, kept)
        own, of_streams = (frame[frame["scenario"] == name].reset_index(drop=True) for frame in (summary, streams))
        sections.append(_Section(len(sections), context, own, of_streams))
    with styled():
        bodies = [section.html(full) for section in sections]
        command = shlex.join(["python", "-m", "eval", *plan.command])
        body = fragment(
            "report.html",
            sections="\n".join(bodies),
            repeat=escape(_REPEAT),
            command=escape(command),
            settings=_settings_table(outcomes),
            versions=escape(_versions()),
        )
        learned = any(is_learned(o.scheduler) for o in outcomes)
        html = page_html(
            f"{'Learned policy and rules' if learned else 'Rules'} on {', '.join(groups)}",
            f"hexenv {__version__}, device {plan.device}, {plan.episodes} held-out episodes of each scenario, the same "
            "for every scheduler. Figures come from a calibrated model of the device, not from a device.",
            body,
            script("timeline.js"),
        )
    frames: dict[str, list[pd.DataFrame]] = {}
    for section in sections:
        for stem, frame in section.frames.items():
            frames.setdefault(stem, []).append(frame)
    return Report(
        html,
        tuple(chart for section in sections for chart in section.charts),
        {stem: pd.concat(own, ignore_index=True) for stem, own in frames.items()},
        {section.name: section.notes for section in sections},
    )


@dataclass
class _Section:
    """One scenario's part of the report, built up piece by piece."""

    place: int
    context: Context
    summary: pd.DataFrame
    streams: pd.DataFrame
    charts: list[Chart] = field(default_factory=list)
    frames: dict[str, pd.DataFrame] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def name(self) -> str:
        """Of the scenario."""
        return self.context.outcomes[0].tables.scenario

    @property
    def shown(self) -> list[str]:
        """Names of the schedulers in figures with a line a scheduler."""
        return [outcome.scheduler for outcome in self.context.shown]

    def html(self, full: bool) -> str:
        """Everything; the full report plays more episodes here."""
        self.notes.append(verdict(self.summary))
        bound = self._bound() if full else None
        self._mechanisms(bound)
        self._tasks()
        takes, window, episode_text = self._recorded()
        self._engines(full, takes)
        if full:
            self._add("timeline", "Timeline", episode_text, draw(takes, window), pd.DataFrame(), "episodes", wide=True)
            self._costs()
            self._sensitivity()
        shown_charts = [chart for chart in self.charts if not chart.name.endswith("timeline")]
        first, *further = self.notes
        return "\n".join(
            [
                f"<h2>{escape(self.name)}</h2>",
                f'<p class="verdict">{escape(first)}</p>',
                *(f'<p class="quiet">{escape(text)}</p>' for text in further),
                _legend(self.place, self.shown, len(self.summary)),
                f'<div class="columns">{"".join(chart_html(chart, self._command) for chart in shown_charts)}</div>',
                _timeline(takes, viewer_html(f"s{self.place}-viewer", takes, window), episode_text),
                "<h3 class=apart>All schedulers</h3>",
                _results_table(self.summary),
                f'<p class="quiet">{escape(_TABLE_TEXT.format(reference=self.summary["reference"].iloc[0]))} '
                f"{escape(evidence_text(self.summary))}.</p>",
                "<h3 class=apart>Latency, rate and misses of each stream</h3>",
                _streams_table(self.streams),
            ]
        )

    @property
    def _command(self) -> str:
        return shlex.join(["python", "-m", "eval", *self.context.plan.command])

    def _add(
        self,
        stem: str,
        heading: str,
        text: str,
        drawing: Drawing,
        numbers: pd.DataFrame,
        source: str = "",
        wide: bool = False,
    ) -> None:
        """A chart, and the frame behind it unless another file (``source``) has its numbers."""
        if not source:
            self.frames[stem] = numbers.assign(scenario=self.name)[["scenario", *numbers.columns]]
        name = f"s{self.place}-{stem}"
        self.charts.append(Chart(name, heading, text, drawing, numbers, f"{source or stem}.csv", wide))

    def _bound(self) -> Bound | None:
        outcomes, plan = self.context.outcomes, self.context.plan
        horizon_ms = float(outcomes[0].tables.config["horizon_ns"][0]) / 1e6
        if any((outcome.episodes["simulated_ms"] < horizon_ms).any() for outcome in outcomes):
            return None
        bound = bound_of(outcomes, held_out(outcomes[0].tables, plan.episodes), self.context.workers)
        row = {"throughput": bound.throughput, "throughput_without_miss": bound.throughput_without_miss}
        self.frames["bounds"] = pd.DataFrame([{"scenario": self.name, **row, "return": bound.return_}]).astype(
            {"return": float}
        )
        best = self.summary.iloc[int(self.summary["return_mean"].argmax())]
        if bound.return_ is not None:
            self.notes.append(
                f"No schedule returns more than {bound.return_:.1f} ms an episode (linear program, with the future "
                f"known); {best['scheduler']} returns {best['return_mean']:.1f}."
            )
        return bound

    def _mechanisms(self, bound: Bound | None) -> None:
        ladder = ladder_frame(self.context.outcomes)
        if len(ladder) > 1:
            self._add("ladder", "What each mechanism adds", _LADDER_TEXT, draw_ladder(ladder), ladder)
        columns = ["scheduler", "miss_rate", "miss_rate_low", "miss_rate_high"]
        columns += ["throughput", "throughput_low", "throughput_high"]
        text = _TRADE_OFF_TEXT + (_bound_text(bound) if bound is not None else "")
        drawing = trade_off(self.summary, self.shown, bound)
        self._add("trade-off", "Misses against throughput", text, drawing, self.summary[columns], "summary")

    def _tasks(self) -> None:
        shown, tables = self.context.shown, self.context.outcomes[0].tables
        for stream in latency_streams(shown):
            name = tables.stream_names[stream]
            own = self.streams[(self.streams["stream"] == name) & self.streams["scheduler"].isin(self.shown)]
            numbers = own[["scheduler", "finished", "lost", "p50_us", "p95_us", "p99_us"]]
            drawing, text = latencies(shown, stream), _latency_text(tables, stream)
            self._add(f"latency-{stream}", f"Latency of {name}", text, drawing, numbers, "streams")
        slowdown = slowdown_frame(shown)
        self._add("slowdown", "Slowdown of each task", _SLOWDOWN_TEXT, draw_slowdown(slowdown), slowdown)

    def _recorded(self) -> tuple[list[Take], Window, str]:
        """The same episode under the learned policy and the best rule, or under the best rule and the reference."""
        group = self.context.outcomes
        best, reference = best_rule_of(group), reference_of(group)
        learned = learned_in([o.scheduler for o in group])
        top = next((o for o in group if o.scheduler == learned), best)
        bottom = best if top is not best else reference
        pair = [top] if top is bottom else [top, bottom]
        place = most_different(pair[0], pair[-1])
        episode = held_out(top.tables, self.context.plan.episodes)[place]
        takes = [record(self.context.scheduler(o.scheduler), o.tables, episode, place) for o in pair]
        load = float(top.episodes["load"].iloc[place])
        return takes, choose_window(takes), _TIMELINE_TEXT.format(place=place, seed=episode.seed, load=load)

    def _engines(self, full: bool, takes: list[Take]) -> None:
        if full:
            traced = self._traced()
            bubbles, vtcm = bubble_frame(traced), vtcm_frame(traced)
            count = len(traced) // len(self.shown)
            text = _BUBBLE_TEXT.format(count=count)
            self._add("bubbles", "Bubbles: why engines stand still", text, draw_bubbles(bubbles), bubbles)
            self._add("vtcm", "VTCM over an episode", _VTCM_TEXT.format(count=count), draw_vtcm(takes), vtcm)
        else:
            columns = ["scheduler", "hvx_busy", "hmx_busy", "dma_busy"]
            self._add("busy", "Engine use", _BUSY_TEXT, busy(self.summary), self.summary[columns], "summary")
        if is_known(self.context.plan.device):
            own = self.summary[self.summary["scheduler"].isin(self.shown)].reset_index(drop=True)
            energy = energy_frame(own)
            self._add("energy", "Energy of a unit of work (proxy)", _ENERGY_TEXT, draw_energy(energy), energy)

    def _traced(self) -> list[Take]:
        """Full traces of the first episodes under every scheduler that is shown."""
        count = min(TRACED, self.context.plan.episodes)
        takes = []
        with progress_bar(count * len(self.shown)) as bar:
            bar.begin(f"{self.name}, traces", 0)
            for outcome in self.context.shown:
                for place, episode in enumerate(held_out(outcome.tables, count)):
                    takes.append(record(self.context.scheduler(outcome.scheduler), outcome.tables, episode, place))
                    bar.update(len(takes))
        return takes

    def _costs(self) -> None:
        jit = jit_frame(self.context)
        if len(jit):
            self._add("jit", "Compiling kernels at run time", _jit_text(self.context, jit), draw_jit(jit), jit)
        cost = cost_frame(self.context)
        self._add("decision_cost", "Time of a decision", _COST_TEXT, draw_cost(cost), cost)

    def _sensitivity(self) -> None:
        frame = sensitivity_frame(self.context)
        if frame.empty:
            return
        best, second = frame["best"].iloc[0], frame["second"].iloc[0]
        self.notes.append(sensitivity_text(frame))
        columns = ["constant", "confidence", "low", "high", "lead_low", "lead_high", "swing", "flips"]
        self.frames["sensitivity"] = frame.assign(scenario=self.name)[["scenario", *frame.columns]]
        drawing, text = draw_sensitivity(frame), _SENSITIVITY_TEXT.format(best=best, second=second)
        numbers = frame.loc[frame["swing"] > 0.0, columns]
        self._add("tornado", "Sensitivity to the device's constants", text, drawing, numbers, "sensitivity")


_TABLE_TEXT = (
    "Return: ms of reference work an episode, net of what misses cost, with the 95 % interval of its paired difference "
    "to {reference}. Throughput: ms of reference work finished per ms. Missed: of due deadline periods. Latency: p50, "
    "p95 and p99 of finished jobs with deadlines; dropped jobs have none, so read it beside the misses. A reference ms "
    "is the time of an operator's fastest version, alone on the device."
)
_LADDER_TEXT = (
    "Return of each rung, and its paired difference to the one above it: green gains, red loses, grey is not clear. "
    "Lines: 95 % intervals. Each rung is a rule of its own, so order matters: a step is not what its mechanism is "
    "worth alone."
)
_TRADE_OFF_TEXT = (
    "Up and to the left is better; the axis of misses shows square roots. Bars: 95 % paired intervals. Grey points: "
    "schedulers without a colour here, named in the numbers."
)
_SLOWDOWN_TEXT = (
    "Latency of finished jobs over their time alone (fastest versions one after another, launches left out). Marker: "
    "median; line: to p95; tick: p99. Lost jobs have no latency."
)
_BUSY_TEXT = "Busy time of each engine over the simulated time; HVX counts all its contexts."
_BUBBLE_TEXT = (
    "From full traces of the first {count} episodes. HMX waits for data: a matrix stage is in its body and HMX is not "
    "full, with DMA at its limit or not. Contention: two resident stages stream and DDR gives what it gives to two. "
    "HVX busy time includes the slow-down by HMX traffic; the trace does not tell the two apart."
)
_VTCM_TEXT = (
    "Mean over equal parts of the episode of the timeline. White: the largest free block. The numbers are time "
    "averages over the first {count} episodes; where regions lie is worked out from the allocator's rule."
)
_ENERGY_TEXT = (
    "Not measured, and nobody has published what each engine draws. Low end: 4.3 W while DMA is busy, nothing else; "
    "high end: 5 W throughout. Both agree with the only published figures, a whole phone (Snapdragon 8 Gen 3) that "
    "decodes: about 4.3 W and below 5 W (arXiv 2509.23324, 7.2.3). Where ranges overlap, nothing is known."
)
_COST_TEXT = (
    "Wall time of the rule's code on the machine that made this report, for a single lane and a lane of a batch, "
    "beside what the simulation charges for every decision. Other machines and runs give other times."
)
_SENSITIVITY_TEXT = (
    "Lead of {best} over {second} in return, with each constant of the device at the low and at the high end of its "
    "range, the others as given: those that matter most. Thin lines: 95 % paired intervals. Left of the dashed line "
    "{second} is ahead. A star marks constants whose range flips the ranking."
)
_TIMELINE_TEXT = (
    "Episode {place} (seed {seed}, load {load:g}), where the two differ most in misses; it opens at the first "
    "deadline that one misses and the other does not. Each block is a stage in its slot, coloured by stream: V runs "
    "on HVX, M on HMX, H on both. Circles are jobs that finished, crosses missed deadlines. The strips show how busy "
    "each engine is and how much of VTCM is taken, from 0 to 100 %; red in the last one is free but outside the "
    "largest block."
)


def _bound_text(bound: Bound) -> str:
    text = (
        f" Grey: out of reach of any schedule, whatever it misses (above {bound.throughput:.3f}; work that arrives "
        "against what the engines give, future known)."
    )
    if bound.throughput_without_miss is None:
        return f"{text} The linear program with deadlines was left out: {bound.stages} stages an episode are too many."
    return (
        f"{text} Red dash: a schedule without a miss stays below {bound.throughput_without_miss:.3f} (linear program)."
    )


def _jit_text(context: Context, frame: pd.DataFrame) -> str:
    config = context.tables(str(frame["scheduler"].iloc[0])).config[0]
    first, hit = float(config["jit_first_ns"]) / 1e3, float(config["jit_hit_ns"]) / 1e3
    return (
        "Change of the return if fused kernels are compiled at run time, paired with all built ahead, "
        f"{frame['episodes'].iloc[0]} episodes. Cold: the cache is empty when an episode starts, the first use of a "
        f"combination takes {first:g} us. Warm: all are in it, each use takes {hit:g} us."
    )


def _latency_text(tables: Tables, stream: int) -> str:
    shortest_ns, longest_ns = deadline_ends_ns(tables, stream)
    text = "Marks: p95 and p99 of the finished jobs. Jobs that were dropped or rejected keep a curve below 100 %."
    if longest_ns < NO_DEADLINE:
        scaled = " x tightness" if (tables.settings["tightness"] != 1.0).any() else ""
        least = f"{shortest_ns / 1e6:g} to " if shortest_ns < longest_ns else ""
        text = f"Deadline {least}{longest_ns / 1e6:g} ms{scaled}. {text}"
    return text


def _timeline(takes: list[Take], viewer: str, text: str) -> str:
    swatches = "".join(
        f'<li><span class="swatch" style="background:var(--stream-{s})"></span>{escape(stream)}</li>'
        for s, stream in enumerate(takes[0].tables.stream_names)
    )
    return (
        f"<h3 class=apart>The same episode under {escape(' and '.join(take.scheduler for take in takes))}</h3>"
        f'<ul class="legend">{swatches}</ul>{viewer}<p class="quiet">{escape(text)}</p>'
    )


def _legend(i: int, names: list[str], total: int) -> str:
    slots = scheduler_slots(names)
    items = "".join(f"<li>{marker_svg(slots[name], f's{i}-marker-{name}')}{escape(name)}</li>" for name in names)
    rest = (
        f"<li class=quiet>charts with a line a scheduler show these {len(names)} of {total}</li>"
        if total > len(names)
        else ""
    )
    return f'<ul class="legend">{items}{rest}</ul>'


def _results_table(summary: pd.DataFrame) -> str:
    headings = ["scheduler", "return", "against best rule", "throughput", "missed, %", "latency, ms"]
    headings += ["HVX, %", "HMX, %", "DMA, %"]
    rows = [
        [
            row["scheduler"],
            _two_lines(return_text(row, "return_mean", "return")),
            _two_lines(_against_best(row)),
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


def _against_best(row: pd.Series) -> str:
    if row["scheduler"] == row["best_rule"]:
        return "best\N{NO-BREAK SPACE}rule"
    return return_text(row, "vs_best_rule", "vs_best_rule")


def _two_lines(text: str) -> str:
    """A figure and, below it, its interval."""
    return text.replace(" ", "\n", 1)


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
