"""Compiles a scenario on a device into the engine's flat tables.

Each operator is split into leaves (stages) that follow one another, so that a long operator offers one choice at a time
and not many alike. Stages wait for one another as the buffers demand (``dependencies``); equal operators share a row.

Time in the tables: DDR work (``ddr_ns``, ``prologue_ddr_ns``) is at full bandwidth, since the engine divides it by the
part that CPU and ISP leave free; elapsed times (``alone_ns``, ``prologue_ns``, ``latency_ns``) already hold that part.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import product
from typing import Any

import numpy as np

from hexenv.device import Device
from hexenv.engine.layout import (
    CONFIG,
    MAX_CONTEXTS,
    MAX_READY,
    MAX_STAGES,
    MAX_STREAMS,
    N_SHARES,
    N_TILES,
    NO_DEADLINE,
    OP,
    SETTING,
    STAGE,
    STREAM,
    TEMPLATE,
    VARIANT,
    Tables,
)
from hexenv.errors import ConfigError
from hexenv.kernels import StageCost, leaves, offers
from hexenv.kernels.cost import alone_us, body_hvx_us, body_us, prologue_us, unloaded_us
from hexenv.kernels.operator import Operator
from hexenv.kernels.techniques import apply
from hexenv.workload.constants import scaled_constants
from hexenv.workload.dependencies import ordered, state_links
from hexenv.workload.fusion import fuse
from hexenv.workload.graph import Graph, Node
from hexenv.workload.scenario import Scenario, Settings, Stream

DURATION_BITS = 16.0
"""A profile's duration is ``log2(1 + us) / 16``: 1 stands for 65 ms."""


@dataclass(slots=True)
class _Links:
    """All stage lists behind one another."""

    values: list[int] = field(default_factory=list)

    def add(self, stages: list[int]) -> tuple[int, int]:
        """Append a list; returns its start and end."""
        start = len(self.values)
        self.values.extend(stages)
        return start, len(self.values)


@dataclass(frozen=True, slots=True)
class _Job:
    """A graph split into stages: what becomes a template."""

    graph: Graph
    operators: list[Operator]
    names: list[str]
    before: list[list[int]]
    """Stages that come first, by stage."""
    node_before: list[list[int]]
    """The same by node of the graph."""
    first: list[int]
    """First stage of each node."""
    last: list[int]


def compile_scenario(scenario: Scenario, device: Device, split: str = "train") -> Tables:
    """The tables of one split of a scenario on a device.

    Raises:
        ConfigError: a stage fits VTCM at no tile class, a job has too many stages, or a model file is bad.
    """
    settings = {"train": scenario.train, "heldout": scenario.heldout}
    if split not in settings:
        raise ConfigError(f"split = {split!r}, allowed: {', '.join(settings)}")
    return _Compiler(scenario, device).tables(split, settings[split])


class _Compiler:
    """Collects the rows of all tables of one scenario."""

    def __init__(self, scenario: Scenario, device: Device):
        self.scenario = scenario
        self.device = device
        self.ddr_free = 1.0 - scenario.engine.background_ddr
        self.links = _Links()
        self.variants: list[np.ndarray] = []
        self.costs: list[StageCost] = []
        self.ops: list[np.ndarray] = []
        self.stages: list[np.ndarray] = []
        self.templates: list[np.ndarray] = []
        self.streams: list[np.ndarray] = []
        self.op_rows: dict[Operator, int] = {}
        self.families: list[str] = []
        self.leaves: dict[Operator, tuple[Operator, ...]] = {}
        self.template_names: list[str] = []
        self.stage_names: list[str] = []
        self.trace_ns: list[int] = []
        self.trace_deadline_ns: list[int] = []

    def tables(self, split: str, settings: Settings) -> Tables:
        """Everything, in order."""
        first_job = 0
        for stream in self.scenario.streams:
            self._add_stream(stream, first_job)
            first_job += stream.queue
        return Tables(
            config=self._config(),
            variants=_rows(self.variants, VARIANT),
            ops=_rows(self.ops, OP),
            stages=_rows(self.stages, STAGE),
            templates=_rows(self.templates, TEMPLATE),
            streams=_rows(self.streams, STREAM),
            settings=self._settings(settings),
            links=np.array(self.links.values, np.int32),
            trace_ns=np.array(self.trace_ns, np.int64),
            trace_deadline_ns=np.array(self.trace_deadline_ns, np.int64),
            constants=scaled_constants(self.device, self.ddr_free),
            scenario=self.scenario.name,
            split=split,
            device=self.device.name,
            stream_names=tuple(s.name for s in self.scenario.streams),
            template_names=tuple(self.template_names),
            op_names=tuple(operator.name for operator in self.op_rows),
            family_names=tuple(self.families),
            stage_names=tuple(self.stage_names),
            seeds=(settings.first_seed, settings.seeds),
            costs=tuple(self.costs),
        )

    def _add_stream(self, stream: Stream, first_job: int) -> None:
        jobs = [self._split(fuse(job.graph(), self.scenario.fusions), stream) for job in stream.jobs]
        self._check_state(stream, jobs)
        row: Any = np.zeros((), STREAM)
        row["template_start"], row["template_count"] = len(self.templates), len(jobs)
        previous_links = [_stage_links(jobs[i - 1], jobs[i]) for i in range(len(jobs))]
        for i, job in enumerate(jobs):
            waited_for = sorted({s for stage in previous_links[(i + 1) % len(jobs)] for s in stage})
            self._add_template(job, previous_links[i], waited_for)
        row["arrival"], row["firm"], row["scales"] = stream.arrival, stream.firm, stream.scales
        row["period_ns"], row["jitter_ns"] = _ns(stream.period_us), _ns(stream.jitter_us)
        row["offset_ns"] = -1 if stream.offset_us is None else _ns(stream.offset_us)
        row["gap_ns"] = _ns(self.device.decode_gap_us if stream.gap_us is None else stream.gap_us)
        row["deadline_ns"] = NO_DEADLINE if stream.deadline_us is None else _ns(stream.deadline_us)
        row["weight"], row["queue"], row["first_job"] = stream.weight, stream.queue, first_job
        row["trace_start"] = len(self.trace_ns)
        self.trace_ns.extend(_ns(t) for t in stream.trace_us)
        own = [_ns(t) for t in stream.trace_deadlines_us]
        self.trace_deadline_ns.extend(own or [int(row["deadline_ns"])] * len(stream.trace_us))
        row["trace_end"] = len(self.trace_ns)
        self.streams.append(row)

    def _split(self, graph: Graph, stream: Stream) -> _Job:
        """Leaves of every node, in a chain each."""
        job = _Job(graph, [], [], [], ordered(graph.nodes, MAX_READY), [], [])
        for node, node_before in zip(graph.nodes, job.node_before, strict=True):
            parts = self._leaves(node)
            job.first.append(len(job.operators))
            for i, leaf in enumerate(parts):
                job.before.append([len(job.operators) - 1] if i else [job.last[n] for n in node_before])
                job.operators.append(leaf)
                job.names.append(f"{node.name}[{i}]" if len(parts) > 1 else node.name)
            job.last.append(len(job.operators) - 1)
        if len(job.operators) > MAX_STAGES:
            raise ConfigError(
                f"{self.scenario.file}: stream {stream.name}: {graph.name} has {len(job.operators)} stages, "
                f"allowed: at most {MAX_STAGES} a job"
            )
        return job

    def _leaves(self, node: Node) -> tuple[Operator, ...]:
        if node.operator not in self.leaves:
            operator = apply(node.operator, self.scenario.techniques)
            try:
                self.leaves[node.operator] = leaves(operator, self.device)
            except ConfigError as error:
                raise ConfigError(f"{self.scenario.file}: stage {node.name}: {error}") from error
        return self.leaves[node.operator]

    def _check_state(self, stream: Stream, jobs: list[_Job]) -> None:
        """Jobs of a stream follow one another through state buffers, and the engine knows one step back only."""
        place = f"{self.scenario.file}: stream {stream.name}"
        written = [j.graph.state.intersection(b for node in j.graph.nodes for b in node.writes) for j in jobs]
        for job, state in zip(jobs, written, strict=True):
            if state != written[0]:
                raise ConfigError(
                    f"{place}: {jobs[0].graph.name} and {job.graph.name} update different state buffers, "
                    "allowed: jobs that update the same ones"
                )
        if written[0] and len(jobs) > 1 and stream.queue > 2:
            raise ConfigError(f"{place}: queue = {stream.queue}, allowed: at most 2 for different jobs with state")

    def _add_template(self, job: _Job, previous: list[list[int]], waited_for: list[int]) -> None:
        count = len(job.operators)
        ops = [self._op(operator) for operator in job.operators]
        fastest = [self.variants[int(self.ops[op]["fastest"])] for op in ops]
        row: Any = np.zeros((), TEMPLATE)
        row["first_stage"], row["n_stages"] = len(self.stages), count
        self._add_stages(job, previous, ops)
        row["root_start"], row["root_end"] = self.links.add([s for s in range(count) if not job.before[s]])
        row["next_start"], row["next_end"] = self.links.add(waited_for)
        row["ref_ns"] = sum(int(self.ops[op]["ref_ns"]) for op in ops)
        row["ddr_ns"] = sum(float(v["ddr_ns"] + v["prologue_ddr_ns"]) for v in fastest)
        row["hvx_ns"] = sum(float(v["hvx_ns"] + v["prologue_hvx_ns"]) for v in fastest)
        row["hmx_ns"] = sum(float(v["hmx_ns"]) for v in fastest)
        self.templates.append(row)
        self.template_names.append(job.graph.name)

    def _add_stages(self, job: _Job, previous: list[list[int]], ops: list[int]) -> None:
        after: list[list[int]] = [[] for _ in ops]
        for s, before in enumerate(job.before):
            for b in before:
                after[b].append(s)
        critical = [0] * len(ops)
        for s in reversed(range(len(ops))):
            critical[s] = int(self.ops[ops[s]]["ref_ns"]) + max((critical[a] for a in after[s]), default=0)
        for s, op in enumerate(ops):
            row: Any = np.zeros((), STAGE)
            row["op"], row["critical_ns"] = op, critical[s]
            row["pred_start"], row["pred_end"] = self.links.add(job.before[s])
            row["succ_start"], row["succ_end"] = self.links.add(after[s])
            row["prev_start"], row["prev_end"] = self.links.add(previous[s])
            self.stages.append(row)
        self.stage_names.extend(job.names)

    def _op(self, operator: Operator) -> int:
        """The row of ``ops`` for an operator, made at its first use."""
        if operator in self.op_rows:
            return self.op_rows[operator]
        costs = offers(operator, self.device)
        family = type(operator).__name__
        if family not in self.families:
            self.families.append(family)
        row: Any = np.zeros((), OP)
        row["variant"] = -1
        row["family"] = self.families.index(family)
        rows = []
        for cost in costs:
            variant = self._variant(cost, len(self.ops))
            row["variant"][cost.version, cost.tile_class] = len(self.variants)
            row["profile"][cost.version * N_TILES + cost.tile_class] = self._profile(variant)
            rows.append(len(self.variants))
            self.variants.append(variant)
            self.costs.append(cost)
        row["fastest"] = min(rows, key=lambda v: int(self._alone_ns(self.variants[v])))
        row["ref_ns"] = self._alone_ns(self.variants[int(row["fastest"])])
        self.ops.append(row)
        self.op_rows[operator] = len(self.ops) - 1
        return len(self.ops) - 1

    def _variant(self, cost: StageCost, op: int) -> np.ndarray:
        fork_join, ddr = self.device.fork_join_us, self.device.ddr_bytes_per_us
        free = ddr * self.ddr_free
        row: Any = np.zeros((), VARIANT)
        row["op"], row["version"], row["tile"] = op, cost.version, cost.tile_class
        row["tiles"], row["depth"], row["phi"] = cost.tiles, cost.depth, cost.phi
        row["ddr_ns"] = 1e3 * (cost.ddr_in_bytes + cost.ddr_out_bytes) / ddr
        row["hvx_ns"] = 1e3 * (cost.hvx_before_us + cost.hvx_after_us)
        row["hmx_ns"] = 1e3 * cost.hmx_us
        row["storage_ns"] = 1e3 * cost.storage_us
        row["prologue_ddr_ns"] = 1e3 * cost.prologue_bytes / ddr
        row["prologue_hvx_ns"] = 1e3 * cost.prologue_hvx_us
        row["vtcm_bytes"] = cost.vtcm_bytes
        row["uses_hvx"] = row["hvx_ns"] + row["prologue_hvx_ns"] > 0.0
        row["uses_hmx"] = cost.hmx_us > 0.0
        for h in range(MAX_CONTEXTS + 1):
            contexts = max(h, 1)  # a variant that needs HVX never runs without
            row["body_hvx_ns"][h] = 1e3 * body_hvx_us(cost, contexts, fork_join)
            row["unloaded_ns"][h] = 1e3 * unloaded_us(cost, contexts, fork_join)
            row["prologue_ns"][h] = 1e3 * prologue_us(cost, contexts, free)
            row["latency_ns"][h] = 1e3 * (cost.fixed_us + body_us(cost, contexts, fork_join, free)[1])
            row["alone_ns"][h] = max(1, _ns(alone_us(cost, contexts, fork_join, free)))
        return row

    def _alone_ns(self, variant: np.ndarray) -> int:
        return int(variant["alone_ns"][self.device.contexts])

    def _profile(self, variant: np.ndarray) -> np.ndarray:
        """p_i: HVX, HMX, VTCM and DMA demand as parts of what the device has while the stage runs alone; duration."""
        alone = float(self._alone_ns(variant))
        hvx = (variant["hvx_ns"] + variant["prologue_hvx_ns"]) / (alone * self.device.contexts)
        ddr = (variant["ddr_ns"] + variant["prologue_ddr_ns"]) / (alone * self.ddr_free)
        parts = (
            hvx,
            variant["hmx_ns"] / alone,
            variant["vtcm_bytes"] / self.device.vtcm_bytes,
            ddr,
            np.log2(1.0 + alone / 1e3) / DURATION_BITS,
        )
        return np.clip(np.array(parts, np.float32), 0.0, 1.0)

    def _config(self) -> np.ndarray:
        engine, device = self.scenario.engine, self.device
        row: Any = np.zeros(1, CONFIG)
        on_host = engine.placement == "host"
        row["n_streams"], row["visible"], row["slots"] = len(self.scenario.streams), engine.visible, engine.slots
        row["mode"], row["hmx_lock"] = engine.mode, engine.hmx_lock
        row["vtcm_split"], row["context_split"] = engine.vtcm_split, engine.context_split
        row["contexts"], row["share"] = device.contexts, share_contexts(device.contexts)
        row["vtcm_bytes"] = device.vtcm_bytes
        row["horizon_ns"], row["wait_max_ns"] = _ns(engine.horizon_us), _ns(engine.wait_max_us)
        row["batch_ns"], row["op_ns"] = _ns(device.batch_us), _ns(device.op_us)
        row["entry_ns"] = _ns(device.entry_host_us if on_host else device.entry_dsp_us)
        row["decision_ns"] = _ns(device.decision_host_us if on_host else device.decision_dsp_us)
        row["handoff_ns"] = _ns(device.handoff_us)
        row["jit"] = engine.jit
        row["jit_first_ns"], row["jit_hit_ns"] = _ns(device.jit_first_us), _ns(device.jit_hit_us)
        row["miss_weight"], row["noise"] = engine.miss_weight, engine.noise
        row["beta"], row["eta_shared"], row["ddr_free"] = device.beta, device.eta_shared, self.ddr_free
        return row

    def _settings(self, settings: Settings) -> np.ndarray:
        names = [s.name for s in self.scenario.streams]
        cells = list(product(settings.mixes, settings.tightness, settings.loads))
        rows = np.zeros(len(cells), SETTING)
        for row, (mix, tightness, load) in zip(rows, cells, strict=True):
            row["load"], row["tightness"] = load, tightness
            active = [name in self.scenario.mixes[mix] for name in names]
            row["active"] = active + [False] * (MAX_STREAMS - len(names))
        return rows


def share_contexts(contexts: int) -> list[int]:
    """Contexts of each share class: a quarter, half, three quarters of H rounded half up, at least 1, at most H - 1.

    A class that gives the same as a lower one is -1.
    """
    shares: list[int] = []
    for quarter in range(1, N_SHARES + 1):
        share = max(1, min(contexts - 1, (contexts * quarter + 2) // 4))
        shares.append(-1 if share in shares else share)
    return shares


def _stage_links(previous: _Job, job: _Job) -> list[list[int]]:
    """For each stage of ``job`` the stages of the job before it that come first."""
    links: list[list[int]] = [[] for _ in job.operators]
    by_node = state_links(previous.graph, previous.node_before, job.graph, job.node_before)
    for node, nodes in enumerate(by_node):
        links[job.first[node]] = [previous.last[n] for n in nodes]
    return links


def _rows(rows: list[np.ndarray], kind: np.dtype) -> np.ndarray:
    return np.array(rows, kind)


def _ns(us: float) -> int:
    return round(us * 1e3)
