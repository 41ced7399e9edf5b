import pytest

from hexenv.cli import INTERRUPTED, Parser, command
from hexenv.errors import EXIT_CODE, ConfigError


@command
def main(end: BaseException | None) -> int:
    if end is not None:
        raise end
    return 7


@pytest.mark.parametrize(
    ("end", "code", "line"),
    [
        (None, 7, ""),
        (ConfigError("load 0 is not allowed"), EXIT_CODE, "error: load 0 is not allowed\n"),
        (KeyboardInterrupt(), INTERRUPTED, "interrupted\n"),
    ],
)
def test_a_command_ends_with_a_line_and_a_code(capsys, end, code, line):
    assert main(end) == code
    assert capsys.readouterr().err == line


def test_a_defect_keeps_its_stack_trace():
    with pytest.raises(ZeroDivisionError):
        main(ZeroDivisionError())


def test_a_wrong_option_is_one_line_that_names_the_command(capsys):
    with pytest.raises(SystemExit) as exit_:
        Parser(prog="python -m thing").parse_args(["--colour"])
    assert exit_.value.code == EXIT_CODE
    error = capsys.readouterr().err
    assert error == "error: unrecognized arguments: --colour (python -m thing --help explains all options)\n"
