"""Scenarios: what arrives when, under which engine settings, and how training and held-out settings differ.

A scenario is one TOML file. Unknown keys and bad values are refused with key, value, allowed values and file.
The bundled ones are in ``hexenv/workload/scenarios``; a path names a user's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from statistics import median
from typing import Any, TypeVar

from hexenv.engine.layout import MAX_JOBS, MAX_SLOTS, MAX_STREAMS, MAX_VISIBLE, Arrival, HmxLock, Jit, Mode, Split
from hexenv.errors import ConfigError
from hexenv.kernels.families import family_techniques
from hexenv.kernels.techniques import Selection
from hexenv.workload.arrivals import Arrivals, read_arrivals
from hexenv.workload.fusion import FUSIONS
from hexenv.workload.jobs import Job, read_jobs
from hexenv.workload.toml_reader import Table, read_toml

FOLDER = "scenarios"
PLACEMENTS = ("host", "dsp")

MODES = {"serial": Mode.SERIAL, "concurrent": Mode.CONCURRENT, "fused_serial": Mode.FUSED_SERIAL, "fused": Mode.FUSED}
HMX_LOCKS = {"batch": HmxLock.BATCH, "op": HmxLock.OP, "chunk": HmxLock.CHUNK}
VTCM_SPLITS = {"static": Split.STATIC, "on_demand": Split.SHARED}
CONTEXT_SPLITS = {"static": Split.STATIC, "shared": Split.SHARED}
JITS = {"off": Jit.OFF, "cold": Jit.COLD, "warm": Jit.WARM}
ARRIVALS = {
    "periodic": Arrival.PERIODIC,
    "poisson": Arrival.POISSON,
    "closed_loop": Arrival.CLOSED_LOOP,
    "trace": Arrival.TRACE,
}

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class EngineSettings:
    """The ``[engine]`` table; the names are also the overrides that :func:`hexenv.workload.build` takes."""

    mode: Mode = Mode.FUSED
    """Execution mode: serial, concurrent, fused_serial or fused."""
    hmx_lock: HmxLock = HmxLock.CHUNK
    """How long a graph holds the HMX lock in mode concurrent: batch, op or chunk."""
    vtcm_split: Split = Split.SHARED
    """Mode concurrent: static halves or on_demand."""
    context_split: Split = Split.SHARED
    """Mode concurrent: static halves or shared."""
    horizon_us: float = 250_000.0
    """Length of an episode."""
    wait_max_us: float = 200.0
    """Longest time one wait lasts."""
    visible: int = 8
    """K, the tasks that a scheduler sees at once."""
    slots: int = MAX_SLOTS
    """Stages resident together at most."""
    miss_weight: float = 2.0
    """Lambda: what a miss costs, in reference work of the job."""
    noise: float = 0.05
    """Sigma of the log-normal noise of durations."""
    background_ddr: float = 0.1
    """Part of the DDR bandwidth that CPU and ISP take."""
    placement: str = "dsp"
    """Where the scheduler runs, host or dsp: sets the cost of a decision."""
    jit: Jit = Jit.OFF
    """Fused modes: kernels of a combination are built ahead (off), at first use (cold), or are in the cache (warm)."""


@dataclass(frozen=True, slots=True)
class Stream:
    """A source of jobs."""

    name: str
    arrival: Arrival
    period_us: float
    """Mean spacing at load 1 (periodic, Poisson), else 0."""
    jitter_us: float
    """Uniform +- around the period's grid, or on the gap."""
    offset_us: float | None
    """First arrival, None = a random phase."""
    gap_us: float | None
    """Closed loop: host time between a job's end and the next arrival, None = the device's gap between decode steps."""
    trace_us: tuple[float, ...]
    """Recorded arrivals, sorted."""
    trace_deadlines_us: tuple[float, ...]
    """Their deadlines, each relative to its arrival; none = ``deadline_us`` for all."""
    scales: bool
    """The setting's load divides the period."""
    deadline_us: float | None
    """Relative to arrival, None = best effort; the median of ``trace_deadlines_us``."""
    firm: bool
    """Late jobs are dropped; else they finish late."""
    weight: float
    """Of a miss."""
    queue: int
    """Live jobs at most."""
    jobs: tuple[Job, ...]
    """Job n runs ``jobs[n % len(jobs)]``."""


@dataclass(frozen=True, slots=True)
class Settings:
    """One split, ``[train]`` or ``[heldout]``: its episodes draw a seed, a load, a tightness and a mix."""

    first_seed: int
    seeds: int
    """Number of seeds from ``first_seed`` on."""
    loads: tuple[float, ...]
    """Factors on the arrival rates of streams that scale."""
    mixes: tuple[str, ...]
    """Names out of ``Scenario.mixes``."""
    tightness: tuple[float, ...] = (1.0,)
    """Factors on the streams' deadlines: less than 1 is tighter than the file says."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A parsed scenario file."""

    name: str
    file: str
    description: str
    engine: EngineSettings
    streams: tuple[Stream, ...]
    mixes: Mapping[str, tuple[str, ...]] = field(hash=False)
    """Names of the streams that take part, by mix."""
    train: Settings
    heldout: Settings
    techniques: tuple[Selection, ...] = ()
    """How the kernels are written where that differs from the default."""
    fusions: tuple[str, ...] = ()
    """Vertical fusions applied to every job's graph, names out of ``hexenv.workload.fusion.FUSIONS``."""


def scenario_names() -> tuple[str, ...]:
    """The bundled scenarios."""
    folder = resources.files("hexenv.workload") / FOLDER
    return tuple(sorted(f.name.removesuffix(".toml") for f in folder.iterdir() if f.name.endswith(".toml")))


def load_scenario(name_or_path: str) -> Scenario:
    """A bundled scenario by name, or any scenario file by its path (ending in .toml)."""
    if name_or_path in scenario_names():
        folder = resources.files("hexenv.workload") / FOLDER
        with resources.as_file(folder / f"{name_or_path}.toml") as path:
            return _read_scenario(path)
    if not name_or_path.endswith(".toml"):
        known = ", ".join(scenario_names())
        raise ConfigError(f"unknown scenario {name_or_path!r}, allowed: {known}, or the path of a .toml file")
    return _read_scenario(Path(name_or_path))


def override(settings: EngineSettings, values: Mapping[str, Any]) -> EngineSettings:
    """``settings`` with some fields replaced, checked like the ``[engine]`` table of a file."""
    table = Table(values, "", "engine settings")
    return _read_engine(table, settings)


def read_techniques(table: Table) -> tuple[Selection, ...]:
    """A ``[kernels]`` table: ``family.technique = value``."""
    known = family_techniques()
    selections = []
    for family in table.names():
        if family not in known:
            table.refuse(family, ", ".join(known))
        values = table.table(family)
        for name in values.names():
            if name not in known[family]:
                values.refuse(name, ", ".join(known[family]))
            technique = known[family][name]
            selections.append(Selection(family, name, values.choice(name, technique.accepts, technique.allowed)))
    return tuple(selections)


def read_fusions(table: Table, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """The ``fusions`` of a scenario or of a call; an empty array means none."""
    return table.texts("fusions", tuple(FUSIONS), empty=True) if table.has("fusions") else default


def _read_scenario(path: Path) -> Scenario:
    table = read_toml(path)
    streams = _read_streams(table, path.parent)
    mixes = _read_mixes(table, streams)
    scenario = Scenario(
        name=path.stem,
        file=str(path),
        description=table.text("description"),
        engine=_read_engine(table.table("engine", {}), EngineSettings()),
        streams=streams,
        mixes=mixes,
        train=_read_settings(table.table("train"), mixes),
        heldout=_read_settings(table.table("heldout"), mixes),
        techniques=read_techniques(table.table("kernels", {})),
        fusions=read_fusions(table),
    )
    table.end()
    _check_disjoint(scenario)
    return scenario


def _read_engine(table: Table, base: EngineSettings) -> EngineSettings:
    settings = EngineSettings(
        mode=_choice(table, "mode", MODES, base.mode),
        hmx_lock=_choice(table, "hmx_lock", HMX_LOCKS, base.hmx_lock),
        vtcm_split=_choice(table, "vtcm_split", VTCM_SPLITS, base.vtcm_split),
        context_split=_choice(table, "context_split", CONTEXT_SPLITS, base.context_split),
        horizon_us=table.number("horizon_us", base.horizon_us, low=1_000.0, high=3.6e9),
        wait_max_us=table.number("wait_max_us", base.wait_max_us, low=1.0, high=1e6),
        visible=table.integer("visible", base.visible, low=1, high=MAX_VISIBLE),
        slots=table.integer("slots", base.slots, low=1, high=MAX_SLOTS),
        miss_weight=table.number("miss_weight", base.miss_weight, low=0.0, high=1e6),
        noise=table.number("noise", base.noise, low=0.0, high=1.0),
        background_ddr=table.number("background_ddr", base.background_ddr, low=0.0, high=0.9),
        placement=table.text("placement", base.placement, choices=PLACEMENTS),
        jit=_choice(table, "jit", JITS, base.jit),
    )
    table.end()
    return settings


def _choice(table: Table, key: str, names: Mapping[str, T], default: T) -> T:
    by_value = {value: name for name, value in names.items()}
    return names[table.text(key, by_value[default], choices=tuple(names))]


def _read_streams(table: Table, folder: Path) -> tuple[Stream, ...]:
    tables = table.tables("streams")
    if len(tables) > MAX_STREAMS:
        table.refuse("streams", f"at most {MAX_STREAMS} streams")
    names = [t.text("name") for t in tables]
    for name, t in zip(names, tables, strict=True):
        if names.count(name) > 1:
            t.refuse("name", "a name of its own for each stream")
    streams = tuple(_read_stream(t, folder, names) for t in tables)
    if sum(s.queue for s in streams) > MAX_JOBS:
        queues = " + ".join(str(s.queue) for s in streams)
        raise ConfigError(f"{table.file}: streams.queue = {queues}, allowed: at most {MAX_JOBS} together")
    return streams


def _read_stream(table: Table, folder: Path, names: Sequence[str]) -> Stream:
    name = table.text("name")
    arrival = _choice(table, "arrival", ARRIVALS, Arrival.PERIODIC)
    timed = arrival in (Arrival.PERIODIC, Arrival.POISSON)
    deadline_us = _optional(table, "deadline_us", above=0.0)
    recorded = Arrivals((), ())
    if arrival is Arrival.TRACE:
        recorded = read_arrivals(folder / table.text("trace"), name, names)
        if recorded.deadlines_us:
            if deadline_us is not None:
                table.refuse("deadline_us", "no deadline here, since the arrivals have their own")
            deadline_us = median(recorded.deadlines_us)
    period_us = _read_period(table) if timed else 0.0
    jitter_us = 0.0
    if arrival in (Arrival.PERIODIC, Arrival.CLOSED_LOOP):
        jitter_us = table.number("jitter_us", 0.0, low=0.0, high=period_us / 2 if timed else 1e9)
    stream = Stream(
        name=name,
        arrival=arrival,
        period_us=period_us,
        jitter_us=jitter_us,
        offset_us=_optional(table, "offset_us"),
        gap_us=_optional(table, "gap_us") if arrival is Arrival.CLOSED_LOOP else 0.0,
        trace_us=recorded.times_us,
        trace_deadlines_us=recorded.deadlines_us,
        scales=table.flag("scales", True) if timed else False,
        deadline_us=deadline_us,
        firm=table.text("late", choices=("firm", "soft")) == "firm" if deadline_us is not None else False,
        weight=table.number("weight", 1.0, low=0.0, high=1e6),
        queue=table.integer("queue", 1 if arrival is Arrival.CLOSED_LOOP else 2, low=1, high=MAX_JOBS),
        jobs=tuple(job for one in table.tables("jobs") for job in read_jobs(one, folder)),
    )
    table.end()
    return stream


def _optional(table: Table, key: str, above: float = -1.0) -> float | None:
    """A time that may be missing, us."""
    return table.number(key, low=0.0, high=3.6e9, above=above) if table.has(key) else None


def _read_period(table: Table) -> float:
    """From ``fps`` or ``period_us``, exactly one of them."""
    if table.has("fps") and table.has("period_us"):
        table.refuse("fps", "fps or period_us, not both")
    if table.has("fps"):
        return 1e6 / table.number("fps", above=0.0, high=1e6)
    return table.number("period_us", low=1.0, high=3.6e9)


def _read_mixes(table: Table, streams: tuple[Stream, ...]) -> dict[str, tuple[str, ...]]:
    names = tuple(s.name for s in streams)
    mixes = table.table("mixes")
    return {key: mixes.texts(key, names) for key in mixes.names()}


def _read_settings(table: Table, mixes: Mapping[str, tuple[str, ...]]) -> Settings:
    settings = Settings(
        first_seed=table.integer("first_seed", low=0, high=2**31),
        seeds=table.integer("seeds", low=1, high=2**31),
        loads=table.numbers("loads", above=0.0),
        mixes=table.texts("mixes", tuple(mixes)),
        tightness=table.numbers("tightness", above=0.0) if table.has("tightness") else (1.0,),
    )
    table.end()
    return settings


def _check_disjoint(scenario: Scenario) -> None:
    """Training must never see an episode that evaluation draws."""
    a, b = scenario.train, scenario.heldout
    if a.first_seed < b.first_seed + b.seeds and b.first_seed < a.first_seed + a.seeds:
        ranges = [f"{s.first_seed} .. {s.first_seed + s.seeds - 1}" for s in (a, b)]
        raise ConfigError(
            f"{scenario.file}: train seeds {ranges[0]} and heldout seeds {ranges[1]} overlap, "
            "allowed: ranges first_seed .. first_seed + seeds - 1 without a common seed"
        )
