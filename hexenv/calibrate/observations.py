"""Logged times that the model predicts too: one for each distinct operator of the log, not one for each row.

Rows of one operator repeat one measurement. Their number says nothing about how well the model fits, so each distinct
operator counts once, with the mean of the middle half of its times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.stats import trim_mean

from hexenv.calibrate.stages import STAGES, stage_times
from hexenv.device import Device
from hexenv.errors import ConfigError
from hexenv.kernels import Operator, StageCost, Version
from hexenv.kernels.variants import alone_on
from hexenv.logs import Log, LoggedOp
from hexenv.validate.backend import GENERATIONS, Generation, cost_on, version
from hexenv.workload.log_import import map_log

TAIL = 0.25
"""Part of the times left out at each end: first touches of a weight take milliseconds."""
LONG_US = 50
EARLY_GENERATION, GENERATION = "hvx", "overlapped"
"""State of the backend behind logs of layout 1, and of the later ones."""


@dataclass(frozen=True)
class Observation:
    """One distinct operator, or what batches of one size cost."""

    what: str
    """ggml's name, shapes and types; or the batch."""
    rows: int
    """Of the log."""
    us: float
    """Logged time."""
    operator: Operator | None = None
    version: Version = Version.HVX
    """Engine that the log names, or that the backend's rules give."""
    pipeline: str = ""
    stage: str = ""
    """An event inside the operator (see ``stages``); empty = all of it."""
    batch: tuple[int, int] = (0, 0)
    """Batches and operators whose overhead it is, where there is no operator."""

    def predicted(self, device: Device) -> float:
        """What the model says, us."""
        if self.operator is None:
            batches, ops = self.batch
            return batches * device.batch_us + ops * device.op_us
        hashable: Any = self.operator
        built = device.with_pipeline(self.pipeline)
        cost = _cost(hashable, self.version, built)
        if self.stage:
            return STAGES[self.operator.family, self.version][self.stage](cost, built)
        return alone_on(built, cost)

    def ratio(self, device: Device) -> float:
        """Predicted over logged."""
        return self.predicted(device) / self.us


@lru_cache(maxsize=4096)
def _cost(operator: Any, wanted: Version, device: Device) -> StageCost:
    return cost_on(operator, device, wanted)


@dataclass(frozen=True)
class Observed:
    """What a log has to say about a device."""

    operators: tuple[Observation, ...]
    batches: tuple[Observation, ...]
    left_out: tuple[tuple[str, int, int, str], ...]
    """ggml name and shapes, rows, logged us, and why the model has no time for it."""
    clocks_mhz: np.ndarray
    """Cycles over time of every operator of at least :data:`LONG_US`, float: short ones show the rounding of time."""


def observe(log: Log, device: Device, weight: str | None = None, generation: str | None = None) -> Observed:
    """The observations of a log.

    ``weight`` is the format of weights where the log has no types; ``generation`` the state of the backend, a key of
    :data:`hexenv.validate.backend.GENERATIONS`, by default the one that the layout of the log tells.
    """
    groups: dict[tuple[Any, Version, str], list[LoggedOp]] = {}
    mapped, report = map_log(log, weight)
    inside = stage_times(log)
    left_out = [(name, len(us), sum(us), why) for (name, why), us in report.left_out.items()]
    for op, operator in mapped:
        state = GENERATIONS[generation or (EARLY_GENERATION if op.layout == 1 else GENERATION)]
        groups.setdefault((operator, _engine(op, operator, state), state.pipeline), []).append(op)
    found = []
    for (operator, engine, pipeline), ops in groups.items():
        what, us = f"{ops[0].name} {ops[0].dims}", [op.usec for op in ops]
        one = Observation(what, len(ops), _middle(us), operator, engine, pipeline)
        try:
            one.predicted(device)
        except ConfigError as error:
            left_out.append((what, len(ops), sum(us), str(error)))
            continue
        found.append(one)
        for stage in STAGES.get((operator.family, engine), ()):
            times = [inside[op.line][stage] for op in ops if stage in inside.get(op.line, ())]
            if times:
                name = f"{stage} of {what}"
                found.append(replace(one, what=name, rows=len(times), us=_middle(times), stage=stage))
    clocks = [op.cycles / op.usec for op in log.ops if op.usec >= LONG_US]
    return Observed(tuple(found), tuple(_overheads(log)), tuple(left_out), np.array(clocks, float))


def _engine(op: LoggedOp, operator: Operator, state: Generation) -> Version:
    if op.kernel.startswith("hmx"):
        return Version.HMX
    return Version.HVX if op.kernel else version(operator, state)


def _middle(us: Sequence[float]) -> float:
    """Mean of the middle half of the times, us; those of operators are whole, so at least half of one."""
    return max(0.5, float(trim_mean(us, TAIL)))


def _overheads(log: Log) -> list[Observation]:
    """Host time of batches beyond the time of their operators, by number of operators (layout 2 has both)."""
    times: dict[int, list[int]] = {}
    for batch in log.batches:
        if batch.host_us is not None and batch.host_us > batch.device_us:
            times.setdefault(batch.ops, []).append(batch.host_us - batch.device_us)
    sizes = Counter({ops: len(us) for ops, us in times.items()})
    return [
        Observation(f"dispatch of {ops} operators", sizes[ops], _middle(us), batch=(1, ops))
        for ops, us in sorted(times.items())
    ]
