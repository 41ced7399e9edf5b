from __future__ import annotations

import dataclasses
import re
from pathlib import Path

import numpy as np
import pytest

from hexenv.calibrate import Calibration, calibrate, observe, report
from hexenv.calibrate.__main__ import main
from hexenv.calibrate.calibration import NOTHING, RUNS_AWAY, session_facts
from hexenv.calibrate.identify import HIDDEN, WIDEST, identify
from hexenv.calibrate.stages import SETUP, stage_times
from hexenv.device import Device, load_device
from hexenv.errors import ConfigError
from hexenv.kernels import MatMul
from hexenv.logs import parse
from tests.calibrate.conftest import ALTERED, MATMULS, MODEL, from_text
from tests.logs import made, samples


def test_altered_constants_come_back_within_their_intervals(calibrated: Calibration, altered: Device) -> None:
    found = {one.name: one for one in calibrated.estimates}
    assert set(ALTERED) <= set(found)
    for name, one in found.items():
        assert one.low <= getattr(altered, name) <= one.high, name
    for name, value in ALTERED.items():
        assert found[name].value == pytest.approx(value, rel=0.1)
        assert found[name].value != pytest.approx(getattr(calibrated.base, name), rel=0.1)


def test_the_fit_explains_what_the_base_does_not(calibrated: Calibration) -> None:
    frame = report.comparison_frame(calibrated)
    assert len(frame) == len(MODEL)
    assert frame["fitted_error"].abs().median() < 0.02 < 0.1 < frame["base_error"].abs().median()
    assert calibrated.parts[0].residual < 0.03


def test_what_the_log_cannot_tell_is_refused_and_why(calibrated: Calibration) -> None:
    reasons = calibrated.refused
    assert reasons["gaussian5x5_packets"] == NOTHING
    assert reasons["activation_prep_ns"] == HIDDEN
    assert reasons["hvx_unpack_q4_0_us"].startswith("collinear with hvx_dot_us (smallest singular value")
    assert {one.name for one in calibrated.estimates}.isdisjoint(reasons)


def test_facts_of_the_session_are_taken_as_they_are(v79: Device) -> None:
    found = from_text(samples.SESSION.replace("hvx 6", "hvx 4").replace("vtcm 8", "vtcm 4"), v79)
    assert found.facts == {"contexts": 4, "vtcm_bytes": 4 << 20, "window_bytes": 3355443200}
    assert (found.device.contexts, found.device.vtcm_bytes) == (4, 4 << 20)
    assert not found.estimates


def test_logs_of_two_devices_are_refused() -> None:
    text = samples.SESSION + samples.SESSION.replace("hvx 6", "hvx 8")
    with pytest.raises(ConfigError, match=r"log log: contexts = 6 in line 1; 8 in line 3; allowed: logs of one device"):
        session_facts(parse(text.splitlines(keepends=True)))


def test_one_distinct_operator_gives_nothing_however_many_rows(v79: Device, altered: Device) -> None:
    found = from_text(made.log_text(MODEL[:1], altered, count=200), v79)
    assert not found.estimates
    assert "too few distinct observations" in found.refused["ddr_bytes_per_us"]


def test_a_log_of_the_base_itself_changes_nothing_beyond_its_interval(v79: Device) -> None:
    for one in from_text(made.log_text(MODEL, v79, noise=0.01), v79).estimates:
        assert one.low <= getattr(v79, one.name) <= one.high


def test_times_that_the_model_cannot_explain_are_not_fitted(v79: Device) -> None:
    slow = dataclasses.replace(v79, ddr_bytes_per_us=500.0)
    found = from_text(made.log_text([MatMul("q4_0", m, 1, 2048) for m in (512, 1024, 2048, 6144)], slow), v79)
    assert "ddr_bytes_per_us" not in {one.name for one in found.estimates}
    assert RUNS_AWAY in found.refused.values()


def test_dispatch_from_batches_of_several_sizes(v79: Device) -> None:
    draw = np.random.default_rng(3)
    lines = []
    for n in 9 * (1, 8, 40, 200, 535, 1024):
        host = 20 * n + round((120 + 2.4 * n) * draw.lognormal(0.0, 0.02))
        lines.append(f"ggml-hex: HTP0 profile-batch n-ops {n} batch-dur-usec {host} htp-ops-usec {20 * n}\n")
    text = "".join(lines)
    found = {one.name: one for one in from_text(text, v79).estimates}
    assert found["batch_us"].low <= 120 <= found["batch_us"].high
    assert found["op_us"].low <= 2.4 <= found["op_us"].high


def test_batches_of_one_size_do_not_tell_a_batch_from_its_operators(v79: Device) -> None:
    found = from_text(samples.COLONS * 9, v79)
    assert "too few distinct observations" in found.refused["batch_us"]


def test_collinear_columns_are_held_and_their_range_is_carried() -> None:
    one = np.linspace(1.0, 2.0, 12)[:, None] * 100.0
    weighted = np.hstack([one, 0.5 * one, np.ones((12, 1)) * 100.0])
    found = identify(weighted, ["big", "small", "fixed"], np.array([0.1, 0.1, 0.1]), 1.0, {})
    assert found.free == (0, 2)
    assert found.refused[1].startswith("collinear with big")
    assert found.half_widths[0] == pytest.approx(2 * 0.1 * 0.5, rel=0.3)
    unsure = identify(weighted, ["big", "small", "fixed"], np.array([0.1, 2 * WIDEST, 0.1]), 1.0, {})
    assert 0 not in unsure.free
    assert unsure.refused[0].endswith("it leans on small")


def test_events_show_what_times_of_whole_operators_hide(v79: Device) -> None:
    true = {"dequant_q4_0_us": 0.08, "activation_prep_ns": 0.2, "hmx_fixed_us": 14.0}
    altered = dataclasses.replace(v79, **true)
    log = parse(made.traced(MATMULS, altered).splitlines(keepends=True))
    times = stage_times(log)
    gemm = next(op for op in log.ops if op.dims.startswith("2048:6144 x 2048:512"))
    assert times[gemm.line][SETUP] == pytest.approx(14.0, rel=0.01)
    assert set(times[gemm.line]) == {"HMX_COMP", "HVX_W_DEQUANT", "HVX_A_PREP", "HVX_O_PROC", SETUP}
    found = {one.name: one for one in calibrate(log, observe(log, v79), v79).estimates}
    for name, value in true.items():
        assert found[name].low <= value <= found[name].high
        assert found[name].value == pytest.approx(value, rel=0.05)


def test_events_without_their_other_end_are_not_used(v79: Device) -> None:
    text = made.traced(MATMULS, v79)
    whole = stage_times(parse(text.splitlines(keepends=True)))
    stop = next(line for line in text.splitlines(keepends=True) if "HVX_W_DEQUANT: thread 3 info 0 stop" in line)
    torn = stage_times(parse(text.replace(stop, "", 1).splitlines(keepends=True)))
    changed = [line for line in whole if whole[line] != torn.get(line, {})]
    assert len(changed) == 1
    assert set(whole[changed[0]]) - set(torn[changed[0]]) == {"HVX_W_DEQUANT"}


def test_the_written_device_is_a_device(tmp_path: Path, made_log: str, capsys: pytest.CaptureFixture[str]) -> None:
    log, output, csv = tmp_path / "made.log", tmp_path / "my_device.toml", tmp_path / "times.csv"
    log.write_text(made_log + "other program\n", encoding="utf-8")
    assert main([str(log), "--device", "v79", "-o", str(output), "--csv", str(csv)]) == 0
    device = load_device(str(output))
    printed = capsys.readouterr().out
    assert device.name == "my_device"
    for name in ALTERED:
        constant = device.constants[name]
        assert constant.low < constant.value < constant.high
        assert constant.confidence in "CD"
        assert f"fitted to {log}: " in constant.source
        assert "rows of" in constant.source
        assert name in printed
    assert device.constants["hmx_fixed_us"].source.startswith("not measured, carried over from v79")
    assert csv.read_text(encoding="utf-8").splitlines()[0].startswith("what,engine,rows,logged_us,base_us,fitted_us")
    assert len(csv.read_text(encoding="utf-8").splitlines()) == 1 + len(MODEL)
    log.write_text(samples.SESSION, encoding="utf-8")
    assert main([str(log), "--device", str(output), "-o", str(tmp_path / "again.toml")]) == 0
    again = load_device(str(tmp_path / "again.toml"))
    assert again.constants["beta"].source == device.constants["beta"].source


def test_the_sample_lines_go_through(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    log, output = tmp_path / "sample.log", tmp_path / "sample.toml"
    log.write_text(samples.ALL, encoding="utf-8")
    assert main([str(log), "--weights", "q8_0", "-o", str(output), "--markdown"]) == 0
    assert "MUL_MAT 4096:4096 x 4096:64 -> 4096:64 | HVX | 2 | 5012 | 4991 | -0.4 %" in capsys.readouterr().out
    assert load_device(str(output)).constants["contexts"].confidence == "C"


MISTAKES = [
    (["none.log"], r"log none\.log: cannot be read"),
    (["{log}", "--device", "v00"], r"unknown device 'v00'"),
    (["{log}", "-o", "out.txt"], r"output 'out\.txt'; allowed: a name that ends in \.toml"),
    (["{log}", "--weights", "q9"], r"invalid choice: 'q9'"),
    (["{empty}"], r"nothing of llama\.cpp's Hexagon profiler in 2 lines"),
    (["{log}", "-o", "{out}"], r"gives no constant; .*out\.toml not written"),
]


@pytest.mark.parametrize(("arguments", "message"), MISTAKES)
def test_mistakes(tmp_path: Path, capsys: pytest.CaptureFixture[str], arguments: list[str], message: str) -> None:
    (tmp_path / "log").write_text(samples.SYNCHRONOUS, encoding="utf-8")
    (tmp_path / "empty").write_text("a\nb\n", encoding="utf-8")
    places = {name: str(tmp_path / name) for name in ("log", "empty")} | {"out": str(tmp_path / "out.toml")}
    try:
        code = main([argument.format(**places) for argument in arguments])
    except SystemExit as end:
        code = int(end.code or 0)
    error = capsys.readouterr().err
    assert code == 2
    assert len(error.splitlines()) == 1
    assert re.search(message, error)
    assert not (tmp_path / "out.toml").exists()
