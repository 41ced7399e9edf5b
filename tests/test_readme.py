"""The README's Python examples run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

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
