"""Wall time that a decision takes, by scheduler: ``python -m eval.decision_cost``.

What is timed is ``act`` alone, in whole episodes, once for a single lane (what a runtime would wait for) and once for a
batch of lanes (what training and evaluation pay). The simulation never charges these times: it charges the constant of
the device file, the same for every scheduler, so that results do not depend on the machine that played them.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pandas as pd

import agents
from agents.scheduler import Scheduler
from eval.episodes import held_out
from eval.trained import Trained
from hexenv.cli import Parser, command
from hexenv.engine import Simulator
from hexenv.engine.layout import Tables
from hexenv.files import csv_text, require_writable_file, write_file
from hexenv.workload import build

LANES = 64
"""Lanes of the batch."""


def act_us(scheduler: Scheduler, tables: Tables, lanes: int) -> float:
    """Mean time of a decision in us, over one held-out episode a lane; the first call, which compiles, is not timed."""
    simulator = Simulator(tables, lanes)
    episodes = held_out(tables, lanes)
    simulator.reset(
        np.array([episode.key for episode in episodes], np.uint64),
        settings=np.array([episode.setting for episode in episodes], np.int64),
    )
    scheduler.start(tables, lanes, 0)
    scheduler.attach(simulator)
    scheduler.act(simulator.views, simulator.masks)
    scheduler.start(tables, lanes, 0)
    scheduler.attach(simulator)
    spent = 0.0
    while not (over := simulator.lanes["over"]).all():
        started = time.perf_counter()
        actions = scheduler.act(simulator.views, simulator.masks)
        spent += time.perf_counter() - started
        simulator.step(actions, where=~over)
    return 1e6 * spent / float(simulator.lanes["decisions"].sum())


def decision_costs(schedulers: Sequence[Scheduler], scenario: str, device: str = "v79") -> pd.DataFrame:
    """A row a scheduler: ``scheduler``, ``single_us``, ``batched_us`` (``LANES`` lanes) and ``charged_us``.

    ``charged_us`` is the constant that the simulation charges a decision.
    """
    rows = []
    for scheduler in schedulers:
        tables = build(scenario, device, "heldout", **scheduler.overrides)
        rows.append(
            {
                "scheduler": scheduler.name,
                "single_us": act_us(scheduler, tables, 1),
                "batched_us": act_us(scheduler, tables, LANES),
                "charged_us": float(tables.config["decision_ns"][0]) / 1e3,
            }
        )
    return pd.DataFrame(rows)


def _parser() -> argparse.ArgumentParser:
    parser = Parser(prog="python -m eval.decision_cost", description="Wall time of a decision.")
    parser.add_argument("--scenario", default="camera_decode", metavar="NAME", help="scenario (default: camera_decode)")
    parser.add_argument("--device", default="v79", metavar="NAME", help="device (default: v79)")
    parser.add_argument("--schedulers", metavar="NAME,...", help="rules (default: all)")
    parser.add_argument("--checkpoint", type=Path, metavar="RUN", help="also the learned policy of this training run")
    parser.add_argument("--out", type=Path, metavar="FILE", help="write the table to this CSV file too")
    return parser


@command
def main(argv: Sequence[str] | None = None) -> int:
    """Run the command; returns its exit code: 0, or 2 for wrong input."""
    options = _parser().parse_args(argv)
    if options.out is not None:
        require_writable_file(options.out)
    names = options.schedulers.split(",") if options.schedulers else agents.names()
    schedulers = [agents.make(name) for name in names]
    if options.checkpoint is not None:
        schedulers.append(Trained(options.checkpoint))
    frame = decision_costs(schedulers, options.scenario, options.device)
    print("| scheduler | one lane | batch of 64, a lane | charged |\n| --- | --- | --- | --- |")
    for name, single, batched, charged in frame.itertuples(index=False):
        print(f"| {name} | {single:.1f} us | {batched:.2f} us | {charged:g} us |")
    if options.out is not None:
        write_file(options.out, csv_text(frame))
    return 0


if __name__ == "__main__":
    sys.exit(main())
