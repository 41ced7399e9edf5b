"""``python -m hexenv.workload [SCENARIO ...]``: what scenarios ask of a device."""

from __future__ import annotations

import sys

from hexenv.cli import Parser, command
from hexenv.device import load_device
from hexenv.workload import build, load_scenario, scenario_names, summary
from hexenv.workload.ablation import ablation


@command
def main(arguments: list[str] | None = None) -> int:
    """Print a scenario's streams and settings; returns the exit code."""
    parser = Parser(prog="python -m hexenv.workload", description="What scenarios ask of a device.")
    parser.add_argument("scenario", nargs="*", help="names or paths of TOML files (default: all bundled)")
    parser.add_argument("--device", default="v79", help="name or path of a TOML file (default: v79)")
    parser.add_argument(
        "--split", default="train", choices=("train", "heldout"), help="settings to show (default: train)"
    )
    parser.add_argument(
        "--techniques",
        action="store_true",
        help="instead show what each published kernel idea would change, in percent",
    )
    options = parser.parse_args(arguments)
    for name in options.scenario or scenario_names():
        if options.techniques:
            print(f"{name} on {options.device}: change of the operators concerned, in percent\n")
            table = ablation(load_scenario(name), load_device(options.device))
            print(table.round(1).to_string(index=False, na_rep="-"), "\n")
            continue
        tables = build(name, options.device, options.split)
        print(f"{tables.scenario} on {tables.device}, {tables.split} settings\n")
        print(summary.streams(tables).round(2).to_string(index=False, na_rep="-"), "\n")
        print(summary.settings(tables).round(2).to_string(index=False), "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
