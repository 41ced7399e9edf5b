import numpy as np
import pytest

from eval.episodes import Episode
from eval.metrics import (
    EPISODE_COLUMNS,
    JobLog,
    PickCounter,
    deadline_ends_ns,
    episode_row,
    job_log,
    percentile_us,
)
from hexenv import action
from hexenv.engine.layout import LANE, NO_DEADLINE, Arrival, Event
from tests.engine.toy import Kernel, Source, one
from tests.engine.toy import toy_tables as compiled


@pytest.fixture
def lane():
    """After 10 ms: 6 ms credited, 1.5 ms charged, HVX busy 20 of 40 context-ms, HMX 3 ms, DMA 7 ms."""
    lane = np.zeros(1, LANE)[0]
    lane["now_ns"], lane["credit_ns"], lane["charge_ns"] = 10_000_000, 6_000_000, 1_500_000.0
    lane["busy_hvx_ns"], lane["busy_hmx_ns"], lane["busy_ddr_ns"] = 20e6, 3e6, 7e6
    lane["due"][:2], lane["missed"][:2], lane["finished"][:2] = (4, 0), (1, 0), (3, 5)
    return lane


@pytest.fixture
def jobs(record):
    finishes = [record(Event.FINISH, 10 * i, stream=0, value=1e6 * i, job=i) for i in (3, 1, 2)]
    others = [
        record(Event.FINISH, 50, stream=1, value=9e6),
        record(Event.DROP, 60, stream=0),
        record(Event.REJECT, 70, stream=0),
        record(Event.REJECT, 71, stream=0),
        record(Event.MISS, 70, stream=0, value=5.0),
    ]
    return job_log(np.concatenate(finishes + others), 2)


def test_job_log_sorts_events_by_stream(jobs):
    assert [latency.tolist() for latency in jobs.latency_ns] == [[3e6, 1e6, 2e6], [9e6]]
    assert [index.tolist() for index in jobs.index] == [[3, 1, 2], [0]]
    assert jobs.dropped.tolist() == [1, 0]
    assert jobs.rejected.tolist() == [2, 0]


def test_row_by_hand(lane, jobs, toy_tables):
    row = episode_row(Episode(0, 100), lane, jobs, waits=2, picks=[3, 1, 4], tables=toy_tables)
    assert tuple(row) == EPISODE_COLUMNS
    assert row["return"] == pytest.approx(6.0 - 2.0 * 1.5, abs=1e-12)
    assert row["throughput"] == pytest.approx(0.6)
    assert (row["due"], row["misses"], row["miss_rate"]) == (4, 1, 0.25)
    assert (row["finished"], row["dropped"], row["rejected"]) == (8, 1, 2)
    assert (row["hvx_busy"], row["hmx_busy"], row["dma_busy"]) == pytest.approx((0.5, 0.3, 0.7))
    assert (row["decisions"], row["wait_share"]) == (10, 0.2)
    assert (row["hvx_picks"], row["hmx_picks"], row["hybrid_picks"]) == (3 / 8, 1 / 8, 4 / 8)
    assert (row["load"], row["mix"], row["seed"]) == (0.5, "camera+filler", 100)


def test_percentiles_leave_streams_without_deadline_out(lane, jobs, toy_tables):
    row = episode_row(Episode(0, 100), lane, jobs, 0, [1, 0, 0], toy_tables)
    assert (row["p50_us"], row["p95_us"], row["p99_us"]) == (2000.0, 3000.0, 3000.0)


def test_nothing_due_is_no_miss_rate(lane, toy_tables):
    lane["due"] = 0
    nothing = JobLog((np.empty(0),) * 2, np.zeros(2, int), np.zeros(2, int), (np.empty(0, int),) * 2)
    row = episode_row(Episode(1, 100), lane, nothing, 0, [0, 0, 0], toy_tables)
    assert np.isnan([row["miss_rate"], row["p50_us"], row["p99_us"]]).all()
    assert (row["wait_share"], row["hvx_picks"]) == (0.0, 0.0)
    assert row["mix"] == "camera"


def test_percentile_is_the_nearest_rank():
    latency_ns = 1000.0 * np.arange(1, 101)
    assert [percentile_us(latency_ns, p) for p in (50, 95, 99)] == [50.0, 95.0, 99.0]


def test_counts_waits_and_versions_of_the_lanes_that_play():
    picks = PickCounter(3)
    picks.add(np.array([0, action.encode(5, 1, 3, 2), action.encode(0, 0, 0, 0)]), np.array([True, True, False]))
    picks.add(np.array([action.encode(0, 0, 3, 2), action.encode(2, 2, 0, 0), 0]), np.array([True, True, True]))
    assert picks.waits.tolist() == [1, 0, 1]
    assert picks.versions.tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 0]]


def test_deadline_ends_are_those_of_the_recorded_jobs():
    first = Source((one(Kernel(hmx=1.0)),), times=(0.0, 1.0, 2.0), deadline=50.0, deadlines=(50.0, 70.0, 20.0))
    second = Source(first.stages, times=(0.0,), deadline=9.0)
    third = Source(first.stages, arrival=Arrival.PERIODIC, period=5.0)
    tables = compiled(first, second, third)
    assert [deadline_ends_ns(tables, s) for s in range(3)] == [(20_000, 70_000), (9_000, 9_000), (NO_DEADLINE,) * 2]
