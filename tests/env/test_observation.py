from __future__ import annotations

import re

import numpy as np
import pytest

from hexenv import observation
from hexenv.engine.layout import N_TILES, NO_DEADLINE, VIEW, Phase
from hexenv.env import HexagonEnv
from hexenv.workload import build

TABLES = {
    "tasks": observation.TASKS,
    "residents": observation.RESIDENTS,
    "streams": observation.STREAMS,
}


def column(features, name):
    return [feature.name for feature in features].index(name)


def encode(views, tables):
    out = observation.empty(tables, len(views))
    for array in out.values():
        array.fill(np.nan)
    observation.encode(views, tables, out)
    return out


@pytest.fixture
def view(tables):
    views = np.zeros(1, VIEW)
    views["now_ns"] = 50_000_000
    return views


def test_any_view_lies_inside_the_space(tables, random_views):
    out = encode(random_views, tables)
    space = observation.observation_space(tables)
    for lane in range(len(random_views)):
        row = {key: array[lane] for key, array in out.items()}
        assert row in space, {key: (array.min(), array.max()) for key, array in row.items()}


def test_takes_four_kibibytes_at_most(tables):
    assert sum(array.nbytes for array in observation.empty(tables, 1).values()) <= 4096


def test_bounds_are_finite_and_flat_space_keeps_them(tables):
    rows, flat = observation.observation_space(tables), observation.flat_observation_space(tables)
    for key, box in rows.items():
        assert np.isfinite(box.low).all()
        assert np.isfinite(box.high).all()
        assert flat[key].shape == (np.prod(box.shape),)
        assert (flat[key].low == box.low.ravel()).all()


def test_empty_rows_are_zero(view, tables):
    out = encode(view, tables)
    for key in ("tasks", "profiles", "residents", "streams"):
        assert not out[key].any()
    assert (out["device"][0] == tables.constants).all()


def test_slack_keeps_its_sign_and_best_effort_reads_one(view, tables):
    view["n_tasks"] = 3
    tasks = view["tasks"][0]
    tasks["deadline_ns"] = (60_000_000, 40_000_000, NO_DEADLINE, *[0] * 13)
    tasks["slack_ns"] = (10_000_000, -10_000_000, NO_DEADLINE, *[0] * 13)
    rows = encode(view, tables)["tasks"][0]
    assert rows[:3, column(observation.TASKS, "slack")].tolist() == [0.5, -0.5, 1.0]
    assert rows[:3, column(observation.TASKS, "best_effort")].tolist() == [0.0, 0.0, 1.0]
    assert rows[:3, column(observation.TASKS, "present")].tolist() == [1.0, 1.0, 1.0]


@pytest.mark.parametrize(("ns", "value"), [(0, 0.0), (1_000, 0.05), (1_023_000, 0.5), (10**12, 1.0)])
def test_log_scale_is_the_documented_one(view, tables, ns, value):
    view["n_tasks"] = 1
    view["tasks"]["critical_ns"] = ns
    assert encode(view, tables)["tasks"][0, 0, column(observation.TASKS, "critical")] == pytest.approx(value, abs=1e-6)


def test_profiles_are_the_operators(view, tables):
    view["n_tasks"] = 2
    view["tasks"]["op"][0, :2] = (1, len(tables.ops) - 1)
    out = encode(view, tables)["profiles"][0]
    assert (out[0] == tables.ops["profile"][1].ravel()).all()
    assert (out[1] == tables.ops["profile"][-1].ravel()).all()


def test_resident_shows_its_phase_version_and_profile(view, tables):
    variant = len(tables.variants) // 2
    record = tables.variants[variant]
    resident = view["residents"][0, 1]
    resident["phase"] = Phase.BODY
    resident["variant"] = variant
    resident["op"] = record["op"]
    row = encode(view, tables)["residents"][0, 1]
    names = [feature.name for feature in observation.RESIDENTS]
    on = {name for name, value in zip(names, row, strict=True) if name.endswith("_version") and value}
    assert on == {("hvx_version", "hmx_version", "hybrid_version")[record["version"]]}
    assert row[: column(observation.RESIDENTS, "drain") + 1].tolist() == [0, 0, 0, 0, 1, 0]
    start = column(observation.RESIDENTS, "profile_hvx")
    profile = tables.ops["profile"][record["op"], record["version"] * N_TILES + record["tile"]]
    assert (row[start : start + 5] == profile).all()


def test_vtcm_map_adds_up_to_what_is_held(view, tables):
    total = int(tables.config["vtcm_bytes"][0])
    view["residents"]["phase"][0] = Phase.PENDING
    view["residents"]["vtcm_offset"][0] = (0, total // 2)
    view["residents"]["vtcm_bytes"][0] = (total // 4 + 1000, total // 32)
    row = encode(view, tables)["vtcm"][0]
    cells = row[2:]
    assert cells.sum() * total / 16 == pytest.approx(total // 4 + 1000 + total // 32, rel=1e-5)
    assert cells[:4].tolist() == [1, 1, 1, 1]
    assert cells[8] == 0.5
    assert cells[9:].tolist() == [0] * 7


def test_part_of_the_lanes_can_be_encoded(tables, random_views):
    whole = encode(random_views, tables)
    out = observation.empty(tables, len(random_views))
    for array in out.values():
        array.fill(7.0)
    observation.encode(random_views, tables, out, 3, 6)
    for key, array in out.items():
        assert (array[3:6] == whole[key][3:6]).all()
        assert (array[:3] == 7.0).all()
        assert (array[6:] == 7.0).all()


def test_other_numbers_of_visible_tasks(random_views):
    tables = build("camera_decode", visible=3)
    random_views["n_tasks"] = np.minimum(random_views["n_tasks"], 3)
    out = encode(random_views, tables)
    assert out["tasks"].shape == (len(random_views), 3, len(observation.TASKS))
    assert not np.isnan(out["tasks"]).any()


@pytest.mark.parametrize("key", TABLES)
def test_contract_documents_every_column(key):
    section = re.split(r"\n    ``\w+``", HexagonEnv.__doc__.split(f"\n    ``{key}``")[1])[0]
    rows = re.findall(r"\| ([\d-]+) +\| (\w+)[^|]*\| *(-?\d) *\| *(-?\d) *\|", section)
    documented = {}
    for index, name, low, high in rows:
        first, _, last = index.partition("-")
        for i in range(int(first), int(last or first) + 1):
            documented[i] = (name, float(low), float(high))
    assert sorted(documented) == list(range(len(TABLES[key])))
    for i, feature in enumerate(TABLES[key]):
        name, low, high = documented[i]
        assert feature.name.startswith(name)
        assert (low, high) == (feature.low, feature.high)
