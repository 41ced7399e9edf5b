"""The README's Python examples run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agents import make
from eval.episodes import held_out
from eval.play import run
from eval.summary import episode_frame, stream_frame, summary_frame
from hexenv.workload import build

README = Path(__file__).parents[1] / "README.md"
EXAMPLES = re.findall(r"```python\n(.*?)```", README.read_text(), re.DOTALL)


def test_readme_has_examples() -> None:
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example_runs_without_a_warning(example: str) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], cwd=README.parent, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert not run.stderr


def test_every_column_of_the_results_is_explained() -> None:
    tables = build("camera_decode", "v79", "heldout", horizon_us=10_000)
    outcomes = [run(make("edf"), tables, held_out(tables, 2), lambda *_: None)]
    named = set(re.findall(r"`(\w+)`", README.read_text()))
    named |= {f"{base}{end}" for base in ("vs_reference", "vs_best_rule") for end in ("_low", "_high")}
    for frame in (summary_frame(outcomes), stream_frame(outcomes), episode_frame(outcomes)):
        assert set(frame.columns) <= named
