"""A table of a report, printed to a terminal or as Markdown."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rich.console import Console
from rich.table import Table as RichTable


@dataclass(frozen=True)
class Table:
    """Texts by row; numbers are formatted by whoever fills it."""

    title: str
    columns: tuple[str, ...]
    rows: Sequence[Sequence[str]]
    left: int = 1
    """So many first columns are aligned left, the others right."""

    def show(self, console: Console) -> None:
        """Print it to a terminal."""
        table = RichTable(title=self.title, title_justify="left")
        for index, column in enumerate(self.columns):
            table.add_column(column, justify="left" if index < self.left else "right", overflow="fold")
        for row in self.rows:
            table.add_row(*row)
        console.print(table)

    def markdown(self) -> str:
        """The table for a document, its title in bold above."""
        rule = [":--" if index < self.left else "--:" for index in range(len(self.columns))]
        lines = [self.columns, rule, *([cell.replace("|", "\\|") for cell in row] for row in self.rows)]
        return f"**{self.title}**\n\n" + "\n".join("| " + " | ".join(line) + " |" for line in lines) + "\n"


def percent(value: float) -> str:
    """A signed part as a percentage."""
    return f"{100 * value:+.1f} %"
