"""The overlap bound: how much faster a mix of stages can get at most when its engines work at the same time."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eval.bounds.demand import Engine, demands_of
from eval.bounds.program import Program
from hexenv.engine.layout import Tables

_ENGINES = (Engine.DDR, Engine.HVX, Engine.HMX, Engine.STORAGE)


def overlap_bound(alone: Sequence[float], versions: Sequence[Sequence[Sequence[float]]]) -> float:
    """Largest possible speed-up of a mix over running its stages one after another.

    ``S <= sum(alone) / T``, where ``T`` is the least load of the fullest engine over all choices of versions; a stage
    may be split over its versions, which only raises the bound. With one version a stage, whose time alone is the sum
    of its engine times, it is the bound ``(D + V + M) / max(D, V, M)`` against an unpipelined serial sum.

    Args:
        alone: time of each stage alone.
        versions: for each stage the versions it has, for each of them the time it keeps each engine busy, as a part of
            all there is of that engine. Any number of engines, the same for all.

    Raises:
        ValueError: no stage, a stage without a version, or nothing keeps any engine busy.
    """
    if not versions or len(alone) != len(versions) or any(len(stage) == 0 for stage in versions):
        raise ValueError("every stage needs its time alone and at least one version")
    total = sum(alone)
    program = Program()
    fullest = program.variable(-1.0)  # as a part of the time of all stages alone
    loads: list[list[tuple[int, float]]] = [[] for _ in versions[0][0]]
    for stage in versions:
        parts = [program.variable() for _ in stage]
        program.at_most(((part, -1.0) for part in parts), -1.0)
        for part, version in zip(parts, stage, strict=True):
            for load, busy in zip(loads, version, strict=True):
                load.append((part, busy / total))
    for load in loads:
        program.at_most([*load, (fullest, -1.0)])
    least = -program.upper_bound()
    if least <= 0.0:
        raise ValueError("nothing keeps any engine busy, so nothing bounds the speed-up")
    return 1.0 / least


def mix_bound(tables: Tables, jobs: Sequence[float], templates: Sequence[int] | None = None) -> float:
    """:func:`overlap_bound` of a mix of jobs against their stages alone in the fastest version, launches left out.

    Args:
        tables: the scenario, in a mode that overlaps: in mode ``serial`` each stage holds all contexts.
        jobs: how many jobs of each template the mix has (parts of a job count, so rates will do).
        templates: rows of ``tables.templates``; by default all of them.
    """
    demands = demands_of(tables)
    counts = np.zeros(len(tables.ops))
    for row, n in zip(range(len(jobs)) if templates is None else templates, jobs, strict=True):
        template = tables.templates[row]
        first = int(template["first_stage"])
        np.add.at(counts, tables.stages["op"][first : first + int(template["n_stages"])], n)
    alone, versions = [], []
    for op in np.flatnonzero(counts):
        rows = tables.ops["variant"][op].ravel()
        rows = rows[(rows >= 0) & demands.legal[rows]]
        share = counts[op] * demands.work[rows][:, _ENGINES] / demands.capacity[list(_ENGINES)]
        alone.append(counts[op] * float(tables.ops["ref_ns"][op]))
        versions.append(share.tolist())
    return overlap_bound(alone, versions)
