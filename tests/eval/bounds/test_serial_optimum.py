"""CP-SAT in mode serial: agrees with branch and bound on the engine and with its own replay."""

import pytest
from hypothesis import assume, given, settings

import agents
from eval.bounds.exact import optimum
from eval.bounds.relaxation import return_bound
from eval.bounds.serial_optimum import replay, serial_optimum
from eval.metrics import lane_return
from eval.play import play as play_scheduler
from hexenv.engine import TraceLevel
from hexenv.engine.layout import Arrival, Mode
from hexenv.errors import ConfigError
from tests.engine.toy import Kernel, Source, Work, one, toy_tables
from tests.eval.bounds.small import EPISODE, HMX, best_of_all, noises, play, scenarios


def solve(tables):
    """The proven optimum, or a rejected example where a queue could be full."""
    try:
        found = serial_optimum(tables, EPISODE)
    except ConfigError as error:
        assume("could be full" not in str(error))
        raise
    assert found.proven
    assert found.bound == pytest.approx(found.value, abs=1e-9)
    return found


@settings(max_examples=25, deadline=None)
@given(scenarios(streams=3, max_stages=3), noises)
def test_agrees_with_branch_and_bound_and_the_engine(tables, noise):
    tables.config["mode"], tables.config["noise"] = Mode.SERIAL, noise
    found, searched = solve(tables), optimum(tables, EPISODE, max_nodes=1000)
    assume(searched.proven)
    assert found.value == pytest.approx(searched.value, abs=1e-9)
    assert play(tables, EPISODE, replay(tables, EPISODE, found.order)) == pytest.approx(found.value, abs=1e-9)
    assert found.value <= return_bound(tables, EPISODE)
    for name in agents.names():
        simulator, _ = play_scheduler(agents.make(name), tables, (EPISODE,), 0, TraceLevel.NONE)
        assert lane_return(simulator.lanes[0], tables) <= found.value + 1e-9, name


@settings(max_examples=12, deadline=None)
@given(scenarios(streams=2, max_stages=2))
def test_trying_every_order_agrees(tables):
    tables.config["mode"] = Mode.SERIAL
    found = solve(tables)
    assume(optimum(tables, EPISODE, max_nodes=60).proven)
    assert found.value == pytest.approx(best_of_all(tables, EPISODE)[0], abs=1e-9)


def camera(**kwargs):
    """Two frames of a chain whose first stage updates a state: the next frame's first stage comes after it."""
    first = Work({(HMX, 0): Kernel(hmx=20.0)}, after_previous=(0,))
    second = one(Kernel(hmx=30.0), version=HMX, after=(0,))
    return Source((first, second), times=(0.0, 10.0), queue=2, **kwargs)


@pytest.mark.parametrize("deadline", [45.0, 60.0, 110.0])
def test_state_of_the_job_before(deadline):
    tables = toy_tables(camera(deadline=deadline), mode=Mode.SERIAL, horizon_ns=200_000, wait_max_ns=200_000, op_ns=500)
    found = serial_optimum(tables, EPISODE)
    assert found.value == pytest.approx(optimum(tables, EPISODE).value, abs=1e-9)
    assert play(tables, EPISODE, replay(tables, EPISODE, found.order)) == pytest.approx(found.value, abs=1e-9)


def test_forty_jobs_are_no_trouble():
    stage = one(Kernel(hmx=30.0), version=HMX)
    streams = [
        Source((stage,), arrival=Arrival.PERIODIC, period=period, deadline=0.8 * period, offset=0.0, queue=2)
        for period in (100.0, 130.0, 170.0)
    ]
    tables = toy_tables(*streams, mode=Mode.SERIAL, horizon_ns=1_700_000, wait_max_ns=200_000)
    found = serial_optimum(tables, EPISODE)
    assert found.proven
    assert play(tables, EPISODE, replay(tables, EPISODE, found.order)) == pytest.approx(found.value, abs=1e-9)
    assert found.value <= return_bound(tables, EPISODE)


@pytest.mark.parametrize(
    ("source", "mode", "text"),
    [
        (Source((one(Kernel(hmx=1.0), version=HMX),)), Mode.FUSED, "mode = fused"),
        (Source((one(Kernel(hmx=1.0), version=HMX),), arrival=Arrival.CLOSED_LOOP), Mode.SERIAL, "closed loop"),
        (Source((one(Kernel(hmx=1.0), version=HMX),), times=(0.0, 5.0)), Mode.SERIAL, "could be full when job 1 comes"),
    ],
    ids=["mode", "closed loop", "queue"],
)
def test_what_it_cannot_solve_is_refused(source, mode, text):
    with pytest.raises(ConfigError, match=text):
        serial_optimum(toy_tables(source, mode=mode), EPISODE)
