"""Evidence by hand: ladders, slowdowns, bubbles, VTCM, ceilings and flips worked out with pencil and paper."""

import numpy as np
import pandas as pd
import pytest

import agents
from eval.bounds.ceiling import most_work, throughput_ceiling
from eval.episodes import Episode, held_out
from eval.evidence.bubbles import STACKS, bubble_frame
from eval.evidence.energy import HIGH_W, LOW_W, energy_frame, is_known
from eval.evidence.ladder import ladder_frame
from eval.evidence.memory import occupancy, vtcm_frame, vtcm_steps
from eval.evidence.selection import FEATURED, featured
from eval.evidence.sensitivity import _flips, sensitivity_text, two_best
from eval.evidence.slowdown import slowdown_frame
from eval.timeline import Take, differences, record
from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import TEMPLATE, Event
from hexenv.workload import build
from tests.engine.toy import Kernel, Source, Work, one, toy_tables

HVX, HMX = 0, 1
US = 1000
TWICE = (0.0, 5000.0)
"""A job now and one after the horizon, so that the episode goes on."""


def played(tables, name="serial"):
    return record(agents.make(name), tables, Episode(0, 1), 0)


def test_ladder_takes_the_rungs_that_ran_from_the_lowest_up(outcome_of):
    outcomes = [outcome_of("slack_gate", [5.0, 7.0]), outcome_of("serial", [1.0, 1.0]), outcome_of("edf", [9.0, 9.0])]
    frame = ladder_frame([*outcomes, outcome_of("online_pairs", [4.0, 4.0])])
    assert frame["scheduler"].tolist() == ["serial", "online_pairs", "slack_gate"]
    assert frame["above"].tolist() == ["", "serial", "online_pairs"]
    assert frame["return_step"].tolist()[1:] == [3.0, 2.0]
    assert (frame["return_step_low"].iloc[2], frame["return_step_high"].iloc[2]) == (1.0, 3.0)


def test_the_learned_rung_is_the_shipped_policy_where_no_other_ran(outcome_of):
    shipped, own = outcome_of("learned_gate", [5.0, 7.0]), outcome_of("learned", [4.0, 4.0])
    assert ladder_frame([outcome_of("serial", [1.0, 1.0]), shipped])["scheduler"].tolist() == ["serial", "learned_gate"]
    assert ladder_frame([shipped, own])["scheduler"].tolist() == ["learned"]


def test_slowdown_divides_by_the_time_alone_of_the_job_that_ran(outcome_of, toy_tables):
    toy_tables.templates = np.zeros(3, TEMPLATE)
    toy_tables.templates["ref_ns"] = 500_000, 1_000_000, 7_000_000
    toy_tables.streams["template_start"], toy_tables.streams["template_count"] = (0, 2), (2, 1)
    frame = slowdown_frame([outcome_of("a", [0.0], latency_ms=(1.0, 2.0, 3.0))]).set_index("stream")
    assert frame.loc["camera", ["p50", "p95", "finished"]].tolist() == [2.0, 6.0, 3]  # 1 / 0.5, 2 / 1, 3 / 0.5
    assert frame.loc["filler", "p50"] == 1.0


def test_figures_have_room_for_the_best_the_reference_and_the_ladder(outcome_of):
    names = ["random", "serial", "edf", "tacker", "aker", "pod", "online_pairs", "hfuse", "orion", "learned"]
    outcomes = [outcome_of(name, [float(i), 0.0]) for i, name in enumerate(names)]
    shown = featured([*outcomes, outcome_of("slack_gate", [8.0, 0.0])])  # plays as orion does
    assert len(shown) == FEATURED
    assert {"learned", "orion", "serial", "online_pairs"} <= set(shown)
    assert "slack_gate" not in shown
    assert "random" not in shown


def test_bubbles_of_a_matrix_stage_that_waits_for_ddr():
    """200 us of DDR beside 100 us of HMX, pipelined; the horizon is at 400 us and the device empty from 200 us on."""
    tables = toy_tables(Source((one(Kernel(tiles=100, ddr=200.0, hmx=100.0), HMX),), times=TWICE), horizon_ns=400 * US)
    row = bubble_frame([played(tables)]).iloc[0]
    assert row["hmx_busy"] == pytest.approx(0.25, abs=0.01)
    assert row["hmx_waits_ddr"] == pytest.approx(0.25, abs=0.01)
    assert row["hmx_waits_hvx"] == 0.0
    assert row["dma_full"] == pytest.approx(0.5, abs=0.01)
    assert row["hvx_none"] == pytest.approx(0.5, abs=0.01)
    assert row["hvx_empty"] == pytest.approx(0.5, abs=0.01)


def test_bubbles_of_a_matrix_stage_that_waits_for_vectors():
    tables = toy_tables(Source((one(Kernel(tiles=100, hvx=800.0, hmx=100.0), HMX),), times=TWICE), horizon_ns=200 * US)
    row = bubble_frame([played(tables)]).iloc[0]  # 800 us of context-time on 4 contexts
    assert row["hmx_waits_hvx"] == pytest.approx(0.5, abs=0.01)
    assert row["hmx_waits_ddr"] == 0.0
    assert row["hvx_busy"] == pytest.approx(1.0, abs=0.01)
    assert row["dma_idle"] == pytest.approx(1.0, abs=0.01)


def test_two_streams_that_want_more_than_ddr_gives_are_contended():
    kernel = Kernel(tiles=100, ddr=100.0, hvx=4.0)
    sources = [Source((one(kernel),), times=TWICE, names=name, deadline=10_000.0) for name in ("left", "right")]
    row = bubble_frame([played(toy_tables(*sources, horizon_ns=400 * US, eta_shared=0.8), "window")]).iloc[0]
    assert row["dma_contended"] * 400 == pytest.approx(250, abs=5)  # 200 us of DDR at 0.8 of its rate
    assert row["dma_full"] == pytest.approx(0.0, abs=0.02)


@pytest.fixture(scope="module")
def tables():
    return build("camera_decode", "v79", "heldout", mode="fused", horizon_us=10_000)


def test_parts_of_every_engine_add_up(tables):
    frame = bubble_frame([record(agents.make("slack_gate"), tables, held_out(tables, 1)[0], 0)])
    for stack in STACKS:
        assert frame[list(stack.parts)].sum(axis=1).iloc[0] == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("settings", [{"mode": "fused"}, {"mode": "concurrent", "vtcm_split": "static"}])
def test_vtcm_is_what_the_engine_says_at_every_wait(settings):
    rule = agents.make("random")  # waits often, and takes tiles of all sizes
    tables = build("camera_decode", "v79", "heldout", **settings, horizon_us=20_000)
    episode = held_out(tables, 1)[0]
    simulator = Simulator(tables, trace=TraceLevel.ALL)
    simulator.reset(np.array([episode.key], np.uint64), settings=np.array([episode.setting]))
    rule.start(tables, 1, 0)
    rule.attach(simulator)
    seen = []
    while not simulator.lanes["over"][0]:
        action, view = rule.act(simulator.views, simulator.masks), simulator.views[0]
        if action[0] == 0:  # what is picked at this instant is in the view, and launches now
            seen.append((view["now_ns"], view["vtcm_free_bytes"], view["vtcm_largest_bytes"]))
        simulator.step(action)
    steps = vtcm_steps(Take("random", tables, simulator.trace(0)))
    size = int(tables.config["vtcm_bytes"][0])
    for now_ns, free, largest in seen:
        step = steps[np.searchsorted(steps["t_ns"], now_ns, side="right") - 1]
        assert (size - step["used"], step["largest"]) == (free, largest)
    assert len(seen) > 10
    assert any(free > largest for _, free, largest in seen)


def test_a_hole_below_a_resident_is_cut_off(record, toy_tables):
    """Two regions of 40 and 30 of 100 bytes; the lower one leaves half way: 40 bytes below, 30 above."""
    toy_tables.config["vtcm_bytes"], toy_tables.config["slots"] = 100, 2
    toy_tables.config["mode"] = 3
    toy_tables.variants = np.zeros(2, [("vtcm_bytes", np.int64)])
    toy_tables.variants["vtcm_bytes"] = 40, 30
    trace = np.concatenate(
        [record(Event.LAUNCH, 0, 50, slot=0, variant=0), record(Event.LAUNCH, 0, 100, slot=1, variant=1)]
    )
    take = Take("a", toy_tables, trace)
    assert vtcm_steps(take).tolist() == [(0, 70, 30), (50, 30, 40), (100, 0, 100)]
    row = vtcm_frame([take]).iloc[0]
    assert (row["used"], row["peak"]) == pytest.approx((0.5, 0.7))
    assert (row["cut_off"], row["fragmented"]) == pytest.approx((0.15, 0.5))
    assert row["largest_of_free"] == pytest.approx((1.0 + 40 / 70) / 2)
    frame = occupancy(take)
    assert frame["used"].iloc[[0, -1]].tolist() == pytest.approx([0.7, 0.3])
    assert frame["cut_off"].iloc[[0, -1]].tolist() == pytest.approx([0.0, 0.3])


def test_no_rule_reaches_the_ceiling_of_throughput(short_plan, short_outcomes):
    for outcome in short_outcomes:
        episodes = held_out(outcome.tables, short_plan.episodes)
        ceiling = throughput_ceiling(outcome.tables, episodes)
        earned = outcome.episodes["credit_ms"] + 0.0
        assert earned.sum() / outcome.episodes["simulated_ms"].sum() <= ceiling < 10.0
        for episode, credit in zip(episodes, earned, strict=True):
            assert credit <= most_work(outcome.tables, episode)


def test_ceiling_is_the_least_loaded_choice_of_versions():
    """Stages of 100 us on all of HVX or 300 us on HMX: of both engines 3 and 1 in 300 us, so 4 x 100 us of work."""
    either = Work({(HVX, 0): Kernel(hvx=400.0), (HMX, 0): Kernel(hmx=300.0)})
    tables = toy_tables(Source((either,) * 8, deadline=None), mode=3, horizon_ns=300 * US)
    assert most_work(tables, Episode(0, 1)) == pytest.approx(0.4, rel=1e-3)


def test_flips_are_told_from_the_sign_of_the_lead():
    def row(low, high, **ends):
        return {"lead_low": low, "lead_high": high, "lead_from_low": low - 1, "lead_to_low": low + 1} | {
            "lead_from_high": high - 1,
            "lead_to_high": high + 1,
        }

    assert _flips(row(1.0, 3.0), 2.0) == "no"
    assert _flips(row(-0.5, 3.0), 2.0) == "yes"
    assert _flips(row(2.0, -1.5), 2.0) == "clearly"
    assert _flips(row(-3.0, -1.0), -2.0) == "no"


def test_every_constant_that_flips_is_named():
    frame = pd.DataFrame({"constant": ["(as given)", "one", "two", "three"], "flips": ["no", "no", "yes", "clearly"]})
    frame = frame.assign(best="x", second="y", episodes=4, swing=1.0, lead_low=2.0, lead_from_low=1.0, lead_to_low=3.0)
    text = sensitivity_text(frame)
    assert "for sure inside the range of three." in text
    assert "within the intervals, inside the range of two." in text
    assert "one," not in text
    assert "No constant flips" in sensitivity_text(frame[frame["flips"] == "no"])


def test_the_two_best_do_not_play_alike(outcome_of):
    outcomes = (outcome_of("a", [1.0, 2.0]), outcome_of("b", [3.0, 2.0]), outcome_of("c", [3.0, 2.0]))
    assert [outcome.scheduler for outcome in two_best(outcomes)] == ["b", "a"]
    assert two_best(outcomes[1:]) is None
    oracle = outcome_of("oracle", [9.0, 9.0])
    assert [outcome.scheduler for outcome in two_best((*outcomes, oracle))] == ["b", "a"]


def test_energy_is_power_over_throughput():
    summary = pd.DataFrame({"scheduler": ["a"], "dma_busy": [0.5], "throughput": [0.8]})
    row = energy_frame(summary).iloc[0]
    assert (row["mj_low"], row["mj_high"]) == pytest.approx((LOW_W * 0.5 / 0.8, HIGH_W / 0.8))
    assert is_known("v79")
    assert not is_known("xdna2")


def test_differences_are_misses_of_one_only(record):
    both, alone = record(Event.MISS, 30, stream=1), record(Event.MISS, 50, stream=1)
    assert differences([Take("a", None, both), Take("b", None, np.concatenate([both, alone]))]) == [50]
