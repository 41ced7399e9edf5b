"""An engine figure to watch: how long a fixed pair of operators takes when both are there at once and fused."""

from __future__ import annotations

import numpy as np

from hexenv.device import Device
from hexenv.engine import Simulator, episode_key
from hexenv.engine.dispatch import decode
from hexenv.kernels import MatMul, Operator, Stencil
from hexenv.workload.at_once import at_once
from hexenv.workload.builder import chain
from hexenv.workload.compiler import compile_scenario
from hexenv.workload.scenario import EngineSettings

PAIR: tuple[Operator, Operator] = (MatMul("q4_0", 6144, 512, 2048), Stencil("gaussian5x5", 2160, 3840))
"""A prompt product, bound by HMX, and a filter of a 4K frame, bound by HVX."""
PREFERENCE = (1, 2, 0)
"""How much a version is wanted: HMX above all, then HVX, then HYBRID."""
HALF = 1
"""The share class of half of the contexts."""


def makespan_us(device: Device) -> float:
    """Time until both operators of :data:`PAIR` are done, us.

    Fused mode without noise or background traffic; HMX versions where offered, the largest tile class that fits, half
    of the contexts each.
    """
    scenario = at_once(*map(chain, PAIR), engine=EngineSettings(noise=0.0, background_ddr=0.0))
    sim = Simulator(compile_scenario(scenario, device))
    sim.reset(np.array([episode_key(0, 0)], np.uint64))
    wanted = np.array([-1.0, *(_score(action) for action in range(1, sim.masks.shape[1]))])
    while not sim.lanes["over"][0]:
        sim.step(np.where(sim.masks, wanted, -2.0).argmax(axis=1))
    return float(sim.lanes["now_ns"][0]) / 1e3


def _score(action: int) -> float:
    _, version, tile, share = decode(action)
    return 100.0 * PREFERENCE[version] + 10.0 * tile + (share == HALF)
