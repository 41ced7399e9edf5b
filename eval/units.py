"""The work of an evaluation, cut into units that are played on all cores and kept, so that it can be interrupted.

A unit is one scheduler on a few consecutive episodes of one scenario. What it finds is written to a file named after a
hash of everything that decides it, so a second run takes up finished units and plays the rest. The cut is the same for
any number of workers, and no result depends on it.
"""

from __future__ import annotations

import copy
import json
import os
import signal
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
from joblib import Parallel, delayed

from agents.scheduler import Scheduler
from eval.episodes import Episode
from eval.identity import code_hash, scheduler_hash, tables_hash, text_hash
from eval.metrics import JobLog
from eval.play import Block, Progress, lanes_of, play_block
from eval.progress import progress_bar
from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Tables
from hexenv.errors import ConfigError
from hexenv.files import write_all

FOLDER = "units"
"""Where the results folder keeps finished units."""


@dataclass(frozen=True)
class Unit:
    """One scheduler on some consecutive episodes of one scenario."""

    scheduler: Scheduler
    tables: Tables
    episodes: tuple[Episode, ...]
    place: int
    """Of the first episode in the whole list."""

    @property
    def label(self) -> str:
        """What the progress bar shows."""
        return f"{self.tables.scenario}, {self.scheduler.name}"

    def file(self, folder: Path) -> Path:
        """Where its block is kept."""
        episodes = [(episode.setting, episode.seed) for episode in self.episodes]
        identity = [code_hash(), tables_hash(self.tables), scheduler_hash(self.scheduler), self.place, episodes]
        return folder / f"{text_hash(identity)[:32]}.json"


def cut(scheduler: Scheduler, tables: Tables, episodes: Sequence[Episode]) -> list[Unit]:
    """The units of one scheduler on one scenario."""
    lanes = lanes_of(scheduler)
    return [Unit(scheduler, tables, tuple(episodes[i : i + lanes]), i) for i in range(0, len(episodes), lanes)]


def all_cores() -> int:
    """The default number of workers."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def require_workers(workers: int) -> None:
    """Refuse a number of workers that makes no sense."""
    if workers < 1:
        raise ConfigError(f"workers {workers} is not allowed; at least 1")


def play_units(units: Sequence[Unit], workers: int = 1, folder: Path | None = None) -> list[Block]:
    """Play all units in this many processes, showing a progress bar; the blocks in the order of ``units``.

    With a ``folder`` (it need not exist), units that are kept there are not played, and the others are kept as soon as
    they are done.
    """
    files = [None if folder is None else unit.file(folder) for unit in units]
    blocks = [
        None if file is None else _kept(file, len(unit.episodes)) for file, unit in zip(files, units, strict=True)
    ]
    missing = [i for i, block in enumerate(blocks) if block is None]
    missing.sort(key=lambda i: lanes_of(units[i].scheduler))  # what takes longest first
    if folder is not None and missing:
        folder.mkdir(exist_ok=True)
    with progress_bar(sum(len(unit.episodes) for unit in units)) as bar:
        done = sum(len(unit.episodes) for unit, block in zip(units, blocks, strict=True) if block is not None)
        bar.begin(f"{done} episodes kept from before" if done else "evaluating", done)
        if workers == 1 or len(missing) <= 1:
            for i in missing:
                bar.begin(units[i].label, done)
                blocks[i] = _play(units[i], files[i], bar.update)
                done += len(units[i].episodes)
        else:
            bar.begin("compiling", done)
            _compile([units[i] for i in missing])
            for i, block in _in_processes([(i, units[i], files[i]) for i in missing], workers):
                blocks[i] = block
                done += len(units[i].episodes)
                bar.begin(units[i].label, done)
    return [block for block in blocks if block is not None]


def _play(unit: Unit, file: Path | None, on_progress: Progress = lambda played: None) -> Block:
    # A copy, since a scheduler that has started is not the one that was asked for.
    block = play_block(copy.deepcopy(unit.scheduler), unit.tables, unit.episodes, unit.place, on_progress)
    if file is not None:
        write_all(file.parent, {file.name: _to_json(block)})
    return block


def _compile(units: Sequence[Unit]) -> None:
    """Take one step with each scheduler, so that the processes find its kernels compiled instead of doing so each."""
    for unit in {unit.scheduler.name: unit for unit in units}.values():
        scheduler, simulator = copy.deepcopy(unit.scheduler), Simulator(unit.tables, batch=1, trace=TraceLevel.JOBS)
        simulator.reset(np.array([unit.episodes[0].key]), settings=np.array([unit.episodes[0].setting]))
        scheduler.start(unit.tables, 1, 0)
        scheduler.attach(simulator)
        simulator.step(scheduler.act(simulator.views, simulator.masks))


_Job = tuple[int, Unit, Path | None]


def _in_processes(jobs: Sequence[_Job], workers: int) -> Iterator[tuple[int, Block]]:
    """Number and block of each job, as they are done."""
    lean = [(i, replace(unit, tables=replace(unit.tables, costs=())), file) for i, unit, file in jobs]
    parallel = Parallel(n_jobs=min(workers, len(jobs)), return_as="generator_unordered", batch_size=1, max_nbytes=None)
    with _children_ignore_interrupt():
        finished = parallel(delayed(_work)(job) for job in lean)
    yield from finished


@contextmanager
def _children_ignore_interrupt() -> Iterator[None]:
    """Processes started inside ignore Ctrl-C, which reaches all of a terminal's: this one ends them, without noise."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handler = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


def _work(job: _Job) -> tuple[int, Block]:
    _end_with_parent()
    i, unit, file = job
    return i, _play(unit, file)


@lru_cache(maxsize=1)  # once a process
def _end_with_parent() -> None:
    """See to it that this process ends when the one that started it has been killed."""
    parent = os.getppid()

    def watch() -> None:
        while os.getppid() == parent:
            time.sleep(1.0)
        os._exit(1)

    threading.Thread(target=watch, daemon=True).start()


def _to_json(block: Block) -> str:
    """Exact: floats are written so that reading gives the same ones."""
    jobs = [{name: _packed(value) for name, value in vars(log).items()} for log in block.jobs]
    return json.dumps({"rows": block.rows, "due": block.due, "missed": block.missed, "jobs": jobs})


def _from_json(text: str) -> Block:
    values = json.loads(text)
    logs: list[dict[str, Any]] = [{name: _unpacked(value) for name, value in log.items()} for log in values["jobs"]]
    return Block(values["rows"], values["due"], values["missed"], [JobLog(**log) for log in logs])


def _packed(value: np.ndarray | tuple[np.ndarray, ...]) -> dict[str, Any] | list[dict[str, Any]]:
    """An array, or a tuple of arrays, as JSON can hold it."""
    if isinstance(value, tuple):
        return [{"dtype": part.dtype.str, "values": part.tolist()} for part in value]
    return {"dtype": value.dtype.str, "values": value.tolist()}


def _unpacked(value: dict[str, Any] | list[dict[str, Any]]) -> np.ndarray | tuple[np.ndarray, ...]:
    if isinstance(value, list):
        return tuple(np.array(part["values"], part["dtype"]) for part in value)
    return np.array(value["values"], value["dtype"])


def _kept(file: Path, episodes: int) -> Block | None:
    """The block in a file; None if there is none, or if something else has damaged it."""
    try:
        block = _from_json(file.read_text(encoding="utf-8"))
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return block if len(block.rows) == episodes else None
