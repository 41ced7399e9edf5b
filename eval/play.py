"""Plays one scheduler on a list of episodes, many at a time."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import pandas as pd

from agents.scheduler import Scheduler
from eval.episodes import Episode
from eval.metrics import EPISODE_COLUMNS, JobLog, PickCounter, episode_row, job_log
from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Tables

LANES = 64
"""Episodes played at once. No effect on the results, only on speed and memory."""
_STEPS_PER_REPORT = 100

Progress = Callable[[float], None]
"""Told how many episodes' worth of simulated time have been played so far (a fraction of an episode counts)."""


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

    def latency_ns(self, stream: int) -> np.ndarray:
        """Latencies of all finished jobs of a stream over all episodes, ns."""
        return np.concatenate([log.latency_ns[stream] for log in self.jobs])

    def lost(self, stream: int) -> int:
        """Jobs of a stream that were dropped or rejected, over all episodes."""
        return int(sum(log.dropped[stream] + log.rejected[stream] for log in self.jobs))


def run(
    scheduler: Scheduler, tables: Tables, episodes: Sequence[Episode], on_progress: Progress = lambda played: None
) -> Outcome:
    """Play every episode to its end with ``scheduler`` and measure it."""
    rows: list[dict[str, object]] = []
    due: list[np.ndarray] = []
    missed: list[np.ndarray] = []
    jobs: list[JobLog] = []
    n_streams = len(tables.stream_names)
    for start in range(0, len(episodes), LANES):
        chunk = episodes[start : start + LANES]
        simulator, picks = play(scheduler, tables, chunk, start, TraceLevel.JOBS, partial(_shift, on_progress, start))
        for i, episode in enumerate(chunk):
            lane, log = simulator.lanes[i], job_log(simulator.trace(i), n_streams)
            rows.append(episode_row(episode, lane, log, int(picks.waits[i]), picks.versions[i].tolist(), tables))
            due.append(lane["due"][:n_streams].copy())
            missed.append(lane["missed"][:n_streams].copy())
            jobs.append(log)
    frame = pd.DataFrame(rows, columns=list(EPISODE_COLUMNS))
    return Outcome(scheduler.name, tables, frame, np.array(due), np.array(missed), tuple(jobs))


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
