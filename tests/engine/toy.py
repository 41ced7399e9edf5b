"""Tables built by hand: scenarios small enough to work out with pencil and paper."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from hexenv.engine.layout import (
    CONFIG,
    MAX_CONTEXTS,
    N_SHARES,
    NO_DEADLINE,
    OP,
    SETTING,
    STAGE,
    STREAM,
    TEMPLATE,
    VARIANT,
    Arrival,
    HmxLock,
    Mode,
    Split,
    Tables,
)

US = 1000


@dataclass(frozen=True)
class Kernel:
    """One variant; times are totals in us, HVX in context-time."""

    tiles: float = 1.0
    ddr: float = 0.0
    hvx: float = 0.0
    hmx: float = 0.0
    storage: float = 0.0
    depth: float = 2.0
    vtcm: int = 1024
    phi: float = 0.0
    prologue: float = 0.0
    fill: bool = False


@dataclass(frozen=True)
class Work:
    """One stage: its kernels by (version, tile class) and the stages of this and the previous job it needs."""

    kernels: dict[tuple[int, int], Kernel]
    after: tuple[int, ...] = ()
    after_previous: tuple[int, ...] = ()


@dataclass(frozen=True)
class Source:
    """One stream of identical jobs."""

    stages: tuple[Work, ...]
    arrival: Arrival = Arrival.TRACE
    times: tuple[float, ...] = (0.0,)
    period: float = 0.0
    gap: float = 0.0
    jitter: float = 0.0
    offset: float = 0.0
    deadline: float | None = None
    deadlines: tuple[float, ...] = ()
    """Of recorded arrivals, one each; none = ``deadline`` for all."""
    firm: bool = True
    weight: float = 1.0
    queue: int = 1
    names: str = field(default="stream")


def one(kernel: Kernel, version: int = 0, **kwargs: object) -> Work:
    """A stage with a single variant at tile class 0."""
    return Work({(version, 0): kernel}, **kwargs)  # type: ignore[arg-type]


def _variant(kernel: Kernel, op: int, version: int, tile: int, contexts: int) -> np.void:
    row = np.zeros((), VARIANT)
    row["op"], row["version"], row["tile"] = op, version, tile
    row["tiles"], row["depth"], row["phi"] = kernel.tiles, kernel.depth, kernel.phi
    row["ddr_ns"], row["hvx_ns"], row["hmx_ns"] = kernel.ddr * US, kernel.hvx * US, kernel.hmx * US
    row["storage_ns"] = kernel.storage * US
    row["vtcm_bytes"] = kernel.vtcm
    row["uses_hvx"], row["uses_hmx"] = kernel.hvx + kernel.prologue > 0, kernel.hmx > 0
    row["prologue_hvx_ns"] = kernel.prologue * US
    for h in range(MAX_CONTEXTS + 1):
        hvx = kernel.hvx * US / h if h else 0.0
        prologue = kernel.prologue * US / h if h else 0.0
        compute = (hvx, kernel.hmx * US) if kernel.depth >= 2 else (hvx + kernel.hmx * US,)
        lanes = (kernel.storage * US, kernel.ddr * US, *compute)
        fill = (sum(lanes) - max(lanes)) / kernel.tiles if kernel.fill else 0.0
        row["body_hvx_ns"][h], row["prologue_ns"][h], row["latency_ns"][h] = hvx, prologue, fill
        row["alone_ns"][h] = round(max(lanes) + prologue + fill)
    return row[()]


def _critical(stages: tuple[Work, ...], refs: list[int]) -> list[int]:
    path = [0] * len(stages)
    for i in reversed(range(len(stages))):
        after = [path[j] for j in range(i + 1, len(stages)) if i in stages[j].after]
        path[i] = refs[i] + max(after, default=0)
    return path


def toy_tables(*sources: Source, contexts: int = 4, **settings: object) -> Tables:
    """Compile ``sources``. ``settings`` are CONFIG fields (``mode`` ...); costs and noise default to zero."""
    variants, ops, stages, templates, streams = [], [], [], [], []
    links: list[int] = []
    times: list[int] = []
    deadlines: list[int] = []

    def put(items: object) -> tuple[int, int]:
        start = len(links)
        links.extend(items)  # type: ignore[arg-type]
        return start, len(links)

    for source in sources:
        template = np.zeros((), TEMPLATE)
        template["first_stage"], template["n_stages"] = len(stages), len(source.stages)
        refs = []
        for work in source.stages:
            op = np.zeros((), OP)
            op["variant"] = -1
            for (version, tile), kernel in sorted(work.kernels.items()):
                op["variant"][version, tile] = len(variants)
                variants.append(_variant(kernel, len(ops), version, tile, contexts))
            rows = [int(v) for v in op["variant"].ravel() if v >= 0]
            op["fastest"] = min(rows, key=lambda v: variants[v]["alone_ns"][contexts])
            op["ref_ns"] = variants[op["fastest"]]["alone_ns"][contexts]
            refs.append(int(op["ref_ns"]))
            for name in ("ddr_ns", "hvx_ns", "hmx_ns"):
                template[name] += variants[op["fastest"]][name]
            template["hvx_ns"] += variants[op["fastest"]]["prologue_hvx_ns"]
            ops.append(op[()])
        critical = _critical(source.stages, refs)
        for i, work in enumerate(source.stages):
            stage = np.zeros((), STAGE)
            stage["op"], stage["critical_ns"] = len(ops) - len(source.stages) + i, critical[i]
            stage["pred_start"], stage["pred_end"] = put(work.after)
            stage["succ_start"], stage["succ_end"] = put(j for j, w in enumerate(source.stages) if i in w.after)
            stage["prev_start"], stage["prev_end"] = put(work.after_previous)
            stages.append(stage[()])
        template["root_start"], template["root_end"] = put(i for i, w in enumerate(source.stages) if not w.after)
        template["next_start"], template["next_end"] = put(sorted({p for w in source.stages for p in w.after_previous}))
        template["ref_ns"] = sum(refs)
        stream = np.zeros((), STREAM)
        stream["arrival"], stream["firm"], stream["weight"] = source.arrival, source.firm, source.weight
        stream["scales"] = source.arrival in (Arrival.PERIODIC, Arrival.POISSON)
        stream["period_ns"], stream["jitter_ns"] = source.period * US, source.jitter * US
        stream["offset_ns"], stream["gap_ns"] = source.offset * US, source.gap * US
        stream["deadline_ns"] = NO_DEADLINE if source.deadline is None else source.deadline * US
        stream["queue"] = source.queue
        stream["first_job"] = sum(s.queue for s in sources[: len(streams)])
        stream["template_start"], stream["template_count"] = len(templates), 1
        stream["trace_start"] = len(times)
        times.extend(round(t * US) for t in source.times)
        own = [round(t * US) for t in source.deadlines]
        deadlines.extend(own or [int(stream["deadline_ns"])] * len(source.times))
        stream["trace_end"] = len(times)
        templates.append(template[()])
        streams.append(stream[()])
    config = np.zeros(1, CONFIG)
    defaults: dict[str, object] = {
        "n_streams": len(sources),
        "visible": 8,
        "slots": 2,
        "mode": Mode.FUSED,
        "hmx_lock": HmxLock.CHUNK,
        "vtcm_split": Split.SHARED,
        "context_split": Split.SHARED,
        "contexts": contexts,
        "vtcm_bytes": 8192,
        "horizon_ns": 100_000 * US,
        "wait_max_ns": 200 * US,
        "miss_weight": 1.0,
        "eta_shared": 1.0,
        "ddr_free": 1.0,
    }
    for name, value in {**defaults, **settings}.items():
        config[name] = value
    shares = [min(max(int(contexts * q / 4 + 0.5), 1), contexts - 1) for q in (1, 2, 3)]
    config["share"][0] = [h if h > 0 and shares.index(h) == i else -1 for i, h in enumerate(shares)][:N_SHARES]
    setting = np.ones(1, SETTING)
    return Tables(
        config=config,
        variants=np.array(variants, VARIANT),
        ops=np.array(ops, OP),
        stages=np.array(stages, STAGE),
        templates=np.array(templates, TEMPLATE),
        streams=np.array(streams, STREAM),
        settings=setting,
        links=np.array(links, np.int32),
        trace_ns=np.array(times, np.int64),
        trace_deadline_ns=np.array(deadlines, np.int64),
        constants=np.zeros(8, np.float32),
        scenario="toy",
        split="train",
        device="toy",
        stream_names=tuple(s.names for s in sources),
        template_names=tuple(s.names for s in sources),
        op_names=tuple(f"op{i}" for i in range(len(ops))),
        family_names=("toy",),
        stage_names=tuple(f"stage{i}" for i in range(len(stages))),
        seeds=(0, 1),
    )


def action(task: int, version: int = 0, tile: int = 0, share: int = 0) -> int:
    """Index of a pick."""
    return 1 + ((task * 3 + version) * 4 + tile) * 3 + share
