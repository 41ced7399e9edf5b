"""Gaps to the bound, and the command that prints them."""

import numpy as np
import pytest

from eval.bounds.__main__ import main
from eval.bounds.gaps import ceilings, gap_frame, overlap_of
from eval.bounds.relaxation import return_bound
from eval.episodes import held_out
from tests.eval.conftest import SHORT


def test_the_ceiling_is_the_highest_of_the_modes(short_outcomes):
    episodes = held_out(short_outcomes[0].tables, 2)
    each = [[return_bound(outcome.tables, episode) for episode in episodes] for outcome in short_outcomes]
    assert ceilings(short_outcomes, episodes) == pytest.approx(np.max(each, axis=0))


def test_the_overlap_of_a_mix_is_that_of_the_mode_that_allows_most(short_outcomes):
    serial = [outcome for outcome in short_outcomes if outcome.scheduler == "serial"]
    assert overlap_of(serial, 0) < overlap_of(short_outcomes, 0) < 4.0


def test_a_row_an_episode(short_outcomes):
    episodes = held_out(short_outcomes[0].tables, 4)
    frame = gap_frame(short_outcomes, episodes)
    returns = np.array([outcome.episodes["return"] for outcome in short_outcomes])
    assert frame["return"].to_numpy() == pytest.approx(returns.max(axis=0))
    assert (frame["gap"] >= 0.0).all()
    assert frame["share"].between(0.0, 1.0).all()
    assert frame["seed"].tolist() == [episode.seed for episode in episodes]


def test_the_command_prints_bounds_and_gaps(capsys):
    options = ["--episodes", "2", "--schedulers", "serial,slack_gate", "--horizon-us", str(SHORT["horizon_us"])]
    assert main(options) == 0
    printed = capsys.readouterr().out
    assert "camera_decode: bounds on the return" in printed
    assert "mean" in printed


@pytest.mark.parametrize("option", [["--scenario", "nowhere"], ["--schedulers", "nobody"], ["--episodes", "0"]])
def test_wrong_input_is_an_error_in_one_line(option, capsys):
    assert main(option) == 2
    assert capsys.readouterr().err.startswith("error: ")
