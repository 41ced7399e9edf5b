"""How near schedulers come to the exact optimum of small episodes."""

from __future__ import annotations

import numpy as np
import pytest

import agents
from eval.bounds.__main__ import main
from eval.bounds.near import SMALL, near_frame, optima
from eval.episodes import held_out
from eval.play import Outcome, run
from hexenv.workload import build

EPISODES = 4


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    found = []
    for name in ("serial", "slack_gate"):
        scheduler = agents.make(name)
        tables = build(SMALL, "v79", "heldout", **scheduler.overrides)
        found.append(run(scheduler, tables, held_out(tables, EPISODES)))
    return found


def test_no_scheduler_is_above_a_proven_optimum_and_an_unproven_one_counts_for_nothing(outcomes) -> None:
    episodes = held_out(outcomes[0].tables, EPISODES)
    best = optima(outcomes, episodes, max_nodes=1500)
    known = ~np.isnan(best)
    assert 0 < known.sum() < EPISODES
    for outcome in outcomes:
        assert (outcome.episodes["return"].to_numpy()[known] <= best[known] + 1e-9).all()
    assert (near_frame(outcomes, best)["episodes"] == known.sum()).all()


def test_shares_are_of_the_range_from_the_first_scheduler_to_the_optimum(outcomes) -> None:
    own = [outcome.episodes["return"].to_numpy() for outcome in outcomes]
    best = np.maximum(*own) + np.array([0.0, 0.0, 1.0, np.nan])
    frame = near_frame(outcomes, best).set_index("scheduler")
    assert frame.loc["serial", "share"] == 0.0
    room = (best - own[0])[:3].sum()
    assert frame.loc["slack_gate", "share"] == pytest.approx((own[1] - own[0])[:3].sum() / room)
    assert frame.loc["slack_gate", "lost"] == pytest.approx((best - own[1])[:3].mean())
    assert frame.loc["slack_gate", "reached"] == np.mean(own[1][:3] >= best[:3])
    nothing = near_frame(outcomes, np.full(EPISODES, np.nan))
    assert nothing["share"].isna().all()


def test_the_command_prints_a_row_a_scheduler(capsys) -> None:
    assert main(["--exact", "400", "--episodes", "2", "--schedulers", "serial,slack_gate"]) == 0
    out = capsys.readouterr().out
    assert "of 2 episodes" in out
    assert "slack_gate" in out


def test_no_steps_are_refused(refusal) -> None:
    assert "--exact 0" in refusal(main, ["--exact", "0"])
