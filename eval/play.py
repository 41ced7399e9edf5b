"""Plays one scheduler on a list of episodes, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from agents.scheduler import Scheduler
from agents.search import Search
from eval.episodes import Episode
from eval.metrics import EPISODE_COLUMNS, JobLog, PickCounter, episode_row, job_log
from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Tables

LANES = 32
"""Episodes played at once. No effect on the results, only on speed and memory."""
_PLANNER_LANES = 4
"""The same for a scheduler that plans: its episodes take long, and a unit of work should not."""
_STEPS_PER_REPORT = 100

Progress = Callable[[float], None]
"""Told how many episodes' worth of simulated time have been played so far (a fraction of an episode counts)."""


@dataclass(frozen=True)
class Block:
    """What one scheduler did in some consecutive episodes; equal lengths throughout."""

    rows: list[dict[str, object]]
    """One an episode, keys :data:`eval.metrics.EPISODE_COLUMNS`."""
    due: list[list[int]]
    """Due deadline periods of each stream, by episode."""
    missed: list[list[int]]
    jobs: list[JobLog]


@dataclass(frozen=True)
class Outcome:
    """What one scheduler did on one scenario, episodes in the order they were asked for."""

    scheduler: str
    tables: Tables
    episodes: pd.DataFrame
    """One row an episode, columns :data:`eval.metrics.EPISODE_COLUMNS`."""
    due: np.ndarray  # (episodes, n_streams) due deadline periods
    missed: np.ndarray  # (episodes, n_streams)
    jobs: tuple[JobLog, ...]
    """One log an episode."""
    config: str = ""
    """Short hash of what must agree for a comparison (:func:`eval.identity.config_hash`)."""
    train_seed: int | None = None
    """Seed of the training run that a learned scheduler comes from."""

    def latency_ns(self, stream: int) -> np.ndarray:
        """Latencies of all finished jobs of a stream over all episodes, ns."""
        return np.concatenate([log.latency_ns[stream] for log in self.jobs])

    def lost(self, stream: int) -> int:
        """Jobs of a stream that were dropped or rejected, over all episodes."""
        return int(sum(log.dropped[stream] + log.rejected[stream] for log in self.jobs))


def lanes_of(scheduler: Scheduler) -> int:
    """How many episodes it plays at once."""
    return _PLANNER_LANES if isinstance(scheduler, Search) else LANES


def run(
    scheduler: Scheduler, tables: Tables, episodes: Sequence[Episode], on_progress: Progress = lambda played: None
) -> Outcome:
    """Play every episode to its end with ``scheduler`` and measure it."""
    lanes = lanes_of(scheduler)
    blocks = [
        play_block(scheduler, tables, episodes[start : start + lanes], start, partial(_shift, on_progress, start))
        for start in range(0, len(episodes), lanes)
    ]
    return join(scheduler.name, tables, blocks)


def play_block(
    scheduler: Scheduler,
    tables: Tables,
    episodes: Sequence[Episode],
    place: int,
    on_progress: Progress = lambda played: None,
) -> Block:
    """Play some episodes at once and measure them; ``place`` is that of the first one in the whole list."""
    simulator, picks = play(scheduler, tables, episodes, place, TraceLevel.JOBS, on_progress)
    n_streams = len(tables.stream_names)
    block = Block([], [], [], [])
    for i, episode in enumerate(episodes):
        lane, log = simulator.lanes[i], job_log(simulator.trace(i), n_streams)
        block.rows.append(episode_row(episode, lane, log, int(picks.waits[i]), picks.versions[i].tolist(), tables))
        block.due.append(lane["due"][:n_streams].tolist())
        block.missed.append(lane["missed"][:n_streams].tolist())
        block.jobs.append(log)
    return block


def join(
    scheduler: str, tables: Tables, blocks: Sequence[Block], config: str = "", train_seed: int | None = None
) -> Outcome:
    """The outcome whose episodes are those of ``blocks``, one after the other."""
    frame = pd.DataFrame([row for block in blocks for row in block.rows], columns=list(EPISODE_COLUMNS))
    due = np.array([row for block in blocks for row in block.due])
    missed = np.array([row for block in blocks for row in block.missed])
    jobs = tuple(log for block in blocks for log in block.jobs)
    return Outcome(scheduler, tables, frame, due, missed, jobs, config, train_seed)


def _shift(report: Progress, before: float, played: float) -> None:
    report(before + played)


def play(
    scheduler: Scheduler,
    tables: Tables,
    episodes: Sequence[Episode],
    seed: int,
    trace: TraceLevel,
    on_progress: Progress = lambda played: None,
) -> tuple[Simulator, PickCounter]:
    """Play all ``episodes`` at once, one lane each, to their ends. Lanes that are over sit still until the last one is.

    ``seed`` is the place of the first episode in the whole list: it seeds random schedulers, so that a lane's choices
    do not depend on how the list was cut.
    """
    simulator = Simulator(tables, batch=len(episodes), trace=trace)
    picks = PickCounter(len(episodes))
    horizon_ns = float(tables.config["horizon_ns"][0])
    simulator.reset(
        np.array([episode.key for episode in episodes], np.uint64),
        settings=np.array([episode.setting for episode in episodes], np.int64),
    )
    scheduler.start(tables, len(episodes), seed)
    scheduler.attach(simulator)
    steps = 0
    while not (over := simulator.lanes["over"]).all():
        playing = ~over
        actions = scheduler.act(simulator.views, simulator.masks)
        simulator.step(actions, where=playing)
        picks.add(actions, playing)
        steps += 1
        if steps % _STEPS_PER_REPORT == 0:
            on_progress(float(np.minimum(simulator.lanes["now_ns"] / horizon_ns, 1.0).sum()))
    on_progress(float(len(episodes)))
    return simulator, picks
