"""Small constructed scenarios: a device with 4 contexts, 8 MB of VTCM and free dispatch, filled by hand."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
import pytest

from hexenv.engine.layout import (
    CONFIG,
    MAX_CONTEXTS,
    MAX_STREAMS,
    N_SHARES,
    N_TILES,
    N_VARIANTS,
    NO_DEADLINE,
    OP,
    STREAM,
    TEMPLATE,
    VARIANT,
    VIEW,
    Mode,
    Phase,
    Tables,
)

HVX, HMX, HYBRID = range(3)
CONTEXTS = 4
VISIBLE = 4
US = 1000


@dataclass(frozen=True)
class Work:
    """A variant: engine times in us (HVX as context-time), VTCM in MB."""

    version: int
    ddr: float = 0.0
    hvx: float = 0.0
    hmx: float = 0.0
    tile: int = 0
    vtcm: float = 1.0


@dataclass
class Case:
    """One lane under construction."""

    mode: Mode = Mode.FUSED
    dispatch: float = 0.0  # us a stage
    variants: list[Work] = field(default_factory=list)
    ops: list[list[int]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.view = np.zeros(1, VIEW)
        self.view["vtcm_free_bytes"] = self.view["vtcm_largest_bytes"] = 8e6

    def op(self, *works: Work) -> int:
        """Add an operator with these variants; returns its index."""
        self.ops.append(list(range(len(self.variants), len(self.variants) + len(works))))
        self.variants.extend(works)
        return len(self.ops) - 1

    def task(self, op: int, due: float | None = None, arrival: float = 0.0, rest: float | None = None, stage: int = 0):
        """Add a ready stage of its own job; ``due`` and ``arrival`` relative to now, ``rest`` of its job, all in us."""
        n = int(self.view["n_tasks"][0])
        task = self.view["tasks"][0, n]
        ref = min(self._alone(self.variants[v], CONTEXTS) for v in self.ops[op])
        rest_ns = int(rest * US) if rest is not None else ref
        task["job"], task["stream"], task["op"], task["stage"] = n, n, op, stage
        task["arrival_ns"] = int(arrival * US)
        task["deadline_ns"] = NO_DEADLINE if due is None else int(due * US)
        task["slack_ns"] = NO_DEADLINE if due is None else int(due * US) - rest_ns
        task["critical_ns"] = task["job_ref_ns"] = rest_ns
        self.view["n_tasks"] = n + 1
        return n

    def resident(
        self, op: int, variant: int = 0, phase: Phase = Phase.BODY, due: float | None = None, part: float = 1.0
    ):
        """Put a stage on the device, alone on all contexts, in the op's ``variant``-th variant, ``part`` of it left."""
        row = self.ops[op][variant]
        resident = self.view["residents"][0, 0]
        left = int(part * self._alone(self.variants[row], CONTEXTS))
        resident["phase"], resident["op"], resident["variant"] = phase, op, row
        resident["job"], resident["contexts"], resident["left_ns"] = 9, CONTEXTS, left
        resident["deadline_ns"] = NO_DEADLINE if due is None else int(due * US)
        resident["slack_ns"] = NO_DEADLINE if due is None else int(due * US) - left
        self.view["vtcm_largest_bytes"] -= int(self.variants[row].vtcm * 1e6)

    @staticmethod
    def _alone(work: Work, contexts: int) -> int:
        return int(US * max(work.ddr, work.hvx / max(contexts, 1), work.hmx))

    def tables(self) -> Tables:
        """The constant tables of this case."""
        config = np.zeros(1, CONFIG)
        config["visible"], config["slots"], config["mode"], config["contexts"] = VISIBLE, 2, self.mode, CONTEXTS
        config["entry_ns"] = self.dispatch * US
        config["share"] = (1, 2, 3)
        config["eta_shared"] = config["ddr_free"] = 1.0
        config["vtcm_bytes"] = 8e6
        variants = np.zeros(len(self.variants), VARIANT)
        ops = np.zeros(len(self.ops), OP)
        ops["variant"] = -1
        for op, rows in enumerate(self.ops):
            for row in rows:
                work, out = self.variants[row], variants[row]
                out["op"], out["version"], out["tile"] = op, work.version, work.tile
                out["ddr_ns"], out["hvx_ns"], out["hmx_ns"] = work.ddr * US, work.hvx * US, work.hmx * US
                out["uses_hvx"], out["uses_hmx"] = work.hvx > 0, work.hmx > 0
                out["vtcm_bytes"] = work.vtcm * 1e6
                out["alone_ns"] = [self._alone(work, h) for h in range(MAX_CONTEXTS + 1)]
                ops[op]["variant"][work.version, work.tile] = row
            times = [variants[row]["alone_ns"][CONTEXTS] for row in rows]
            ops[op]["fastest"], ops[op]["ref_ns"] = rows[int(np.argmin(times))], min(times)
        templates, streams = np.zeros(1, TEMPLATE), np.zeros(MAX_STREAMS, STREAM)
        templates["n_stages"], templates["ref_ns"], streams["template_count"] = 10, 10 * 100 * US, 1
        empty = np.zeros(0)
        names: tuple[str, ...] = ()
        return Tables(
            config, variants, ops, empty, templates, streams, empty, empty, empty, empty, empty,
            "case", "train", "none", names, names, names, names, names, (0, 1),
        )  # fmt: skip

    def mask(self) -> np.ndarray:
        """What the engine would allow: offered variants that fit VTCM, with the shares of the mode."""
        legal = np.zeros((VISIBLE, N_VARIANTS, N_SHARES), bool)
        resident = self.view["residents"][0, 0]
        busy = resident["phase"] != Phase.FREE
        feeds = busy and self.variants[resident["variant"]].hvx > 0
        for n in range(int(self.view["n_tasks"][0])):
            for row in self.ops[self.view["tasks"][0, n]["op"]]:
                work = self.variants[row]
                if work.vtcm * 1e6 <= self.view["vtcm_largest_bytes"][0]:
                    shared = feeds and work.hvx > 0 and self.mode == Mode.FUSED
                    legal[n, work.version * N_TILES + work.tile] = (True, shared, shared)
        if busy and self.mode == Mode.SERIAL:
            legal[:] = False
        return np.concatenate([[True], legal.reshape(-1)])[None]

    def ask(self, scheduler) -> tuple[int, int, int, int] | None:
        """What ``scheduler`` picks: (task, version, tile, share), None for wait."""
        scheduler.start(self.tables(), 1, 0)
        mask = self.mask()
        action = int(scheduler.act(self.view, mask)[0])
        assert mask[0, action]
        if action == 0:
            return None
        return tuple(int(i) for i in np.unravel_index(action - 1, (VISIBLE, 3, N_TILES, N_SHARES)))


@pytest.fixture
def case():
    """An empty fused lane."""
    return Case()
