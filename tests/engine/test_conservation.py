"""Laws that hold under any play: nothing is lost, nothing is made, no engine does more than it can."""

from __future__ import annotations

import numpy as np
import pytest

from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import NO_DEADLINE, Event, Phase
from hexenv.observation import encode, observation_space
from hexenv.workload import build, scenario_names
from tests.engine.play import keys, play_out, random_actions

LANES = 32


def assert_vtcm_is_disjoint(sim: Simulator) -> None:
    slots = sim.lanes["slots"]
    held = slots["phase"] != Phase.FREE
    start, end = slots["vtcm_offset"], slots["vtcm_offset"] + slots["vtcm_bytes"]
    assert (start[held] >= 0).all()
    assert (end[held] <= sim.tables.config["vtcm_bytes"][0]).all()
    both = held.all(axis=1)
    assert ((end[both, 0] <= start[both, 1]) | (end[both, 1] <= start[both, 0])).all()


def assert_contexts_fit(sim: Simulator) -> None:
    slots = sim.lanes["slots"]
    working = (slots["phase"] == Phase.PROLOGUE) | (slots["phase"] == Phase.BODY)
    assert ((slots["contexts"] * working).sum(axis=1) <= sim.tables.config["contexts"][0]).all()


@pytest.mark.parametrize("scenario", scenario_names())
@pytest.mark.parametrize("mode", ["fused", "concurrent", "fused_serial", "serial"])
def test_laws_of_random_play(scenario: str, mode: str) -> None:
    """Over 1e5 decisions altogether (3 scenarios x 4 modes x 32 lanes)."""
    tables = build(scenario, "v79", "train", mode=mode)
    sim = Simulator(tables, LANES, trace=TraceLevel.ALL)
    sim.reset(keys(LANES))
    rng = np.random.default_rng(1)
    space = observation_space(tables)
    observation = {name: np.zeros((LANES, *box.shape), np.float32) for name, box in space.items()}
    steps = 0

    def choose(sim: Simulator) -> np.ndarray:
        nonlocal steps
        steps += 1
        assert sim.masks[:, 0].all()
        assert_vtcm_is_disjoint(sim)
        assert_contexts_fit(sim)
        if steps % 50 == 0:
            encode(sim.views, tables, observation)
            for name, box in space.items():
                assert np.isfinite(observation[name]).all()
                assert ((observation[name] >= box.low) & (observation[name] <= box.high)).all(), name
        return random_actions(sim, rng)

    returns = play_out(sim, choose)
    assert sim.lanes["decisions"].sum() > 8_000
    for lane in range(LANES):
        assert_trace_adds_up(sim, lane, returns[lane])


def assert_trace_adds_up(sim: Simulator, lane: int, total: float) -> None:
    tables, trace, state = sim.tables, sim.trace(lane), sim.lanes[lane]
    config = tables.config[0]
    of = {event: trace[trace["event"] == event] for event in Event}

    # The return is what the trace says.
    credit = of[Event.COMPLETE]["value"].sum() - of[Event.DROP]["value"].sum()
    charge = of[Event.MISS]["value"].sum()
    assert total == pytest.approx((credit - config["miss_weight"] * charge) / 1e6, abs=1e-9)
    assert state["credit_ns"] == credit

    # Engines: at most fully busy in every segment, and the busy time is the segments' sum.
    segments = of[Event.SEGMENT]
    length = (segments["end_ns"] - segments["t_ns"]).astype(float)
    assert (segments["value"] <= length * (1 + 1e-9)).all()
    assert (segments["value2"] <= config["contexts"] * length * (1 + 1e-9)).all()
    assert (segments["value3"] <= length * (1 + 1e-9)).all()
    for name, column in (("busy_ddr_ns", "value"), ("busy_hvx_ns", "value2"), ("busy_hmx_ns", "value3")):
        assert state[name] == pytest.approx(segments[column].sum(), rel=1e-9)

    # Every admitted job ends exactly once, or is still alive at the horizon.
    arrived = {(r["stream"], r["job"]) for r in of[Event.ARRIVE]}
    ended = [(r["stream"], r["job"]) for event in (Event.FINISH, Event.DROP) for r in of[event]]
    live = state["jobs"][(state["jobs"]["live"] != 0) & (state["jobs"]["dropped"] == 0)]
    alive = {(j["stream"], j["index"]) for j in live}
    assert len(ended) == len(set(ended))
    assert set(ended) | alive == arrived
    assert not set(ended) & alive

    # Every stage launched leaves its slot once or is resident at the end; stages of a job finish at most once.
    left = len(of[Event.COMPLETE]) + len(of[Event.UNCREDITED])
    resident = int((state["slots"]["phase"] >= Phase.QUEUED).sum())
    assert len(of[Event.LAUNCH]) == left + resident
    done = [(r["stream"], r["job"], r["stage"]) for r in of[Event.COMPLETE]]
    assert len(done) == len(set(done))

    # Misses: counters agree with the trace, and no firm job finishes late.
    for s in range(config["n_streams"]):
        assert state["missed"][s] == (of[Event.MISS]["stream"] == s).sum()
        if tables.streams["firm"][s] and tables.streams["deadline_ns"][s] < NO_DEADLINE:
            allowed = {r["job"]: r["value"] for r in of[Event.ARRIVE][of[Event.ARRIVE]["stream"] == s]}
            finished = of[Event.FINISH][of[Event.FINISH]["stream"] == s]
            assert all(r["value"] <= allowed[r["job"]] for r in finished)
            assert state["due"][s] >= state["missed"][s]


def test_work_in_is_work_out_without_noise() -> None:
    """The engines' busy time is the sum of the launched variants' work, less what residents still owe."""
    tables = build("camera_decode", "v79", "train", noise=0.0)
    sim = Simulator(tables, 4, trace=TraceLevel.ALL)
    sim.reset(keys(4))
    rng = np.random.default_rng(2)
    play_out(sim, lambda s: random_actions(s, rng))
    for lane in range(4):
        trace, state = sim.trace(lane), sim.lanes[lane]
        left_slot = trace[(trace["event"] == Event.COMPLETE) | (trace["event"] == Event.UNCREDITED)]
        work = tables.variants[left_slot["variant"]]
        ddr = (work["ddr_ns"] + work["prologue_ddr_ns"]).sum()
        hmx = work["hmx_ns"].sum()
        for slot in state["slots"]:
            variant = tables.variants[slot["variant"]]
            body = 1 - slot["left"] / variant["tiles"]
            if slot["phase"] == Phase.PROLOGUE:
                ddr += body * variant["prologue_ddr_ns"]
            elif slot["phase"] in (Phase.BODY, Phase.DRAIN):
                done = body if slot["phase"] == Phase.BODY else 1.0
                ddr += variant["prologue_ddr_ns"] + done * variant["ddr_ns"]
                hmx += done * variant["hmx_ns"]
        assert state["busy_ddr_ns"] == pytest.approx(ddr, rel=1e-9)
        assert state["busy_hmx_ns"] == pytest.approx(hmx, rel=1e-9)
