"""Result tables in documents: each stands in a marked block beside the command that makes it.

A block lies between ``<!-- NAME:begin -->`` and ``<!-- NAME:end -->``. If it holds a command in backquotes,
``python -m eval ... --markdown``, its table and the line on the evidence below are what that command prints.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import unified_diff
from pathlib import Path

from hexenv.errors import ConfigError
from hexenv.files import write_file

_BLOCK = re.compile(r"<!-- (?P<name>[\w-]+):begin -->\n(?P<body>.*?)<!-- (?P=name):end -->", re.DOTALL)
_COMMAND = re.compile(r"`python -m eval (?P<arguments>[^`]*--markdown[^`]*)`")
_TABLE = re.compile(r"(?:^\|.*\n)+(?:\n\*.*\*\n)?", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A table of a document and the command that makes it."""

    name: str
    arguments: tuple[str, ...]
    """Of ``python -m eval``."""
    start: int
    """Where the table begins in the text, and where it ends."""
    end: int


def blocks_of(text: str, path: Path) -> list[Block]:
    """The tables that can be made again.

    Raises:
        ConfigError: there is none, or a block with a command has no table or several.
    """
    blocks = []
    for match in _BLOCK.finditer(text):
        command = _COMMAND.search(match["body"])
        if command is None:
            continue
        tables = list(_TABLE.finditer(match["body"]))
        if len(tables) != 1:
            raise ConfigError(f"{path}: block {match['name']!r} has {len(tables)} tables; allowed: one")
        first = match.start("body")
        arguments = tuple(shlex.split(command["arguments"]))
        blocks.append(Block(match["name"], arguments, first + tables[0].start(), first + tables[0].end()))
    if not blocks:
        raise ConfigError(
            f"{path} has no block <!-- NAME:begin --> ... <!-- NAME:end --> with a command "
            "`python -m eval ... --markdown`"
        )
    return blocks


def current(path: Path, make: Callable[[Sequence[str]], str]) -> tuple[str, str]:
    """The document as it stands, and with every table as ``make`` gives it for the arguments of its command.

    Raises:
        ConfigError: the document cannot be read, or a block is wrong.
    """
    made = {block.arguments: make(block.arguments) for block in blocks_of(_read(path), path)}
    fresh = text = _read(path)  # again, since commands take minutes and a document is edited
    for block in reversed(blocks_of(text, path)):
        if block.arguments in made:
            fresh = fresh[: block.start] + made[block.arguments] + "\n" + fresh[block.end :]
    return text, fresh


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"document {path}: cannot be read ({error.strerror})") from error


def update(path: Path, make: Callable[[Sequence[str]], str]) -> bool:
    """Make every table again; returns whether the document has changed."""
    text, fresh = current(path, make)
    if fresh != text:
        write_file(path, fresh)
    return fresh != text


def stale(path: Path, make: Callable[[Sequence[str]], str]) -> list[str]:
    """In what the document differs from what its commands print: lines of a unified diff, empty if in nothing."""
    text, fresh = current(path, make)
    return list(unified_diff(text.splitlines(), fresh.splitlines(), str(path), "made again", lineterm="", n=0))
