"""The one exception that means: the user's input is wrong, not the program."""

from __future__ import annotations


class ConfigError(ValueError):
    """A bad scenario, device, option, model file or checkpoint.

    The message names the thing, its value, what is allowed and the file. Command lines print it
    on one line and exit with code 2 (:data:`EXIT_CODE`).
    """


EXIT_CODE = 2
