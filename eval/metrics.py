"""What one episode achieved, from the engine's accumulators (LANE) and its job events (TRACE)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from eval.episodes import Episode
from hexenv.engine.layout import N_SHARES, N_TILES, N_VERSIONS, NO_DEADLINE, Arrival, Event, Tables

NS_PER_MS = 1e6
PERCENTILES = (50, 95, 99)
EPISODE_COLUMNS = (
    "setting",
    "load",
    "tightness",
    "mix",
    "seed",
    "return",
    "credit_ms",
    "charge_ms",
    "simulated_ms",
    "throughput",
    "due",
    "misses",
    "miss_rate",
    "finished",
    "dropped",
    "rejected",
    "p50_us",
    "p95_us",
    "p99_us",
    "hvx_busy",
    "hmx_busy",
    "dma_busy",
    "decisions",
    "wait_share",
    "hvx_picks",
    "hmx_picks",
    "hybrid_picks",
)
"""Columns of an episode's row, in order (README, "What the columns mean")."""


class PickCounter:
    """Counts what a scheduler chose, lane by lane: waits, and picks by version."""

    def __init__(self, batch: int) -> None:
        self.waits = np.zeros(batch, np.int64)  # (B,)
        self.versions = np.zeros((batch, N_VERSIONS), np.int64)  # (B, versions)

    def add(self, actions: np.ndarray, where: np.ndarray) -> None:
        """Count the actions (B,) of the lanes ``where`` (B,)."""
        picked = where & (actions > 0)
        self.waits += where & (actions == 0)
        version = (actions - 1) // (N_TILES * N_SHARES) % N_VERSIONS
        for v in range(N_VERSIONS):
            self.versions[:, v] += picked & (version == v)


@dataclass(frozen=True)
class JobLog:
    """What became of the jobs of one episode."""

    latency_ns: tuple[np.ndarray, ...]
    """Latencies of the finished jobs, one array a stream, in order of finishing, ns."""
    dropped: np.ndarray  # (n_streams,) firm jobs dropped late
    rejected: np.ndarray  # (n_streams,) arrivals that found their queue full
    index: tuple[np.ndarray, ...]
    """Which jobs the finished ones were, as numbers in their stream; shapes as ``latency_ns``."""


def job_log(trace: np.ndarray, n_streams: int) -> JobLog:
    """Read the job events of one episode's trace."""
    finish = trace[trace["event"] == Event.FINISH]
    return JobLog(
        latency_ns=tuple(finish["value"][finish["stream"] == s] for s in range(n_streams)),
        dropped=_count(trace, Event.DROP, n_streams),
        rejected=_count(trace, Event.REJECT, n_streams),
        index=tuple(finish["job"][finish["stream"] == s] for s in range(n_streams)),
    )


def _count(trace: np.ndarray, event: Event, n_streams: int) -> np.ndarray:
    streams = trace["stream"][trace["event"] == event]
    return np.bincount(streams, minlength=n_streams)[:n_streams]


def percentile_us(latency_ns: np.ndarray, percent: float) -> float:
    """Nearest-rank percentile of latencies, us: always a latency that really occurred. NaN when there is none."""
    if latency_ns.size == 0:
        return float("nan")
    return float(np.percentile(latency_ns, percent, method="inverted_cdf")) / 1e3


def deadline_streams(tables: Tables) -> np.ndarray:
    """Indices of the streams whose jobs have deadlines."""
    return np.flatnonzero(tables.streams["deadline_ns"] < NO_DEADLINE)


def deadline_ends_ns(tables: Tables, stream: int) -> tuple[int, int]:
    """The shortest and the longest deadline of a stream's jobs from arrival, at tightness 1; ``NO_DEADLINE`` = none."""
    row = tables.streams[stream]
    if row["arrival"] != Arrival.TRACE:
        return int(row["deadline_ns"]), int(row["deadline_ns"])
    recorded = tables.trace_deadline_ns[row["trace_start"] : row["trace_end"]]
    return int(recorded.min()), int(recorded.max())


def mix_name(tables: Tables, setting: int) -> str:
    """The streams that take part in a setting, joined by ``+``."""
    active = tables.settings["active"][setting]
    return "+".join(name for name, on in zip(tables.stream_names, active, strict=False) if on)


def lane_return(lane: np.void, tables: Tables) -> float:
    """The episode's return in ms of reference work: credit net of forfeits - lambda x charge."""
    weight = float(tables.config["miss_weight"][0])
    return (int(lane["credit_ns"]) - weight * float(lane["charge_ns"])) / NS_PER_MS


def episode_row(
    episode: Episode, lane: np.void, jobs: JobLog, waits: int, picks: Sequence[int], tables: Tables
) -> dict[str, object]:
    """One row of ``episodes.csv`` without the scheduler's and scenario's names; keys are :data:`EPISODE_COLUMNS`.

    ``lane`` is the LANE record at the episode's end, ``picks`` the number of picks of each version. Latency percentiles
    are over the finished jobs of all streams with deadlines.
    """
    elapsed_ns = max(int(lane["now_ns"]), 1)
    due, misses = int(lane["due"].sum()), int(lane["missed"].sum())
    latency_ns = np.concatenate([jobs.latency_ns[s] for s in deadline_streams(tables)] or [np.empty(0)])
    picked = sum(picks)
    row: dict[str, object] = {
        "setting": episode.setting,
        "load": float(tables.settings["load"][episode.setting]),
        "tightness": float(tables.settings["tightness"][episode.setting]),
        "mix": mix_name(tables, episode.setting),
        "seed": episode.seed,
        "return": lane_return(lane, tables),
        "credit_ms": int(lane["credit_ns"]) / NS_PER_MS,
        "charge_ms": float(lane["charge_ns"]) / NS_PER_MS,
        "simulated_ms": elapsed_ns / NS_PER_MS,
        "throughput": int(lane["credit_ns"]) / elapsed_ns,
        "due": due,
        "misses": misses,
        "miss_rate": misses / due if due else float("nan"),
        "finished": int(lane["finished"].sum()),
        "dropped": int(jobs.dropped.sum()),
        "rejected": int(jobs.rejected.sum()),
        "hvx_busy": float(lane["busy_hvx_ns"]) / (int(tables.config["contexts"][0]) * elapsed_ns),
        "hmx_busy": float(lane["busy_hmx_ns"]) / elapsed_ns,
        "dma_busy": float(lane["busy_ddr_ns"]) / elapsed_ns,
        "decisions": waits + picked,
        "wait_share": waits / max(waits + picked, 1),
    }
    row |= {f"p{p}_us": percentile_us(latency_ns, p) for p in PERCENTILES}
    row |= {name: n / max(picked, 1) for name, n in zip(("hvx_picks", "hmx_picks", "hybrid_picks"), picks, strict=True)}
    return {column: row[column] for column in EPISODE_COLUMNS}
