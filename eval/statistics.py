"""Paired statistics over episodes and training seeds: intervals, interquartile mean, probability of improvement.

Every figure of a summary is a ratio of sums over episodes: the mean return is sum(return) / n, the pooled miss rate
sum(misses) / sum(due). A bootstrap draws episodes with replacement, the same draws for every scheduler, so the shared
luck of an episode (its load, its arrivals, its noise) cancels in a difference of two schedulers. A learned scheduler
given as several training runs is a matrix, runs x episodes; its bootstrap draws runs with replacement as well, apart
from the episodes, so the interval holds for another training seed and not only for these runs. Interquartile mean and
probability of improvement are those of Agarwal et al., "Deep Reinforcement Learning at the Edge of the Statistical
Precipice" (NeurIPS 2021), with an episode in the place of a task.

Arrays of figures have shape (episodes,), or (runs, episodes).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

LEVEL = 0.95
RESAMPLES = 4000
_SEED = 20260101
_RUNS_SEED = 20260102


@dataclass(frozen=True, slots=True)
class Interval:
    """A figure with the ends of its interval."""

    value: float
    low: float
    high: float

    def shifted(self, by: float) -> Interval:
        """The same interval around ``value + by``."""
        return Interval(self.value + by, self.low + by, self.high + by)


@lru_cache(maxsize=8)
def _draws(n: int, seed: int = _SEED) -> np.ndarray:
    """How often each resample takes each of n, shape (RESAMPLES, n). Seeded: the same for every scheduler."""
    rng = np.random.default_rng(seed)
    return rng.multinomial(n, np.full(n, 1.0 / n), size=RESAMPLES).astype(np.float64)


def _resampled_sum(values: np.ndarray) -> np.ndarray:
    """Sum of figures (runs, episodes) in each resample, shape (RESAMPLES,)."""
    runs, episodes = values.shape
    by_run = _draws(episodes) @ values.T
    return by_run[:, 0] if runs == 1 else np.sum(by_run * _draws(runs, _RUNS_SEED), axis=1)


def ratio(numerator: np.ndarray, denominator: np.ndarray) -> float:
    """``sum(numerator) / sum(denominator)`` over episodes, NaN if nothing is counted."""
    total = float(np.sum(denominator))
    return float(np.sum(numerator)) / total if total else float("nan")


def _resampled(numerator: np.ndarray, denominator: np.ndarray) -> np.ndarray:
    """:func:`ratio` in each resample."""
    with np.errstate(invalid="ignore", divide="ignore"):
        return _resampled_sum(np.atleast_2d(numerator)) / _resampled_sum(np.atleast_2d(denominator))


def _interval(value: float, samples: np.ndarray) -> Interval:
    """95 % percentile interval that holds the value itself; samples that do not exist are left out."""
    samples = samples[np.isfinite(samples)]
    if samples.size == 0 or not np.isfinite(value):
        return Interval(value, float("nan"), float("nan"))
    tail = (1.0 - LEVEL) / 2.0
    low, high = np.quantile(samples, (tail, 1.0 - tail))
    return Interval(value, min(float(low), value), max(float(high), value))


def difference(
    numerator: np.ndarray, denominator: np.ndarray, other_numerator: np.ndarray, other_denominator: np.ndarray
) -> Interval:
    """Paired difference of two schedulers' ratios with its 95 % percentile-bootstrap interval.

    All arrays are in the same order of episodes. Resamples with a zero denominator are left out.
    """
    value = ratio(numerator, denominator) - ratio(other_numerator, other_denominator)
    samples = _resampled(numerator, denominator) - _resampled(other_numerator, other_denominator)
    return _interval(value, samples)


def normalised(figures: np.ndarray, low: np.ndarray, high: np.ndarray) -> Interval:
    """Score ``(mean(figures) - mean(low)) / (mean(high) - mean(low))``; NaN unless the mean of ``high`` is above."""

    def score(own: np.ndarray | float, zero: np.ndarray | float, one: np.ndarray | float) -> np.ndarray:
        reach = np.asarray(one) - np.asarray(zero)
        return np.divide(own - np.asarray(zero), reach, out=np.full(reach.shape, np.nan), where=reach > 0.0)

    means = (_resampled(values, np.ones(values.shape)) for values in (figures, low, high))
    return _interval(float(score(figures.mean(), low.mean(), high.mean())), score(*means))


def interquartile_mean(figures: np.ndarray) -> float:
    """Mean of the middle half of all figures."""
    return float(_interquartile(figures.reshape(-1), np.ones((1, figures.size)))[0])


def _interquartile(figures: np.ndarray, counts: np.ndarray) -> np.ndarray:
    """The interquartile means of samples that take each of the figures (n,) so many times: counts (samples, n)."""
    order = np.argsort(figures, kind="stable")
    upto = np.cumsum(counts[:, order], axis=1)
    cut = np.floor(0.25 * upto[:, -1:])
    inside = np.clip(upto, cut, upto[:, -1:] - cut)
    taken = np.diff(inside, axis=1, prepend=cut)
    return (taken @ figures[order]) / taken.sum(axis=1)


def _resampled_interquartile(figures: np.ndarray) -> np.ndarray:
    runs, episodes = np.atleast_2d(figures).shape
    counts = _draws(runs, _RUNS_SEED)[:, :, None] * _draws(episodes)[:, None, :]
    return _interquartile(figures.reshape(-1), counts.reshape(RESAMPLES, -1))


def interquartile_difference(figures: np.ndarray, others: np.ndarray) -> Interval:
    """Paired difference of two schedulers' interquartile means with its 95 % interval."""
    value = interquartile_mean(figures) - interquartile_mean(others)
    return _interval(value, _resampled_interquartile(figures) - _resampled_interquartile(others))


def interquartile_of_differences(figures: np.ndarray, others: np.ndarray) -> Interval:
    """Interquartile mean of the differences episode by episode (a run against the mean over the other's runs)."""
    gains = np.atleast_2d(figures) - np.atleast_2d(others).mean(axis=0)
    return _interval(interquartile_mean(gains), _resampled_interquartile(gains))


def improvement(figures: np.ndarray, others: np.ndarray) -> Interval:
    """Probability that a figure is above the other's in the same episode, ties half, over all pairs of runs."""
    ours, theirs = np.atleast_2d(figures)[:, None], np.atleast_2d(others)[None]  # (runs, 1, n), (1, other runs, n)
    above = (ours > theirs) + 0.5 * (ours == theirs)
    by_pair = np.einsum("sn,ijn->sij", _draws(above.shape[2]), above, optimize=True)
    pairs = _draws(above.shape[0], _RUNS_SEED)[:, :, None] * _draws(above.shape[1], _RUNS_SEED)[:, None, :]
    samples = (by_pair * pairs).sum(axis=(1, 2)) / above.size
    return _interval(float(above.mean()), samples)
