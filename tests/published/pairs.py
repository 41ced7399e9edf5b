"""Two operators on the engine, alone, one after the other and fused: for laws about pairs."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from hexenv.device import Device
from hexenv.engine import Simulator, TraceLevel
from hexenv.engine.layout import Event, Mode, Tables
from hexenv.kernels import Operator, Version
from hexenv.workload.at_once import at_once
from hexenv.workload.builder import chain
from hexenv.workload.compiler import compile_scenario
from hexenv.workload.graph import Graph
from hexenv.workload.scenario import EngineSettings
from tests.engine.toy import action

PLAIN = EngineSettings(noise=0.0, background_ddr=0.0, horizon_us=1e6)


def tables_of(device: Device, *work: Graph | tuple[Operator, ...], mode: Mode = Mode.FUSED) -> Tables:
    """One job a graph or chain of operators, all at time 0, no deadlines.

    Dispatch and decisions cost nothing, for laws about the engines.
    """
    graphs = [one if isinstance(one, Graph) else chain(*one) for one in work]
    tables = compile_scenario(at_once(*graphs, engine=replace(PLAIN, mode=mode)), device)
    for cost in ("batch_ns", "op_ns", "entry_ns", "decision_ns"):
        tables.config[cost] = 0
    return tables


def fastest_action(sim: Simulator, task: int, share: int, version: Version | None = None) -> int:
    """The pick of a visible task's fastest legal variant (of one version, if given)."""
    op = sim.tables.ops[sim.views["tasks"]["op"][0, task]]
    h = int(sim.tables.config["contexts"][0])
    best, best_ns = 0, np.inf
    for v in range(3):
        for tile in range(4):
            row = op["variant"][v, tile]
            for s in (share, 0):
                pick = action(task, v, tile, s)
                wanted = version is None or v == version
                if row >= 0 and wanted and sim.masks[0, pick] and sim.tables.variants[row]["alone_ns"][h] < best_ns:
                    best, best_ns = pick, sim.tables.variants[row]["alone_ns"][h]
    return best


def completion_us(tables: Tables, share: int = 1) -> list[float]:
    """When each chain is done if both run their fastest variants side by side as far as the mode allows, us."""
    sim = Simulator(tables, trace=TraceLevel.ALL)
    sim.reset(np.zeros(1, np.uint64))
    while not sim.lanes["over"][0]:
        tasks = int(sim.views["n_tasks"][0])
        resident = {int(r["stream"]) for r in sim.views["residents"][0] if r["phase"] > 0}
        picks = [
            fastest_action(sim, t, share) for t in range(tasks) if sim.views["tasks"]["stream"][0, t] not in resident
        ]
        sim.step(np.array([next((p for p in picks if p), 0)]))
    trace = sim.trace(0)
    done = trace[trace["event"] == Event.FINISH]
    return [float(done[done["stream"] == s]["t_ns"][0]) / 1000 for s in range(len(tables.streams))]


def alone_us(device: Device, chain: tuple[Operator, ...]) -> float:
    """The same chain alone on the device, us."""
    return completion_us(tables_of(device, chain, mode=Mode.SERIAL))[0]


def fused_us(device: Device, *chains: tuple[Operator, ...], share: int = 1) -> float:
    """Makespan of the fused pair, us."""
    return max(completion_us(tables_of(device, *chains), share))
