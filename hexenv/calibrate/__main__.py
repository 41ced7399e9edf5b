"""Command line of the calibration: ``python -m hexenv.calibrate LOG --device v79 -o my_device.toml``."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import get_args

from rich.console import Console

from hexenv.calibrate import report
from hexenv.calibrate.calibration import Calibration, calibrate
from hexenv.calibrate.device_file import device_toml
from hexenv.calibrate.observations import observe
from hexenv.cli import Parser, command
from hexenv.device import load_device
from hexenv.errors import ConfigError
from hexenv.files import csv_text, require_writable_file, write_file
from hexenv.kernels.matmul import Weight
from hexenv.logs import read_log
from hexenv.validate.backend import GENERATIONS

PLAIN_WIDTH = 160
"""Columns of a table that goes to a file or a pipe."""


def make_parser() -> argparse.ArgumentParser:
    """All options."""
    parser = Parser(
        prog="python -m hexenv.calibrate",
        description="Constants of a device from a profile log of llama.cpp's Hexagon backend (GGML_HEXAGON_PROFILE=1 "
        "and a verbose log), with predicted against logged times.",
        epilog="docs/calibration.md explains how it decides what a log can tell.",
        allow_abbrev=False,
    )
    parser.add_argument("log", type=Path, metavar="LOG", help="log file, of any layout, with other lines in between")
    parser.add_argument("--device", default="v79", metavar="NAME", help="start from it: name or .toml (default: v79)")
    parser.add_argument("-o", "--output", type=Path, metavar="FILE", help="write the calibrated device, a .toml file")
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write predicted against logged times as CSV")
    parser.add_argument(
        "--weights", choices=get_args(Weight), help="format of the weights, where the log has no types (before 2026)"
    )
    parser.add_argument(
        "--generation",
        choices=tuple(GENERATIONS),
        help="state of the backend that wrote the log (default: hvx for logs before April 2026, else overlapped)",
    )
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    return parser


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, 2 for wrong input or a log that gives nothing, 130 if interrupted."""
    options = make_parser().parse_args(argv)
    for path in (options.output, options.csv):
        if path is not None:
            require_writable_file(path)
    if options.output is not None and options.output.suffix != ".toml":
        raise ConfigError(f"output {str(options.output)!r}; allowed: a name that ends in .toml")
    base = load_device(options.device)
    log = read_log(options.log)
    if not log.ops and not log.hardware and not log.windows:
        raise ConfigError(f"log {options.log}: nothing of llama.cpp's Hexagon profiler in {log.lines} lines")
    found = calibrate(log, observe(log, base, options.weights, options.generation), base)
    _print(found, options.markdown)
    if options.csv is not None:
        write_file(options.csv, csv_text(report.comparison_frame(found)))
    if options.output is not None:
        if not found.facts and not found.estimates:
            raise ConfigError(f"log {options.log}: gives no constant; {options.output} not written")
        write_file(options.output, device_toml(found, options.output.stem, options.device))
        load_device(str(options.output))
    return 0


def _print(found: Calibration, markdown: bool) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    tables = (report.comparison_table, report.constants_table, report.refused_table, report.left_out_table)
    for table in (make(found) for make in tables):
        if markdown and table.rows:
            print(table.markdown())
        elif table.rows:
            table.show(console)
    print(report.summary(found))


if __name__ == "__main__":
    sys.exit(main())
