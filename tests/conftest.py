"""Property tests take the same examples everywhere, and may take their time on a busy machine."""

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import settings

from hexenv.errors import EXIT_CODE

settings.register_profile("hexenv", deadline=None, derandomize=True)
settings.load_profile("hexenv")


@pytest.fixture
def refusal(capsys: pytest.CaptureFixture[str]) -> Callable[[Callable[..., Any], Sequence[str]], str]:
    """Runs the ``main`` of a command that must refuse its arguments; returns the one line it says."""

    def run(main: Callable[..., Any], arguments: Sequence[str]) -> str:
        try:
            code = main(arguments)
        except SystemExit as exit_:  # the parser's way
            code = exit_.code
        error = capsys.readouterr().err
        assert code == EXIT_CODE
        assert error.startswith("error: ")
        assert error.count("\n") == 1
        return error

    return run
