import numpy as np
import pandas as pd
import pytest

import agents
from eval import play
from eval.episodes import held_out
from eval.metrics import lane_return
from eval.runner import Plan, check, play_all, publish
from hexenv.engine import TraceLevel
from hexenv.engine.layout import Event
from hexenv.errors import ConfigError
from hexenv.workload import build

SHORT = {"horizon_us": 20_000.0}


@pytest.fixture
def tables():
    return build("camera_decode", "v79", "heldout", **SHORT)


def test_every_scheduler_meets_the_same_episodes(short_outcomes):
    first, *others = (outcome.episodes[["setting", "load", "mix", "seed"]] for outcome in short_outcomes)
    for other in others:
        pd.testing.assert_frame_equal(first, other)


def test_return_equals_the_trace_and_the_rewards(tables):
    scheduler, episode = agents.make("random"), held_out(tables, 1)
    rewards = []
    act = scheduler.act

    def watched(views, masks):
        rewards.append(float(simulators[0].rewards[0]))
        return act(views, masks)

    scheduler.act = watched
    simulators = []
    simulator_class = play.Simulator

    def keep(*args, **kwargs):
        simulators.append(simulator_class(*args, **kwargs))
        return simulators[-1]

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(play, "Simulator", keep)
        simulator, _ = play.play(scheduler, tables, episode, 0, TraceLevel.ALL)
    trace = simulator.trace(0)

    def total(event):
        return trace["value"][trace["event"] == event].sum()

    weight = float(tables.config["miss_weight"][0])
    of_trace = (total(Event.COMPLETE) - total(Event.DROP) - weight * total(Event.MISS)) / 1e6
    assert lane_return(simulator.lanes[0], tables) == pytest.approx(of_trace, abs=1e-9)
    # Each act sees the reward of the step before it; the first sees that of the reset, 0.
    assert sum(rewards) + float(simulator.rewards[0]) == pytest.approx(of_trace, abs=1e-9)
    assert len(rewards) > 50


@pytest.mark.parametrize("name", ["random", "slack_gate"])
def test_cutting_the_list_changes_nothing(tables, monkeypatch, name):
    episodes = held_out(tables, 5)
    whole = play.run(agents.make(name), tables, episodes)
    monkeypatch.setattr(play, "LANES", 2)
    cut = play.run(agents.make(name), tables, episodes)
    pd.testing.assert_frame_equal(whole.episodes, cut.episodes)
    assert [log.latency_ns[0].tolist() for log in whole.jobs] == [log.latency_ns[0].tolist() for log in cut.jobs]


def test_shares_are_shares(short_outcomes):
    for outcome in short_outcomes:
        frame = outcome.episodes
        shares = frame[["hvx_busy", "hmx_busy", "dma_busy", "wait_share", "hvx_picks", "hmx_picks", "hybrid_picks"]]
        assert ((shares >= 0.0) & (shares <= 1.0 + 1e-9)).all(axis=None)
        assert np.allclose(frame[["hvx_picks", "hmx_picks", "hybrid_picks"]].sum(axis=1), 1.0)
        assert (frame["misses"] <= frame["due"]).all()
        assert frame["simulated_ms"].between(0.0, 20.0 + 1e-9).all()
        assert frame["finished"].sum() == sum(latency.size for log in outcome.jobs for latency in log.latency_ns)
        assert (outcome.missed.sum(axis=1) == frame["misses"]).all()


def test_the_plan_wins_over_a_scheduler_and_a_scheduler_over_the_scenario(short_plan):
    serial = agents.make("serial")
    assert short_plan.tables("camera_decode", serial).config["mode"][0] == 0
    assert short_plan.tables("camera_decode", serial).config["horizon_ns"][0] == 20_000_000
    forced = Plan(("camera_decode",), "v79", (serial,), 1, {"mode": "fused"})
    assert forced.tables("camera_decode", serial).config["mode"][0] == 3


def test_twice_the_same_bytes(short_plan, short_outcomes, tmp_path):
    folders = [tmp_path / "one", tmp_path / "two"]
    for folder, outcomes in zip(folders, (short_outcomes, play_all(short_plan, check(short_plan))), strict=True):
        folder.mkdir()
        publish(short_plan, outcomes, folder)
    for name in ("summary.csv", "streams.csv", "episodes.csv", "report.html"):
        assert (folders[0] / name).read_bytes() == (folders[1] / name).read_bytes(), name


def test_a_wrong_plan_is_refused_before_anything_is_played(short_plan):
    with pytest.raises(ConfigError, match="nowhere"):
        check(Plan(("nowhere",), "v79", short_plan.schedulers, 1))
    with pytest.raises(ConfigError, match="episodes 0"):
        check(Plan(("camera_decode",), "v79", short_plan.schedulers, 0))
