"""Branch and bound: what trying everything finds, replayable, and between every scheduler and the linear program."""

import numpy as np
import pytest
from hypothesis import assume, given, settings

import agents
from eval.bounds.exact import Optimum, optimum
from eval.bounds.relaxation import return_bound
from eval.metrics import lane_return
from eval.play import play as play_scheduler
from hexenv.engine import TraceLevel
from hexenv.engine.layout import Arrival, Mode
from hexenv.errors import ConfigError
from tests.engine.toy import Kernel, Source, one, toy_tables
from tests.eval.bounds.small import EPISODE, HMX, best_of_all, play, scenarios, with_deadlines


@settings(max_examples=25, deadline=None)
@given(scenarios(streams=2, max_stages=2))
def test_trying_everything_agrees(tables):
    found = optimum(tables, EPISODE, max_nodes=60)
    assume(found.proven)
    assert found.value == pytest.approx(best_of_all(tables, EPISODE)[0], abs=1e-9)


@settings(max_examples=15, deadline=None)
@given(scenarios(streams=3, max_stages=3))
def test_between_every_scheduler_and_the_linear_program(tables):
    found = optimum(tables, EPISODE, max_nodes=1000)
    assume(found.proven)
    assert play(tables, EPISODE, found.actions) == pytest.approx(found.value, abs=1e-9)
    assert found.value <= return_bound(tables, EPISODE)
    for name in agents.names():
        simulator, _ = play_scheduler(agents.make(name), tables, (EPISODE,), 0, TraceLevel.NONE)
        assert lane_return(simulator.lanes[0], tables) <= found.value + 1e-9, name


@settings(max_examples=25, deadline=None)
@given(scenarios(streams=2, max_stages=2))
def test_longer_deadlines_never_lower_it(tables):
    """Queues are long enough: a job that stays longer could otherwise shut out the next one."""
    tables.streams["queue"] = 2
    found, longer = optimum(tables, EPISODE, 1000), optimum(with_deadlines(tables, 1.5), EPISODE, 1000)
    assume(found.proven and longer.proven)
    assert found.value <= longer.value + 1e-9


def long_and_urgent(mode: Mode):
    """A best-effort stage of 100 us at once; a job of 50 us comes at 10 us and is due at 70 us. Both are HMX work."""
    long, urgent = one(Kernel(hmx=100.0), version=HMX), one(Kernel(hmx=50.0), version=HMX)
    return toy_tables(
        Source((long,)), Source((urgent,), times=(10.0,), deadline=60.0), mode=mode, horizon_ns=200_000,
        wait_max_ns=200_000, miss_weight=2.0,
    )  # fmt: skip


def test_waiting_can_be_the_best_choice():
    found = optimum(long_and_urgent(Mode.SERIAL), EPISODE)
    assert found.proven
    assert found.actions[0] == 0
    assert found.value == pytest.approx(0.150)


def test_a_spent_node_limit_is_said():
    found = optimum(long_and_urgent(Mode.FUSED), EPISODE, max_nodes=2)
    assert not found.proven
    assert found.nodes == 2


def test_an_episode_where_nothing_happens():
    tables = toy_tables(Source((one(Kernel(hmx=1.0), version=HMX),), times=()), horizon_ns=1000)
    assert optimum(tables, EPISODE) == Optimum(0.0, (), 0, proven=True)


def test_closed_loops_are_refused():
    tables = toy_tables(Source((one(Kernel(hmx=1.0), version=HMX),), arrival=Arrival.CLOSED_LOOP))
    with pytest.raises(ConfigError, match="stream stream is a closed loop"):
        optimum(tables, EPISODE)


def test_sharing_finds_what_no_serial_order_can():
    """40 us of HVX beside 40 us of HMX, both due at 50 us."""
    sources = (
        Source((one(Kernel(hvx=160.0)),), deadline=50.0),
        Source((one(Kernel(hmx=40.0), version=HMX),), deadline=50.0),
    )
    values = {
        mode: optimum(toy_tables(*sources, mode=mode, horizon_ns=100_000, wait_max_ns=100_000), EPISODE).value
        for mode in (Mode.SERIAL, Mode.FUSED)
    }
    assert values[Mode.FUSED] == pytest.approx(0.080)
    assert values[Mode.SERIAL] == pytest.approx(0.040 - 0.040)
    assert np.isfinite(list(values.values())).all()
