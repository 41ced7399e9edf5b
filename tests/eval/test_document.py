import pytest

from eval.__main__ import main
from eval.document import blocks_of, stale, update
from hexenv.errors import ConfigError

COMMAND = "python -m eval --scenario camera_decode --schedulers serial,edf\n--episodes 2 --horizon-us 10000 --markdown"
TEXT = f"""# Results

| not | ours |
| --- | --- |

<!-- result:begin -->
`{COMMAND}` (a moment):

| scenario | scheduler |
| --- | --- |
| old | numbers |

Words below the table.
<!-- result:end -->

<!-- other:begin -->
`python -m train` and no table of ours.
<!-- other:end -->
"""


@pytest.fixture
def document(tmp_path):
    path = tmp_path / "page.md"
    path.write_text(TEXT)
    return path


def test_the_command_in_a_block_makes_its_table(document, tmp_path, capsys):
    options = ["--workers", "1", "--out", str(tmp_path / "results")]
    assert main(["--check", str(document), *options]) == 1
    assert "-| old | numbers |" in capsys.readouterr().out
    assert document.read_text() == TEXT
    assert main(["--update", str(document), *options]) == 0
    text = document.read_text()
    assert "| camera_decode | edf |" in text
    assert "old" not in text
    head, tail = TEXT.split("| scenario")[0], TEXT.split("numbers |\n")[1]
    assert text.startswith(head)
    assert text.endswith(f"*2 episodes a scheduler and scenario (a published table has at least 100)*\n{tail}")
    capsys.readouterr()
    assert main(["--check", str(document), *options]) == 0
    assert "as its commands print it" in capsys.readouterr().out
    document.write_text(text.replace("| camera_decode | edf | 0.", "| camera_decode | edf | 1."))
    assert main(["--check", str(document), *options]) == 1


def test_the_note_below_a_table_is_replaced_with_it(document):
    asked = []
    assert update(document, lambda arguments: asked.append(arguments) or "| a |\n\n*note 1*")
    assert asked == [tuple(COMMAND.split()[3:])]
    assert update(document, lambda arguments: "| a |\n\n*note 2*")
    assert document.read_text().count("*note") == 1
    assert "*note 2*\n\nWords below" in document.read_text()
    assert not update(document, lambda arguments: "| a |\n\n*note 2*")
    assert stale(document, lambda arguments: "| a |\n\n*note 2*") == []


def test_what_is_written_while_the_command_runs_stays(document):
    def slow(arguments):
        document.write_text(document.read_text() + "A late line.\n")
        return "| a |"

    assert update(document, slow)
    assert document.read_text().endswith("A late line.\n")
    assert "| a |" in document.read_text()


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("no block", "has no block"),
        (TEXT.replace("--markdown", ""), "has no block"),
        (TEXT.replace("Words", "\n| a |\n\nWords"), "block 'result' has 2 tables"),
    ],
)
def test_documents_without_such_a_block_are_refused(document, text, words):
    with pytest.raises(ConfigError, match=words):
        blocks_of(text, document)


def test_a_missing_document_is_refused(tmp_path, capsys):
    assert main(["--check", str(tmp_path / "none.md")]) == 2
    assert "none.md: cannot be read" in capsys.readouterr().err
