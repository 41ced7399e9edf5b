"""The README's Python examples run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from agents import make
from eval.__main__ import make_parser
from eval.document import blocks_of
from eval.episodes import held_out
from eval.play import run
from eval.runner import Plan, check, play_all
from eval.summary import episode_frame, stream_frame, summary_frame
from eval.table import trade_off_markdown
from hexenv.workload import build

README = Path(__file__).parents[1] / "README.md"
TEXT = README.read_text(encoding="utf-8")
EXAMPLES = re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL)


def test_readme_has_examples() -> None:
    assert len(EXAMPLES) == 3


@pytest.mark.parametrize("example", EXAMPLES, ids=range(len(EXAMPLES)))
def test_example_runs_without_a_warning(example: str) -> None:
    run = subprocess.run(
        [sys.executable, "-W", "error", "-c", example], cwd=README.parent, capture_output=True, text=True, check=False
    )
    assert run.returncode == 0, run.stderr
    assert not run.stderr


def test_published_table_is_what_its_command_prints() -> None:
    block = next(block for block in blocks_of(TEXT, README) if block.name == "trade-off")
    options = vars(make_parser().parse_args(block.arguments))
    names, published = ("serial", "edf"), TEXT[block.start : block.end].splitlines()
    assert len(published) == 2 + len(options["scenario"]) * len(options["schedulers"]) + 2
    plan = Plan(("camera_decode",), "v79", tuple(map(make, names)), options["episodes"])
    made = trade_off_markdown(summary_frame(play_all(plan, check(plan)))).splitlines()
    assert made == [*published[:2], *published[2:4], *published[-2:]]


def test_every_column_of_the_results_is_explained() -> None:
    tables = build("camera_decode", "v79", "heldout", horizon_us=10_000)
    outcomes = [run(make("edf"), tables, held_out(tables, 2), lambda *_: None)]
    named = set(re.findall(r"`(\w+)`", README.read_text()))
    named |= {f"{base}{end}" for base in ("vs_reference", "vs_best_rule") for end in ("_low", "_high")}
    for frame in (summary_frame(outcomes), stream_frame(outcomes), episode_frame(outcomes)):
        assert set(frame.columns) <= named
