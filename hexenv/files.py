"""Result files: an unwritable folder is refused before the work starts, and no file is ever half written."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from hexenv.errors import ConfigError

FLOAT_FORMAT = "%.12g"
"""One fixed text for every float, so that equal results are equal bytes."""


def require_writable(folder: Path) -> None:
    """Make ``folder`` if needed and prove that a file can be written there, or raise :class:`ConfigError`."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = error.strerror or str(error)
        raise ConfigError(
            f"output folder {str(folder)!r} cannot be written: {reason}; give a writable folder"
        ) from None


def csv_text(frame: pd.DataFrame) -> str:
    """The frame as CSV with the fixed float format; a missing figure is written ``nan``."""
    return frame.to_csv(index=False, float_format=FLOAT_FORMAT, na_rep="nan", lineterminator="\n")


def require_writable_file(path: Path) -> None:
    """Prove that a file can be written at ``path``, or raise :class:`ConfigError`."""
    if path.is_dir():
        raise ConfigError(f"output file {str(path)!r} is a folder; give the name of a file")
    require_writable(path.parent)


def write_file(path: Path, text: str | bytes) -> None:
    """Write one file, complete on disk before it takes its name."""
    require_writable_file(path)
    write_all(path.parent, {path.name: text})


def write_all(folder: Path, texts: Mapping[str, str | bytes]) -> None:
    """Write several files (name -> content) into ``folder``: all are complete on disk before the first takes its name.

    Text is written as UTF-8.
    """
    staged: list[tuple[str, Path]] = []
    try:
        for name, text in texts.items():
            handle, path = tempfile.mkstemp(dir=folder, prefix=f".{name}.")
            staged.append((path, folder / name))
            with os.fdopen(handle, "wb") as file:
                file.write(text.encode("utf-8") if isinstance(text, str) else text)
                file.flush()
                os.fsync(file.fileno())
            os.chmod(path, 0o644)
        while staged:
            path, target = staged[0]
            os.replace(path, target)
            staged.pop(0)
    finally:
        for path, _ in staged:
            os.unlink(path)
