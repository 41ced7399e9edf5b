"""Which deadlines the triage keeps: cases worked out by hand, and Moore and Hodgson's optimum by brute force."""

from __future__ import annotations

from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.kernels.pairs import NO_GAIN
from agents.kernels.predict import costs_of
from agents.kernels.triage import Triage, sort_out, ward
from agents.paired import slack_gate
from agents.triage import TriageGate
from hexenv.engine.layout import NO_DEADLINE
from hexenv.workload import build
from tests.agents.test_play import play

from .conftest import HVX, US, Case, Work

RULE = Triage(speed=1.0, rest_power=2.0, loss_power=1.0)
EQUAL = Triage(speed=1.0, rest_power=1.0, loss_power=0.0)
"""Every miss costs the same, so that the longest job is the dearest."""


def queue(*jobs: tuple[float | None, float], case: Case | None = None) -> Case:
    """A lane with these jobs, (due, rest) in us, due None = best effort."""
    case = Case() if case is None else case
    op = case.op(Work(HVX, hvx=40.0))
    for due, rest in jobs:
        case.task(op, due=due, rest=rest)
    case.view["tasks"]["weight"] = 1.0
    return case


def sorted_out(case: Case, triage: Triage = RULE) -> np.ndarray:
    """The view as the rule after the triage sees it."""
    tables, room = case.tables(), ward()
    tables.config["miss_weight"] = 1.0
    sort_out(case.view[0], costs_of(tables), triage, room)
    return room.views[0]


def kept(case: Case, triage: Triage = RULE) -> list[int]:
    """Jobs that keep their deadlines."""
    view = sorted_out(case, triage)
    return np.flatnonzero(view["tasks"]["deadline_ns"][: view["n_tasks"]] < NO_DEADLINE).tolist()


def test_what_fits_is_kept_and_the_view_stays_as_it_is() -> None:
    case = queue((1000, 300), (2000, 600), (None, 500), (1500, 500))
    view = sorted_out(case)
    assert view.tobytes() == case.view[0].tobytes()


def test_a_job_ends_at_its_deadline_in_time() -> None:
    assert kept(queue((300, 300), (900, 600))) == [0, 1]
    assert kept(queue((300, 300), (899, 600))) != [0, 1]


def test_of_one_too_many_the_dearest_leaves() -> None:
    """Price rest ** 2 / loss, the loss in proportion to the job: the longest is dearest, whatever its deadline."""
    assert kept(queue((1000, 700), (1100, 300), (1300, 400))) == [1, 2]


def test_a_job_whose_miss_costs_more_stays_although_it_is_longer() -> None:
    case = queue((1000, 700), (1100, 500))
    assert kept(case) == [1]
    case.view["tasks"]["weight"][0, 0] = 4.0
    assert kept(case) == [0]


def test_a_late_job_keeps_no_other_from_its_deadline() -> None:
    """Deadline order would serve the late job first and lose the second one too."""
    assert kept(queue((100, 500), (600, 500))) == [1]


def test_a_faster_device_fits_more() -> None:
    case = queue((1000, 600), (1050, 500))
    assert kept(case) == [1]
    assert kept(case, RULE._replace(speed=0.9)) == [0, 1]


def test_stages_of_one_job_count_once_and_leave_together() -> None:
    case = queue((1000, 700), (1100, 300), (1000, 700))
    case.view["tasks"]["job"][0, :3] = 0, 1, 0
    assert kept(case) == [0, 1, 2]
    case.view["tasks"]["deadline_ns"][0, [0, 2]] = 650 * US
    assert kept(case) == [1]


def test_what_runs_cannot_leave() -> None:
    """A resident with 400 us to go and a job of 400 us, both due in 700 us: the job that has not begun leaves."""
    case = Case()
    case.resident(case.op(Work(HVX, hvx=1600.0)), due=700.0)
    assert kept(queue((700, 400), case=case)) == []
    case = Case()
    case.resident(case.op(Work(HVX, hvx=1600.0)), due=700.0)
    assert kept(queue((800, 400), case=case)) == [0]


@pytest.mark.parametrize("firm", [True, False])
def test_a_late_job_is_the_first_best_effort_work_if_it_is_finished_and_the_last_if_it_is_dropped(firm: bool) -> None:
    case = queue((900, 300), (None, 300))
    case.view["now_ns"] = 1000 * US
    case.view["tasks"]["arrival_ns"][0, :2] = 500 * US, 100 * US  # the best-effort job is the older one
    case.view["tasks"]["firm"][0, 0] = firm
    assert case.ask(TriageGate())[0] == (1 if firm else 0)


def test_a_job_that_can_be_met_comes_before_a_late_one() -> None:
    case = queue((-100, 300), (5000, 300))
    assert case.ask(slack_gate())[0] == 0
    assert case.ask(TriageGate())[0] == 1


def test_the_view_of_the_caller_is_never_touched() -> None:
    case = queue((1000, 700), (1100, 300), (1300, 400), (-5, 100))
    before = case.view.tobytes()
    case.ask(TriageGate())
    assert case.view.tobytes() == before


@pytest.mark.parametrize(("tightness", "alike"), [(10.0, True), (1.0, False)])
def test_where_all_fits_it_plays_as_the_slack_gate(tightness: float, alike: bool) -> None:
    tables = build("camera_decode", horizon_us=60_000)
    settings = tables.settings.copy()
    settings["tightness"] = tightness
    tables = replace(tables, settings=settings)
    rule, gate = TriageGate(margin_us=1500.0, least_gain=NO_GAIN), slack_gate(1500.0)
    assert (play(rule, tables, range(3)).lanes == play(gate, tables, range(3)).lanes).all() == alike


JOBS = st.lists(st.tuples(st.integers(-200, 2000), st.integers(1, 800)), min_size=1, max_size=8)


@given(jobs=JOBS)
def test_kept_jobs_fit_and_no_larger_set_does(jobs: list[tuple[int, int]]) -> None:
    chosen = kept(queue(*jobs), EQUAL)
    assert fits([jobs[i] for i in chosen])
    assert not any(fits(more) for more in combinations(jobs, len(chosen) + 1))


@given(jobs=JOBS, weights=st.lists(st.floats(0.0, 9.0), min_size=8, max_size=8), power=st.floats(0.0, 3.0))
def test_kept_jobs_fit_at_any_prices(jobs: list[tuple[int, int]], weights: list[float], power: float) -> None:
    case = queue(*jobs)
    case.view["tasks"]["weight"][0, :8] = weights
    chosen = kept(case, RULE._replace(rest_power=power))
    assert fits([jobs[i] for i in chosen])


def fits(jobs) -> bool:
    """Whether all jobs, (due, rest), end in time one after the other by deadline."""
    due, rest = np.array(sorted(jobs), float).reshape(-1, 2).T
    return bool((np.cumsum(rest) <= due).all())
