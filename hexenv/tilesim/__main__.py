"""How far the fluid engine is from the tile simulator: variants alone, random pairs of stages, whole episodes."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

import numpy as np

from hexenv.cli import Parser, command
from hexenv.device import load_device
from hexenv.errors import ConfigError
from hexenv.tilesim import cases, episodes, pairs
from hexenv.tilesim.cases import Measure
from hexenv.tilesim.chip import Arbitration, chip_of
from hexenv.workload import build, scenario_names


@command
def main(arguments: list[str] | None = None) -> int:
    """Command line; returns the exit code."""
    parser = Parser(prog="python -m hexenv.tilesim", description=__doc__)
    parser.add_argument("--pairs", type=_count, default=2000, help="random pairs (default: %(default)s)")
    parser.add_argument("--episodes", type=_count, default=200, help="whole episodes (default: %(default)s)")
    parser.add_argument("--horizon-ms", type=float, default=20.0, help="their length (default: %(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the draws (default: %(default)s)")
    parser.add_argument("--scenario", nargs="+", metavar="NAME", help="names or paths (default: all bundled)")
    parser.add_argument("--device", default="v79", help="name or path (default: %(default)s)")
    parser.add_argument(
        "--arbitration",
        choices=[a.value for a in Arbitration],
        default=Arbitration.FIFO.value,
        help="order of the DMA descriptors of two stages (default: %(default)s)",
    )
    parser.add_argument("--csv", type=Path, metavar="FILE", help="write every measure to FILE")
    parser.add_argument("--plot", type=Path, metavar="FILE", help="draw the errors into FILE (.png or .svg)")
    options = parser.parse_args(arguments)
    measures = compare(
        options.scenario or scenario_names(),
        options.device,
        Arbitration(options.arbitration),
        options.pairs,
        options.episodes,
        options.horizon_ms,
        options.seed,
    )
    _write(measures, options.csv, options.plot)
    print(cases.table(measures))
    print("\nLargest errors:")
    for measure in cases.worst(measures):
        print(
            f"{100 * measure.error:+7.1f} %  {measure.quantity} of {measure.kind}: fluid {measure.fluid_us:.1f} us, "
            f"tiles {measure.tiles_us:.1f} us; {measure.case}; {measure.cause or 'alone'}"
        )
    return 0


def compare(
    scenarios: Sequence[str],
    device_name: str,
    arbitration: Arbitration,
    n_pairs: int,
    n_episodes: int,
    horizon_ms: float,
    seed: int,
) -> list[Measure]:
    """All measures, noise off. Pairs and episodes go round the scenarios, episodes round the policies as well.

    Raises:
        ConfigError: an unknown scenario or device.
    """
    device = load_device(device_name)
    tables = [build(name, device_name, noise=0.0, horizon_us=1e3 * horizon_ms) for name in scenarios]
    chips = [chip_of(device, table.config[0], arbitration) for table in tables]
    measures: list[Measure] = []
    for table, chip in zip(tables, chips, strict=True):
        measures.extend(pairs.alone(table, chip))
    for i in range(n_pairs):
        rng = np.random.default_rng([seed, i])
        measures.extend(pairs.pair(tables[i % len(tables)], chips[i % len(tables)], rng))
        _progress("pairs", i + 1, n_pairs)
    policies = list(episodes.POLICIES)
    for i in range(n_episodes):
        policy = policies[i // len(tables) % len(policies)]
        measures.extend(episodes.episode(tables[i % len(tables)], chips[i % len(tables)], policy, seed + i))
        _progress("episodes", i + 1, n_episodes)
    return measures


def _progress(what: str, done: int, count: int) -> None:
    if sys.stderr.isatty() or done == count:
        print(f"\r{done} of {count} {what}", end="\n" if done == count else "", file=sys.stderr, flush=True)


def _count(text: str) -> int:
    number = int(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is below 0")
    return number


def _write(measures: Sequence[Measure], table: Path | None, plot: Path | None) -> None:
    try:
        if table is not None:
            cases.write_csv(measures, table)
        if plot is not None:
            from hexenv.tilesim.plot import draw

            draw(measures, plot)
    except OSError as error:
        raise ConfigError(f"{error.filename}: cannot write this file ({error.strerror})") from error


if __name__ == "__main__":
    sys.exit(main())
