"""Command line of the validation: ``python -m hexenv.validate``."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from hexenv.cli import Parser, command
from hexenv.device import load_device
from hexenv.errors import ConfigError
from hexenv.files import csv_text, require_writable_file, write_file
from hexenv.validate import document, fit, plots, report, sensitivity
from hexenv.validate.rows import bundled_rows, read_rows
from hexenv.validate.rules import classify
from hexenv.validate.tables import Table

PLAIN_WIDTH = 160
"""Columns of a table that goes to a file or a pipe."""


def make_parser() -> argparse.ArgumentParser:
    """All options."""
    parser = Parser(
        prog="python -m hexenv.validate",
        description="Hold the cost model to measurements: predicted, measured and error of every usable row.",
        epilog="Columns of a rows file: source,device,arch,op,dtype_a,dtype_b,m,n,k,dims,metric,value,unit,note or "
        "source,device,arch,model,quant,test,value,unit,note; docs/validation.md shows both.",
        allow_abbrev=False,
    )
    parser.add_argument("--rows", type=Path, metavar="FILE", help="measured rows to use instead of the bundled ones")
    parser.add_argument("--device", metavar="NAME", help="predict every row on this device (name or .toml file)")
    parser.add_argument(
        "--clock",
        type=float,
        default=1.0,
        metavar="PART",
        help="core clock of rows under sustained load (their note or rule says so), as a part of the peak (default: 1)",
    )
    parser.add_argument("--all", action="store_true", help="list every row left out, not only the reasons")
    parser.add_argument("--fit", action="store_true", help="refit constants; errors in sample and out of sample")
    parser.add_argument(
        "--sensitivity",
        action="store_true",
        help="how much each constant of the device (default: v79) moves the main predictions, instead of the rows",
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write the rows (or effects) as CSV")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the summary as JSON")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw rows (or effects), .svg or .png")
    parser.add_argument("--markdown", action="store_true", help="print the tables as Markdown")
    parser.add_argument(
        "--document",
        type=Path,
        metavar="FILE",
        help="refresh the tables of a Markdown file between <!-- begin NAME --> and <!-- end -->, and nothing else",
    )
    return parser


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, 2 for wrong input, 130 when interrupted."""
    options = make_parser().parse_args(argv)
    if options.plot is not None:
        plots.plot_format(options.plot)
    for path in (options.csv, options.json, options.plot, options.document):
        if path is not None:
            require_writable_file(path)
    if options.document is not None:
        document.refresh(options.document, _sections())
    elif options.sensitivity:
        _sensitivity(options)
    else:
        _validate(options)
    return 0


def _validate(options: argparse.Namespace) -> None:
    if options.device is not None:
        load_device(options.device)
    rows = bundled_rows() if options.rows is None else read_rows(options.rows)
    if not 0.0 < options.clock <= 1.0:
        raise ConfigError(f"--clock = {options.clock:g}; allowed: above 0, at most 1")
    cases, excluded = classify(rows, options.device, options.clock)
    results = [found for one in fit.FITS if (found := fit.run(one, cases))] if options.fit else []
    tables = [report.row_table(cases)] if cases else []
    if cases:
        tables.append(report.summary_table("Errors by family", cases, report.by_family))
        tables.append(report.summary_table("Errors by device", cases, report.by_device))
    if results:
        tables += [report.fit_table(results), report.proposal_table(results)]
    if excluded:
        one_by_one = options.all or options.rows is not None
        tables.append(report.excluded_rows_table(excluded) if one_by_one else report.excluded_table(excluded))
    _print(tables, report.verdict(cases, excluded), options.markdown)
    if options.csv is not None:
        write_file(options.csv, csv_text(report.row_frame(cases)))
    if options.json is not None:
        write_file(options.json, _json(report.as_dict(cases, excluded, results)))
    if options.plot is not None:
        if not cases:
            raise ConfigError(f"{options.rows}: no usable row to plot")
        write_file(options.plot, plots.scatter(cases, plots.plot_format(options.plot)))


def _sensitivity(options: argparse.Namespace) -> None:
    taken = [name for name in ("rows", "fit", "all") if getattr(options, name)]
    if taken:
        raise ConfigError(f"--{taken[0]} cannot be given with --sensitivity, which looks at no rows")
    device = load_device(options.device or "v79")
    found = sensitivity.effects(device)
    tables = [sensitivity.effect_table(found, device), sensitivity.strongest_table(found, device)]
    _print(tables, "", options.markdown)
    if options.csv is not None:
        write_file(options.csv, csv_text(sensitivity.effect_frame(found)))
    if options.json is not None:
        write_file(options.json, _json(sensitivity.as_dict(found, device)))
    if options.plot is not None:
        write_file(options.plot, plots.tornado(found, plots.plot_format(options.plot)))


def _sections() -> dict[str, str]:
    """Every table about the bundled rows and v79, by name."""
    cases, excluded = classify(bundled_rows())
    results = [found for one in fit.FITS if (found := fit.run(one, cases))]
    device = load_device("v79")
    effects = sensitivity.effects(device)
    tables = {
        "rows": report.row_table(cases),
        "families": report.summary_table("Errors by family", cases, report.by_family),
        "devices": report.summary_table("Errors by device", cases, report.by_device),
        "clock": report.clock_table(cases),
        "fits": report.fit_table(results),
        "proposals": report.proposal_table(results),
        "excluded": report.excluded_table(excluded),
        "sensitivity": sensitivity.effect_table(effects, device),
        "strongest": sensitivity.strongest_table(effects, device),
    }
    return {"verdict": report.verdict(cases, excluded)} | {name: table.markdown() for name, table in tables.items()}


def _print(tables: Sequence[Table], last: str, markdown: bool) -> None:
    console = Console(highlight=False, width=None if sys.stdout.isatty() else PLAIN_WIDTH)
    for table in tables:
        if markdown:
            print(table.markdown())
        else:
            table.show(console)
    if last:
        print(last)


def _json(content: object) -> str:
    return json.dumps(content, indent=2) + "\n"


if __name__ == "__main__":
    sys.exit(main())
