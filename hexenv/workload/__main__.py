"""``python -m hexenv.workload [SCENARIO ...]``: what scenarios ask of a device, and what a model file holds."""

from __future__ import annotations

import sys
from argparse import ArgumentTypeError, Namespace
from pathlib import Path
from typing import get_args

from hexenv.cli import Parser, command
from hexenv.device import load_device
from hexenv.errors import ConfigError
from hexenv.kernels.matmul import Weight
from hexenv.logs import read_log
from hexenv.workload import build, load_scenario, scenario_names, summary
from hexenv.workload.ablation import ablation
from hexenv.workload.gguf_import import import_gguf
from hexenv.workload.gguf_report import gguf_report
from hexenv.workload.jobs import MAX_TOKENS
from hexenv.workload.log_import import map_log
from hexenv.workload.onnx_import import import_onnx
from hexenv.workload.onnx_report import onnx_report
from hexenv.workload.onnx_shapes import Inputs


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
    kind = group.add_mutually_exclusive_group()
    kind.add_argument("--gguf", type=Path, metavar="FILE", help="instead show a language model and its times")
    group.add_argument(
        "--context", type=int, default=1024, metavar="N", help="tokens before a step (default: %(default)s)"
    )
    group.add_argument("--prompt", type=int, default=512, metavar="N", help="tokens of a prompt (default: %(default)s)")
    kind.add_argument("--onnx", type=Path, metavar="FILE", help="instead show what each part of a model becomes")
    group.add_argument("--batch", type=int, metavar="N", help="size of the first axis of ONNX inputs, where it is free")
    group.add_argument("--axis", type=_size, action="append", default=[], metavar="NAME=N", help="size of a free axis")
    group.add_argument(
        "--shape", type=_shape, action="append", default=[], metavar="INPUT=N,N,...", help="full shape of an input"
    )
    group.add_argument(
        "--value",
        type=_value,
        action="append",
        default=[],
        metavar="INPUT=X",
        help="value of an input with one element",
    )
    kind.add_argument("--log", type=Path, metavar="FILE", help="instead show what a profile log of llama.cpp holds")
    group.add_argument("--weights", choices=get_args(Weight), help="format of the weights where a log has no types")
    options = parser.parse_args(arguments)
    if options.log:
        print(map_log(read_log(options.log), options.weights)[1])
        return 0
    if options.gguf or options.onnx:
        print(_show_gguf(options) if options.gguf else _show_onnx(options))
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


def _show_onnx(options: Namespace) -> str:
    if options.batch is not None and options.batch < 1:
        raise ConfigError(f"--batch = {options.batch}, allowed: at least 1")
    inputs = Inputs(tuple(options.shape), tuple(options.axis), options.batch, tuple(options.value))
    return onnx_report(import_onnx(options.onnx, inputs, allow_unmapped=True), load_device(options.device))


def _named(text: str) -> tuple[str, str]:
    name, equals, value = text.rpartition("=")
    if not (name and equals):
        raise ArgumentTypeError(f"{text!r}, allowed: NAME=VALUE")
    return name, value


def _shape(text: str) -> tuple[str, tuple[int, ...]]:
    name, value = _named(text)
    sizes = value.split(",")
    if not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise ArgumentTypeError(f"{text!r}, allowed: NAME=N,N,... with integers of at least 1")
    return name, tuple(int(size) for size in sizes)


def _size(text: str) -> tuple[str, int]:
    name, sizes = _shape(text)
    if len(sizes) > 1:
        raise ArgumentTypeError(f"{text!r}, allowed: NAME=N")
    return name, sizes[0]


def _value(text: str) -> tuple[str, float]:
    name, value = _named(text)
    try:
        return name, float(value)
    except ValueError:
        raise ArgumentTypeError(f"{text!r}, allowed: NAME=X with a number") from None


if __name__ == "__main__":
    sys.exit(main())
