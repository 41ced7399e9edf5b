"""Training of the learned gate: an evolution strategy on the return of whole episodes.

A single pick is worth little, and random picks cost more than they teach: this searches the weights of the gate instead
(CMA-ES; Hansen 2016, "The CMA Evolution Strategy: A Tutorial"). All candidates of a generation play the same training
episodes, so that their luck cancels, and every generation plays new ones.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import SimpleQueue

import cma
import numpy as np

from agents.kernels.adaptive import N_FEATURES, N_SETTINGS, Chamber, chamber, play_episodes
from agents.kernels.predict import costs_of
from agents.learned_gate import GATE, gate_text, read_gate
from hexenv.engine import episode_key
from hexenv.engine.layout import Tables
from hexenv.errors import ConfigError
from hexenv.files import write_file
from train.config import GateConfig
from train.trainer import Trainer, Watch, first_seed

_FEATURE_STEP = 0.4
"""First step of a weight of a feature, as a part of that of a constant."""


class Arena:
    """Plays candidates on the same episodes, several at once. Results do not depend on the number of threads."""

    def __init__(self, tables: Tables, threads: int) -> None:
        self._tables = tables
        self._costs = costs_of(tables)
        self._free: SimpleQueue[Chamber] = SimpleQueue()
        for _ in range(threads):
            self._free.put(chamber(tables))
        self._pool = ThreadPoolExecutor(threads)

    def play(self, candidates: np.ndarray, keys: np.ndarray, settings: np.ndarray) -> Iterator[np.ndarray]:
        """Returns of the episodes in ms of reference work, (episodes,) a candidate, in their order.

        Candidates that have not begun when the iterator is closed are not played.

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

        return self._pool.map(one, candidates)


class GateTrainer(Trainer):
    """A run in memory: the compiled scenario and the state of the search.

    The search is a function of the config and of the returns it was told, which are kept with the weights: a resumed
    run is told them again, and goes on as if it had never stopped.

    Args:
        config: the run's settings.
        resume: folder of the run that is continued; None starts from scratch.

    Raises:
        ConfigError: unknown scenario or device, too few training seeds, or weights that do not fit.
    """

    config: GateConfig
    paced_by = "episodes"

    def __init__(self, config: GateConfig, resume: Path | None = None) -> None:
        super().__init__(config)
        self._first_seed = first_seed(config, self.tables, "episodes")
        self._arena = Arena(self.tables, config.threads)
        self._search = new_search(config)
        self._told: list[list[float]] = []
        self._means: list[np.ndarray] = []
        for returns in [] if resume is None else read_returns(resume, config.population):
            self._tell(self._search.ask(), returns)

    @property
    def done(self) -> int:
        """Generations so far."""
        return len(self._told)

    @property
    def weights(self) -> np.ndarray:
        """The average of the search's mean over the last third of the generations so far, (settings, features).

        Returns are noisy and the mean wanders around the best place: its average lies nearer (Polyak, Juditsky 1992).
        """
        if not self._means:
            return np.zeros((N_SETTINGS, N_FEATURES))
        return _weights(np.mean(self._means[-math.ceil(self.done / 3) :], axis=0)[None])[0]

    def _train(self, run: Path, watch: Watch) -> None:
        """See :meth:`Trainer._train`."""
        first = self.done
        while not self.finished and self._generation(watch, first):
            watch.save_if_due()

    def save(self, run: Path) -> None:
        """See :meth:`Trainer.save`: the weights, and the returns that led to them."""
        write_file(run / GATE, gate_text(self.weights, returns=self._told))

    def _generation(self, watch: Watch, first: int) -> bool:
        """Play one generation and learn from it; False if it was stopped. ``first``: generations before this start."""
        population, asked = self.config.population, self._search.ask()
        returns: list[float] = []
        for own in self._arena.play(_weights(np.array(asked)), *self._episodes()):
            if watch.stopped:
                return False
            returns.append(float(own.mean()))
            candidates = (self.done - first) * population + len(returns)
            watch.show(
                self.done + len(returns) / population, candidates * self.config.episodes, sum(returns) / len(returns)
            )
        self._tell(asked, returns)
        return True

    def _episodes(self) -> tuple[np.ndarray, np.ndarray]:
        """Keys and settings of the next generation: no episode comes twice, in no run of another ``config.seed``."""
        count = self.config.episodes
        keys = [episode_key(self._first_seed + i, self.done) for i in range(count)]
        settings = (self.done * count + np.arange(count)) % len(self.tables.settings)
        return np.array(keys, np.uint64), settings

    def _tell(self, asked: list[np.ndarray], returns: list[float]) -> None:
        self._search.tell(asked, [-value for value in returns])
        self._told.append(returns)
        self._means.append(np.array(self._search.mean))


def read_returns(run: Path, population: int) -> list[list[float]]:
    """What the search of the run in this folder was told, a list a generation.

    Raises:
        ConfigError: the weights are missing, broken or of other features, or their returns are not such lists.
    """
    generations = read_gate(run / GATE).get("returns")
    if not isinstance(generations, list) or any(len(returns) != population for returns in generations):
        raise ConfigError(f"{run / GATE}: its returns are not lists of {population}, the run's population")
    return generations


def new_search(config: GateConfig) -> cma.CMAEvolutionStrategy:
    """A search that starts at ``triage_gate``, with random numbers of its own."""
    steps = np.full((N_SETTINGS, config.features), _FEATURE_STEP)
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


def _weights(points: np.ndarray) -> np.ndarray:
    """Weights, (n, settings, features), of n points of the search; features that it leaves out have none."""
    found = points.reshape(len(points), N_SETTINGS, -1)
    return np.pad(found, ((0, 0), (0, 0), (0, N_FEATURES - found.shape[2])))
