"""The progress bar of an evaluation, on stderr so that results can be piped."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from eval.table import console


class Bar:
    """One bar over all schedulers and scenarios, counted in episodes."""

    def __init__(self, progress: Progress, task: TaskID) -> None:
        self._progress = progress
        self._task = task
        self._before = 0.0

    def begin(self, label: str, before: float) -> None:
        """Name what runs now; ``before`` episodes were played ahead of it."""
        self._before = before
        self._progress.update(self._task, description=label, completed=before)

    def update(self, played: float) -> None:
        """``played`` episodes of what runs now are done."""
        self._progress.update(self._task, completed=self._before + played)


@contextmanager
def progress_bar(total_episodes: int) -> Iterator[Bar]:
    """A bar that is shown while the block runs."""
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:.0f} of {task.total:.0f} episodes"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
        console=console(stderr=True),
    )
    with progress:
        yield Bar(progress, progress.add_task("evaluating", total=total_episodes))
