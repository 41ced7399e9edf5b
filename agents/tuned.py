"""The file of tuned settings, ``agents/tuned.toml``: which values a rule takes, and how they were found.

A table a rule and scope: ``common`` holds for every scenario, any other scope for the scenario of that name. ``values``
are keywords of the rule's builder, the other entries say how ``python -m agents.tune`` found them.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

from hexenv.errors import ConfigError
from hexenv.files import write_file

FILE = Path(__file__).with_name("tuned.toml")
COMMON = "common"
"""Scope of values that hold for every scenario."""
_HEADER = "# Tuned settings of the rules. Written by `python -m agents.tune`; docs/schedulers.md has the commands.\n"


@lru_cache(maxsize=8)
def _read(path: Path) -> dict[str, dict[str, dict[str, Any]]]:
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return {}
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not a TOML file ({error}); write it with python -m agents.tune") from error


def tuned_values(name: str, scope: str = COMMON, path: Path = FILE) -> dict[str, Any]:
    """Tuned settings of the rule ``name`` in ``scope``; empty if it has not been tuned there."""
    return dict(_read(path).get(name, {}).get(scope, {}).get("values", {}))


def record(name: str, scope: str, entry: Mapping[str, Any], path: Path = FILE) -> None:
    """Put ``entry`` (``values`` and how they were found) in place of the one of ``name`` and ``scope``, atomically."""
    _read.cache_clear()
    tables = {rule: dict(scopes) for rule, scopes in _read(path).items()}
    tables.setdefault(name, {})[scope] = dict(entry)
    text = _HEADER
    for rule in sorted(tables):
        for key in sorted(tables[rule]):
            lines = (f"{field} = {_toml(value)}\n" for field, value in tables[rule][key].items())
            text += f"\n[{rule}.{_toml(key)}]\n" + "".join(lines)
    write_file(path, text)
    _read.cache_clear()


def _toml(value: Any) -> str:
    """``value`` (bool, number, text, list or mapping of these) as TOML."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
    if isinstance(value, Mapping):
        return "{ " + ", ".join(f"{key} = {_toml(item)}" for key, item in value.items()) + " }"
    if isinstance(value, (list, tuple)):
        return "[" + ", ".join(_toml(item) for item in value) + "]"
    return repr(value)
