"""Turns executions of a profile log into graphs, and reports what was mapped and what was left out.

Operators keep the order of the log and depend on one another through their tensors. ggml names a view of a tensor
after it, ``cache_k_l0 (view)``: that is the same buffer here. A buffer that is written only through a view is older
than the execution (a KV cache, a recurrent state), and so is state of the stream.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

from hexenv.errors import ConfigError
from hexenv.kernels.operator import Operator
from hexenv.logs import Log, LoggedOp, read_log
from hexenv.workload.graph import Graph, Node
from hexenv.workload.log_operators import PRODUCT, NoOperator, map_operator

PARAMETERS = (".weight", ".bias")
"""Ends of the names of a model file's tensors."""


@dataclass
class LogReport:
    """What became of the operators of a log, with their number and their logged time."""

    file: str
    counts: Mapping[str, int]
    """Messages of the log, see ``Log.counts``."""
    executions: int
    mapped: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    """Logged times in us by (ggml name, operator class)."""
    left_out: dict[tuple[str, str], list[int]] = field(default_factory=lambda: defaultdict(list))
    """Logged times in us by (ggml name, why)."""

    @property
    def share(self) -> float:
        """Part of the logged time that is mapped."""
        mapped, left = (sum(map(sum, table.values())) for table in (self.mapped, self.left_out))
        return mapped / (mapped + left) if mapped + left else 0.0

    def __str__(self) -> str:
        counts = ", ".join(f"{self.counts[key]} {key}" for key in _ORDER if self.counts.get(key))
        lines = [f"{self.file}: messages: {counts or 'none'}; {self.executions} executions"]
        for title, table in (("mapped", self.mapped), ("left out", self.left_out)):
            lines += [
                f"  {title:8} {len(us):6d}  {sum(us) / 1e3:9.2f} ms  {name} -> {what}"
                for (name, what), us in sorted(table.items(), key=lambda item: -sum(item[1]))
            ]
        return "\n".join([*lines, f"  {100 * self.share:.1f} % of the logged time is mapped"])


_ORDER = ("read", "cut", "damaged", "unknown", "foreign")


def map_log(log: Log, weight: str | None = None) -> tuple[list[tuple[LoggedOp, Operator]], LogReport]:
    """Every operator that has a cost, in log order, and the report."""
    report = LogReport(log.file, log.counts, len(log.executions()))
    found = []
    for op in log.ops:
        try:
            operator = map_operator(op, weight)
        except NoOperator as why:
            report.left_out[op.name, str(why)].append(op.usec)
            continue
        report.mapped[op.name, type(operator).__name__].append(op.usec)
        found.append((op, operator))
    return found, report


def read_executions(path: Path) -> list[list[LoggedOp]]:
    """The executions of a log file, which is read once until it changes.

    Raises:
        ConfigError: it cannot be read, or holds no operator.
    """
    try:
        stamp = path.stat()
    except OSError as error:
        raise ConfigError(f"log {path}: cannot be read ({error.strerror})") from error
    return _executions(path, stamp.st_mtime_ns, stamp.st_size)


@lru_cache(maxsize=8)
def _executions(path: Path, changed_ns: int, size: int) -> list[list[LoggedOp]]:
    found = read_log(path).executions()
    if not found:
        raise ConfigError(f"log {path}: holds no operator of llama.cpp's Hexagon profiler (GGML_HEXAGON_PROFILE=1)")
    return found


def log_graph(path: Path, index: int, weight: str | None = None, allow_unmapped: bool = False) -> Graph:
    """Graph of one execution, counted from 0.

    Raises:
        ConfigError: operators without a cost (all are listed) unless ``allow_unmapped``; no such execution.
    """
    executions = read_executions(path)
    if not 0 <= index < len(executions):
        raise ConfigError(f"log {path}: execution {index}; allowed: 0 to {len(executions) - 1}")
    builder = _Builder(f"{path.stem}[{index}]", weight)
    for op in executions[index]:
        builder.add(op)
    if builder.left_out and not allow_unmapped:
        listed = "; ".join(dict.fromkeys(builder.left_out))
        raise ConfigError(f"log {path}: no operator for {listed}; allowed: leave them out with allow_unmapped = true")
    if not builder.nodes:
        raise ConfigError(f"log {path}: execution {index} has no operator with a cost")
    return Graph(builder.name, tuple(builder.nodes), frozenset(builder.state))


class _Builder:
    """One pass over the operators of an execution."""

    def __init__(self, name: str, weight: str | None):
        self.name = name
        self.nodes: list[Node] = []
        self.state: set[str] = set()
        self.left_out: list[str] = []
        self._weight = weight
        self._made: dict[str, tuple[str, ...]] = {}
        """Tensor to the buffers that hold it: more than one behind an operator that is left out."""
        self._unnamed: tuple[str, ...] = ()
        """Buffer of the last product with several results: the log names only one of them."""

    def add(self, op: LoggedOp) -> None:
        reads = tuple(dict.fromkeys(b for t in op.inputs if t for b in self._buffers(_base(t.name))))
        output = _base(op.output.name)
        in_place = output != op.output.name and output not in self._made
        try:
            operator = map_operator(op, self._weight)
        except NoOperator as why:
            self.left_out.append(f"{op.name} {op.dims} ({why})")
            self._made[output] = reads
            return
        if in_place:
            self.state.add(output)
        self._made[output] = (output,)
        self.nodes.append(Node(f"{len(self.nodes)}.{output}", operator, reads, (output,)))
        if op.name.split("+").count(PRODUCT) > 1:
            self._unnamed = (output,)

    def _buffers(self, tensor: str) -> Sequence[str]:
        if tensor in self._made:
            return self._made[tensor]
        return (tensor, *self._unnamed) if not tensor.endswith(PARAMETERS) else (tensor,)


def _base(name: str) -> str:
    """Name of the tensor that a view or a reshaped form is of."""
    return name.partition(" (")[0]
