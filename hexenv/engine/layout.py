"""The engine's memory, documented in this one place: constant tables of a scenario, the state of a lane, and the view.

Everything the engine reads or writes is an array of one of the record types below, so a fork is a copy of one record,
and a new operator family or device never touches the engine. Names carry units: ``_ns`` integer or float nanoseconds,
``_bytes`` bytes. A *lane* is one sub-environment of a batch. Sizes are fixed, so that one compilation serves every
scenario.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

N_VERSIONS = 3
"""Versions of an operator: HVX, HMX, HYBRID (``hexenv.kernels.Version``)."""
N_TILES = 4
"""Tile classes: VTCM budgets of 1/8, 1/4, 1/2 and all of VTCM by default."""
N_SHARES = 3
"""Share classes of a joining stage: a quarter, half, three quarters of the HVX contexts."""
N_VARIANTS = N_VERSIONS * N_TILES
MAX_SLOTS = 2
"""Places for resident stages."""
MAX_CONTEXTS = 10
"""HVX contexts; the llama.cpp backend has the same hard cap."""
MAX_STREAMS = 8
MAX_JOBS = 16
"""Live jobs of all streams together (the sum of the streams' queue lengths)."""
MAX_STAGES = 2048
"""Stages (leaf kernels) of one job."""
STAGE_WORDS = MAX_STAGES // 64
MAX_READY = 8
"""Ready stages of one job at a time; the compiler refuses wider graphs."""
JIT_ENTRIES = 256
"""Fused kernels that the kernel cache holds; direct mapped, so two that share a place push one another out."""
MAX_VISIBLE = 16
"""Upper limit of K, the tasks a scheduler sees at once (8 by default)."""
NO_DEADLINE = np.int64(1 << 62)
"""The deadline of a best-effort job, and "never" as an instant, in ns."""


class Mode(IntEnum):
    """Execution modes (the ablation axes)."""

    SERIAL = 0
    CONCURRENT = 1
    FUSED_SERIAL = 2
    FUSED = 3


class HmxLock(IntEnum):
    """How long a graph holds the HMX lock in mode ``concurrent``."""

    BATCH = 0
    OP = 1
    CHUNK = 2


class Split(IntEnum):
    """How mode ``concurrent`` divides VTCM (static, on demand) or HVX contexts (static, shared)."""

    STATIC = 0
    SHARED = 1


class Jit(IntEnum):
    """Compilation of fused kernels at run time (fused modes)."""

    OFF = 0
    """All combinations are built ahead of time and cost nothing."""
    COLD = 1
    """The kernel cache is empty when an episode starts."""
    WARM = 2
    """Every combination is in the cache."""


class Arrival(IntEnum):
    """Where a stream's jobs come from."""

    PERIODIC = 0
    POISSON = 1
    CLOSED_LOOP = 2
    TRACE = 3


class Phase(IntEnum):
    """What a slot is doing."""

    FREE = 0
    PENDING = 1
    """Picked at this instant, VTCM held, not launched yet."""
    QUEUED = 2
    """Mode ``fused_serial``: launched, behind the internal barrier until the other stage is done."""
    LAUNCH = 3
    """Launch, join or wait for contexts: a latency, no engine."""
    PROLOGUE = 4
    BODY = 5
    DRAIN = 6
    """Pipeline fill and drain and the kernel's fixed set-up: a latency, no engine."""


class Event(IntEnum):
    """Kinds of trace records."""

    ARRIVE = 0
    """``value`` is the job's deadline from arrival in ns; ``NO_DEADLINE`` = none."""
    REJECT = 1
    """An arrival that found its queue full: a miss if it has a deadline; ``value`` as in ``ARRIVE``."""
    LAUNCH = 2
    """A stage was dispatched; the trace record's ``end_ns`` is filled in when it leaves its slot."""
    COMPLETE = 3
    """A stage finished and was credited."""
    UNCREDITED = 4
    """A stage of a dropped job ran out."""
    FINISH = 5
    """A job's last stage finished; ``value`` is its latency in ns."""
    DROP = 6
    """A firm job was late; ``value`` is the credit it forfeits in ns."""
    MISS = 7
    """A deadline passed; ``value`` is the reference work charged (weight x reference time) in ns."""
    SEGMENT = 8
    """Rates were constant from ``t_ns`` to ``end_ns``; ``value`` to ``value4`` are DMA, HVX, HMX, storage busy ns."""
    DECIDE = 9
    """A scheduler chose; ``value`` is the action."""


VARIANT = np.dtype(
    [
        ("op", np.int32),
        ("version", np.int8),
        ("tile", np.int8),
        ("tiles", np.float64),  # tiles of the body
        ("depth", np.float64),  # tile buffers: the weight in the FIFO queues
        ("ddr_ns", np.float64),  # body DDR time at full bandwidth
        ("hvx_ns", np.float64),  # body HVX context-time
        ("hmx_ns", np.float64),  # body HMX time
        ("storage_ns", np.float64),  # body time at the full rate of flash storage
        ("phi", np.float64),  # part of HVX time bound by VTCM reads
        ("body_hvx_ns", np.float64, (MAX_CONTEXTS + 1,)),  # elapsed body HVX time on h contexts, floors included
        ("unloaded_ns", np.float64, (MAX_CONTEXTS + 1,)),  # of it, with one buffer: no load may run meanwhile
        ("prologue_ddr_ns", np.float64),
        ("prologue_hvx_ns", np.float64),  # context-time
        ("prologue_ns", np.float64, (MAX_CONTEXTS + 1,)),  # elapsed prologue on h contexts
        ("latency_ns", np.float64, (MAX_CONTEXTS + 1,)),  # fill, drain and fixed set-up on h contexts
        ("alone_ns", np.int64, (MAX_CONTEXTS + 1,)),  # predicted duration alone on h contexts, launch excluded
        ("vtcm_bytes", np.int64),
        ("uses_hvx", np.bool_),
        ("uses_hmx", np.bool_),
    ],
    align=True,
)

OP = np.dtype(
    [
        ("variant", np.int32, (N_VERSIONS, N_TILES)),  # row of `variants`, -1 = not offered
        ("family", np.int32),  # index into Tables.family_names
        ("ref_ns", np.int64),  # reference time: the fastest variant, alone
        ("fastest", np.int32),  # that variant
        ("profile", np.float32, (N_VARIANTS, 5)),  # scaled p_i: HVX, HMX, VTCM, DMA, duration (observation.py)
    ],
    align=True,
)

STAGE = np.dtype(
    [
        ("op", np.int32),
        ("critical_ns", np.int64),  # longest reference path from this stage (itself included) to the job's end
        ("pred_start", np.int32),  # stages of this job that come first: links[pred_start:pred_end]
        ("pred_end", np.int32),
        ("succ_start", np.int32),
        ("succ_end", np.int32),
        ("prev_start", np.int32),  # stages of the stream's previous job that come first (state updates)
        ("prev_end", np.int32),
    ],
    align=True,
)

TEMPLATE = np.dtype(
    [
        ("first_stage", np.int32),  # row of `stages`; stage numbers in links are relative to it
        ("n_stages", np.int32),
        ("root_start", np.int32),  # stages without predecessors: links[root_start:root_end]
        ("root_end", np.int32),
        ("next_start", np.int32),  # stages that some stage of the next job waits for: links[next_start:next_end]
        ("next_end", np.int32),
        ("ref_ns", np.int64),  # sum of the stages' reference times
        ("ddr_ns", np.float64),  # sums over the stages' fastest variants
        ("hvx_ns", np.float64),  # context-time
        ("hmx_ns", np.float64),
    ],
    align=True,
)

STREAM = np.dtype(
    [
        ("arrival", np.int8),  # an Arrival
        ("firm", np.bool_),  # late jobs are dropped
        ("scales", np.bool_),  # period is divided by the setting's load
        ("period_ns", np.int64),  # mean spacing (periodic, Poisson)
        ("jitter_ns", np.int64),  # uniform +- around the period's grid, or on the gap
        ("offset_ns", np.int64),  # first arrival; -1 = a random phase
        ("gap_ns", np.int64),  # closed loop: host time between a job's end and the next arrival
        ("deadline_ns", np.int64),  # from arrival, at tightness 1; recorded: the median; NO_DEADLINE = best effort
        ("weight", np.float64),  # of a miss
        ("queue", np.int32),  # live jobs at most
        ("first_job", np.int32),  # its job slots are first_job .. first_job + queue - 1
        ("template_start", np.int32),  # job n runs template template_start + n % template_count
        ("template_count", np.int32),
        ("trace_start", np.int32),  # recorded arrivals: trace_ns[trace_start:trace_end], sorted
        ("trace_end", np.int32),
    ],
    align=True,
)

SETTING = np.dtype(
    [
        ("load", np.float64),  # multiplies the arrival rate of scaling streams
        ("tightness", np.float64),  # multiplies the streams' deadlines
        ("active", np.uint8, (MAX_STREAMS,)),  # the mix: which streams take part
    ],
    align=True,
)

CONFIG = np.dtype(
    [
        ("n_streams", np.int32),
        ("visible", np.int32),  # K
        ("slots", np.int32),
        ("mode", np.int32),
        ("hmx_lock", np.int32),
        ("vtcm_split", np.int32),
        ("context_split", np.int32),
        ("contexts", np.int32),  # H
        ("share", np.int32, (N_SHARES,)),  # contexts of each share class, -1 = same as a lower class
        ("vtcm_bytes", np.int64),
        ("horizon_ns", np.int64),
        ("wait_max_ns", np.int64),
        ("batch_ns", np.int64),  # dispatch of a job's batch, paid at its first stage
        ("op_ns", np.int64),  # dispatch of a stage inside a batch (serial, concurrent)
        ("entry_ns", np.int64),  # one composite or join (fused, fused_serial)
        ("decision_ns", np.int64),  # one decision of the scheduler
        ("handoff_ns", np.int64),  # HMX lock passed to another graph (concurrent)
        ("jit", np.int32),  # a Jit
        ("jit_first_ns", np.int64),  # first use of a combination (fused modes)
        ("jit_hit_ns", np.int64),  # later uses
        ("miss_weight", np.float64),  # lambda
        ("beta", np.float64),  # HVX slow-down by another stage's HMX traffic
        ("eta_shared", np.float64),  # DDR efficiency while two stages stream
        ("ddr_free", np.float64),  # part of DDR bandwidth that CPU and ISP leave
        ("noise", np.float64),  # sigma of the log-normal duration noise
    ],
    align=True,
)

JOB = np.dtype(
    [
        ("live", np.bool_),
        ("dropped", np.bool_),  # late and firm; waits for its resident stage to run out
        ("started", np.bool_),  # its batch has been dispatched
        ("missed", np.bool_),  # soft and late at least once
        ("locked", np.bool_),  # holds the HMX lock of its batch (concurrent)
        ("stream", np.int32),
        ("template", np.int32),
        ("resident", np.int32),  # stages of it in slots
        ("left", np.int32),  # stages not finished
        ("n_ready", np.int32),
        ("index", np.int64),  # job n of its stream
        ("arrival_ns", np.int64),
        ("deadline_ns", np.int64),  # absolute, as set at arrival; NO_DEADLINE = none
        ("due_ns", np.int64),  # next instant at which a miss is charged
        ("earned_ns", np.int64),  # credit so far
        ("left_ddr_ns", np.float64),  # reference work not finished
        ("left_hvx_ns", np.float64),
        ("left_hmx_ns", np.float64),
        ("ready", np.int16, (MAX_READY,)),  # in order of becoming ready
        ("done", np.uint64, (STAGE_WORDS,)),
    ],
    align=True,
)

SLOT = np.dtype(
    [
        ("phase", np.int8),  # a Phase
        ("launched", np.bool_),
        ("job", np.int32),
        ("stage", np.int32),
        ("variant", np.int32),
        ("contexts", np.int32),  # it works with now
        ("contexts_next", np.int32),  # from the tile boundary `switch_left` on
        ("trace_row", np.int32),
        ("switch_left", np.float64),  # remaining tiles at that boundary, -1 = no change due
        ("left", np.float64),  # remaining: ns (LAUNCH, DRAIN) or tiles (PROLOGUE, BODY)
        ("noise", np.float64),  # actual / predicted duration; schedulers never see it
        ("rate", np.float64),  # tiles per ns (PROLOGUE, BODY), valid until the next event
        ("rising", np.bool_),  # takes part in the filling of rates
        ("limit", np.float64),  # own limit, tiles per ns
        ("ddr_tile_ns", np.float64),  # actual DDR time of a tile
        ("hmx_tile_ns", np.float64),  # actual HMX time of a tile
        ("storage_tile_ns", np.float64),  # actual storage time of a tile
        ("slowdown", np.float64),  # HVX time factor by interference
        ("vtcm_offset", np.int64),
        ("vtcm_bytes", np.int64),
    ],
    align=True,
)

LANE = np.dtype(
    [
        ("key", np.uint64),  # random key of the arrivals and noise of this episode
        ("now_ns", np.int64),
        ("setting", np.int32),
        ("n_visible", np.int32),
        ("over", np.bool_),  # terminated or truncated
        ("terminated", np.bool_),  # nothing is left to happen
        ("truncated", np.bool_),  # the horizon has come
        ("reward", np.float64),  # of the last step, ms of reference work
        ("elapsed_ns", np.int64),  # time the last step took
        ("next_due_ns", np.int64),  # earliest deadline of its live jobs
        ("n_trace", np.int64),
        ("decisions", np.int64),
        ("credit_ns", np.int64),  # net of forfeits
        ("charge_ns", np.float64),  # sum of weight x reference over misses
        ("busy_ddr_ns", np.float64),
        ("busy_hvx_ns", np.float64),  # context-time
        ("busy_hmx_ns", np.float64),
        ("busy_storage_ns", np.float64),
        ("jit_keys", np.int64, (JIT_ENTRIES,)),  # fused kernels in the cache, by hash; -1 = empty
        ("visible_job", np.int32, (MAX_VISIBLE,)),
        ("visible_stage", np.int32, (MAX_VISIBLE,)),
        ("visible_head", np.uint8, (MAX_VISIBLE,)),
        ("offset_ns", np.int64, (MAX_STREAMS,)),  # first arrival without jitter; closed loop: mean end of the host gap
        ("next_arrival_ns", np.int64, (MAX_STREAMS,)),
        ("next_index", np.int64, (MAX_STREAMS,)),
        ("last_arrival_ns", np.int64, (MAX_STREAMS,)),
        ("due", np.int64, (MAX_STREAMS,)),  # due deadline periods
        ("missed", np.int64, (MAX_STREAMS,)),
        ("finished", np.int64, (MAX_STREAMS,)),
        ("rejected", np.int64, (MAX_STREAMS,)),
        ("slots", SLOT, (MAX_SLOTS,)),
        ("jobs", JOB, (MAX_JOBS,)),
    ],
    align=True,
)

TRACE = np.dtype(
    [  # without padding, so that equal records are equal bytes
        ("event", np.int32),  # an Event
        ("slot", np.int32),
        ("stream", np.int32),
        ("job", np.int32),  # index in its stream
        ("stage", np.int32),
        ("variant", np.int32),
        ("contexts", np.int64),
        ("t_ns", np.int64),
        ("end_ns", np.int64),
        ("value", np.float64),
        ("value2", np.float64),
        ("value3", np.float64),
        ("value4", np.float64),
    ],
    align=True,
)

TASK_VIEW = np.dtype(
    [
        ("job", np.int32),  # job slot
        ("stream", np.int32),
        ("stage", np.int32),  # relative to its template
        ("op", np.int32),
        ("firm", np.bool_),
        ("head", np.bool_),  # first task of its stream's oldest job
        ("arrival_ns", np.int64),
        ("deadline_ns", np.int64),  # absolute
        ("slack_ns", np.int64),  # deadline - now - critical path; NO_DEADLINE when there is none
        ("critical_ns", np.int64),  # predicted rest of the chain from this stage on
        ("job_ref_ns", np.int64),
        ("earned_ns", np.int64),  # what a drop would forfeit
        ("left_ddr_ns", np.float64),
        ("left_hvx_ns", np.float64),
        ("left_hmx_ns", np.float64),
        ("weight", np.float64),
    ],
    align=True,
)

RESIDENT_VIEW = np.dtype(
    [
        ("phase", np.int8),
        ("dropped", np.bool_),  # its job is gone, it runs out uncredited
        ("variant", np.int32),
        ("op", np.int32),
        ("stream", np.int32),
        ("job", np.int32),
        ("contexts", np.int32),
        ("tiles_left", np.float64),
        ("left_ns", np.int64),  # predicted rest, alone on its present contexts
        ("arrival_ns", np.int64),  # of its job
        ("slack_ns", np.int64),
        ("deadline_ns", np.int64),
        ("vtcm_offset", np.int64),
        ("vtcm_bytes", np.int64),
    ],
    align=True,
)

STREAM_VIEW = np.dtype(
    [
        ("active", np.bool_),
        ("firm", np.bool_),
        ("backlog", np.int32),
        ("since_arrival_ns", np.int64),
        ("period_ns", np.int64),  # nominal, 0 = closed loop
        ("deadline_ns", np.int64),  # relative; recorded arrivals: the median
    ],
    align=True,
)

VIEW = np.dtype(
    [
        ("now_ns", np.int64),
        ("n_tasks", np.int32),
        ("vtcm_free_bytes", np.int64),
        ("vtcm_largest_bytes", np.int64),
        ("tasks", TASK_VIEW, (MAX_VISIBLE,)),
        ("residents", RESIDENT_VIEW, (MAX_SLOTS,)),
        ("streams", STREAM_VIEW, (MAX_STREAMS,)),
    ],
    align=True,
)


class TableArrays(NamedTuple):
    """The arrays of :class:`Tables` as the kernels take them."""

    config: np.ndarray
    variants: np.ndarray
    ops: np.ndarray
    stages: np.ndarray
    templates: np.ndarray
    streams: np.ndarray
    settings: np.ndarray
    links: np.ndarray
    trace_ns: np.ndarray
    trace_deadline_ns: np.ndarray


@dataclass(frozen=True)
class Tables:
    """A scenario on a device, compiled to flat arrays (``hexenv.workload.compiler`` builds it)."""

    config: np.ndarray  # CONFIG, shape (1,)
    variants: np.ndarray  # VARIANT
    ops: np.ndarray  # OP
    stages: np.ndarray  # STAGE
    templates: np.ndarray  # TEMPLATE
    streams: np.ndarray  # STREAM
    settings: np.ndarray  # SETTING: the mix x tightness x load settings of one split
    links: np.ndarray  # int32, all stage lists
    trace_ns: np.ndarray  # int64, recorded arrivals
    trace_deadline_ns: np.ndarray  # int64, their deadlines: relative, at tightness 1; NO_DEADLINE = best effort
    constants: np.ndarray  # float32, scaled device constants for the observation
    scenario: str
    split: str  # "train" or "heldout"
    device: str
    stream_names: tuple[str, ...]
    template_names: tuple[str, ...]
    op_names: tuple[str, ...]
    family_names: tuple[str, ...]
    stage_names: tuple[str, ...]  # one a row of `stages`
    seeds: tuple[int, int]  # first seed and number of seeds of this split
    costs: tuple[Any, ...] = ()  # the kernels' stage cost behind each row of `variants`, for replay; not the engine's

    @property
    def arrays(self) -> TableArrays:
        """What the kernels take."""
        return TableArrays(*(getattr(self, name) for name in TableArrays._fields))

    @property
    def visible(self) -> int:
        """K."""
        return int(self.config["visible"][0])

    @property
    def n_actions(self) -> int:
        """``1 + K * V * T * S``."""
        return 1 + self.visible * N_VARIANTS * N_SHARES
