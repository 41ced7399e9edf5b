"""How well the model meets the bundled measurements; docs/validation.md has the tables and the missing terms."""

from __future__ import annotations

import numpy as np
import pytest

from hexenv.validate.clock import SUSTAINED_CLOCK
from hexenv.validate.report import TARGET_MEDIAN, TARGET_P90, at_sustained_clock, statistics, target_cases
from hexenv.validate.rows import bundled_rows
from hexenv.validate.rules import Case, classify

LAYERS = 28
"""Of Qwen3-1.7B."""


@pytest.fixture(scope="module")
def cases() -> list[Case]:
    return classify(bundled_rows())[0]


def chosen(cases: list[Case], device: str, family: str, generation: str) -> list[float]:
    return [c.error() for c in cases if (c.device, c.family, c.generation) == (device, family, generation)]


def test_gemv_within_10_percent(cases: list[Case]) -> None:
    errors = chosen(cases, "v79", "gemv", "serial")
    assert len(errors) == 8
    assert max(map(abs, errors)) <= 0.10


def test_gemm_of_the_serial_generation_within_10_percent(cases: list[Case]) -> None:
    errors = chosen(cases, "v79", "gemm", "serial")
    assert len(errors) == 8
    assert max(map(abs, errors)) <= 0.10


def test_gemm_on_hvx_within_5_percent(cases: list[Case]) -> None:
    errors = chosen(cases, "v79", "gemm", "hvx")
    assert len(errors) == 4
    assert max(map(abs, errors)) <= 0.05


def test_decode_device_time_within_5_percent(cases: list[Case]) -> None:
    errors = chosen(cases, "v79", "decode, device time", "overlapped")
    assert len(errors) == 2
    assert max(map(abs, errors)) <= 0.05


def test_isolated_attention_within_15_percent(cases: list[Case]) -> None:
    errors = [c.error() for c in cases if c.family == "attention" and not c.sustained]
    assert len(errors) == 4
    assert max(map(abs, errors)) <= 0.15


def test_a_hybrid_model_on_a_device_where_nothing_was_fitted_within_15_percent(cases: list[Case]) -> None:
    """Qwen3.5-0.8B on v81, delta net on HVX and on HMX (llama.cpp PR 29199)."""
    errors = [c.error() for c in cases if "Qwen3.5-0.8B" in c.row.what]
    assert len(errors) == 5
    assert max(map(abs, errors)) <= 0.15


def test_equal_attention_shapes_give_the_clock_of_the_whole_model_runs(cases: list[Case]) -> None:
    """Three shapes, each measured alone and inside a run: no model in this ratio."""
    us = {c.row.what: c.row.value for c in cases if c.family in ("attention", "prefill, device time")}

    def find(text: str) -> float:
        return next(value for what, value in us.items() if text in what)

    sustained_us = 4 * 512 * 2048 * 16 * 128 / find("nb=512 kv=2048 f16") / 1e6
    in_run = [1e3 * find(f"attention ops q4_0 model Qwen3-1.7B ctx={kv}") / LAYERS for kv in (512, 2048)]
    ratios = [
        find("dense f16 nb=512, 16Q/8KV heads, d=128, kv=512") / in_run[0],
        4 * 2048 * 2048 * 16 * 128 / find("dense f16 kv=2048") / 1e6 / in_run[1],
        find("dense f16 nb=512, 16Q/8KV heads, d=128, kv=2048") / sustained_us,
    ]
    assert float(np.exp(np.mean(np.log(ratios)))) == pytest.approx(SUSTAINED_CLOCK, abs=0.005)
    assert max(ratios) - min(ratios) < 0.05


@pytest.mark.xfail(
    strict=True,
    reason="median 18 %, 90th percentile 31 %: rows of whole prompts ran at about 0.76 of the peak core clock "
    "(attention of equal shapes takes 1.28 to 1.35 times as long there); the sources do not state their clock",
)
def test_target_at_the_peak_clock(cases: list[Case]) -> None:
    found = statistics([case.error() for case in target_cases(cases)])
    assert found["median"] <= TARGET_MEDIAN
    assert found["p90"] <= TARGET_P90


def test_target_with_the_clock_of_the_whole_model_runs(cases: list[Case]) -> None:
    found = statistics([case.error() for case in target_cases(at_sustained_clock(cases))])
    assert found["rows"] == 16
    assert found["median"] <= TARGET_MEDIAN
    assert found["p90"] <= TARGET_P90
