"""The documents name only what exists: files, tests, and the outcome of every check against a published system."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
DOCS = sorted((ROOT / "docs").glob("*.md"))
SYSTEMS = (ROOT / "docs" / "systems.md").read_text(encoding="utf-8")
CHECK = re.compile(r"`(test_\w+\.py)::(\w+)` (holds|partly fails|fails)")


def outcomes() -> dict[tuple[str, str], str]:
    """How each check of ``tests/published`` is declared to end, by (file, function)."""
    found = {}
    for path in (ROOT / "tests" / "published").glob("test_*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                marks = [ast.unparse(decorator) for decorator in node.decorator_list]
                failing = [mark for mark in marks if "xfail" in mark]
                whole = any(mark.startswith("pytest.mark.xfail") for mark in failing)
                found[path.name, node.name] = "fails" if whole else "partly fails" if failing else "holds"
    return found


OUTCOMES = outcomes()


@pytest.mark.parametrize("document", [*DOCS, ROOT / "README.md"], ids=lambda path: path.name)
def test_links_and_paths_exist(document: Path) -> None:
    text = document.read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", text):
        if not target.startswith("http"):
            assert (document.parent / target).exists(), target
    for path in re.findall(r"`((?:hexenv|agents|train|eval|tests)/[\w/.]*\w)`", text):
        assert (ROOT / path).exists(), path


@pytest.mark.parametrize(("file", "name", "outcome"), CHECK.findall(SYSTEMS))
def test_systems_table_tells_how_each_check_ends(file: str, name: str, outcome: str) -> None:
    assert OUTCOMES.get((file, name)) == outcome


def test_every_failing_check_and_every_file_of_checks_is_in_the_table() -> None:
    listed = {(file, name) for file, name, _ in CHECK.findall(SYSTEMS)}
    assert {key for key, outcome in OUTCOMES.items() if outcome != "holds"} <= listed
    assert {file for file, _ in OUTCOMES} == {file for file, _ in listed}
