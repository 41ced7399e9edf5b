"""What each rule chooses on small views built by hand, and why."""

import numpy as np
import pytest

import agents
from agents.kernels.deadlines import known_deadlines, nothing_known
from agents.kernels.predict import costs_of
from agents.paired import slack_gate
from hexenv.engine.layout import Mode, Phase

from .conftest import HMX, HVX, HYBRID, Case, Work

RULES = [name for name in (*agents.names(), "learned_gate") if name not in ("random", "window")]
"""The shipped policy too, and all but the one that draws, and the one whose rule it is to hold tasks back."""


def hvx_heavy(us: float = 100.0, **kwargs) -> Work:
    """Runs ``us`` on all 4 contexts."""
    return Work(HVX, hvx=4.0 * us, **kwargs)


def hmx_heavy(us: float = 100.0, **kwargs) -> Work:
    return Work(HMX, hmx=us, **kwargs)


# ---- order ---------------------------------------------------------------------------------------------------------


def test_serial_takes_the_oldest_job_and_edf_the_earliest_deadline(case):
    op = case.op(hvx_heavy())
    case.task(op, due=5000, arrival=-10)
    case.task(op, due=900, arrival=-5)
    case.task(op, due=None, arrival=-20)
    assert case.ask(agents.make("serial"))[0] == 2
    assert case.ask(agents.make("edf"))[0] == 1


def test_stages_of_one_job_go_in_program_order(case):
    op = case.op(hvx_heavy())
    case.task(op, due=900, stage=7)
    case.task(op, due=900, stage=3)
    case.view["tasks"]["job"][0, :2] = 5
    assert case.ask(agents.make("serial"))[0] == 1
    assert case.ask(agents.make("edf"))[0] == 1


@pytest.mark.parametrize("name", ["serial", "edf", "concurrent", "greedy_pair", "greedy_versions", "slack_gate"])
def test_equal_tasks_tie_to_the_lowest_action(case, name):
    op = case.op(hvx_heavy(tile=1), hvx_heavy(tile=2))
    case.task(op, due=900)
    case.task(op, due=900)
    assert case.ask(agents.make(name)) == (0, HVX, 1, 0)


@pytest.mark.parametrize("name", RULES)
def test_a_lone_task_runs_at_once_in_its_fastest_variant(case, name):
    op = case.op(hvx_heavy(300), hmx_heavy(90, tile=1), hmx_heavy(80, tile=3, vtcm=6), Work(HYBRID, hvx=400, hmx=85))
    case.task(op, due=50)  # too late to be met: still it must run, waiting is never free
    assert case.ask(agents.make(name)) == (0, HMX, 3, 0)


@pytest.mark.parametrize("name", ["serial", "edf"])
def test_one_stage_at_a_time_whatever_the_mode_allows(case, name):
    case.resident(case.op(hmx_heavy()))
    case.task(case.op(hvx_heavy()), due=900)
    assert case.ask(agents.make(name)) is None


def test_concurrent_runs_two_graphs_but_never_two_stages_of_one():
    case = Case(Mode.CONCURRENT)
    case.resident(case.op(hmx_heavy()))
    op = case.op(hvx_heavy())
    case.task(op, due=500)
    case.view["tasks"]["job"][0, 0] = 9  # the resident's job
    assert case.ask(agents.make("concurrent")) is None
    case.task(op, due=900)
    assert case.ask(agents.make("concurrent"))[0] == 1


@pytest.mark.parametrize("name", RULES)
def test_nothing_legal_means_wait(case, name):
    assert case.ask(agents.make(name)) is None


# ---- greedy pairing ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["greedy_pair", "greedy_versions", "slack_gate"])
def test_hmx_heavy_is_joined_by_hvx_heavy_not_by_the_same_engine(case, name):
    case.resident(case.op(hmx_heavy()))
    case.task(case.op(hmx_heavy()))
    case.task(case.op(hvx_heavy()))
    task, version, _, share = case.ask(agents.make(name))
    assert (task, version) == (1, HVX)
    assert share == 0  # a resident without vector work leaves all contexts: one share class


@pytest.mark.parametrize("name", ["greedy_pair", "greedy_versions", "slack_gate"])
@pytest.mark.parametrize("work", [hmx_heavy(), hvx_heavy(), Work(HVX, ddr=100.0, hvx=40.0)], ids=["hmx", "hvx", "ddr"])
def test_same_engine_is_no_pair(case, name, work):
    case.resident(case.op(work))
    case.task(case.op(work), due=5000)
    assert case.ask(agents.make(name)) is None


def test_share_follows_the_work_of_both(case):
    case.resident(case.op(Work(HYBRID, hvx=100, hmx=100)))  # one context feeds it
    case.task(case.op(hvx_heavy(75.0)))
    assert case.ask(agents.make("greedy_pair")) == (0, HVX, 0, 2)


def test_the_pair_is_planned_before_its_first_pick(case):
    """Alone the first task is fastest with all of VTCM; beside a partner it takes a smaller tile."""
    case.task(case.op(hmx_heavy(100, tile=1, vtcm=2), hmx_heavy(95, tile=3, vtcm=8)), due=500)
    assert case.ask(agents.make("greedy_pair")) == (0, HMX, 3, 0)
    case.task(case.op(hvx_heavy(100, vtcm=2)), due=900)
    assert case.ask(agents.make("greedy_pair")) == (0, HMX, 1, 0)


def test_a_slower_version_pays_where_it_frees_the_scarce_engine(case):
    """Both are fastest on HMX; only free versions see that the second has a slower HVX version beside it."""
    case.task(case.op(hmx_heavy(100)), due=500)
    case.task(case.op(hmx_heavy(90), hvx_heavy(110, tile=1)), due=900)
    first = case.ask(agents.make("greedy_versions"))
    assert first == (0, HMX, 0, 0)
    case.view["n_tasks"] = 0
    case.resident(0, phase=Phase.PENDING)
    case.task(1, due=900)
    assert case.ask(agents.make("greedy_versions")) == (0, HVX, 1, 0)
    assert case.ask(agents.make("greedy_pair")) is None


def test_the_first_of_a_pair_gives_way_too(case):
    """The urgent task runs on HVX, so that the partner, which has no other version, gets HMX."""
    case.task(case.op(hmx_heavy(90), hvx_heavy(100)), due=500)
    case.task(case.op(hmx_heavy(100)), due=900)
    assert case.ask(agents.make("greedy_versions")) == (0, HVX, 0, 0)
    assert case.ask(agents.make("greedy_pair")) == (0, HMX, 0, 0)


def test_no_slow_version_for_its_own_sake(case):
    """Gain is measured against the fastest variants: a very slow complementary version is no gain."""
    case.resident(case.op(hmx_heavy(100)))
    case.task(case.op(hmx_heavy(30), hvx_heavy(200)))
    assert case.ask(agents.make("greedy_versions")) is None


def test_no_plan_without_a_second_slot():
    """Where the mode allows one stage only, the fastest variant is taken even if a pair would look good."""
    case = Case(Mode.SERIAL)
    case.task(case.op(hmx_heavy(90), hvx_heavy(100)), due=500)
    case.task(case.op(hmx_heavy(100)), due=900)
    assert case.ask(agents.make("greedy_versions")) == (0, HMX, 0, 0)


# ---- the slack gate ------------------------------------------------------------------------------------------------


def gated_case(due: float) -> Case:
    """An urgent HVX stage and long best-effort HMX work: together 300 us, of which 200 delay the urgent job."""
    case = Case()
    case.task(case.op(hvx_heavy(100)), due=due)
    case.task(case.op(hmx_heavy(300)))
    return case


def second_pick(case: Case, scheduler) -> tuple[int, int, int, int] | None:
    """Make the first task pending, then ask again."""
    due = float(case.view["tasks"][0, 0]["deadline_ns"]) / 1000
    case.resident(0, phase=Phase.PENDING, due=due)
    case.view["tasks"][0, 0] = case.view["tasks"][0, 1]
    case.view["n_tasks"] = 1
    return case.ask(scheduler)


def test_gate_pairs_only_while_the_margin_stays():
    # T_corun + T_rest = 300 us with nothing queued: the deadline must leave 300 us plus the margin
    assert second_pick(gated_case(due=810), slack_gate(margin_us=500)) == (0, HMX, 0, 0)
    assert second_pick(gated_case(due=790), slack_gate(margin_us=500)) is None
    assert second_pick(gated_case(due=790), slack_gate(margin_us=400)) == (0, HMX, 0, 0)


def test_gate_counts_the_queue_of_earlier_deadlines():
    case = gated_case(due=5000)
    case.task(case.op(hvx_heavy(100)), due=1000, rest=700)
    gate = slack_gate(margin_us=100)
    case.resident(1)
    case.view["tasks"][0, 1] = case.view["tasks"][0, 2]
    case.view["n_tasks"] = 2
    # joining the resident for 300 us in all delays the job due at 1000 by 200: 700 + 200 + 100 <= 1000
    assert case.ask(gate) == (1, HVX, 0, 0) or case.ask(gate) == (0, HVX, 0, 0)
    case.view["tasks"][0, 1]["critical_ns"] = case.view["tasks"][0, 1]["job_ref_ns"] = 850_000
    case.view["tasks"][0, 1]["slack_ns"] = 150_000
    # now no pair keeps it, and the urgent one joins because it ends sooner than by waiting
    assert case.ask(gate) == (1, HVX, 0, 0)


def test_gate_counts_the_dispatch_of_every_stage_to_come():
    """The stages of a job take 100 us each here, so a dispatch of 25 us makes 500 us of rest 625."""
    for dispatch, due, pairs in ((0.0, 810, True), (25.0, 810, False), (25.0, 960, True)):
        case = Case(dispatch=dispatch)
        case.resident(case.op(hmx_heavy(300)))
        case.task(case.op(hvx_heavy(100)), due=due, rest=500)
        # beside the resident for 300 us: 200 of them delay the job (175 with its dispatch), and the margin is 100
        assert (case.ask(slack_gate(margin_us=100)) is not None) or not pairs
        known = known_deadlines(case.view[0], costs_of(case.tables()), nothing_known(), 0.0)
        assert known.rows[0, 1] == pytest.approx((due - 500 * (1 + dispatch / 100)) * 1000)


def test_gate_never_lets_best_effort_beside_a_tight_stage_but_a_tight_stage_beside_best_effort(case):
    case.resident(case.op(hmx_heavy(300)))
    case.task(case.op(hvx_heavy(100)), due=150)
    assert case.ask(slack_gate(margin_us=100)) == (0, HVX, 0, 0)


def test_gate_joins_the_same_engine_only_in_danger(case):
    case.resident(case.op(hvx_heavy(100)))
    case.task(case.op(hvx_heavy(100)), due=5000)
    assert case.ask(slack_gate(margin_us=100)) is None
    assert case.ask(slack_gate(margin_us=4900)) == (0, HVX, 0, 2)


def test_gate_lets_the_urgent_one_wait_where_that_is_sooner(case):
    case.resident(case.op(hvx_heavy(10)))
    case.task(case.op(hvx_heavy(100)), due=150)
    assert case.ask(slack_gate(margin_us=100)) is None


def test_gate_pairs_best_effort_freely(case):
    case.resident(case.op(hmx_heavy(100)))
    case.task(case.op(hvx_heavy(100)))
    assert case.ask(slack_gate(margin_us=1e6)) == (0, HVX, 0, 0)


@pytest.mark.parametrize(("due", "version"), [(600, HMX), (400, HVX)], ids=["protected", "lost"])
def test_gate_protects_only_deadlines_that_can_be_met(case, due, version):
    """500 us are left of the urgent job: it runs alone in its fastest version, unless it will be late anyway."""
    case.task(case.op(hmx_heavy(90), hvx_heavy(100)), due=due, rest=500)
    case.task(case.op(hmx_heavy(300)))
    assert case.ask(slack_gate(margin_us=1e6)) == (0, version, 0, 0)


def test_partner_by_gain_or_by_deadline(case):
    """Greedy rules take the best match; the gate takes the most urgent one that gains."""
    case.resident(case.op(hmx_heavy(100)), due=100)
    case.task(case.op(hvx_heavy(100)), due=9000)
    case.task(case.op(hvx_heavy(50)), due=5000)
    assert case.ask(agents.make("greedy_versions"))[0] == 0
    assert case.ask(slack_gate(margin_us=100))[0] == 1


@pytest.mark.parametrize("name", ["greedy_pair", "greedy_versions", "slack_gate"])
def test_a_less_urgent_partner_never_keeps_the_urgent_task_from_the_next_slot(case, name):
    case.resident(case.op(hmx_heavy(100)), due=9000)
    case.task(case.op(hmx_heavy(100)), due=5000)
    case.task(case.op(hvx_heavy(100)), due=9500)
    assert case.ask(agents.make(name)) is None


def test_gate_admits_a_pair_that_delays_nobody(case):
    """Both are due together and pairing ends both sooner, so even a huge margin is no reason against it."""
    case.resident(case.op(hmx_heavy(100)), phase=Phase.PENDING, due=1000)
    case.task(case.op(hvx_heavy(100)), due=1000)
    assert case.ask(slack_gate(margin_us=1e6)) == (0, HVX, 0, 0)


# ---- interface -----------------------------------------------------------------------------------------------------


def many_lanes(n: int = 40) -> tuple[np.ndarray, np.ndarray, object]:
    """Lanes with one to four tasks of three operators, some with a resident."""
    rng = np.random.default_rng(7)
    views, masks, tables = [], [], None
    for _ in range(n):
        case = Case()
        for work in ((hvx_heavy(), hmx_heavy(120)), (hmx_heavy(80), hvx_heavy(160)), (Work(HVX, ddr=90, hvx=100),)):
            case.op(*work)
        if rng.random() < 0.5:
            case.resident(int(rng.integers(3)))
        for _ in range(rng.integers(1, 5)):
            case.task(int(rng.integers(3)), due=float(rng.integers(200, 5000)), arrival=-float(rng.integers(100)))
        views.append(case.view)
        masks.append(case.mask())
        tables = case.tables()
    return np.concatenate(views), np.concatenate(masks), tables


@pytest.mark.parametrize("name", agents.names())
def test_lanes_are_independent_of_the_batch_and_choices_repeat(name):
    views, masks, tables = many_lanes()
    scheduler = agents.make(name)
    scheduler.start(tables, len(views), 100)
    whole = [scheduler.act(views, masks) for _ in range(3)]
    assert all(actions.dtype == np.int64 and actions.shape == (len(views),) for actions in whole)
    assert all(masks[np.arange(len(views)), actions].all() for actions in whole)
    for lane in range(len(views)):
        scheduler.start(tables, 1, 100 + lane)
        alone = [scheduler.act(views[lane : lane + 1], masks[lane : lane + 1])[0] for _ in range(3)]
        assert alone == [actions[lane] for actions in whole]


@pytest.mark.parametrize("name", RULES)
def test_rules_never_wait_on_an_empty_device(name):
    views, masks, tables = many_lanes()
    empty = views["residents"]["phase"].max(axis=1) == Phase.FREE
    scheduler = agents.make(name)
    scheduler.start(tables, len(views), 0)
    assert (scheduler.act(views, masks)[empty] > 0).all()


def test_random_is_uniform_over_legal_actions():
    legal = np.flatnonzero(np.arange(145) % 29 == 0)
    masks = np.zeros((50, 145), bool)
    masks[:, legal] = True
    scheduler = agents.make("random")
    scheduler.start(Case().tables(), 50, 3)
    draws = np.concatenate([scheduler.act(np.zeros(50, np.int8), masks) for _ in range(200)])
    counts = np.bincount(draws, minlength=145)
    assert counts[legal].sum() == 10_000
    assert np.abs(counts[legal] - 10_000 / len(legal)).max() < 5 * np.sqrt(10_000 / len(legal))
    scheduler.start(Case().tables(), 50, 3)
    again = np.concatenate([scheduler.act(np.zeros(50, np.int8), masks) for _ in range(200)])
    assert (draws == again).all()
    scheduler.start(Case().tables(), 50, 1003)
    other = np.concatenate([scheduler.act(np.zeros(50, np.int8), masks) for _ in range(200)])
    assert (draws != other).mean() > 0.5
