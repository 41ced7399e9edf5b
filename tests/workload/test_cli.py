"""``python -m hexenv.workload``."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from hexenv.workload import scenario_names
from hexenv.workload.__main__ import main


def test_every_scenario_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    assert main([]) == 0
    shown = capsys.readouterr().out
    assert all(name in shown for name in scenario_names())
    assert "tightness" in shown
    assert "deadline_load" in shown


def test_an_unknown_scenario_is_one_line(refusal: Callable[..., str]) -> None:
    assert "nowhere" in refusal(main, ["nowhere"])
