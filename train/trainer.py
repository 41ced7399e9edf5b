"""What all learners share: the compiled scenario, and how a training is shown, saved and stopped."""

from __future__ import annotations

import time
from abc import ABC, abstractmethod
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import ClassVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from hexenv.engine.layout import Tables
from hexenv.errors import ConfigError
from hexenv.workload import build
from train.config import TrainConfig
from train.signals import stop_signals

_LOG_INTERVAL_S = 15.0


class Trainer(ABC):
    """A run in memory.

    Args:
        config: the run's settings.

    Raises:
        ConfigError: unknown scenario or device.
    """

    config: TrainConfig
    paced_by: ClassVar[str]
    """What its speed counts."""

    def __init__(self, config: TrainConfig) -> None:
        self.config = config
        self.tables = self.build_tables("train")

    def build_tables(self, split: str) -> Tables:
        """The run's scenario, compiled for split ``train`` or ``heldout``."""
        return build(self.config.scenario, self.config.device, split, **self.config.overrides())

    @property
    @abstractmethod
    def done(self) -> int:
        """How much it has trained, in the unit of ``config.length``."""

    @property
    def finished(self) -> bool:
        """Whether it has trained for as long as its config says."""
        return self.done >= self.config.total

    def learn(self, run: Path, console: Console) -> bool:
        """Train until the run is finished or a signal (Ctrl-C, SIGTERM) asks to stop; leaves its state either way.

        Returns:
            Whether the run is finished.
        """
        with stop_signals() as stop, Watch(self, run, console, stop) as watch:
            self._train(run, watch)
        self.save(run)
        return self.finished

    @abstractmethod
    def _train(self, run: Path, watch: Watch) -> None:
        """Train until finished or ``watch.stopped``; what is half done by then is thrown away."""

    @abstractmethod
    def save(self, run: Path) -> None:
        """Write what the run needs to go on and to be evaluated; ConfigError if that is impossible."""


class Watch:
    """Shows how a training gets on, and says when it is saved and stopped. A context manager.

    On a terminal a bar moves; elsewhere there is a line now and then.
    """

    def __init__(self, trainer: Trainer, run: Path, console: Console, stop: Sequence[int]) -> None:
        self._trainer, self._run, self._stop = trainer, run, stop
        config = trainer.config
        self._progress = Progress(
            TextColumn("training"),
            BarColumn(),
            TextColumn(f"{{task.completed:,.0f}} of {{task.total:,.0f}} {config.length}"),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn(f"{{task.fields[speed]:,.0f}} {trainer.paced_by}/s  return {{task.fields[mean_return]}}"),
            console=console,
            speed_estimate_period=120.0,
        )
        self._bar = self._progress.add_task("", total=config.total, completed=trainer.done, speed=0.0, mean_return="-")
        self._started = self._saved = self._printed = time.monotonic()

    def __enter__(self) -> Watch:
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._progress.stop()

    @property
    def stopped(self) -> bool:
        """Whether a signal has asked to stop."""
        return bool(self._stop)

    def show(self, done: float, count: int, mean_return: float | None) -> None:
        """Tell how far the training is.

        Args:
            done: in the unit of ``config.length``.
            count: of what the speed counts, since the training was started.
            mean_return: of the latest episodes, ms of reference work; None before the first one has ended.
        """
        config, speed = self._trainer.config, count / max(time.monotonic() - self._started, 1e-9)
        text = "-" if mean_return is None else f"{mean_return:.1f}"
        self._progress.update(self._bar, completed=min(done, config.total), speed=speed, mean_return=text)
        if not self._progress.console.is_terminal and time.monotonic() - self._printed >= _LOG_INTERVAL_S:
            self._progress.console.print(
                f"{done:,.0f} of {config.total:,} {config.length}, {speed:,.0f} {self._trainer.paced_by}/s, "
                f"return {text}"
            )
            self._printed = time.monotonic()

    def save_if_due(self) -> None:
        """Save the trainer's state if the last time is ``config.checkpoint_s`` ago."""
        if time.monotonic() - self._saved >= self._trainer.config.checkpoint_s:
            self._trainer.save(self._run)
            self._saved = time.monotonic()


def first_seed(config: TrainConfig, tables: Tables, per_run: str) -> int:
    """First training seed of a run: runs with different ``config.seed`` share no episode.

    Args:
        config: the run's settings.
        tables: its scenario, split ``train``.
        per_run: the option that says how many seeds a run takes.

    Raises:
        ConfigError: the split has too few seeds.
    """
    first, available = tables.seeds
    count = getattr(config, per_run)
    needed = (config.seed + 1) * count
    if needed > available:
        raise ConfigError(
            f"seed {config.seed} with {count} {per_run} needs {needed} training seeds, scenario {tables.scenario} "
            f"has {available}"
        )
    return int(first) + config.seed * int(count)
