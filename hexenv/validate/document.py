"""Keeps the tables of a document current: the text between ``<!-- begin NAME -->`` and ``<!-- end -->``."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from hexenv.errors import ConfigError
from hexenv.files import write_file

_SECTION = re.compile(r"<!-- begin (\S+) -->\n.*?<!-- end -->", re.DOTALL)


def refresh(path: Path, sections: Mapping[str, str]) -> None:
    """Replace each section of a document by its current text.

    Raises:
        ConfigError: a file that cannot be read, or a section that nobody fills.
    """
    try:
        text = path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"document {path}: cannot be read ({error.strerror})") from error

    def current(match: re.Match[str]) -> str:
        name = match[1]
        if name not in sections:
            raise ConfigError(f"document {path}: section {name!r}; allowed: {', '.join(sections)}")
        return f"<!-- begin {name} -->\n{sections[name]}\n<!-- end -->"

    write_file(path, _SECTION.sub(current, text))
