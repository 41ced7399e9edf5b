"""Job tables of a scenario: every step of a language model, and what is refused with key, value, allowed and file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from hexenv.errors import ConfigError
from hexenv.workload.jobs import DecodeJob, DenoiseJob, Job, PrefillJob, VerifyJob, read_jobs
from hexenv.workload.models import language_model
from hexenv.workload.toml_reader import Table


def read(**values: Any) -> Job:
    (job,) = read_jobs(Table(values, "streams[0].jobs[0].", "moe.toml"), Path())
    return job


@pytest.mark.parametrize(
    ("values", "job"),
    [
        ({"step": "decode", "context": 5}, DecodeJob(language_model("OLMoE-1B-7B"), 5, "q4_0")),
        ({"step": "prefill", "tokens": 64}, PrefillJob(language_model("OLMoE-1B-7B"), 64, 0, None)),
        (
            {"step": "verify", "window": 4, "context": 9, "acceptance": 0.5, "head": "cpu"},
            VerifyJob(language_model("OLMoE-1B-7B"), 4, 9, 0.5, 0.0, None),
        ),
    ],
    ids=lambda value: value.get("step", "") if isinstance(value, dict) else "",
)
def test_steps_of_a_causal_model(values: dict[str, Any], job: Job) -> None:
    assert read(model="llm:OLMoE-1B-7B", **values) == job
    assert job.graph().nodes


def test_a_denoising_step_of_a_diffusion_model() -> None:
    job = read(model="llm:LLaDA-8B", step="denoise", context=128, masked=8, fill=True)
    assert job == DenoiseJob(language_model("LLaDA-8B"), 128, 8, 32, True, "q4_0")
    assert job.graph().name == "LLaDA-8B denoise 8 of 32 filled@128"


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"model": "llm:OLMoE-1B-7B", "step": "denoise"}, r"step = 'denoise', allowed: decode, prefill, verify"),
        ({"model": "llm:LLaDA-8B", "step": "decode"}, r"step = 'decode', allowed: denoise"),
        ({"step": "verify", "window": 65}, r"window = 65, allowed: an integer at least 1 and at most 64"),
        ({"step": "verify", "window": 4, "context": 0}, r"acceptance = missing"),
        ({"step": "verify", "window": 4, "context": 0, "acceptance": 1.5}, r"acceptance = 1.5, allowed"),
        (
            {"model": "llm:LLaDA-8B", "step": "denoise", "context": 0, "masked": 33},
            r"masked = 33, allowed: an integer at least 1 and at most 32",
        ),
        ({"step": "decode", "context": 0, "window": 4}, r"window = 4, allowed: the keys"),
    ],
)
def test_bad_jobs_are_refused(values: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=r"moe\.toml: streams\[0\]\.jobs\[0\]\." + words):
        read(**{"model": "llm:OLMoE-1B-7B", **values})
