"""The result tables: a row a scheduler and scenario, a row a stream, a row an episode."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np
import pandas as pd

from agents.learned import LEARNED
from agents.policy import POLICIES
from eval.metrics import PERCENTILES, deadline_streams, percentile_us
from eval.play import Outcome
from eval.statistics import (
    Interval,
    difference,
    improvement,
    interquartile_difference,
    interquartile_mean,
    normalised,
    ratio,
)
from hexenv.engine.layout import NO_DEADLINE

REFERENCE = "serial"
"""The scheduler that intervals are paired with. If it was not evaluated, the scenario's first one takes its place."""
CLAIRVOYANT = "oracle"
"""The scheduler that knows the future: an indication, never the best rule."""

_RATIOS = {"return": ("return", None), "throughput": ("credit_ms", "simulated_ms"), "miss_rate": ("misses", "due")}
_BUSY = ("hvx_busy", "hmx_busy", "dma_busy")
_PICKS = ("hvx_picks", "hmx_picks", "hybrid_picks")


def reference_of(outcomes: Sequence[Outcome]) -> Outcome:
    """The outcome that the intervals of one scenario are paired with."""
    return next((o for o in outcomes if o.scheduler == REFERENCE), outcomes[0])


def is_learned(name: str) -> bool:
    """Whether the scheduler of this name is a learned policy, not a rule."""
    return name in POLICIES


def learned_in(names: Collection[str]) -> str | None:
    """The learned policy that stands for learning in results: that of a training run before the shipped one."""
    return next((name for name in POLICIES if name in names), None)


def best_rule_of(outcomes: Sequence[Outcome]) -> Outcome:
    """The scheduler with the highest mean return that is neither learned nor clairvoyant; of all, if there is none."""
    rules = [o for o in outcomes if not is_learned(o.scheduler) and o.scheduler != CLAIRVOYANT] or list(outcomes)
    return max(rules, key=lambda o: float(o.episodes["return"].mean()))


def _parts(runs: Sequence[Outcome], figure: str) -> tuple[np.ndarray, np.ndarray]:
    """Numerator and denominator, both (runs, episodes), of a figure that is a ratio of sums over episodes."""
    numerator, denominator = _RATIOS[figure]
    above = np.array([outcome.episodes[numerator].to_numpy(np.float64) for outcome in runs])
    if denominator is None:
        return above, np.ones(above.shape)
    return above, np.array([outcome.episodes[denominator].to_numpy(np.float64) for outcome in runs])


def _returns(runs: Sequence[Outcome]) -> np.ndarray:
    """Returns, (runs, episodes)."""
    return _parts(runs, "return")[0]


def paired(outcome: Outcome, other: Outcome, figure: str) -> Interval:
    """Difference ``outcome - other`` of a figure (``return``, ``throughput`` or ``miss_rate``), 95 % interval."""
    return _paired([outcome], [other], figure)


def _paired(runs: Sequence[Outcome], others: Sequence[Outcome], figure: str) -> Interval:
    return difference(*_parts(runs, figure), *_parts(others, figure))


def _anchored(runs: Sequence[Outcome], reference: Sequence[Outcome], figure: str) -> Interval:
    """The figure itself with its paired interval: the interval of the difference to the reference, moved to the figure.

    The reference's own interval is a point: the luck that all schedulers share has been taken out.
    """
    return _paired(runs, reference, figure).shifted(ratio(*_parts(reference, figure)))


def summary_row(runs: Sequence[Outcome], reference: Sequence[Outcome], best: Sequence[Outcome]) -> dict[str, object]:
    """One row of ``summary.csv``: a scheduler on a scenario, as one outcome or, if learned, one a training run."""
    first, tables = runs[0], runs[0].tables
    frame = pd.concat([outcome.episodes for outcome in runs], ignore_index=True)
    row: dict[str, object] = {"scheduler": first.scheduler, "scenario": tables.scenario}
    row["episodes"] = len(first.episodes)
    for figure, name in (("return", "return_mean"), ("throughput", "throughput"), ("miss_rate", "miss_rate")):
        row |= _columns(name, _anchored(runs, reference, figure), figure)
    pooled = [outcome.latency_ns(s) for outcome in runs for s in deadline_streams(tables)]
    latency_ns = np.concatenate(pooled or [np.empty(0)])
    row |= {f"p{p}_us": percentile_us(latency_ns, p) for p in PERCENTILES}
    elapsed = frame["simulated_ms"].to_numpy()
    row |= {name: float(np.average(frame[name], weights=elapsed)) for name in _BUSY}
    for prefix, others in (("vs_reference", reference), ("vs_best_rule", best)):
        row |= _columns(prefix, _paired(runs, others, "return"))
    row |= {"reference": reference[0].scheduler, "best_rule": best[0].scheduler}
    middle = interquartile_difference(_returns(runs), _returns(reference))
    row |= _columns("return_iqm", middle.shifted(interquartile_mean(_returns(reference))))
    row |= {name: int(frame[name].sum()) for name in ("due", "misses", "finished", "dropped", "rejected", "decisions")}
    decisions = frame["decisions"].to_numpy()
    row["wait_share"] = float(np.average(frame["wait_share"], weights=np.maximum(decisions, 1)))
    picked = np.maximum(decisions * (1.0 - frame["wait_share"].to_numpy()), 1e-9)
    row |= {name: float(np.average(frame[name], weights=picked)) for name in _PICKS}
    row |= _columns("score", _score(runs, reference, best))
    row |= _columns("beats_best_rule", improvement(_returns(runs), _returns(best)))
    row |= {"train_seeds": len(runs) if first.scheduler == LEARNED else 0, "config": first.config}
    return row


def _columns(name: str, interval: Interval, prefix: str | None = None) -> dict[str, object]:
    """A figure and the ends of its interval; their names begin with ``prefix``, by default that of the figure."""
    prefix = name if prefix is None else prefix
    return {name: interval.value, f"{prefix}_low": interval.low, f"{prefix}_high": interval.high}


def _score(runs: Sequence[Outcome], reference: Sequence[Outcome], best: Sequence[Outcome]) -> Interval:
    """``(R - R_serial) / (R_best_rule - R_serial)`` of the returns; NaN where ``serial`` was not evaluated."""
    if reference[0].scheduler != REFERENCE:
        return Interval(float("nan"), float("nan"), float("nan"))
    return normalised(_returns(runs), _returns(reference), _returns(best))


def stream_rows(runs: Sequence[Outcome]) -> list[dict[str, object]]:
    """The rows of ``streams.csv`` of one scheduler on one scenario."""
    first, tables = runs[0], runs[0].tables
    rows = []
    for s, name in enumerate(tables.stream_names):
        latency_ns = np.concatenate([outcome.latency_ns(s) for outcome in runs])
        deadline_ns = int(tables.streams["deadline_ns"][s])
        active_s = sum(_active_s(outcome, s) for outcome in runs)
        due, missed = (np.concatenate([getattr(o, count)[:, s] for o in runs]) for count in ("due", "missed"))
        rows.append(
            {
                "scheduler": first.scheduler,
                "scenario": tables.scenario,
                "stream": name,
                "deadline_us": deadline_ns / 1e3 if deadline_ns < NO_DEADLINE else float("nan"),
                "jobs_per_s": len(latency_ns) / active_s if active_s else float("nan"),
                "finished": len(latency_ns),
                "lost": sum(outcome.lost(s) for outcome in runs),
                "due": int(due.sum()),
                "misses": int(missed.sum()),
                "miss_rate": ratio(missed, due),
            }
            | {f"p{p}_us": percentile_us(latency_ns, p) for p in PERCENTILES}
            | {"config": first.config}
        )
    return rows


def _active_s(outcome: Outcome, stream: int) -> float:
    """Simulated seconds in which the mix included the stream."""
    active = outcome.tables.settings["active"][outcome.episodes["setting"].to_numpy(), stream]
    simulated_s = outcome.episodes["simulated_ms"].to_numpy() / 1e3
    return float(simulated_s.sum()) * float(np.average(active, weights=simulated_s))


def by_scenario(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes grouped by scenario, both in order of first appearance."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.tables.scenario, []).append(outcome)
    return groups


def by_scheduler(outcomes: Sequence[Outcome]) -> dict[str, list[Outcome]]:
    """The outcomes of one scenario grouped by scheduler: a learned one has an outcome a training run."""
    groups: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        groups.setdefault(outcome.scheduler, []).append(outcome)
    return groups


def summary_frame(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """``summary.csv``: a row a scheduler and scenario."""
    rows = []
    for group in by_scenario(outcomes).values():
        runs = by_scheduler(group)
        reference, best = runs[reference_of(group).scheduler], runs[best_rule_of(group).scheduler]
        rows += [summary_row(own, reference, best) for own in runs.values()]
    return pd.DataFrame(rows)


def stream_frame(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """``streams.csv``: a row a scheduler, scenario and stream."""
    groups = (own for group in by_scenario(outcomes).values() for own in by_scheduler(group).values())
    return pd.DataFrame([row for own in groups for row in stream_rows(own)])


def episode_frame(outcomes: Sequence[Outcome]) -> pd.DataFrame:
    """``episodes.csv``: a row a scheduler, training seed and episode."""
    frames = []
    for outcome in outcomes:
        frame = outcome.episodes.copy()
        frame.insert(0, "scheduler", outcome.scheduler)
        frame.insert(1, "scenario", outcome.tables.scenario)
        frame.insert(2, "split", outcome.tables.split)
        frame.insert(3, "episode", np.arange(len(frame)))
        frame["train_seed"] = float("nan") if outcome.train_seed is None else float(outcome.train_seed)
        frame["config"] = outcome.config
        frames.append(frame)
    return pd.concat(frames, ignore_index=True)
