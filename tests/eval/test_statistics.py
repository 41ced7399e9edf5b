import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import trim_mean

from eval.statistics import (
    Interval,
    difference,
    improvement,
    interquartile_difference,
    interquartile_mean,
    interquartile_of_differences,
    normalised,
    ratio,
)

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


@given(st.lists(st.floats(-1e3, 1e3), min_size=4, max_size=40))
def test_interquartile_mean_is_the_trimmed_mean(values):
    assert interquartile_mean(np.array(values)) == pytest.approx(trim_mean(values, 0.25), abs=1e-9)


def test_interval_of_the_interquartile_mean_is_that_of_plain_resampling():
    rng = np.random.default_rng(3)
    values, others = rng.exponential(10.0, 30), np.zeros(30)
    interval = interquartile_difference(values, others)
    samples = trim_mean(rng.choice(values, (4000, 30)), 0.25, axis=1)
    assert (interval.low, interval.high) == pytest.approx(np.quantile(samples, (0.025, 0.975)), rel=0.05)
    wild = np.where(np.arange(30) < 3, 1e6, values)
    assert interquartile_of_differences(wild, others).value < 30.0


def test_probability_of_improvement_by_hand():
    assert improvement(np.array([2.0, 1.0, 3.0, 0.0]), np.array([1.0, 1.0, 1.0, 1.0])).value == 0.625
    # Two runs against three, one episode: 2 beats 1, equals 2 and loses to 3; 4 beats all.
    assert improvement(np.array([[2.0], [4.0]]), np.array([[1.0], [2.0], [3.0]])).value == pytest.approx(4.5 / 6)
    interval = improvement(np.arange(20.0), np.full(20, 4.5))
    assert 0.5 < interval.low < interval.value == 0.75 < interval.high < 1.0


@given(FIGURES, FIGURES)
def test_probabilities_of_improvement_add_up_to_one(values, others):
    n = min(len(values), len(others))
    values, others = np.array(values[:n]), np.array(others[:n])
    there, back = improvement(values, others), improvement(others, values)
    assert there.value + back.value == pytest.approx(1.0)
    assert (there.low, there.high) == pytest.approx((1.0 - back.high, 1.0 - back.low), abs=1e-9)


def test_seeds_are_resampled_beside_episodes():
    rng = np.random.default_rng(4)
    seeds, rule = rng.normal(0.0, 5.0, (8, 1)), rng.normal(0.0, 20.0, 60)
    runs = rule + seeds + rng.normal(0.0, 1.0, (8, 60))
    interval = difference(runs, np.ones(runs.shape), rule, np.ones(60))
    expected = 2.0 * 1.96 * seeds.std() / np.sqrt(8)
    assert interval.high - interval.low == pytest.approx(expected, rel=0.25)
    assert interval.value == pytest.approx(runs.mean() - rule.mean())
    one = difference(runs[0], np.ones(60), rule, np.ones(60))
    assert one.high - one.low < 0.2 * expected
    assert difference(runs[:1], np.ones((1, 60)), rule, np.ones(60)) == one


def test_score_is_scaled_by_serial_and_the_best_rule():
    serial, best = np.zeros(4), np.array([8.0, 12.0, 8.0, 12.0])
    assert normalised(serial, serial, best) == Interval(0.0, 0.0, 0.0)
    assert normalised(best, serial, best) == Interval(1.0, 1.0, 1.0)
    half = normalised(np.array([5.0, 5.0, 5.0, 5.0]), serial, best)
    assert half.low < half.value == 0.5 < half.high
    assert np.isnan(normalised(best, serial, serial).value)
