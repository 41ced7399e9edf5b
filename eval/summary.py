"""The result tables: a row a scheduler and scenario, a row a stream, a row an episode."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pandas as pd

from eval.metrics import PERCENTILES, deadline_streams, percentile_us
from eval.play import Outcome
from eval.statistics import Interval, difference, interquartile_mean, ratio
from hexenv.engine.layout import NO_DEADLINE

REFERENCE = "serial"
"""The scheduler that intervals are paired with. If it was not evaluated, the scenario's first one takes its place."""
LEARNED = "ppo"
"""Name of the learned policy's row."""

_BUSY = ("hvx_busy", "hmx_busy", "dma_busy")
_PICKS = ("hvx_picks", "hmx_picks", "hybrid_picks")


def reference_of(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome that the intervals of one scenario are paired with."""
    return next((o for o in outcomes if o.scheduler == REFERENCE), outcomes[0])


def best_rule_of(outcomes: Sequence[Outcome]) -> Outcome:
    """The scheduler with the highest mean return that is not learned; the learned one if it is alone."""
    rules = [o for o in outcomes if o.scheduler != LEARNED] or list(outcomes)
    return max(rules, key=lambda o: float(o.episodes["return"].mean()))


def _parts(outcome: Outcome, figure: str) -> tuple[np.ndarray, np.ndarray]:
    """Numerator and denominator, both (episodes,), of a figure that is a ratio of sums over episodes."""
    frame = outcome.episodes
    numerator, denominator = {
        "return": (frame["return"], None),
        "throughput": (frame["credit_ms"], frame["simulated_ms"]),
        "miss_rate": (frame["misses"], frame["due"]),
    }[figure]
    weights = np.ones(len(frame)) if denominator is None else denominator.to_numpy(np.float64)
    return numerator.to_numpy(np.float64), weights


def paired(outcome: Outcome, other: Outcome, figure: str) -> Interval:
    """Difference ``outcome - other`` of a figure (``return``, ``throughput`` or ``miss_rate``), 95 % interval."""
    return difference(*_parts(outcome, figure), *_parts(other, figure))


def anchored(outcome: Outcome, reference: Outcome, figure: str) -> Interval:
    """The figure itself with its paired interval: the interval of the difference to the reference, moved to the figure.

    The reference's own interval is a point: the luck that all schedulers share has been taken out.
    """
    return paired(outcome, reference, figure).shifted(ratio(*_parts(reference, figure)))


def summary_row(outcome: Outcome, reference: Outcome, best: Outcome) -> dict[str, object]:
    """One row of ``summary.csv``."""
    frame, tables = outcome.episodes, outcome.tables
    pooled = [outcome.latency_ns(s) for s in deadline_streams(tables)]
    latency_ns = np.concatenate(pooled or [np.empty(0)])
    row: dict[str, object] = {"scheduler": outcome.scheduler, "scenario": tables.scenario, "episodes": len(frame)}
    for figure, name in (("return", "return_mean"), ("throughput", "throughput"), ("miss_rate", "miss_rate")):
        interval = anchored(outcome, reference, figure)
        row |= {name: interval.value, f"{figure}_low": interval.low, f"{figure}_high": interval.high}
    row |= {f"p{p}_us": percentile_us(latency_ns, p) for p in PERCENTILES}
    elapsed = frame["simulated_ms"].to_numpy()
    row |= {name: float(np.average(frame[name], weights=elapsed)) for name in _BUSY}
    for prefix, other in (("vs_reference", reference), ("vs_best_rule", best)):
        interval = paired(outcome, other, "return")
        row |= {prefix: interval.value, f"{prefix}_low": interval.low, f"{prefix}_high": interval.high}
    row |= {"reference": reference.scheduler, "best_rule": best.scheduler}
    row["return_iqm"] = interquartile_mean(frame["return"].to_numpy())
    row |= {name: int(frame[name].sum()) for name in ("due", "misses", "finished", "dropped", "rejected", "decisions")}
    decisions = frame["decisions"].to_numpy()
    row["wait_share"] = float(np.average(frame["wait_share"], weights=np.maximum(decisions, 1)))
    picked = np.maximum(decisions * (1.0 - frame["wait_share"].to_numpy()), 1e-9)
    row |= {name: float(np.average(frame[name], weights=picked)) for name in _PICKS}
    return row


def stream_rows(outcome: Outcome) -> list[dict[str, object]]:
    """The rows of ``streams.csv`` of one scheduler on one scenario."""
    tables = outcome.tables
    elapsed_s = float(outcome.episodes["simulated_ms"].sum()) / 1e3
    rows = []
    for s, name in enumerate(tables.stream_names):
        latency_ns, deadline_ns = outcome.latency_ns(s), int(tables.streams["deadline_ns"][s])
        active_s = elapsed_s * _active_share(outcome, s)
        rows.append(
            {
                "scheduler": outcome.scheduler,
                "scenario": tables.scenario,
                "stream": name,
                "deadline_us": deadline_ns / 1e3 if deadline_ns < NO_DEADLINE else float("nan"),
                "jobs_per_s": len(latency_ns) / active_s if active_s else float("nan"),
                "finished": len(latency_ns),
                "lost": outcome.lost(s),
                "due": int(outcome.due[:, s].sum()),
                "misses": int(outcome.missed[:, s].sum()),
                "miss_rate": ratio(outcome.missed[:, s], outcome.due[:, s]),
            }
            | {f"p{p}_us": percentile_us(latency_ns, p) for p in PERCENTILES}
        )
    return rows


def _active_share(outcome: Outcome, stream: int) -> float:
    """Part of the simulated time in which the mix included the stream."""
    active = outcome.tables.settings["active"][outcome.episodes["setting"].to_numpy(), stream]
    return float(np.average(active, weights=outcome.episodes["simulated_ms"]))


def by_scenario(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes grouped by scenario, both in order of first appearance."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.tables.scenario, []).append(outcome)
    return groups


def summary_frame(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """``summary.csv``: a row a scheduler and scenario."""
    rows = []
    for group in by_scenario(outcomes).values():
        reference, best = reference_of(group), best_rule_of(group)
        rows += [summary_row(outcome, reference, best) for outcome in group]
    return pd.DataFrame(rows)


def stream_frame(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """``streams.csv``: a row a scheduler, scenario and stream."""
    return pd.DataFrame([row for outcome in outcomes for row in stream_rows(outcome)])


def episode_frame(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """``episodes.csv``: a row a scheduler and episode."""
    frames = []
    for outcome in outcomes:
        frame = outcome.episodes.copy()
        frame.insert(0, "scheduler", outcome.scheduler)
        frame.insert(1, "scenario", outcome.tables.scenario)
        frame.insert(2, "split", outcome.tables.split)
        frame.insert(3, "episode", np.arange(len(frame)))
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)
