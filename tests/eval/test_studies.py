"""Studies: their published pages follow from their data, and a part of the data is played again, byte for byte."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from eval.studies import catalogue, drift
from eval.studies.__main__ import NAMES, main
from eval.studies.catalogue import STUDIES
from eval.studies.durations import hmx_wrong, operators_wrong
from eval.studies.offers import best_tile, leaning_to, only_tiles
from eval.studies.page import page, tally
from eval.studies.study import EPISODES, Cell, Entry, play_entry, summarise
from hexenv.engine.layout import Arrival
from hexenv.files import csv_text
from hexenv.kernels import Version
from hexenv.workload import build
from hexenv.workload.scenario import load_scenario

DOCS = Path(__file__).parents[2] / "docs"
HMX = (Version.HMX, Version.HYBRID)


@pytest.fixture(scope="module")
def tables():
    return build("camera_decode", "v79", "heldout")


def data(name):
    return pd.read_csv(DOCS / "studies" / f"{name}_episodes.csv")


# ---- what is published ---------------------------------------------------------------------------------------------


def test_every_study_is_published():
    assert set(NAMES) == set(STUDIES)
    assert {path.stem for path in (DOCS / "studies").glob("*.md")} == set(NAMES)
    for name in NAMES:
        assert f"study_{name}.svg" in (DOCS / "studies" / f"{name}.md").read_text()
        assert (DOCS / "img" / f"study_{name}.svg").read_text().count("<path") > 50
        assert f"({Path('studies') / name}.md)" in (DOCS / "studies.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_figures_and_page_follow_from_the_episodes(name):
    study = STUDIES[name]
    frame = summarise(study, data(name))
    assert csv_text(frame) == (DOCS / "studies" / f"{name}.csv").read_text()
    assert page(study, frame) == (DOCS / "studies" / f"{name}.md").read_text()


@pytest.mark.parametrize("name", NAMES)
def test_every_entry_of_a_cell_played_the_same_episodes(name):
    frame = data(name)
    labels = list(frame.columns[: frame.columns.get_loc("entry")])
    for _, cell in frame.groupby(labels, sort=False):
        played = {tuple(zip(own["setting"], own["seed"], strict=True)) for _, own in cell.groupby("entry")}
        assert len(played) == 1
        assert len(played.pop()) == EPISODES


@pytest.mark.parametrize("place", [0, -1])
@pytest.mark.parametrize("name", NAMES)
def test_a_part_played_again_gives_the_same_bytes(name, place):
    """Two episodes of the last entry of the first and of the last cell."""
    cell, entries = STUDIES[name].plan()[place]
    entry = entries[-1]
    published = data(name)
    own = published["entry"] == entry.label
    for key, value in cell.labels.items():
        own &= published[key] == value
    lines = (DOCS / "studies" / f"{name}_episodes.csv").read_text().splitlines()
    expected = [lines[1 + row] for row in np.flatnonzero(own)[:2]]
    assert csv_text(play_entry(cell, entry, 2)).splitlines() == [lines[0], *expected]


# ---- what is on offer ----------------------------------------------------------------------------------------------


def versions_of(op):
    return {version for version in range(3) if (op["variant"][version] >= 0).any()}


def test_leaning_to_hmx_moves_what_is_close_and_nothing_else(tables):
    alone = tables.variants["alone_ns"][:, int(tables.config["contexts"][0])]
    moved, kept = 0, 0
    for before, after in zip(tables.ops, leaning_to(HMX, 1.1)(tables).ops, strict=True):
        rows = before["variant"][list(HMX)]
        ratio = alone[rows[rows >= 0]].min(initial=1 << 60) / alone[before["fastest"]]
        if ratio <= 1.1:
            moved += 1
            assert versions_of(after) <= set(HMX)
            assert tables.variants["version"][after["fastest"]] in HMX
            assert alone[after["fastest"]] <= 1.1 * alone[before["fastest"]]
        else:
            kept += 1
            assert (after["variant"] == before["variant"]).all()
        assert after["ref_ns"] == before["ref_ns"]
    assert moved > 0 < kept


def test_the_fastest_version_alone_is_within_a_factor_of_one(tables):
    """So `up to 1` never takes the fastest variant away."""
    for before, after in zip(tables.ops, leaning_to(HMX, 1.0)(tables).ops, strict=True):
        assert before["fastest"] == after["fastest"]


def test_best_tile_leaves_one_class_a_version(tables):
    for before, after in zip(tables.ops, best_tile(tables).ops, strict=True):
        assert before["fastest"] == after["fastest"]
        assert versions_of(before) == versions_of(after)
        assert ((after["variant"] >= 0).sum(axis=1) <= 1).all()


def test_small_tiles_only_where_there_is_one(tables):
    small = only_tiles(0, 1)(tables)
    had = (tables.ops["variant"][:, :, :2] >= 0).any(axis=(1, 2))
    assert (small.ops["variant"][had][:, :, 2:] == -1).all()
    assert (small.ops["variant"][~had] == tables.ops["variant"][~had]).all()


# ---- other conditions ----------------------------------------------------------------------------------------------


def test_wrong_predictions_change_the_work_and_not_what_is_predicted(tables):
    true = hmx_wrong(2.0)(tables)
    uses = tables.variants["version"] != Version.HVX
    assert (true.variants["hmx_ns"] == np.where(uses, 2.0, 1.0) * tables.variants["hmx_ns"]).all()
    assert (true.variants["body_hvx_ns"][uses] == 2.0 * tables.variants["body_hvx_ns"][uses]).all()
    assert (true.variants["alone_ns"] == tables.variants["alone_ns"]).all()
    assert (true.ops == tables.ops).all()


def test_a_device_slower_than_predicted_earns_less():
    entry = Entry("e", "online_pairs")
    cell = Cell({"at": 1}, "camera_decode", 0.9, engine={"horizon_us": 20_000.0})
    slow = play_entry(replace(cell, truth=hmx_wrong(3.0)), entry, 2)
    assert (slow["return"] < play_entry(cell, entry, 2)["return"]).all()


def test_wrong_operators_are_wrong_by_one_factor_each(tables):
    true = operators_wrong(0.4)(tables)
    ratio = true.variants["latency_ns"][:, -1] / tables.variants["latency_ns"][:, -1]
    for op in range(len(tables.ops)):
        own = ratio[tables.variants["op"] == op]
        np.testing.assert_allclose(own[np.isfinite(own)], own[np.isfinite(own)][0])
    assert np.nanstd(ratio) > 0.2


def test_a_ramp_holds_the_mean_load_and_rises():
    scenario = drift.ramp(load_scenario("camera_decode"))
    horizon = scenario.engine.horizon_us
    for before, after in zip(load_scenario("camera_decode").streams, scenario.streams, strict=True):
        if before.scales:
            times = np.array(after.trace_us)
            assert after.arrival is Arrival.TRACE
            assert len(times) == pytest.approx(1.1 * horizon / before.period_us, abs=1.0)
            assert (times < horizon / 2).sum() < (times > horizon / 2).sum()
        else:
            assert after == before


def test_settings_are_chosen_on_training_episodes_of_the_load_named():
    """At 0.5 the first static setting is best in training, at 1.7 the second; held-out episodes say the opposite."""
    rows = []
    for split, load in [("train", "0.5"), ("train", "1.7"), ("heldout", "0.5"), ("heldout", "1.7")]:
        first = 1.0 if (load == "0.5") == (split == "train") else 0.0
        for entry, value in (("static, a", first), ("static, b", 0.5), ("online, c", 2.0)):
            rows.append({"split": split, "load": load, "entry": entry, "return": value})
    chosen = drift.DRIFT.choose(pd.DataFrame(rows)).set_index(["load", "entry"])["setting_used"]
    assert chosen["1.7", "static, tuned at 0.5"] == "static, a"
    assert chosen["0.5", "static, tuned at 1.7"] == "static, b"
    assert chosen["1.7", "static, tuned at its own load"] == "static, b"
    assert set(chosen.filter(like="online")) == {"online, c"}


def test_tally_counts_only_what_is_sure():
    rows = pd.DataFrame({"return_low": [1.0, -1.0, -3.0], "return_high": [2.0, 1.0, -2.0]})
    assert tally(rows) == "better in 1, worse in 1, undecided in 1 of 3 cells"


# ---- the command ---------------------------------------------------------------------------------------------------


def test_the_command_writes_page_data_and_picture(tmp_path, monkeypatch, capsys):
    study = STUDIES["tiles"]
    small = [
        (replace(cell, engine={"horizon_us": 5_000.0}), entries)
        for cell, entries in study.plan()
        if cell.labels["vtcm_mib"] == 8
    ]
    monkeypatch.setattr("eval.studies.tiles._VTCM_MIB", (8,))
    monkeypatch.setitem(catalogue.STUDIES, "tiles", replace(study, plan=lambda: small))
    assert main(["tiles", "--episodes", "2", "--out", str(tmp_path)]) == 0
    assert {path.name for path in (tmp_path / "studies").iterdir()} == {"tiles.md", "tiles.csv", "tiles_episodes.csv"}
    text = (tmp_path / "studies" / "tiles.md").read_text()
    assert "--episodes 2" in text
    assert (tmp_path / "studies" / "../img/study_tiles.svg").exists()
    assert "Pairing against one stage at a time" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("options", "words"), [(["tiles", "--episodes", "1"], "--episodes 1"), (["tile"], "tile"), ([], "NAME")]
)
def test_wrong_input_is_one_line_and_nothing_is_played(options, words, capsys, tmp_path):
    try:
        code = main([*options, "--out", str(tmp_path / "out")])
    except SystemExit as stop:
        code = stop.code
    assert code == 2
    assert words in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
