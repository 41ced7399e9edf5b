"""Command line: play one study and write its page, picture and data."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from eval.studies.page import page
from eval.studies.plots import svg
from eval.studies.study import EPISODES, play_study, summarise
from eval.theme import styled
from hexenv.cli import Parser, command
from hexenv.errors import ConfigError
from hexenv.files import csv_text, require_writable, write_all

NAMES = ("fusion", "versions", "drift", "tiles", "durations")


def make_parser() -> argparse.ArgumentParser:
    """All options."""
    parser = Parser(
        prog="python -m eval.studies",
        description="Play one study on held-out episodes; writes studies/NAME.md, .csv and _episodes.csv and "
        "img/study_NAME.svg.",
        allow_abbrev=False,
    )
    parser.add_argument("name", choices=NAMES, metavar="NAME", help=f"one of {', '.join(NAMES)}")
    parser.add_argument("--episodes", type=int, default=EPISODES, metavar="N", help=f"a cell (default: {EPISODES})")
    parser.add_argument("--out", type=Path, default=Path("docs"), metavar="DIR", help="default: docs")
    return parser


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, 2 for wrong input, 130 when interrupted."""
    from eval.studies.catalogue import STUDIES

    options = make_parser().parse_args(argv)
    if options.episodes < 2:
        raise ConfigError(f"--episodes {options.episodes} is not allowed; at least 2, or there is no interval")
    study, out = STUDIES[options.name], options.out
    for folder in (out / "studies", out / "img"):
        require_writable(folder)
    episodes = play_study(study, options.episodes)
    frame = summarise(study, episodes)
    with styled():
        picture = svg(study.draw(frame))
    texts = {f"{study.name}.csv": csv_text(frame), f"{study.name}_episodes.csv": csv_text(episodes)}
    write_all(out / "studies", texts | {f"{study.name}.md": page(study, frame)})
    write_all(out / "img", {f"study_{study.name}.svg": picture})
    print(study.answer(frame))
    print(f"page: {out / 'studies' / study.name}.md")
    return 0


if __name__ == "__main__":
    sys.exit(main())
