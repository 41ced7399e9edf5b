"""The result table for the terminal, and the trade-off table for a README."""

from __future__ import annotations

import pandas as pd
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table

from eval.metrics import PERCENTILES
from eval.summary import is_learned

PUBLISHED_SEEDS, PUBLISHED_EPISODES = 5, 100
"""What a published table stands on, at least."""
_PIPE_WIDTH = 240
"""Width when the output is not a terminal: nothing is folded."""
_FLAT_COLUMNS, _FLAT_COLUMNS_A_STREAM = 114, 21
"""Terminal columns that a table without folded cells needs."""


def console(stderr: bool = False) -> Console:
    """A console for results (stdout) or progress (stderr)."""
    plain = Console(stderr=stderr)
    return plain if plain.is_terminal else Console(stderr=stderr, width=_PIPE_WIDTH)


def number(value: float, digits: int) -> str:
    """A fixed number of decimals, or a dash for a figure that does not exist."""
    return "-" if pd.isna(value) else f"{value:.{digits}f}"


def percent(share: float, digits: int = 1) -> str:
    """A share as a percentage without its sign."""
    return number(100.0 * share, digits)


def interval_text(value: float, low: float, high: float, digits: int = 1) -> str:
    """``value [low, high]``; the value alone where the interval is a point."""
    if low == high:
        return number(value, digits)
    return f"{number(value, digits)} [{number(low, digits)}, {number(high, digits)}]"


def return_text(row: pd.Series, name: str, prefix: str) -> str:
    """A return of a summary's row with its interval; of a single training run without: it tells nothing of others."""
    if row["train_seeds"] == 1:
        return number(row[name], 1)
    return interval_text(row[name], row[f"{prefix}_low"], row[f"{prefix}_high"])


def evidence_text(summary: pd.DataFrame) -> str:
    """On how many episodes and training seeds a table stands, and what a published one has."""
    episodes = int(summary["episodes"].min())
    parts = [f"{episodes} episodes a scheduler and scenario{_fewer(episodes, PUBLISHED_EPISODES)}"]
    for _, row in summary[summary["train_seeds"] > 0].drop_duplicates("scheduler").iterrows():
        seeds = int(row["train_seeds"])
        own = f"{row['scheduler']}: {seeds} training seed{'s' if seeds > 1 else ''}"
        own += ": no interval over seeds" if seeds == 1 else ", intervals over seeds and episodes"
        parts.append(own + _fewer(seeds, PUBLISHED_SEEDS))
    return "; ".join(parts)


def _fewer(count: int, published: int) -> str:
    return f" (a published table has at least {published})" if count < published else ""


def latency_text(row: pd.Series) -> str:
    """``p50 / p95 / p99`` in ms."""
    return " / ".join(number(row[f"p{p}_us"] / 1e3, 1) for p in PERCENTILES)


def results_table(scenario: str, summary: pd.DataFrame, streams: pd.DataFrame, width: int) -> Table:
    """All schedulers of one scenario: ``summary`` and ``streams`` hold that scenario's rows.

    Where ``width`` columns are too few for one line a scheduler, intervals and percentiles stand one below the other.
    """
    names = list(streams["stream"].unique())
    flat = width >= _FLAT_COLUMNS + _FLAT_COLUMNS_A_STREAM * len(names)
    reference, best = summary["reference"].iloc[0], summary["best_rule"].iloc[0]
    table = Table(
        title=f"{scenario}: {summary['episodes'].iloc[0]} held-out episodes, the same for every scheduler",
        caption=f"return: ms of reference work an episode, 95 % interval paired with {reference}; streams: latency "
        f"p50 / p95 / p99 of finished jobs, ms; best rule: {best}; {evidence_text(summary)}",
        box=SIMPLE_HEAD,
        padding=(0, 1 if flat else 0),
    )
    headings = ["scheduler", "return", "vs best rule", "throughput", "misses %", *names, "HVX %", "HMX %", "DMA %"]
    for heading in headings:
        table.add_column(heading, justify="left" if heading == "scheduler" else "right", no_wrap=flat)
    for _, row in summary.iterrows():
        own = streams[streams["scheduler"] == row["scheduler"]].set_index("stream")
        cells = [
            row["scheduler"],
            return_text(row, "return_mean", "return"),
            return_text(row, "vs_best_rule", "vs_best_rule"),
            number(row["throughput"], 3),
            percent(row["miss_rate"], 2),
            *(latency_text(own.loc[name]).replace(" ", "") for name in names),
            *(percent(row[f"{engine}_busy"], 0) for engine in ("hvx", "hmx", "dma")),
        ]
        style = "bold" if is_learned(row["scheduler"]) else None
        table.add_row(*(cell if flat else _stacked(cell) for cell in cells), style=style)
    return table


def _stacked(cell: str) -> str:
    return cell.replace("/", "\n").replace(" [", "\n[").replace(", ", ",\n")


def trade_off_markdown(summary: pd.DataFrame) -> str:
    """Markdown table of misses against throughput, a row a scenario and scheduler, and a line on its evidence."""
    lines = [
        "| scenario | scheduler | throughput | miss rate | p99 of deadline jobs | return [95 % paired] |",
        "| --- | --- | ---: | ---: | ---: | ---: |",
    ]
    for _, row in summary.iterrows():
        lines.append(
            f"| {row['scenario']} | {row['scheduler']} | {number(row['throughput'], 3)} "
            f"| {percent(row['miss_rate'])} % | {number(row['p99_us'] / 1e3, 2)} ms "
            f"| {return_text(row, 'return_mean', 'return')} |"
        )
    return "\n".join([*lines, "", f"*{evidence_text(summary)}*"])
