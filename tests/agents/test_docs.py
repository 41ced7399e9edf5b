"""docs/schedulers.md names every rule and shows the settings that ship."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import agents
from agents.tuned import FILE

DOCUMENT = (Path(__file__).parents[2] / "docs" / "schedulers.md").read_text()


def test_every_rule_is_explained() -> None:
    assert set(agents.names()) <= set(re.findall(r"`(\w+)`", DOCUMENT))


def test_tuned_settings_are_those_of_the_file() -> None:
    shown = set(re.findall(r"^\| `(\w+)` \| ([\w ]+) \| `([^`]+)` \| ([\d.]+) \|", DOCUMENT, re.MULTILINE))
    kept = set()
    for rule, scopes in tomllib.loads(FILE.read_text()).items():
        for scope, entry in scopes.items():
            values = ", ".join(f"{key} = {value}" for key, value in entry["values"].items())
            kept.add((rule, "all seven" if scope == "common" else scope, values, f"{entry['score']:.3f}"))
    assert shown == kept
