"""What became of an ONNX file, with the time each part stands for, as text for ``python -m hexenv.workload --onnx``."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import pandas as pd

from hexenv.device import Device
from hexenv.kernels.operator import Operator
from hexenv.workload.onnx_import import Import
from hexenv.workload.prediction import graph_us, node_us, operator_us


def onnx_report(imported: Import, device: Device) -> str:
    """Work and predicted time in one line, then the table of :func:`outcomes` and why nodes were left out."""
    report, us = imported.report, graph_us(imported.graph, device)
    counts = [sum(part.values()) for part in (report.mapped, report.merged, report.free)]
    parts = [
        f"{report.file}: {report.macs / 1e6:.1f} M multiply-accumulates, {us / 1e3:.3f} ms alone on {device.name}",
        f"{counts[0]} nodes mapped to {len(imported.graph.nodes)} operators, {counts[1]} merged, {counts[2]} free, "
        f"{len(report.unmapped)} left out",
        "",
        outcomes(imported, device).round({"ms": 3, "percent": 1}).to_string(index=False, na_rep="-"),
        *(f"left out: {kind} {name}: {why}" for kind, name, why in report.unmapped),
    ]
    return "\n".join(parts)


def outcomes(imported: Import, device: Device) -> pd.DataFrame:
    """A row an ONNX type and outcome: ``nodes``, ``ms`` and ``percent`` of the mapped operators' time together.

    Merged nodes show the time that they would take on their own, nodes left out that of writing their results, which is
    the least that they do; ``nan`` where even that is unknown.
    """
    report = imported.report
    by_type: Counter[str] = Counter()
    for origin, us in zip(report.origins, node_us(imported.graph, device), strict=True):
        by_type[origin] += us  # type: ignore[assignment]
    classes: dict[str, list[str]] = {}
    nodes: Counter[str] = Counter()
    for (kind, names), count in report.mapped.items():
        classes.setdefault(kind, []).append(names)
        nodes[kind] += count
    unmapped = Counter(kind for kind, _, _ in report.unmapped)
    rows = [
        *(("mapped", kind, "; ".join(classes[kind]), nodes[kind], us) for kind, us in by_type.most_common()),
        *(("merged", kind, "", n, _us(report.alone[kind], device)) for kind, n in sorted(report.merged.items())),
        *(("left out", kind, "", n, _us(report.missing[kind], device)) for kind, n in sorted(unmapped.items())),
        *(("free", kind, "", n, 0.0) for kind, n in sorted(report.free.items())),
    ]
    table = pd.DataFrame(rows, columns=["outcome", "type", "becomes", "nodes", "ms"])
    table["percent"] = 100.0 * table["ms"] / sum(by_type.values())
    table["ms"] /= 1e3
    return table


def _us(operators: Iterable[Operator], device: Device) -> float:
    found = list(operators)
    known = {operator: operator_us(operator, device) for operator in set(found)}
    return sum(known[operator] for operator in found) if found else float("nan")
