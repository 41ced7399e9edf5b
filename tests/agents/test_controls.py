"""The controls differ from their neighbours in exactly one mechanism, and static pairs are what profiles say."""

from __future__ import annotations

from itertools import pairwise

import pytest

import agents
from agents.ordered import Ordered
from agents.paired import Paired
from agents.static_pairs import StaticPairs, hfuse, static_pairs
from hexenv.engine.layout import Mode, Phase
from hexenv.workload import build
from tests.agents.conftest import CONTEXTS, HMX, HVX, HYBRID, Case, Work
from tests.agents.test_play import outcome, play

SETTINGS = ("hmx_lock", "vtcm_split", "context_split")


def mechanisms(name: str) -> dict[str, object]:
    """Everything that sets a control apart: its class, its rule's parameters, and the mode it runs in."""
    scheduler = agents.make(name)
    rule: dict[str, object] = {"class": type(scheduler)}
    if isinstance(scheduler, Paired):
        rule |= scheduler.pairing._asdict()
    elif isinstance(scheduler, Ordered):
        rule |= {"order": scheduler.order, "alone": scheduler.alone}
    # How a runtime divides the device matters in mode concurrent only.
    overrides = {key: value for key, value in scheduler.overrides.items() if key not in SETTINGS}
    return rule | overrides


def difference(one: str, other: str) -> set[str]:
    a, b = mechanisms(one), mechanisms(other)
    return {key for key in a.keys() | b.keys() if a.get(key) != b.get(key)}


NEIGHBOURS = [
    ("serial", "edf", "order"),
    ("online_serial", "online_unfused", "mode"),
    ("online_unfused", "online_barrier", "mode"),
    ("online_unfused", "online_pairs", "mode"),
    ("online_barrier", "online_pairs", "mode"),
    ("online_pairs", "online_versions", "any_version"),
    ("greedy_pair", "greedy_versions", "any_version"),
]


@pytest.mark.parametrize(("one", "other", "mechanism"), NEIGHBOURS)
def test_neighbours_differ_in_one_mechanism(one: str, other: str, mechanism: str) -> None:
    assert difference(one, other) == {mechanism}


def test_the_gate_is_what_greedy_pairing_lacks() -> None:
    """A gate has its margin, and takes the most urgent of the partners it admits."""
    assert difference("greedy_pair", "online_pairs") == {"gated", "margin", "in_order"}


def test_first_phase_runs_one_rule_in_all_four_modes() -> None:
    controls = ("online_serial", "online_unfused", "online_barrier", "online_pairs")
    assert [agents.make(name).overrides["mode"] for name in controls] == [
        "serial",
        "concurrent",
        "fused_serial",
        "fused",
    ]
    assert len({agents.make(name).pairing for name in controls}) == 1


def test_concurrency_is_the_best_legal_one_everywhere() -> None:
    settings = agents.make("concurrent").overrides
    assert all(agents.make(name).overrides == settings for name in ("online_unfused", "orion"))


def test_versions_are_the_slack_gate() -> None:
    """The study's last control and the rule to beat are one rule."""
    assert difference("online_versions", "slack_gate") == set()


def test_one_at_a_time_the_online_rule_is_deadline_order() -> None:
    lanes = [
        outcome(play(agents.make(name), build("camera_decode", horizon_us=15_000, mode="serial"), range(2)))
        for name in ("edf", "online_serial")
    ]
    assert lanes[0] == lanes[1]


# ---- static pairs --------------------------------------------------------------------------------------------------


def started(scheduler: StaticPairs, case: Case) -> StaticPairs:
    scheduler.start(case.tables(), 1, 0)
    return scheduler


def ops(case: Case) -> tuple[int, int, int]:
    """A matrix kernel, a vector kernel, and one that needs both."""
    mixed = Work(HYBRID, hvx=100.0, hmx=100.0)
    return case.op(Work(HMX, hmx=100.0)), case.op(Work(HVX, hvx=4 * 100.0)), case.op(mixed)


def test_pairs_are_those_that_gain(case) -> None:
    matrix, vector, mixed = ops(case)
    pairs = started(static_pairs(least_gain=1.2), case).pairs
    assert pairs[matrix, vector] >= 0
    assert pairs[vector, matrix] >= 0
    assert pairs[matrix, matrix] == pairs[vector, vector] == pairs[matrix, mixed] == -1


def test_a_higher_threshold_keeps_a_subset(case) -> None:
    ops(case)
    kept = [started(hfuse(least_gain=gain), case).pairs >= 0 for gain in (1.001, 1.2, 1.5, 2.1)]
    assert all((wide | narrow == wide).all() for wide, narrow in pairwise(kept))
    assert kept[0].sum() > kept[-1].sum() == 0


def test_the_searched_ratio_is_that_of_the_work_and_the_fixed_one_is_not(case) -> None:
    """The resident needs one context to feed HMX, so three for the guest are best; a fixed half wastes one."""
    _, vector, mixed = ops(case)
    searched = started(hfuse(least_gain=1.001), case).pairs[mixed, vector] % 3
    fixed = started(static_pairs(share=1, least_gain=1.001), case).pairs[mixed, vector] % 3
    assert (searched, fixed) == (2, 1)
    assert case.tables().config["share"][0][searched] == CONTEXTS - 1


def test_static_pairs_ignore_the_state_and_greedy_pairing_does_not(case) -> None:
    """A resident that is nearly done: the pair of whole kernels gains, what is left of it does not."""
    _, vector, mixed = ops(case)
    case.resident(mixed, part=0.02)
    case.task(vector, due=5000)
    assert case.ask(static_pairs(share=1, least_gain=1.001)) == (0, HVX, 0, 1)
    assert case.ask(agents.make("greedy_pair")) is None or case.ask(agents.make("greedy_pair"))[3] != 1


def test_a_merged_kernel_is_launched_as_one(case) -> None:
    matrix, vector, _ = ops(case)
    case.task(vector, due=5000)
    case.resident(matrix)
    assert case.ask(hfuse()) is None
    assert case.ask(static_pairs()) == (0, HVX, 0, 0)
    case.view["residents"]["phase"][0, 0] = Phase.PENDING
    assert case.ask(hfuse()) == (0, HVX, 0, 0)


def test_the_first_of_a_merged_kernel_leaves_room_for_the_second() -> None:
    case = Case(Mode.FUSED)
    matrix = case.op(Work(HMX, hmx=100.0, tile=3, vtcm=8.0), Work(HMX, hmx=105.0, tile=1, vtcm=2.0))
    vector = case.op(Work(HVX, hvx=400.0, vtcm=3.0))
    case.task(matrix, due=500)
    assert case.ask(hfuse()) == (0, HMX, 3, 0)
    case.task(vector, due=900)
    assert case.ask(hfuse()) == (0, HMX, 1, 0)
