"""Compiled tables: links in range, sums that add up, critical paths, and the same bytes every time."""

from dataclasses import fields, replace

import numpy as np
import pytest

from hexenv.device import load_device
from hexenv.engine.layout import MAX_CONTEXTS, MAX_READY, NO_DEADLINE, Mode
from hexenv.errors import ConfigError
from hexenv.kernels import offers
from hexenv.kernels.cost import alone_us
from hexenv.workload import build, compile_scenario, load_scenario, scenario_names, summary
from hexenv.workload.compiler import share_contexts
from hexenv.workload.constants import SCALED

CASES = [(scenario, device) for scenario in scenario_names() for device in ("v75", "v79")]


@pytest.fixture(scope="module", params=CASES, ids="-".join)
def tables(request):
    scenario, device = request.param
    return build(scenario, device)


def lists(tables, rows, kind):
    return [tables.links[row[f"{kind}_start"] : row[f"{kind}_end"]].tolist() for row in rows]


def stages_of(tables, template):
    return tables.stages[template["first_stage"] : template["first_stage"] + template["n_stages"]]


def test_links_stay_inside_their_job(tables):
    for stream in tables.streams:
        first, count = stream["template_start"], stream["template_count"]
        for i in range(count):
            template = tables.templates[first + i]
            previous = tables.templates[first + (i - 1) % count]
            following = tables.templates[first + (i + 1) % count]
            stages = stages_of(tables, template)
            before = lists(tables, stages, "pred")
            after = lists(tables, stages, "succ")
            assert all(b < s for s, needs in enumerate(before) for b in needs)
            assert sorted((b, s) for s, needs in enumerate(before) for b in needs) == sorted(
                (s, a) for s, nexts in enumerate(after) for a in nexts
            )
            (roots,) = lists(tables, [template], "root")
            assert roots == [s for s, needs in enumerate(before) if not needs]
            assert all(0 <= p < previous["n_stages"] for links in lists(tables, stages, "prev") for p in links)
            waited_for = {p for links in lists(tables, stages_of(tables, following), "prev") for p in links}
            assert set(lists(tables, [template], "next")[0]) == waited_for


def test_ready_stages_never_exceed_their_list(tables):
    """Any order of play: the ready set is an antichain, so run breadth first and last-come first."""
    for template in tables.templates:
        stages = stages_of(tables, template)
        before, after = lists(tables, stages, "pred"), lists(tables, stages, "succ")
        for position in (0, -1):
            missing = [len(needs) for needs in before]
            ready = [s for s, n in enumerate(missing) if n == 0]
            done = 0
            while ready:
                assert len(ready) <= MAX_READY
                stage = ready.pop(position)
                done += 1
                for a in after[stage]:
                    missing[a] -= 1
                    if missing[a] == 0:
                        ready.append(a)
            assert done == template["n_stages"]


def test_reference_times_and_sums(tables):
    h = tables.config["contexts"][0]
    fastest = tables.variants[tables.ops["fastest"]]
    assert np.array_equal(tables.ops["ref_ns"], fastest["alone_ns"][:, h])
    for template in tables.templates:
        ops = stages_of(tables, template)["op"]
        rows = fastest[ops]
        assert template["ref_ns"] == tables.ops["ref_ns"][ops].sum()
        assert template["ddr_ns"] == pytest.approx((rows["ddr_ns"] + rows["prologue_ddr_ns"]).sum())
        assert template["hvx_ns"] == pytest.approx((rows["hvx_ns"] + rows["prologue_hvx_ns"]).sum())
        assert template["hmx_ns"] == pytest.approx(rows["hmx_ns"].sum())


def test_critical_path_is_the_longest_way_to_the_end(tables):
    for template in tables.templates:
        stages = stages_of(tables, template)
        ref = tables.ops["ref_ns"][stages["op"]]
        after = lists(tables, stages, "succ")
        for s, nexts in enumerate(after):
            assert stages["critical_ns"][s] == ref[s] + max((stages["critical_ns"][a] for a in nexts), default=0)
        assert ref.max() <= stages["critical_ns"].max() <= template["ref_ns"]


def test_variants_hold_what_a_stage_needs(tables):
    v, h = tables.variants, tables.config["contexts"][0]
    whole = v["prologue_ns"] + v["latency_ns"]
    free = tables.config["ddr_free"][0]
    for i, row in enumerate(v):
        compute = (row["body_hvx_ns"][h], row["hmx_ns"])
        overlapping = compute if row["depth"] >= 2 else (sum(compute),)
        loading = row["ddr_ns"] / free + row["unloaded_ns"][h]
        steady = max(row["storage_ns"], loading, *overlapping)
        assert row["alone_ns"][h] == pytest.approx(whole[i, h] + steady, abs=1.0)
        assert tables.ops["variant"][row["op"], row["version"], row["tile"]] == i
    assert (np.diff(v["alone_ns"][:, 1 : MAX_CONTEXTS + 1], axis=1) <= 0).mean() > 0.9  # more contexts help
    assert (v["vtcm_bytes"] <= tables.config["vtcm_bytes"][0]).all()
    assert (v["uses_hvx"] | v["uses_hmx"] | (v["ddr_ns"] > 0.0)).all()


def test_profiles_are_scaled_and_empty_where_nothing_is_offered(tables):
    profile = tables.ops["profile"]
    offered = (tables.ops["variant"] >= 0).reshape(len(tables.ops), -1)
    assert profile.dtype == np.float32
    assert ((profile >= 0.0) & (profile <= 1.0)).all()
    assert (profile[~offered] == 0.0).all()
    assert (profile[offered][:, 4] > 0.0).all()


def test_states_chain_jobs_and_closed_loops_have_one(tables):
    for name, stream in zip(tables.stream_names, tables.streams, strict=True):
        template = tables.templates[stream["template_start"]]
        linked = sum(len(x) for x in lists(tables, stages_of(tables, template), "prev"))
        assert (linked > 0) == (name not in ("hands", "objects", "gallery")), name


def test_job_slots_do_not_overlap(tables):
    ends = tables.streams["first_job"] + tables.streams["queue"]
    assert tables.streams["first_job"].tolist() == [0, *ends[:-1].tolist()]


def test_constants_are_scaled(tables):
    assert tables.constants.dtype == np.float32
    assert tables.constants.shape == (len(SCALED),)
    assert ((tables.constants > 0.0) & (tables.constants <= 1.0)).all()


def test_same_scenario_same_bytes():
    scenario, device = load_scenario("dual_camera_llm"), load_device("v79")
    one, two = compile_scenario(scenario, device), compile_scenario(scenario, device)
    for field in fields(one):
        a, b = getattr(one, field.name), getattr(two, field.name)
        assert a.tobytes() == b.tobytes() if isinstance(a, np.ndarray) else a == b, field.name


def test_alone_time_is_the_kernel_s_own(write):
    """The free part of DDR counts in elapsed times, and only there."""
    tables = build(write(), background_ddr=0.25)
    device = load_device("v79")
    names = {operator.name: operator for job in load_scenario(write()).streams for operator in operators(job, device)}
    op = tables.op_names.index("gaussian5x5 480x640")
    for cost in offers(names["gaussian5x5 480x640"], device):
        row = tables.variants[tables.ops["variant"][op, cost.version, cost.tile_class]]
        expected = alone_us(cost, device.contexts, device.fork_join_us, 0.75 * device.ddr_bytes_per_us)
        assert row["alone_ns"][device.contexts] == round(expected * 1e3)
        in_and_out = cost.ddr_in_bytes + cost.ddr_out_bytes
        assert row["ddr_ns"] == pytest.approx(1e3 * in_and_out / device.ddr_bytes_per_us)


def operators(stream, device):
    return [node.operator for job in stream.jobs for node in job.graph().nodes]


def test_long_operators_become_chains_of_leaves(write):
    tables = build(write(("height = 480\nwidth = 640", "height = 4320\nwidth = 7680")))
    first = tables.stage_names.index("smooth[0]")
    stages = tables.stages[: tables.templates["n_stages"][0]]
    before = lists(tables, stages, "pred")
    count = sum(name.startswith("smooth[") for name in tables.stage_names)
    assert count > 1
    for part in range(1, count):
        assert before[first + part] == [first + part - 1]
    # The limit of 500 us holds at full DDR bandwidth.
    assert tables.ops["ref_ns"].max() <= 500_000 / tables.config["ddr_free"][0]


def test_settings_are_loads_times_mixes(write):
    two = 'all = ["camera", "text"]\nalone = ["camera"]'
    path = write(('all = ["camera", "text"]', two), ('mixes = ["all"]', 'mixes = ["all", "alone"]'))
    train, heldout = build(path), build(path, split="heldout")
    assert train.settings["load"].tolist() == [1.0, 1.5, 1.0, 1.5]
    assert train.settings["active"][:, :2].tolist() == [[1, 1], [1, 1], [1, 0], [1, 0]]
    assert heldout.settings["load"].tolist() == [1.2]
    assert (train.seeds, heldout.seeds) == ((0, 100), (100, 50))
    assert (train.split, heldout.split) == ("train", "heldout")


def test_stream_rows(write):
    tables = build(write(("fps = 60", "fps = 60\njitter_us = 250\noffset_us = 12.5")))
    camera, text = tables.streams
    assert (camera["period_ns"], camera["jitter_ns"], camera["offset_ns"]) == (16_666_667, 250_000, 12_500)
    assert (camera["deadline_ns"], camera["firm"], camera["scales"]) == (8_000_000, True, True)
    assert (text["deadline_ns"], text["offset_ns"], text["firm"]) == (NO_DEADLINE, -1, False)
    assert text["gap_ns"] == round(load_device("v79").decode_gap_us * 1e3)


def test_recorded_arrivals_reach_the_tables(write, tmp_path):
    (tmp_path / "times.csv").write_text("time_us\n0.5\n9000\n", encoding="utf-8")
    tables = build(write(("fps = 60", 'arrival = "trace"\ntrace = "times.csv"')))
    start, end = tables.streams[0]["trace_start"], tables.streams[0]["trace_end"]
    assert tables.trace_ns[start:end].tolist() == [500, 9_000_000]
    assert tables.trace_deadline_ns[start:end].tolist() == [8_000_000, 8_000_000]


def test_build_is_cached_and_overridable(write):
    path = write()
    assert build(path) is build(path)
    serial = build(path, mode="serial", visible=4, placement="host", miss_weight=0.5)
    assert serial is build(path, visible=4, miss_weight=0.5, placement="host", mode="serial")
    assert (serial.config["mode"][0], serial.visible, serial.config["miss_weight"][0]) == (Mode.SERIAL, 4, 0.5)
    device = load_device("v79")
    assert serial.config["decision_ns"][0] == round(device.decision_host_us * 1e3)
    assert build(path).config["decision_ns"][0] == round(device.decision_dsp_us * 1e3)
    with pytest.raises(ConfigError, match=r"split = 'test', allowed: train, heldout"):
        build(path, split="test")


@pytest.mark.parametrize(
    ("contexts", "shares"),
    [(2, [1, -1, -1]), (3, [1, 2, -1]), (4, [1, 2, 3]), (6, [2, 3, 5]), (8, [2, 4, 6]), (10, [3, 5, 8])],
)
def test_share_contexts(contexts, shares):
    assert share_contexts(contexts) == shares


def test_stage_that_fits_no_tile_class_is_refused(write):
    device = replace(load_device("v79"), name="tiny", vtcm_bytes=4096)
    scenario = load_scenario(write())
    with pytest.raises(ConfigError, match=r"base\.toml: stage \w+: operator .*VTCM of device tiny \(4096 bytes\)"):
        compile_scenario(scenario, device)


def test_too_many_stages_are_refused(write):
    path = write(("tokens = 32", "tokens = 32768"))
    with pytest.raises(ConfigError, match=r"stream text: Llama-3\.2-1B prefill 32768@0 has \d+ stages.*2048"):
        build(path)


def test_jobs_in_turn_must_share_their_state(write):
    other = 'model = "llm:Qwen3-1.7B"\nstep = "prefill"\ntokens = 32\n'
    with pytest.raises(ConfigError, match=r"stream text: .* update different state buffers"):
        build(write(extra="[[streams.jobs]]\n" + other))


def test_jobs_in_turn_with_state_keep_short_queues(write):
    longer = 'model = "llm:Llama-3.2-1B"\nstep = "prefill"\ntokens = 64\n'
    path = write(('arrival = "closed_loop"', "queue = 3\nfps = 5"), extra="[[streams.jobs]]\n" + longer)
    with pytest.raises(ConfigError, match=r"stream text: queue = 3, allowed: at most 2"):
        build(path)


@pytest.mark.parametrize("name", ["camera_decode", "camera_prefill", "dual_camera_llm"])
def test_scenarios_make_the_decision_matter(name):
    """Firm and soft deadlines of 2 to 4 times the chain alone, load around the serial capacity, work to fill with."""
    tables = build(name)
    streams, settings = summary.streams(tables), summary.settings(tables)
    tightness = streams["tightness"].dropna()
    assert tightness.between(2.0, 4.0).all()
    assert streams["tightness"].isna().any()
    assert settings["deadline_load"].max() > 1.0
    assert settings["deadline_load"].between(0.6, 1.5).all()
    assert (settings["load_with_filler"] > 1.5).all()
    assert (streams["choice"] > 0.1).all()
