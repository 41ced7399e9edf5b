"""What the command lines share: wrong input is one line and exit code 2, Ctrl-C is no stack trace."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from functools import wraps
from typing import NoReturn, ParamSpec

from hexenv.errors import EXIT_CODE, ConfigError

INTERRUPTED = 130
"""Exit code after Ctrl-C, as shells report it."""

_Given = ParamSpec("_Given")


class Parser(argparse.ArgumentParser):
    """Parser whose errors are one line, like every other error of a command."""

    def error(self, message: str) -> NoReturn:
        """Print ``message`` and leave with the exit code of wrong input."""
        self.exit(EXIT_CODE, f"error: {message} ({self.prog} --help explains all options)\n")


def command(main: Callable[_Given, int]) -> Callable[_Given, int]:
    """Turn what ends ``main`` early, wrong input or Ctrl-C, into a line on stderr and an exit code."""

    @wraps(main)
    def guarded(*args: _Given.args, **kwargs: _Given.kwargs) -> int:
        try:
            return main(*args, **kwargs)
        except ConfigError as error:
            print(f"error: {error}", file=sys.stderr)
            return EXIT_CODE
        except KeyboardInterrupt:
            print("interrupted", file=sys.stderr)
            return INTERRUPTED

    return guarded
