"""The head-room map: its figures from returns made by hand, and that it repeats whatever the number of processes."""

import numpy as np
import pandas as pd
import pytest

from eval import headroom
from eval.headroom import Plan, map_frame, map_markdown, map_svg, play_map
from hexenv.errors import ConfigError

PLAN = Plan(
    "camera_decode",
    episodes=1,
    choosing=1,
    budget=10,
    rules=("serial", "slack_gate"),
    settings={"horizon_us": 3000.0},
)


@pytest.fixture(scope="module")
def played():
    return play_map(PLAN, processes=1)


@pytest.fixture
def returns():
    """Serial earns 10, search 30 in every setting; edf earns 26 in settings 0 to 2 and 8 elsewhere, tacker 20.

    On the compared episodes orion is lucky: it earns 29 there and 5 on those that choose.
    """
    rows = []
    for setting in range(len(PLAN.tables({}).settings)):
        earned = {"search": 30.0, "serial": 10.0, "edf": 26.0 if setting < 3 else 8.0, "tacker": 20.0, "orion": 5.0}
        for name, value in earned.items():
            misses = {"search": 1, "edf": 2}.get(name, 3)
            rows += [(name, False, setting, seed, value + seed, 10, 9, 5, 0.0) for seed in range(4) if name != "search"]
            luck = 24.0 if name == "orion" else 0.0
            rows += [(name, True, setting, seed, value + luck + seed, 10, misses, 5, 0.0) for seed in range(4, 8)]
    columns = ["scheduler", "compared", "setting", "seed", "return", "due", "misses", "decisions", "spent"]
    return pd.DataFrame(rows, columns=columns)


def test_every_setting_has_a_row_with_its_best_rule(returns):
    frame = map_frame(PLAN, returns)
    tables = PLAN.tables({})
    assert frame["setting"].tolist() == [*range(len(tables.settings)), -1]
    assert frame["load"][:-1].tolist() == tables.settings["load"].tolist()
    first, last = frame.iloc[0], frame.iloc[len(tables.settings) - 1]
    assert (first["best_rule"], last["best_rule"]) == ("edf", "tacker")
    assert first["headroom"] == pytest.approx(4.0)
    assert first["share"] == pytest.approx(4.0 / 20.0)
    assert (first["best_miss_rate"], first["search_miss_rate"]) == pytest.approx((0.2, 0.1))
    assert last["headroom"] == pytest.approx(10.0)


def test_all_settings_are_compared_with_one_rule(returns):
    """Three of six settings at 26 and three at 8 are 17 in the mean: less than tacker's 20 everywhere."""
    assert len(PLAN.tables({}).settings) == 6
    last = map_frame(PLAN, returns).iloc[-1]
    assert last["best_rule"] == "tacker"
    assert last["headroom"] == pytest.approx(10.0)


def test_intervals_are_paired(returns):
    """Seeds differ in luck that all schedulers share: the interval of a constant difference is a point."""
    frame = map_frame(PLAN, returns)
    np.testing.assert_allclose(frame["headroom_low"], frame["headroom"])
    np.testing.assert_allclose(frame["headroom_high"], frame["headroom"])


def test_no_share_where_search_does_not_beat_serial(returns):
    returns.loc[returns["scheduler"] == "search", "return"] = 9.0
    frame = map_frame(PLAN, returns)
    assert frame["share"].isna().all()
    assert (frame["headroom"] < 0.0).all()


def test_nothing_is_left_out_of_table_and_picture(returns):
    frame = map_frame(PLAN, returns)
    assert map_markdown(frame).count("\n") == 1 + len(frame)
    picture = map_svg(frame).decode()
    assert picture.count(">4<") == 3
    assert picture.count(">10<") == 3
    assert map_svg(frame).decode() == picture


def test_all_play_the_same_episodes(played):
    compared = played[played["compared"]]
    by_name = {name: list(zip(f["setting"], f["seed"], strict=True)) for name, f in compared.groupby("scheduler")}
    assert set(by_name) == {"search", "serial", "slack_gate"}
    assert by_name["search"] == by_name["serial"] == by_name["slack_gate"]
    assert sorted(setting for setting, _ in by_name["search"]) == list(range(6))


def test_the_best_rule_is_chosen_on_other_episodes(played):
    choosing = played[~played["compared"]]
    assert set(choosing["scheduler"]) == {"serial", "slack_gate"}
    assert not set(choosing["seed"]) & set(played[played["compared"]]["seed"])


def test_only_search_spends_engine_decisions(played):
    spent = played.groupby("scheduler")["spent"].min()
    assert spent["search"] > 0.0
    assert spent["serial"] == spent["slack_gate"] == 0.0


def test_processes_do_not_change_the_map(played):
    pd.testing.assert_frame_equal(play_map(PLAN, processes=2), played)


def test_command_writes_all_files(tmp_path, capsys):
    options = [
        "--scenario",
        "camera_decode",
        "--episodes",
        "1",
        "--choosing",
        "1",
        "--budget",
        "10",
        "--horizon-us",
        "2000",
    ]
    assert headroom.main([*options, "--schedulers", "serial", "--processes", "1", "--out", str(tmp_path)]) == 0
    assert {path.name for path in tmp_path.iterdir()} == {"headroom.csv", "returns.csv", "headroom.svg"}
    frame = pd.read_csv(tmp_path / "headroom.csv")
    assert (frame["best_rule"] == "serial").all()
    assert "engine decisions a decision" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--schedulers", "serial,tackar"], "tackar"),
        (["--schedulers", "edf"], "serial"),
        (["--episodes", "0"], "episodes"),
        (["--budget", "0"], "budget"),
        (["--choosing", "0"], "choosing"),
        (["--processes", "0"], "processes"),
        (["--scenario", "nowhere"], "nowhere"),
    ],
)
def test_wrong_input_is_refused_before_anything_is_played(options, words, capsys, tmp_path):
    assert headroom.main([*options, "--out", str(tmp_path / "out")]) == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def test_a_plan_without_serial_has_no_scale():
    with pytest.raises(ConfigError, match="serial"):
        Plan("camera_decode", rules=("edf",)).episode_lists()
