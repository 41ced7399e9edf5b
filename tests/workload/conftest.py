"""Scenario files for the tests, small and complete."""

from pathlib import Path

import pytest

BASE = """
description = "test"
[engine]
horizon_us = 20000
[mixes]
all = ["camera", "text"]
[train]
first_seed = 0
seeds = 100
loads = [1.0, 1.5]
mixes = ["all"]
[heldout]
first_seed = 100
seeds = 50
loads = [1.2]
mixes = ["all"]
[[streams]]
name = "camera"
fps = 60
deadline_us = 8000
late = "firm"
[[streams.jobs]]
model = "vision:preview"
height = 480
width = 640
[[streams]]
name = "text"
arrival = "closed_loop"
[[streams.jobs]]
model = "llm:Llama-3.2-1B"
step = "prefill"
tokens = 32
"""


@pytest.fixture
def write(tmp_path: Path):
    """Writes the base scenario with replacements; returns its path."""

    def write_scenario(*replacements: tuple[str, str], extra: str = "") -> str:
        text = BASE
        for old, new in replacements:
            assert old in text, old
            text = text.replace(old, new, 1)
        path = tmp_path / "base.toml"
        path.write_text(text + extra, encoding="utf-8")
        return str(path)

    return write_scenario
