"""Jobs as their author writes them: operators in program order that name the buffers they read and write."""

from __future__ import annotations

from dataclasses import dataclass, field

from hexenv.kernels.operator import Operator


@dataclass(frozen=True, slots=True)
class Node:
    """One operator of a job."""

    name: str
    """Unique inside the job, for example ``blk.3.ffn_gate``."""
    operator: Operator
    reads: tuple[str, ...]
    """Buffers it reads. A buffer nobody writes is an input or a weight."""
    writes: tuple[str, ...]
    """Buffers it writes. Naming a state buffer makes it a state update."""


@dataclass(frozen=True, slots=True)
class Graph:
    """One job's operators in program order. Dependencies follow from the buffers (read after write and the others)."""

    name: str
    nodes: tuple[Node, ...]
    state: frozenset[str] = field(default_factory=frozenset)
    """Buffers that live across the jobs of a stream (KV cache, previous frame). All others are per job."""
