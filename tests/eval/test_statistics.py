import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from eval.statistics import Interval, difference, interquartile_mean, ratio

FIGURES = st.lists(st.floats(-1e3, 1e3), min_size=1, max_size=20)


def mean_difference(values, others):
    ones = np.ones(len(values))
    return difference(np.asarray(values), ones, np.asarray(others), ones)


@given(FIGURES, st.floats(-100.0, 100.0))
def test_a_constant_lead_has_no_width(values, lead):
    interval = mean_difference(np.asarray(values) + lead, values)
    assert interval.value == pytest.approx(lead, abs=1e-8)
    assert interval.low == pytest.approx(interval.high, abs=1e-8)


@given(FIGURES, FIGURES)
def test_interval_holds_its_value_and_mirrors(values, others):
    n = min(len(values), len(others))
    values, others = np.array(values[:n]), np.array(others[:n])
    there, back = mean_difference(values, others), mean_difference(others, values)
    assert there.low <= there.value <= there.high
    assert (back.low, back.high) == pytest.approx((-there.high, -there.low), abs=1e-6)


def test_covers_the_truth_about_as_often_as_it_says():
    rng = np.random.default_rng(1)
    covered = 0
    for _ in range(200):
        interval = mean_difference(rng.normal(3.0, 2.0, 40), np.zeros(40))
        covered += interval.low <= 3.0 <= interval.high
    assert 0.88 <= covered / 200 <= 0.99


def test_pairing_removes_what_the_episodes_share():
    rng = np.random.default_rng(2)
    luck = rng.normal(0.0, 50.0, 60)
    ours, theirs = luck + rng.normal(2.0, 1.0, 60), luck + rng.normal(0.0, 1.0, 60)
    paired = mean_difference(ours, theirs)
    unpaired = mean_difference(ours, rng.permutation(theirs))
    assert paired.high - paired.low < 0.1 * (unpaired.high - unpaired.low)
    assert paired.low > 0.0


def test_same_numbers_every_time():
    values, others = np.arange(10.0) ** 2, np.arange(10.0)
    assert mean_difference(values, others) == mean_difference(values, others)


def test_miss_rate_is_pooled_and_empty_resamples_are_left_out():
    misses, due = np.array([1.0, 0.0, 0.0]), np.array([2.0, 0.0, 0.0])
    assert ratio(misses, due) == 0.5
    assert difference(misses, due, np.zeros(3), due) == Interval(0.5, 0.5, 0.5)
    assert np.isnan(difference(misses, np.zeros(3), misses, due).value)


def test_interquartile_mean_ignores_the_tails():
    assert interquartile_mean(np.array([-1e9, 1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 1e9])) == pytest.approx(3.5)
