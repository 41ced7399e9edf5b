"""Scenario files: what they say is what is loaded, and every mistake is one clear error."""

import pytest

from hexenv.engine.layout import Arrival, HmxLock, Mode, Split
from hexenv.errors import ConfigError
from hexenv.workload import load_scenario, scenario_names
from hexenv.workload.jobs import DecodeJob, PrefillJob, VisionJob
from hexenv.workload.models import language_model
from hexenv.workload.scenario import EngineSettings, override

CAMERA_JOB = 'model = "vision:preview"\nheight = 480\nwidth = 640\n'
TEXT_JOB = 'model = "llm:Llama-3.2-1B"\nstep = "prefill"\ntokens = 32\n'


def test_bundled_scenarios():
    assert {"camera_decode", "camera_prefill", "dual_camera_llm"} <= set(scenario_names())
    for name in scenario_names():
        assert load_scenario(name).name == name


def test_values_and_defaults(write):
    scenario = load_scenario(write())
    camera, text = scenario.streams
    assert scenario.name == "base"
    assert scenario.engine == EngineSettings(horizon_us=20_000.0)
    assert camera.arrival is Arrival.PERIODIC
    assert camera.period_us == pytest.approx(1e6 / 60)
    assert (camera.deadline_us, camera.firm, camera.queue, camera.scales) == (8000.0, True, 2, True)
    assert camera.jobs == (VisionJob("preview", (("height", 480), ("width", 640))),)
    assert text.arrival is Arrival.CLOSED_LOOP
    assert (text.deadline_us, text.firm, text.queue, text.scales, text.gap_us) == (None, False, 1, False, None)
    assert text.jobs == (PrefillJob(language_model("Llama-3.2-1B"), 32, 0, None),)
    assert (scenario.train.first_seed, scenario.train.seeds, scenario.train.loads) == (0, 100, (1.0, 1.5))
    assert scenario.heldout.mixes == ("all",)


def test_job_kinds(write):
    decode = 'model = "llm:Qwen3-1.7B"\nstep = "decode"\ncontext = 7\nhead = "cpu"\n'
    assert load_scenario(write((TEXT_JOB, decode))).streams[1].jobs == (
        DecodeJob(language_model("Qwen3-1.7B"), 7, None),
    )
    prefill = TEXT_JOB + 'past = 5\nhead = "q8_0"\n'
    assert load_scenario(write((TEXT_JOB, prefill))).streams[1].jobs == (
        PrefillJob(language_model("Llama-3.2-1B"), 32, 5, "q8_0"),
    )


def test_jobs_in_turn(write):
    two = TEXT_JOB + "[[streams.jobs]]\n" + TEXT_JOB.replace("32", "64")
    assert [job.tokens for job in load_scenario(write((TEXT_JOB, two))).streams[1].jobs] == [32, 64]


def test_recorded_arrivals(write, tmp_path):
    path = write(("fps = 60", 'arrival = "trace"\ntrace = "times.csv"'))
    (tmp_path / "times.csv").write_text("time_us\n0\n1500.5\n9000\n", encoding="utf-8")
    stream = load_scenario(path).streams[0]
    assert stream.arrival is Arrival.TRACE
    assert stream.trace_us == (0.0, 1500.5, 9000.0)


MISTAKES = [
    ("horizon_us", "horizon", r"base\.toml: engine\.horizon = 20000, allowed: the keys mode, .*horizon_us"),
    ("horizon_us = 20000", "horizon_us = 10", r"engine\.horizon_us = 10, allowed: a number at least 1000"),
    (
        "horizon_us = 20000",
        'mode = "turbo"',
        r"engine\.mode = 'turbo', allowed: serial, concurrent, fused_serial, fused",
    ),
    ("horizon_us = 20000", "visible = 17", r"engine\.visible = 17, allowed: an integer at least 1 and at most 16"),
    ("horizon_us = 20000", "visible = true", r"engine\.visible = True, allowed: an integer"),
    ("horizon_us = 20000", "noise = nan", r"engine\.noise = nan, allowed: a number"),
    ("fps = 60", "fps = 0", r"streams\[0\]\.fps = 0, allowed: a number greater than 0"),
    ("fps = 60", "fps = 60\nperiod_us = 5", r"streams\[0\]\.fps = 60, allowed: fps or period_us, not both"),
    ("fps = 60", "", r"streams\[0\]\.period_us = missing, allowed: a number"),
    ("fps = 60", "fps = 60\ngap_us = 5", r"streams\[0\]\.gap_us = 5, allowed: the keys name, arrival"),
    (
        "fps = 60",
        'arrival = "burst"',
        r"streams\[0\]\.arrival = 'burst', allowed: periodic, poisson, closed_loop, trace",
    ),
    ("fps = 60", "fps = 60\njitter_us = 9000", r"streams\[0\]\.jitter_us = 9000, allowed: .*at most 8333"),
    ('late = "firm"', "", r"streams\[0\]\.late = missing, allowed: firm, soft"),
    ('late = "firm"', 'late = "firm"\nqueue = 17', r"streams\[0\]\.queue = 17, allowed: an integer .* at most 16"),
    ('late = "firm"', 'late = "firm"\nqueue = 16', r"streams\.queue = 16 \+ 1, allowed: at most 16 together"),
    ('name = "text"', 'name = "camera"', r"streams\[0\]\.name = 'camera', allowed: a name of its own"),
    ('"camera", "text"', '"camera", "sound"', r"mixes\.all = .*'sound'.*, allowed: .* camera, text"),
    ('mixes = ["all"]', 'mixes = ["none"]', r"train\.mixes = \['none'\], allowed: .* all"),
    ("loads = [1.0, 1.5]", "loads = [0.0]", r"train\.loads = \[0\.0\], allowed: an array of numbers greater than 0"),
    ("first_seed = 100", "first_seed = 99", r"train seeds 0 \.\. 99 and heldout seeds 99 \.\. 148 overlap"),
    (
        '"vision:preview"',
        '"vision:blur"',
        r"jobs\[0\]\.model = 'vision:blur', allowed: vision:preview, vision:features",
    ),
    (
        '"vision:preview"',
        '"preview"',
        r"jobs\[0\]\.model = 'preview', allowed: llm:NAME, gguf:PATH, vision:NAME, onnx:PATH, log:PATH",
    ),
    ("height = 480", "high = 480", r"jobs\[0\]\.high = 480, allowed: the keys model, height, width"),
    ("llm:Llama-3.2-1B", "llm:Llama", r"jobs\[0\]\.model = 'llm:Llama', allowed: llm:Qwen3-1\.7B"),
    ('step = "prefill"', 'step = "train"', r"jobs\[0\]\.step = 'train', allowed: decode, prefill"),
    ("tokens = 32", 'tokens = 32\nhead = "q6_k"', r"jobs\[0\]\.head = 'q6_k', allowed: q4_0, q8_0, cpu"),
    ("[heldout]", "[test]", r"base\.toml: heldout = missing, allowed: a table"),
    ('description = "test"', 'title = "x"\ndescription = "t"', r"base\.toml: title = 'x', allowed: the keys"),
    ('description = "test"', "description = [", r"base\.toml: not a valid TOML file"),
]


@pytest.mark.parametrize(("old", "new", "message"), MISTAKES, ids=[m[1] or m[0] for m in MISTAKES])
def test_mistakes(write, old, new, message):
    with pytest.raises(ConfigError, match=message):
        load_scenario(write((old, new)))


def test_too_many_streams(write):
    extra = "".join(f'[[streams]]\nname = "s{i}"\nfps = 1\n[[streams.jobs]]\n{CAMERA_JOB}' for i in range(7))
    with pytest.raises(ConfigError, match=r"streams = .*, allowed: at most 8 streams"):
        load_scenario(write(extra=extra))


def test_unknown_scenario_and_missing_file(tmp_path):
    with pytest.raises(ConfigError, match=r"unknown scenario 'camera'.*camera_decode.*\.toml"):
        load_scenario("camera")
    with pytest.raises(ConfigError, match=r"none\.toml: cannot be read"):
        load_scenario(str(tmp_path / "none.toml"))


def test_overrides_replace_engine_settings():
    base = EngineSettings(noise=0.2)
    changed = override(base, {"mode": "concurrent", "hmx_lock": "op", "vtcm_split": "static", "visible": 3})
    assert (changed.mode, changed.hmx_lock, changed.vtcm_split) == (Mode.CONCURRENT, HmxLock.OP, Split.STATIC)
    assert (changed.visible, changed.noise) == (3, 0.2)


def test_unknown_override_lists_the_known_ones():
    with pytest.raises(ConfigError, match=r"modus = 'serial', allowed: the keys mode, .*miss_weight.*placement"):
        override(EngineSettings(), {"modus": "serial"})
