"""The simulator must be able to disagree: it may not know what the engine or the kernels predict."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

import hexenv.tilesim

FOLDER = Path(hexenv.tilesim.__file__).parent
MECHANISM = ("chip", "loop", "engines", "stage", "machine")
"""What decides how long something takes; the other modules record, compare and report."""


def imports(module: str) -> set[str]:
    """Every ``module.name`` that a file of the package imports from hexenv, wherever it does."""
    found = set()
    for node in ast.walk(ast.parse((FOLDER / f"{module}.py").read_text(encoding="utf-8"))):
        if isinstance(node, ast.ImportFrom):
            assert node.level == 0
            found |= {f"{node.module}.{name.name}" for name in node.names}
        elif isinstance(node, ast.Import):
            found |= {name.name for name in node.names}
    return {name for name in found if name.startswith("hexenv")}


@pytest.mark.parametrize("module", MECHANISM)
def test_the_mechanism_knows_only_work_and_raw_rates(module: str) -> None:
    allowed = {"hexenv.kernels.cost.StageCost", "hexenv.device.Device"}
    assert {name for name in imports(module) if not name.startswith("hexenv.tilesim.")} <= allowed


@pytest.mark.parametrize("module", sorted(path.stem for path in FOLDER.glob("*.py")))
def test_no_module_reaches_into_the_engine_or_the_cost_formulas(module: str) -> None:
    for name in imports(module):
        assert not name.startswith("hexenv.kernels") or name == "hexenv.kernels.cost.StageCost"
        if name.startswith("hexenv.engine."):
            public = ("hexenv.engine.layout.", "hexenv.engine.Simulator", "hexenv.engine.TraceLevel")
            assert name.startswith((*public, "hexenv.engine.episode_key"))
