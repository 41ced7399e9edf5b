"""The overlap bound: the published special cases, and that no run of the engine overlaps more."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from eval.bounds.overlap import mix_bound, overlap_bound
from hexenv.engine.layout import Mode
from tests.engine.toy import Kernel, Source, Work, one, toy_tables
from tests.eval.bounds.small import EPISODE, HMX, HVX, sources, start

MOE_US = {"DMA": 5016 + 389, "HVX": 610 + 3623 + 1254 + 1927 + 5314 + 1431, "HMX": 13722 + 2768}
"""A mixture-of-experts layer of LFM2-8B-A1B on v79, stage by stage (nntrainer HTP design note 46)."""


@pytest.mark.parametrize(
    ("engines", "speed_up"),
    [((80.0, 20.0), 1.25), ((50.0, 50.0), 2.0), (tuple(MOE_US.values()), 2.19)],
    ids=["V:M = 80:20", "V:M = 50:50", "MoE layer on v79"],
)
def test_one_version_against_an_unpipelined_sum(engines, speed_up):
    assert overlap_bound([sum(engines)], [[engines]]) == pytest.approx(speed_up, abs=0.005)


def test_versions_are_chosen_so_that_engines_balance():
    """Two stages of 10 on HVX or 10 on HMX: one of each. A third one is split between both."""
    stage = [(10.0, 0.0), (0.0, 10.0)]
    assert overlap_bound([10.0] * 2, [stage] * 2) == pytest.approx(2.0, rel=1e-4)
    assert overlap_bound([10.0] * 3, [stage] * 3) == pytest.approx(2.0, rel=1e-4)
    assert overlap_bound([10.0] * 3, [stage[:1]] * 3) == pytest.approx(1.0, rel=1e-4)


@pytest.mark.parametrize(("alone", "versions"), [([], []), ([1.0], [[]]), ([1.0], []), ([1.0], [[(0.0,)]])])
def test_nothing_to_bound_is_refused(alone, versions):
    with pytest.raises(ValueError, match=r"version|engine"):
        overlap_bound(alone, versions)


def test_mix_of_jobs_counts_contexts_and_free_bandwidth():
    """40 us on HVX alone (160 of context-time), 60 us of DDR at 80 %: 115 us in turn, 75 us of DDR overlapped."""
    tables = toy_tables(Source((one(Kernel(hvx=160.0)),)), Source((one(Kernel(ddr=60.0)),)), ddr_free=0.8)
    tables.ops["ref_ns"][1] = 75_000
    assert mix_bound(tables, [1.0, 1.0]) == pytest.approx(115 / 75, rel=1e-4)
    assert mix_bound(tables, [2.0], [0]) == pytest.approx(1.0, rel=1e-4)


@settings(max_examples=60, deadline=None)
@given(st.lists(sources(max_stages=3), min_size=2, max_size=3), st.integers(0, 1000))
def test_no_run_overlaps_more(made, seed):
    best_effort = [Source(source.stages) for source in made]
    tables = toy_tables(*best_effort, mode=Mode.FUSED)
    simulator, rng = start(tables, EPISODE), np.random.default_rng(seed)
    while not simulator.lanes["over"][0]:
        simulator.step(rng.choice(np.flatnonzero(simulator.masks[0])[-1:], 1))
    speed_up = int(simulator.lanes["credit_ns"][0]) / int(simulator.lanes["now_ns"][0])
    assert speed_up <= mix_bound(tables, [1.0] * len(made)) + 1e-6


def test_a_version_that_is_never_legal_does_not_help():
    both = Work({(HVX, 0): Kernel(hvx=40.0), (HMX, 0): Kernel(hmx=10.0, vtcm=9000)})
    alone = Work({(HVX, 0): Kernel(hvx=40.0)})
    bounds = [mix_bound(toy_tables(Source((one(Kernel(hvx=40.0)), work))), [1.0]) for work in (both, alone)]
    assert bounds[0] == pytest.approx(bounds[1])
