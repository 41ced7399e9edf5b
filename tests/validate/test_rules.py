from __future__ import annotations

import re

import pytest

from hexenv.device import load_device
from hexenv.kernels import Elementwise, FlashAttention, MatMul, Reduce, RmsNorm, Rope, Version, fastest_us
from hexenv.validate.backend import GENERATIONS, cost
from hexenv.validate.rows import bundled_rows
from hexenv.validate.rules import Case, classify, rules
from hexenv.validate.subjects import OperatorTime, Steps
from tests.validate.samples import model_row, operator_row


def only(cases: list[Case]) -> Case:
    (case,) = cases
    return case


def test_every_bundled_row_is_used_or_has_a_reason() -> None:
    rows = bundled_rows()
    cases, excluded = classify(rows)
    assert [row for row in rows if row not in [c.row for c in cases] + [e.row for e in excluded]] == []
    assert all(one.reason and "no rule" not in one.reason for one in excluded)
    assert all(case.generation in GENERATIONS and case.predicted() > 0.0 for case in cases)


def test_every_rule_decides_a_bundled_row_but_the_last_ones_for_other_files() -> None:
    first = [next(rule for rule in rules() if rule.matches(row)) for row in bundled_rows()]
    assert [rule for rule in rules()[:-4] if not any(rule is used for used in first)] == []


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"source": "GEMM Latency on QNN HTP"}, "other software stack"),
        ({"note": "SUSPECT: too fast"}, "suspect"),
        ({"arch": "v68"}, "no longer supported"),
        ({"arch": "v99"}, "device 'v99' has no file; known: .*v79"),
        ({"dtype_a": "iq2_s", "m": "64", "n": "1", "k": "64"}, "weight = 'iq2_s'; allowed: q4_0"),
        ({"n": "1", "k": "64"}, "m not stated"),
        ({"op": "FLASH_ATTN_EXT", "dims": "nb=512, kv=512"}, "q_heads not stated"),
        ({"op": "MAGIC"}, "operator 'MAGIC' has no cost model; known: MUL_MAT"),
        ({"op": "ADD"}, "tensor shape not stated"),
        ({"op": "ADD", "dims": "0x4"}, "tensor shape 0x4; allowed: sizes of 1"),
        ({"n": "1", "k": "64", "dims": "m=6b"}, "m = '6b'; allowed: a number"),
        ({"m": "2000000", "n": "1", "k": "64"}, "m = 2e\\+06; allowed: a whole number, 1 to"),
        ({"m": "64", "n": "4", "k": "1000000"}, "does not fit VTCM of v79 as HVX"),
        ({"m": "64", "n": "1", "k": "64", "unit": "t/s"}, "unit 't/s'; allowed here: s, ms, us, ns, GB/s, TFLOPS"),
    ],
)
def test_reasons_for_operator_rows(fields: dict[str, str], reason: str) -> None:
    unit = fields.pop("unit", "us")
    cases, excluded = classify([operator_row(unit=unit, **fields)])
    assert cases == []
    assert re.search(reason, excluded[0].reason)


@pytest.mark.parametrize(
    ("test", "fields", "reason"),
    [
        ("pp512", {"model": "Nobody-1B"}, "model 'Nobody-1B' is not in the table"),
        ("pp512", {"quant": "Q4_K_M"}, "weights Q4_K_M: the model's graphs are Q4_0"),
        ("pp", {}, "prompt length not stated"),
        ("pp0", {}, "prompt length not stated"),
        ("pp99999999", {}, "ctx not stated"),
        ("tg64", {"note": "4 sessions"}, "several sessions"),
        ("tg64", {"note": "output incorrect"}, "output incorrect"),
    ],
)
def test_reasons_for_model_rows(test: str, fields: dict[str, str], reason: str) -> None:
    cases, excluded = classify([model_row(test, **fields)])
    assert cases == []
    assert reason in excluded[0].reason


@pytest.mark.parametrize(
    ("fields", "operator"),
    [
        ({"m": "6144", "n": "512", "k": "2048"}, MatMul("q4_0", 6144, 512, 2048)),
        ({"dtype_a": "f16", "m": "512", "n": "16", "k": "128", "dims": "bs=8"}, MatMul("f16", 512, 16, 128, 8)),
        (
            {"op": "FLASH_ATTN_EXT", "dims": "nb=1, 16Q/8KV heads, d=128, kv=512"},
            FlashAttention(1, 512, 16, 8, 128),
        ),
        ({"op": "ADD", "dims": "2048:512"}, Elementwise("add", 2048 * 512)),
        ({"op": "RMS_NORM", "dims": "128:16:512"}, RmsNorm(8192, 128)),
        ({"op": "SUM_ROWS", "dims": "64x32"}, Reduce(32, 64)),
        ({"op": "ROPE", "dims": "128:16:512"}, Rope(512, 16, 128)),
    ],
)
def test_operators_by_ggml_name(fields: dict[str, str], operator: object) -> None:
    case = only(classify([operator_row(**fields)])[0])
    assert isinstance(case.subject, OperatorTime)
    assert case.subject.operator == operator
    assert (case.device, case.generation) == ("v79", "overlapped")


def test_units_are_of_one_prediction() -> None:
    v79 = load_device("v79")
    shape = {"m": "6144", "n": "512", "k": "2048"}
    us, ms, tflops = (only(classify([operator_row(unit=unit, **shape)])[0]) for unit in ("us", "ms", "TFLOPS"))
    assert us.predicted() == pytest.approx(1000 * ms.predicted())
    assert tflops.predicted() * us.predicted() == pytest.approx(2 * 6144 * 512 * 2048 / 1e6)
    assert us.predicted() == pytest.approx(fastest_us(MatMul("q4_0", 6144, 512, 2048), v79), rel=0.05)


def test_errors_are_of_time_whatever_the_unit() -> None:
    fast = only(classify([model_row("pp512", 1e9)])[0])  # measured far faster than predicted: the model is slower
    assert fast.error() > 0.0
    slow = only(classify([operator_row(1e9, m="64", n="1", k="64")])[0])
    assert slow.error() < 0.0


def test_prompts_run_in_chunks_and_pay_the_host_gap_each() -> None:
    v79, now = load_device("v79"), GENERATIONS["overlapped"]
    whole, halves = (Steps("Llama-3.2-1B", "prefill", 512, ubatch).predict(v79, now, "us") for ubatch in (512, 256))
    assert halves - whole > v79.decode_gap_us
    parts = [
        Steps("Llama-3.2-1B", "prefill", 512, part=part).predict(v79, now, "us") for part in ("attention", "others")
    ]
    assert sum(parts) < whole - v79.decode_gap_us


@pytest.mark.parametrize(
    ("operator", "generation", "version"),
    [
        (MatMul("q4_0", 64, 4, 64), "overlapped", Version.HVX),
        (MatMul("q4_0", 64, 5, 64), "overlapped", Version.HMX),
        (MatMul("q4_0", 64, 5, 64), "hvx", Version.HVX),
        (FlashAttention(4, 512, 16, 8, 128), "overlapped", Version.HVX),
        (FlashAttention(5, 512, 16, 8, 128), "overlapped", Version.HMX),
        (FlashAttention(1, 512, 8, 2, 256), "overlapped", Version.HMX),
        (RmsNorm(512, 2048), "overlapped", Version.HVX),
    ],
)
def test_the_backend_chooses_engines_by_its_own_rule(operator: object, generation: str, version: Version) -> None:
    assert cost(operator, load_device("v79"), GENERATIONS[generation]).version is version  # type: ignore[arg-type]


def test_another_device_and_clock() -> None:
    row = operator_row(m="6144", n="512", k="2048")
    assert only(classify([row], device="v75")[0]).device == "v75"
    sustained = operator_row(m="6144", n="512", k="2048", note="sustained")
    peak, slow = (only(classify([sustained], clock=clock)[0]).predicted() for clock in (1.0, 0.5))
    assert 1.5 * peak < slow < 2.0 * peak  # DDR keeps its rate
    assert only(classify([row], clock=0.5)[0]).predicted() == peak
