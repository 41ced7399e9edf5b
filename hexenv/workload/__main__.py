"""``python -m hexenv.workload [SCENARIO ...]``: what scenarios ask of a device, and what a model file holds."""

from __future__ import annotations

import sys
from argparse import Namespace
from pathlib import Path

from hexenv.cli import Parser, command
from hexenv.device import load_device
from hexenv.errors import ConfigError
from hexenv.workload import build, load_scenario, scenario_names, summary
from hexenv.workload.ablation import ablation
from hexenv.workload.gguf_import import import_gguf
from hexenv.workload.gguf_report import gguf_report
from hexenv.workload.jobs import MAX_TOKENS


@command
def main(arguments: list[str] | None = None) -> int:
    """Print scenarios' streams and settings, or what a model file holds; returns the exit code."""
    parser = Parser(prog="python -m hexenv.workload", description="What scenarios or model files ask of a device.")
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
    group = parser.add_argument_group("model files")
    group.add_argument("--gguf", type=Path, metavar="FILE", help="instead show a language model and its times")
    group.add_argument(
        "--context", type=int, default=1024, metavar="N", help="tokens before a step (default: %(default)s)"
    )
    group.add_argument("--prompt", type=int, default=512, metavar="N", help="tokens of a prompt (default: %(default)s)")
    options = parser.parse_args(arguments)
    if options.gguf:
        print(_show_gguf(options))
        return 0
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


def _show_gguf(options: Namespace) -> str:
    for name, low in (("context", 0), ("prompt", 1)):
        if not low <= getattr(options, name) <= MAX_TOKENS:
            raise ConfigError(f"--{name} = {getattr(options, name)}, allowed: {low} to {MAX_TOKENS}")
    return gguf_report(import_gguf(options.gguf), load_device(options.device), options.context, options.prompt)


if __name__ == "__main__":
    sys.exit(main())
