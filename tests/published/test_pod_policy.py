"""POD-Attention (ASPLOS 25) as a scheduler: a slot takes its role when it is free, in proportion to what is left.

The law: both roles have always been launched in the same proportion, within one leaf, and the makespan is that of the
longer role and at most one leaf; serving one role after the other takes the sum.
"""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import agents
from agents.pod import COMPUTE, OTHER, Pod, roles_of
from hexenv.engine import Simulator
from hexenv.engine.layout import Event, Mode, Tables
from hexenv.workload import build
from tests.engine.toy import toy_tables
from tests.published.policies import DMA, HMX, HVX, once, play, times_us

leaves = st.lists(st.floats(20.0, 300.0).map(lambda us: float(round(us))), min_size=1, max_size=12)


def mix(prefill: list[float], decode: list[float], mode: Mode = Mode.FUSED) -> Tables:
    return toy_tables(once(*((HMX, us) for us in prefill)), once(*((DMA, us) for us in decode)), mode=mode)


def makespan_us(sim: Simulator) -> float:
    return max(times_us(sim, Event.FINISH, stream)[0] for stream in (0, 1))


@settings(max_examples=30, deadline=None)
@given(prefill=leaves, decode=leaves)
def test_the_mix_stays_at_the_ratio_of_the_work_within_one_leaf(prefill: list[float], decode: list[float]) -> None:
    trace = play(Pod(), mix(prefill, decode)).trace(0)
    work, launched = (prefill, decode), [0, 0]
    part = [0.0, 0.0]
    leaf = max(max(one) / sum(one) for one in work)
    for record in trace[trace["event"] == Event.LAUNCH]:
        role = int(record["stream"])
        part[role] += work[role][launched[role]] / sum(work[role])
        launched[role] += 1
        assert abs(part[0] - part[1]) <= leaf + 1e-9 or record["t_ns"] == 0
    assert launched == [len(prefill), len(decode)]


@settings(max_examples=30, deadline=None)
@given(prefill=leaves, decode=leaves)
def test_the_makespan_is_that_of_the_longer_role_and_at_most_one_leaf(
    prefill: list[float], decode: list[float]
) -> None:
    longer = max(sum(prefill), sum(decode))
    pod = makespan_us(play(Pod(), mix(prefill, decode)))
    assert longer - 0.1 <= pod <= longer + max(*prefill, *decode) + 0.1
    serial = makespan_us(play(agents.make("serial"), mix(prefill, decode, Mode.SERIAL)))
    assert serial == pytest.approx(sum(prefill) + sum(decode), abs=0.1)


def test_a_role_without_work_leaves_its_slot_to_the_other() -> None:
    """Two jobs of one role on different engines of it overlap; nothing waits for a role that does not exist."""
    sim = play(Pod(), toy_tables(once((HVX, 100.0), (HVX, 100.0)), once((DMA, 100.0), (DMA, 100.0))))
    assert makespan_us(sim) == pytest.approx(200.0, abs=0.1)


def test_prefill_is_matrix_work_and_decode_is_not() -> None:
    tables = build("camera_decode")
    roles = dict(zip(tables.stream_names, roles_of(tables), strict=True))
    assert roles["filler"] == COMPUTE
    assert roles["chat"] == roles["tracking"] == OTHER


def test_lanes_remember_apart() -> None:
    """A lane plays the same alone as in a batch, although the rule counts what each has launched."""
    tables = build("camera_decode", horizon_us=10_000, mode="fused")
    batch = play(Pod(), tables, 3)
    alone = play(Pod(), tables, 1)
    assert np.array_equal(batch.trace(0), alone.trace(0))
