"""What each published kernel idea changes in a scenario: one technique or fusion at a time, all else as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable

import numpy as np
import pandas as pd

from hexenv.device import Device
from hexenv.kernels import Operator, offers, profile
from hexenv.kernels.families import family_techniques
from hexenv.kernels.techniques import Selection, apply, techniques
from hexenv.workload.fusion import FUSIONS, fuse
from hexenv.workload.graph import Graph
from hexenv.workload.scenario import Scenario

PARTS = ("time", "ddr", "hvx", "hmx")


def ablation(scenario: Scenario, device: Device) -> pd.DataFrame:
    """A row for each other value of each technique, and for each fusion, that applies to the scenario's jobs.

    Columns: ``family``, ``technique``, ``value``, ``operators`` (how many of one job a stream it applies to), and the
    change of ``time``, ``ddr``, ``hvx``, ``hmx`` in percent: alone time and engine demands of those operators' fastest
    variants, summed. A number in a range is shown at its two ends.
    """
    graphs = [fuse(job.graph(), scenario.fusions) for stream in scenario.streams for job in stream.jobs]
    base = Counter(apply(node.operator, scenario.techniques) for graph in graphs for node in graph.nodes)
    rows = [*_technique_rows(base, device), *_fusion_rows(graphs, scenario, device)]
    return pd.DataFrame(rows, columns=["family", "technique", "value", "operators", *PARTS])


def _technique_rows(base: Counter[Operator], device: Device) -> Iterable[dict[str, object]]:
    for family, switches in family_techniques().items():
        for name, technique in switches.items():
            users = {o: n for o, n in base.items() if o.family == family and name in techniques(type(o))}
            for value in technique.choices:
                changed: Counter[Operator] = Counter()
                for operator, count in users.items():
                    changed[apply(operator, (Selection(family, name, value),))] += count
                if changed and changed != users:
                    label = {"family": family, "technique": name, "value": value, "operators": sum(users.values())}
                    yield label | _change(users, changed, device)


def _fusion_rows(graphs: list[Graph], scenario: Scenario, device: Device) -> Iterable[dict[str, object]]:
    for name, rewrite in FUSIONS.items():
        before: Counter[Operator] = Counter()
        after: Counter[Operator] = Counter()
        for graph in graphs:
            before.update(apply(node.operator, scenario.techniques) for node in graph.nodes)
            after.update(apply(node.operator, scenario.techniques) for node in rewrite(graph).nodes)
        gone, come = before - after, after - before
        if come:
            label = {"family": "graph", "technique": "fusions", "value": name, "operators": gone.total()}
            yield label | _change(gone, come, device)


def _change(before: dict[Operator, int], after: dict[Operator, int], device: Device) -> dict[str, object]:
    """Change of each part in percent; nan where there was nothing before."""
    old, new = (_demand(operators, device) for operators in (before, after))
    with np.errstate(divide="ignore", invalid="ignore"):
        change = np.where(old > 0.0, 100.0 * (new / old - 1.0), np.nan)
    return dict(zip(PARTS, change.tolist(), strict=True))


def _demand(operators: dict[Operator, int], device: Device) -> np.ndarray:
    """Time alone, DDR, HVX context-time and HMX time of the operators' fastest variants, us, shape (4,)."""
    total = np.zeros(len(PARTS))
    for operator, count in operators.items():
        ddr, hvx, hmx, _, alone = min((profile(c, device) for c in offers(operator, device)), key=lambda p: p[-1])
        total += count * np.array([alone, ddr, hvx, hmx])
    return total
