import numpy as np
import pytest

from eval.summary import best_rule_of, episode_frame, learned_in, stream_frame, summary_frame
from eval.verdict import verdict

REQUIRED = {
    *("scheduler", "scenario", "episodes", "return_mean", "return_low", "return_high", "throughput", "miss_rate"),
    *("p50_us", "p95_us", "p99_us", "hvx_busy", "hmx_busy", "dma_busy"),
}


@pytest.fixture
def outcomes(outcome_of):
    serial = np.array([10.0, 20.0, 30.0, 40.0])
    return [
        outcome_of("edf", serial + np.array([5.0, 7.0, 6.0, 6.0]), latency_ms=(1.0, 2.0, 3.0)),
        outcome_of("serial", serial),
        outcome_of("learned", serial + np.array([8.0, 7.0, 9.0, 8.0])),
    ]


def test_a_row_a_scheduler_with_the_documented_columns(outcomes):
    summary = summary_frame(outcomes)
    assert list(summary["scheduler"]) == ["edf", "serial", "learned"]
    assert set(summary.columns) >= REQUIRED
    assert not summary.drop(columns=["reference", "best_rule"]).isna().any(axis=None)


def test_figures_are_paired_with_serial(outcomes):
    summary = summary_frame(outcomes).set_index("scheduler")
    assert set(summary["reference"]) == {"serial"}
    assert tuple(summary.loc["serial", ["return_mean", "return_low", "return_high"]]) == (25.0, 25.0, 25.0)
    edf = summary.loc["edf"]
    assert edf["return_mean"] == 31.0
    # The lead is 5 to 7 in every episode while the returns spread over 30.
    assert 30.0 <= edf["return_low"] <= 31.0 <= edf["return_high"] <= 32.0
    assert (edf["vs_reference"], edf["vs_reference_low"]) == (6.0, pytest.approx(edf["return_low"] - 25.0))
    assert edf["throughput"] == pytest.approx(3.6)
    assert edf["miss_rate"] == 0.25


def test_the_best_rule_is_never_the_learned_policy(outcomes):
    assert best_rule_of(outcomes).scheduler == "edf"
    summary = summary_frame(outcomes).set_index("scheduler")
    assert summary.loc["learned", "vs_best_rule"] == pytest.approx(2.0)
    assert summary.loc["edf", "vs_best_rule"] == 0.0


def test_the_shipped_policy_is_none_of_the_rules(outcomes, outcome_of):
    shipped = outcome_of("learned_gate", np.full(4, 99.0))
    assert best_rule_of([*outcomes, shipped]).scheduler == "edf"
    assert "the learned policy beats the best rule (edf)" in verdict(summary_frame([*outcomes[:2], shipped]))
    assert learned_in(["learned_gate", "edf"]) == "learned_gate"
    assert learned_in(["learned_gate", "edf", "learned"]) == "learned"
    assert learned_in(["edf", "oracle"]) is None


def test_without_serial_the_first_scheduler_is_the_reference(outcomes):
    summary = summary_frame([outcomes[2], outcomes[0]])
    assert set(summary["reference"]) == {"learned"}


def test_streams(outcomes):
    streams = stream_frame(outcomes).set_index(["scheduler", "stream"])
    camera, filler = streams.loc[("edf", "camera")], streams.loc[("edf", "filler")]
    assert (camera["finished"], camera["lost"], camera["due"], camera["misses"]) == (12, 4, 16, 4)
    assert (camera["p50_us"], camera["p99_us"], camera["deadline_us"]) == (2000.0, 3000.0, 5000.0)
    assert camera["jobs_per_s"] == pytest.approx(12 / 0.04)
    # The filler takes part in every other episode.
    assert filler["jobs_per_s"] == pytest.approx(4 / 0.02)
    assert np.isnan([filler["deadline_us"], filler["miss_rate"]]).all()


def test_a_row_an_episode(outcomes):
    episodes = episode_frame(outcomes)
    assert len(episodes) == 12
    assert list(episodes.columns[:4]) == ["scheduler", "scenario", "split", "episode"]
    assert list(episodes["seed"][:4]) == [100, 101, 102, 103]


@pytest.mark.parametrize(
    ("lead", "words"),
    [
        ([2.0, 1.0, 3.0, 2.0], "the learned policy beats the best rule (edf): +2.0"),
        ([-2.0, -1.0, -3.0, -2.0], "the learned policy loses to the best rule (edf): -2.0"),
        ([-4.0, 4.0, 3.0, -3.0], "the learned policy does not differ clearly from the best rule (edf): +0.0"),
    ],
)
def test_verdict_follows_the_interval(outcome_of, lead, words):
    edf = np.array([10.0, 20.0, 30.0, 40.0])
    assert words in verdict(summary_frame([outcome_of("edf", edf), outcome_of("learned", edf + lead)]))


def test_verdict_without_a_learned_policy(outcomes):
    assert "the best scheduler (edf) beats serial: +6.0" in verdict(summary_frame(outcomes[:2]))
    assert verdict(summary_frame(outcomes[1:2])) == "On toy, serial has the highest return of all that ran."


def test_score_and_probability_of_improvement(outcomes):
    summary = summary_frame(outcomes).set_index("scheduler")
    assert list(summary["score"]) == pytest.approx([1.0, 0.0, 8.0 / 6.0])
    assert list(summary["beats_best_rule"]) == [0.5, 0.0, 0.875]
    assert summary.loc["edf", "return_iqm"] == pytest.approx(31.5)
    assert (summary["return_iqm_low"] <= summary["return_iqm"]).all()
    assert list(summary["train_seeds"]) == [0, 0, 1]


def test_no_score_without_serial(outcomes):
    assert np.isnan(summary_frame([outcomes[0], outcomes[2]])["score"]).all()


def test_the_clairvoyant_is_never_the_best_rule(outcomes, outcome_of):
    oracle = outcome_of("oracle", np.full(4, 99.0))
    assert best_rule_of([*outcomes, oracle]).scheduler == "edf"
