"""Deadlines, drops, queues, closed loops and dependencies, worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from hexenv.engine import IllegalAction, Simulator, TraceLevel
from hexenv.engine.layout import Arrival, Event, Mode
from tests.engine.toy import Kernel, Source, Work, action, one, toy_tables

KEY = np.zeros(1, np.uint64)
SHORT = one(Kernel(tiles=10, hmx=100.0))


def start(*sources: Source, **settings: object) -> Simulator:
    sim = Simulator(toy_tables(*sources, **settings), trace=TraceLevel.ALL)
    sim.reset(KEY)
    return sim


def step(sim: Simulator, a: int) -> float:
    sim.step(np.array([a]))
    return float(sim.rewards[0])


def run(sim: Simulator, *, serve: bool = True) -> float:
    total = 0.0
    while not sim.lanes["over"][0]:
        legal = np.flatnonzero(sim.masks[0])
        total += step(sim, int(legal[1]) if serve and legal.size > 1 else 0)
    return total


def count(sim: Simulator, event: Event) -> int:
    return int((sim.trace(0)["event"] == event).sum())


@pytest.mark.parametrize(("deadline", "missed"), [(100.0, 0), (99.999, 1)])
def test_deadline_is_met_at_equality(deadline: float, missed: int) -> None:
    sim = start(Source((SHORT,), deadline=deadline))
    total = run(sim)
    assert sim.lanes["missed"][0, 0] == missed
    assert sim.lanes["due"][0, 0] == 1
    assert total == pytest.approx(-0.1 if missed else 0.1)


def test_a_dropped_job_forfeits_what_it_earned_at_that_instant() -> None:
    chain = (SHORT, one(Kernel(tiles=10, hmx=100.0), after=(0,)))
    sim = start(Source(chain, deadline=150.0))
    assert step(sim, action(0)) == pytest.approx(0.1)
    # The second stage runs out uncredited; 0.1 is forfeited and 0.2 of reference work is charged.
    assert step(sim, action(0)) == pytest.approx(-0.1 - 0.2)
    assert sim.terminated[0]
    assert sim.views["now_ns"][0] == 200_000
    assert count(sim, Event.UNCREDITED) == 1
    assert count(sim, Event.DROP) == 1


def test_a_soft_job_finishes_late_and_is_charged_once() -> None:
    sim = start(Source((SHORT,), deadline=40.0, firm=False))
    assert run(sim) == pytest.approx(0.1 - 0.1)
    assert sim.lanes["finished"][0, 0] == 1
    assert sim.lanes["due"][0, 0] == sim.lanes["missed"][0, 0] == 1


def test_a_starved_closed_loop_is_charged_every_period() -> None:
    loop = Source((SHORT,), arrival=Arrival.CLOSED_LOOP, deadline=500.0, firm=False, gap=100.0)
    sim = start(loop, horizon_ns=2_600_000)
    assert run(sim, serve=False) == pytest.approx(-0.1 * 5)
    assert sim.truncated[0]
    assert not sim.terminated[0]
    assert sim.lanes["missed"][0, 0] == 5


def test_the_next_job_of_a_closed_loop_comes_one_gap_later() -> None:
    sim = start(Source((SHORT,), arrival=Arrival.CLOSED_LOOP, gap=50.0), horizon_ns=1_000_000)
    run(sim)
    trace = sim.trace(0)
    times = trace["t_ns"][trace["event"] == Event.ARRIVE] // 1000
    assert times.tolist() == [0, 150, 300, 450, 600, 750, 900]


def test_a_full_queue_rejects_and_charges() -> None:
    stream = Source((SHORT,), times=(0.0, 10.0, 20.0), deadline=1000.0, queue=2)
    sim = start(stream)
    assert run(sim) == pytest.approx(0.2 - 0.1)
    assert sim.lanes["rejected"][0, 0] == 1
    assert (sim.lanes["due"][0, 0], sim.lanes["missed"][0, 0]) == (3, 1)


def test_a_drop_frees_the_queue_for_an_arrival_of_the_same_instant() -> None:
    sim = start(Source((SHORT,), times=(0.0, 500.0), deadline=500.0))
    while sim.views["now_ns"][0] < 500_000:
        step(sim, 0)
    assert sim.lanes["rejected"][0, 0] == 0
    assert count(sim, Event.ARRIVE) == 2


def test_jobs_due_after_the_horizon_count_neither_way() -> None:
    sim = start(Source((SHORT,), deadline=300.0), horizon_ns=200_000)
    run(sim, serve=False)
    assert sim.lanes["due"][0, 0] == sim.lanes["missed"][0, 0] == 0
    sim = start(Source((SHORT,), deadline=300.0), horizon_ns=200_000)
    run(sim)
    assert sim.lanes["due"][0, 0] == 0


def test_wait_ends_at_an_arrival_or_after_its_limit() -> None:
    sim = start(Source((SHORT,)), Source((SHORT,), times=(130.0,)))
    step(sim, 0)
    assert sim.views["now_ns"][0] == 130_000
    step(sim, 0)
    assert sim.views["now_ns"][0] == 330_000
    assert sim.elapsed_ns[0] == 200_000


def test_a_prefix_of_zero_time_earns_nothing() -> None:
    sim = start(Source((SHORT,)), Source((SHORT,)))
    assert step(sim, action(0)) == 0.0
    assert sim.elapsed_ns[0] == 0


def test_stages_wait_for_their_predecessors() -> None:
    fork_join = (
        SHORT,
        one(Kernel(hmx=10.0), after=(0,)),
        one(Kernel(hvx=10.0), after=(0,)),
        one(Kernel(hmx=5.0), after=(1, 2)),
    )
    sim = start(Source(fork_join))
    assert sim.views["n_tasks"][0] == 1
    step(sim, action(0))
    step(sim, 0)
    assert sim.views["n_tasks"][0] == 2
    run(sim)
    trace = sim.trace(0)
    assert trace["stage"][trace["event"] == Event.COMPLETE].tolist()[-1] == 3


def test_a_state_update_waits_for_the_previous_job() -> None:
    """Stage 1 updates a state: in job 1 it must come after stage 1 of job 0, while stage 0 is free to go."""
    stages = (SHORT, one(Kernel(tiles=10, ddr=300.0), after=(0,), after_previous=(1,)))
    sim = start(Source(stages, times=(0.0, 0.0), queue=2))
    run(sim)
    trace = sim.trace(0)
    launches = trace[(trace["event"] == Event.LAUNCH) & (trace["stage"] == 1)]
    ends = trace[(trace["event"] == Event.COMPLETE) & (trace["stage"] == 1)]
    assert launches["job"].tolist() == [0, 1]
    assert launches["t_ns"][1] >= ends["t_ns"][0]
    firsts = trace[(trace["event"] == Event.LAUNCH) & (trace["stage"] == 0)]
    assert firsts["t_ns"][1] < ends["t_ns"][0]


def test_a_drop_releases_the_state_to_the_next_job() -> None:
    stages = (one(Kernel(tiles=1, ddr=300.0), after_previous=(0,)),)
    sim = start(Source(stages, times=(0.0, 150.0), queue=2, deadline=200.0), Source((SHORT,), times=(5000.0,)))
    # Job 0 starts at 0 and is dropped at 200 while resident; job 1 may write the state only when it has run out at 300.
    step(sim, action(0))
    assert sim.views["now_ns"][0] == 300_000
    assert sim.views["n_tasks"][0] == 1


def test_earliest_deadline_and_stream_heads_come_first() -> None:
    late, soon = Source((SHORT, SHORT), deadline=9000.0, queue=2), Source((SHORT,), deadline=500.0)
    sim = start(late, soon, Source((SHORT,)))
    view = sim.views[0]
    assert view["tasks"]["stream"][: view["n_tasks"]].tolist() == [1, 0, 2, 0]
    assert view["tasks"]["head"][: view["n_tasks"]].tolist() == [True, True, True, False]


def test_insertion_order_of_simultaneous_events_does_not_matter() -> None:
    """The same two streams in either order end at the same instants."""
    a = Source((one(Kernel(tiles=10, hmx=100.0)),), times=(0.0, 100.0), deadline=150.0, queue=2)
    b = Source((one(Kernel(tiles=10, ddr=100.0)),), times=(0.0, 100.0), deadline=100.0, queue=2)
    results = []
    for pair, names in (((a, b), "ab"), ((b, a), "ba")):
        sim = start(*pair)
        total = run(sim)
        trace = sim.trace(0)
        done = trace[np.isin(trace["event"], (Event.FINISH, Event.DROP, Event.MISS))]
        results.append(
            (total, sorted((names[r["stream"]], int(r["job"]), int(r["t_ns"]), int(r["event"])) for r in done))
        )
    assert results[0] == results[1]


def test_launch_costs_a_batch_a_job_and_an_op_a_stage() -> None:
    chain = (SHORT, one(Kernel(tiles=10, hmx=100.0), after=(0,)))
    costs = {"batch_ns": 80_000, "op_ns": 2_000, "decision_ns": 1_000, "entry_ns": 5_000}
    ends = {}
    for mode in (Mode.SERIAL, Mode.FUSED):
        sim = start(Source(chain), mode=mode, **costs)
        run(sim)
        ends[mode] = sim.views["now_ns"][0] / 1000
    assert ends[Mode.SERIAL] == 80 + 2 * (2 + 1) + 200
    assert ends[Mode.FUSED] == 80 + 2 * (5 + 1) + 200


def test_vtcm_fragments() -> None:
    """A small stage above a freed hole keeps a stage out that the free bytes alone would admit."""
    lower, upper = one(Kernel(hmx=100.0, vtcm=4096)), one(Kernel(ddr=900.0, vtcm=2048))
    big, small = one(Kernel(hmx=100.0, vtcm=5000)), one(Kernel(hmx=50.0, vtcm=4096))
    sim = start(Source((lower,)), Source((upper,)), Source((big,), times=(50.0,)), Source((small,), times=(50.0,)))
    step(sim, action(0))
    step(sim, action(0))
    view = sim.views[0]
    assert view["now_ns"] == 100_000
    assert view["vtcm_free_bytes"] == 6144
    assert view["vtcm_largest_bytes"] == 4096
    legal = np.flatnonzero(sim.masks[0])
    assert legal.tolist() == [0, action(1)]


def test_illegal_actions_are_explained_and_change_nothing() -> None:
    sim = Simulator(toy_tables(Source((SHORT,))), 2)
    sim.reset(np.zeros(2, np.uint64))
    before = sim.lanes.tobytes()
    for bad in (action(0, version=1), action(3), -1, sim.tables.n_actions):
        with pytest.raises(IllegalAction, match="unchanged"):
            sim.step(np.array([action(0), bad]))
        assert sim.lanes.tobytes() == before


def test_a_lane_that_is_over_takes_no_action() -> None:
    sim = start(Source((SHORT,)))
    run(sim)
    assert sim.terminated[0]
    with pytest.raises(IllegalAction, match="over"):
        step(sim, 0)


def test_versions_of_a_stage_earn_the_same() -> None:
    both = Work({(0, 0): Kernel(tiles=10, hvx=1600.0), (1, 0): Kernel(tiles=10, hmx=100.0)})
    rewards = []
    for version in (0, 1):
        sim = start(Source((both,)))
        rewards.append(step(sim, action(0, version=version)))
    assert rewards == [pytest.approx(0.1), pytest.approx(0.1)]
