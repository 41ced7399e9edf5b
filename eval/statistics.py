"""Paired statistics over episodes: bootstrap intervals of totals and ratios, interquartile mean.

Every figure of a summary is a ratio of sums over episodes: the mean return is sum(return) / n, the pooled miss rate
sum(misses) / sum(due). A bootstrap draws episodes with replacement, the same draws for every scheduler, so the shared
luck of an episode (its load, its arrivals, its noise) cancels in a difference of two schedulers.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from scipy.stats import trim_mean

LEVEL = 0.95
RESAMPLES = 4000
_SEED = 20260101


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with the ends of its interval."""

    value: float
    low: float
    high: float

    def shifted(self, by: float) -> Interval:
        """The same interval around ``value + by``."""
        return Interval(self.value + by, self.low + by, self.high + by)


@lru_cache(maxsize=4)
def _draws(episodes: int) -> np.ndarray:
    """How often each resample takes each episode, shape (RESAMPLES, episodes). Seeded: the same for every scheduler."""
    rng = np.random.default_rng(_SEED)
    return rng.multinomial(episodes, np.full(episodes, 1.0 / episodes), size=RESAMPLES).astype(np.float64)


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> float:
    """``sum(numerator) / sum(denominator)`` over episodes, NaN if nothing is counted."""
    total = float(np.sum(denominator))
    return float(np.sum(numerator)) / total if total else float("nan")


def _resampled(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    draws = _draws(len(numerator))
    with np.errstate(invalid="ignore", divide="ignore"):
        return (draws @ numerator) / (draws @ denominator)


def difference(
    numerator: np.ndarray, denominator: np.ndarray, other_numerator: np.ndarray, other_denominator: np.ndarray
) -> Interval:
    """Paired difference of two schedulers' ratios with its 95 % percentile-bootstrap interval.

    All arrays have shape (episodes,), in the same order of episodes. Resamples with a zero denominator are left out.
    """
    value = ratio(numerator, denominator) - ratio(other_numerator, other_denominator)
    samples = _resampled(numerator, denominator) - _resampled(other_numerator, other_denominator)
    samples = samples[np.isfinite(samples)]
    if samples.size == 0:
        return Interval(value, float("nan"), float("nan"))
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(samples, (tail, 1.0 - tail))
    return Interval(value, min(float(low), value), max(float(high), value))


def interquartile_mean(values: np.ndarray) -> float:
    """Mean of the middle half of the values."""
    return float(trim_mean(values, 0.25))
