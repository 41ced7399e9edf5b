"""Training of the learned gate: an evolution strategy on the return of whole episodes.

A single pick is worth little, and random picks cost more than they teach: this searches the weights of the gate instead
(CMA-ES; Hansen 2016, "The CMA Evolution Strategy: A Tutorial"). All candidates of a generation play the same training
episodes, so that their luck cancels, and every generation plays new ones.
"""

from __future__ import annotations

import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import cma
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from agents.kernels.adaptive import N_FEATURES, N_SETTINGS, Chamber, chamber, play_episodes
from agents.kernels.predict import costs_of
from agents.learned_gate import GATE, gate_text, read_gate
from hexenv.engine import episode_key
from hexenv.engine.layout import Tables
from hexenv.errors import ConfigError
from hexenv.files import write_file
from hexenv.workload import build
from train.config import GateConfig
from train.signals import stop_signals

_FEATURE_STEP = 0.4
"""First step of a weight of a feature, as a part of that of a constant."""
_LOG_INTERVAL_S = 15.0


class Arena:
    """Plays candidates on the same episodes, several at once. Results do not depend on the number of threads."""

    def __init__(self, tables: Tables, threads: int) -> None:
        self._tables = tables
        self._costs = costs_of(tables)
        self._free: SimpleQueue[Chamber] = SimpleQueue()
        for _ in range(threads):
            self._free.put(chamber(tables))
        self._pool = ThreadPoolExecutor(threads)

    def play(self, candidates: np.ndarray, keys: np.ndarray, settings: np.ndarray) -> np.ndarray:
        """Returns of the episodes, ms of reference work, (candidates, episodes).

        Args:
            candidates: weights, (candidates, settings, features).
            keys: uint64, (episodes,), of the episodes.
            settings: int64, (episodes,), rows of ``Tables.settings``.
        """

        def one(weights: np.ndarray) -> np.ndarray:
            returns, space = np.empty(len(keys)), self._free.get()
            try:
                play_episodes(self._tables.arrays, keys, settings, self._costs, weights, space, returns)
            finally:
                self._free.put(space)
            return returns

        return np.array(list(self._pool.map(one, candidates)))


class GateTrainer:
    """A run in memory: the compiled scenario and the state of the search.

    The search is a function of the config and of the returns it was told, which are kept with the weights: a resumed
    run is told them again, and goes on as if it had never stopped.

    Args:
        config: the run's settings.
        resume: folder of the run that is continued; None starts from scratch.

    Raises:
        ConfigError: unknown scenario or device, too few training seeds, or weights that do not fit.
    """

    def __init__(self, config: GateConfig, resume: Path | None = None) -> None:
        self.config = config
        self.tables = self.build_tables("train")
        if (config.seed + 1) * config.episodes > self.tables.seeds[1]:
            raise ConfigError(
                f"seed {config.seed} with {config.episodes} episodes needs {(config.seed + 1) * config.episodes} training "
                f"seeds, scenario {self.tables.scenario} has {self.tables.seeds[1]}"
            )
        self._arena = Arena(self.tables, config.threads)
        self._search = new_search(config)
        self._told: list[list[float]] = []
        for returns in [] if resume is None else read_gate(resume / GATE)["returns"]:
            self._tell(self._search.ask(), returns)

    def build_tables(self, split: str) -> Tables:
        """The run's scenario, compiled for split ``train`` or ``heldout``."""
        return build(self.config.scenario, self.config.device, split, **self.config.overrides())

    @property
    def done(self) -> int:
        """Generations so far."""
        return len(self._told)

    @property
    def finished(self) -> bool:
        """Whether the run has trained for all its generations."""
        return self.done >= self.config.generations

    @property
    def weights(self) -> np.ndarray:
        """The mean of the search, (settings, features)."""
        return np.array(self._search.mean).reshape(N_SETTINGS, N_FEATURES)

    def learn(self, run: Path, console: Console) -> bool:
        """Train until the run is finished or a signal (Ctrl-C, SIGTERM) asks to stop; leaves its weights either way.

        Returns:
            Whether the run is finished.
        """
        progress = Progress(
            TextColumn("training"),
            BarColumn(),
            TextColumn("{task.completed} of {task.total} generations"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[speed]:,.0f} episodes/s  return {task.fields[mean_return]}"),
            console=console,
            speed_estimate_period=120.0,
        )
        started = saved = printed = time.monotonic()
        first = self.done
        with stop_signals() as stop, progress:
            bar = progress.add_task("", total=self.config.generations, completed=first, speed=0.0, mean_return="-")
            while not self.finished and not stop:
                mean = self._generation()
                now = time.monotonic()
                episodes = (self.done - first) * self.config.population * self.config.episodes
                speed, text = episodes / max(now - started, 1e-9), f"{mean:.1f}"
                progress.update(bar, completed=self.done, speed=speed, mean_return=text)
                if not console.is_terminal and now - printed >= _LOG_INTERVAL_S:
                    console.print(
                        f"{self.done} of {self.config.generations} generations, {speed:,.0f} episodes/s, return {text}"
                    )
                    printed = now
                if now - saved >= self.config.checkpoint_s:
                    self.save(run)
                    saved = now
        self.save(run)
        return self.finished

    def save(self, run: Path) -> None:
        """Write the run's weights; ConfigError if that is impossible."""
        write_file(run / GATE, gate_text(self.weights, returns=self._told))

    def _generation(self) -> float:
        """One generation; returns the mean return of its candidates."""
        asked = self._search.ask()
        candidates = np.array(asked).reshape(-1, N_SETTINGS, N_FEATURES)
        returns = self._arena.play(candidates, *self._episodes()).mean(axis=1)
        self._tell(asked, returns.tolist())
        return float(returns.mean())

    def _episodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys and settings of the next generation: no episode comes twice, in no run of another ``config.seed``."""
        count = self.config.episodes
        first = self.tables.seeds[0] + self.config.seed * count
        keys = [episode_key(first + i, self.done) for i in range(count)]
        settings = (self.done * count + np.arange(count)) % len(self.tables.settings)
        return np.array(keys, np.uint64), settings

    def _tell(self, asked: list[np.ndarray], returns: list[float]) -> None:
        self._search.tell(asked, [-value for value in returns])
        self._told.append(returns)


def new_search(config: GateConfig) -> cma.CMAEvolutionStrategy:
    """A search that starts at ``triage_gate``, with random numbers of its own."""
    steps = np.full((N_SETTINGS, N_FEATURES), _FEATURE_STEP)
    steps[:, 0] = 1.0
    rng = np.random.default_rng(config.seed)
    options = {
        "popsize": config.population,
        "CMA_stds": steps.ravel(),
        "randn": lambda *shape: rng.standard_normal(shape),
        "seed": np.nan,
        "verbose": -9,
    }
    return cma.CMAEvolutionStrategy(np.zeros(steps.size), config.step, options)
