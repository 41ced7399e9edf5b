"""What running a stage takes at least of each engine, whoever else is on the device.

Every figure is a lower bound of what the engine (``hexenv/engine``) charges, for any mix of contexts that a stage could
get while it runs. Interference, shared DDR efficiency, lock hand-offs and run-time compilation only add to it.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from hexenv.engine.layout import Mode, Split, Tables


class Engine(IntEnum):
    """What stages compete for."""

    DDR = 0
    """Time at full bandwidth; CPU and ISP leave ``ddr_free`` of it, and two that stream at once lose some."""
    HVX = 1
    """Context-time: contexts held times the time they are held."""
    HMX = 2
    STORAGE = 3
    SLOT = 4
    """Time in a slot, launch included."""


@dataclass(frozen=True)
class Demands:
    """Least demands of all variants of a scenario, ns."""

    legal: np.ndarray
    """bool (variants,): a scheduler may run it at all (it fits the VTCM part of a slot)."""
    work: np.ndarray
    """float (variants, engines): least time on each engine at noise 1; scales with the noise."""
    launch_ns: float
    """Least latency before a stage works, on top of ``work`` and without noise: what delays its chain."""
    slot_launch_ns: float
    """The part of it that occupies slots (a pair in mode ``fused_serial`` shares one entry)."""
    batch_ns: float
    """Once a job, at the first stage it launches."""
    capacity: np.ndarray
    """float (engines,): engine time there is in a unit of time."""

    def least(self, variants: np.ndarray) -> np.ndarray:
        """Least demand on each engine apart, over the legal ones of ``variants`` (rows, -1 = none); float (engines,).

        Infinite where none is legal.
        """
        rows = variants[variants >= 0]
        return self.work[rows[self.legal[rows]]].min(axis=0, initial=np.inf)


def demands_of(tables: Tables) -> Demands:
    """The least demands under the mode and splits that ``tables`` were compiled for."""
    config, variants = tables.config[0], tables.variants
    mode, contexts = Mode(config["mode"]), int(config["contexts"])
    alone = mode in (Mode.SERIAL, Mode.FUSED_SERIAL)
    fused = mode in (Mode.FUSED, Mode.FUSED_SERIAL)
    entry, decision = float(config["entry_ns"] if fused else config["op_ns"]), float(config["decision_ns"])
    room = int(config["vtcm_bytes"])
    if mode == Mode.CONCURRENT and config["vtcm_split"] == Split.STATIC:
        room //= int(config["slots"])
    capacity = np.ones(len(Engine))
    capacity[Engine.DDR] = config["ddr_free"]
    # With a single context two stages may hold one each.
    capacity[Engine.HVX] = max(contexts, 2)
    capacity[Engine.SLOT] = 1 if alone else int(config["slots"])
    return Demands(
        legal=variants["vtcm_bytes"] <= room,
        work=_least_work(tables, _contexts_reachable(config, mode, contexts)),
        launch_ns=entry + decision,
        slot_launch_ns=(entry / 2 if mode == Mode.FUSED_SERIAL else entry) + decision,
        batch_ns=float(config["batch_ns"]),
        capacity=capacity,
    )


def _contexts_reachable(config: np.void, mode: Mode, contexts: int) -> np.ndarray:
    """All numbers of HVX contexts that a stage may ever work on, int64 ascending."""
    half = max(1, contexts // 2)
    if mode == Mode.CONCURRENT:
        fixed = config["context_split"] == Split.STATIC
        return np.unique([half] if fixed else [half, contexts - half, contexts])
    if mode == Mode.FUSED:
        shares = [int(h) for h in config["share"] if h > 0]
        return np.unique([contexts, *shares, *(contexts - h for h in shares)])
    return np.array([contexts])


def _least_work(tables: Tables, contexts: np.ndarray) -> np.ndarray:
    """``Demands.work``: the fastest number of contexts for each phase apart, since it may change between tiles."""
    variants, config = tables.variants, tables.config[0]
    prologue, latency = variants["prologue_ns"][:, contexts], variants["latency_ns"][:, contexts]
    body = body_ns(variants, float(config["ddr_free"]))[:, contexts]
    held = np.where(variants["uses_hvx"][:, None], contexts[None, :], 0)
    work = np.zeros((len(variants), len(Engine)))
    streamed = ((variants["prologue_ddr_ns"], prologue), (variants["ddr_ns"], body))
    work[:, Engine.DDR] = sum(_ddr_ns(config, ddr_ns, elapsed.min(axis=1)) for ddr_ns, elapsed in streamed)
    work[:, Engine.HVX] = (held * prologue).min(axis=1) + (held * body).min(axis=1)
    work[:, Engine.HMX] = variants["hmx_ns"]
    work[:, Engine.STORAGE] = variants["storage_ns"]
    work[:, Engine.SLOT] = prologue.min(axis=1) + body.min(axis=1) + latency.min(axis=1)
    return work


def _ddr_ns(config: np.void, ddr_ns: np.ndarray, elapsed_ns: np.ndarray) -> np.ndarray:
    """DDR time that streaming ``ddr_ns`` keeps from everybody else, float (variants,).

    Beside another stage that streams, all get ``eta_shared`` of the bandwidth together. As the only one, a stage keeps
    DDR for as long as the phase takes. A stage gets through with the smaller of the two.
    """
    alone = elapsed_ns * float(config["ddr_free"])
    return np.where(ddr_ns > 0.0, np.minimum(ddr_ns / float(config["eta_shared"]), alone), 0.0)


def body_ns(variants: np.ndarray, ddr_free: float) -> np.ndarray:
    """Time of the body at a stage's own limit, float (variants, contexts + 1), as ``hexenv/engine/contention.py``."""
    hvx, hmx = variants["body_hvx_ns"], variants["hmx_ns"][:, None]
    compute = np.where(variants["depth"][:, None] >= 2.0, np.maximum(hvx, hmx), hvx + hmx)
    ddr = variants["ddr_ns"][:, None] / ddr_free + variants["unloaded_ns"]
    return np.maximum(np.maximum(ddr, variants["storage_ns"][:, None]), compute)
