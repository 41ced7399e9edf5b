"""Small random episodes, and every way to play them."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from hypothesis import strategies as st

from eval.episodes import Episode
from eval.metrics import lane_return
from hexenv.engine import Simulator
from hexenv.engine.layout import Arrival, Mode, Tables
from tests.engine.toy import Kernel, Source, Work, toy_tables

EPISODE = Episode(setting=0, seed=1)
HVX, HMX = 0, 1


def play(tables: Tables, episode: Episode, actions: tuple[int, ...]) -> float:
    """The return of stepping through ``actions``, which must last to the end; ms."""
    simulator = start(tables, episode)
    for action in actions:
        simulator.step(np.array([action]))
    assert simulator.lanes["over"][0]
    return lane_return(simulator.lanes[0], tables)


def start(tables: Tables, episode: Episode) -> Simulator:
    """A simulator at the episode's first decision."""
    simulator = Simulator(tables)
    simulator.reset(np.array([episode.key], np.uint64), settings=np.array([episode.setting]))
    return simulator


def play_randomly(tables: Tables, episode: Episode, rng: np.random.Generator) -> float:
    """The return of uniformly random legal actions, ms."""
    simulator = start(tables, episode)
    while not simulator.lanes["over"][0]:
        simulator.step(rng.choice(np.flatnonzero(simulator.masks[0]), 1))
    return lane_return(simulator.lanes[0], tables)


def best_of_all(tables: Tables, episode: Episode) -> tuple[float, int]:
    """``(best return in ms, sequences tried)`` by trying every legal sequence of actions."""
    simulator = start(tables, episode)
    best, count = -np.inf, 0
    stack = [tuple(array.copy() for array in (simulator.lanes, simulator.masks))]
    while stack:
        lanes, masks = stack.pop()
        if lanes["over"][0]:
            best, count = max(best, lane_return(lanes[0], tables)), count + 1
            continue
        for action in np.flatnonzero(masks[0]):
            simulator.lanes[:], simulator.masks[:] = lanes, masks
            simulator.step(np.array([action]))
            stack.append((simulator.lanes.copy(), simulator.masks.copy()))
    return best, count


amounts = st.sampled_from([0.0, 5.0, 20.0, 40.0])


@st.composite
def kernels(draw: Any, version: int) -> Kernel:
    """A variant: an HVX one works on HVX, an HMX one on HMX and perhaps HVX; both may stream."""
    hvx = draw(st.sampled_from([20.0, 60.0, 120.0])) if version == HVX else draw(amounts)
    return Kernel(
        tiles=draw(st.sampled_from([1.0, 4.0])),
        ddr=draw(amounts),
        hvx=hvx,
        hmx=draw(st.sampled_from([10.0, 30.0])) if version == HMX else 0.0,
        depth=draw(st.sampled_from([1.0, 2.0])),
        phi=draw(st.sampled_from([0.0, 0.5])),
        prologue=draw(st.sampled_from([0.0, 8.0])),
        fill=draw(st.booleans()),
        vtcm=draw(st.sampled_from([1024, 5000])),
    )


@st.composite
def sources(draw: Any, max_stages: int = 2, arrivals: tuple[Arrival, ...] = (Arrival.TRACE,)) -> Source:
    """A stream of jobs: a chain, or stages side by side."""
    stages = []
    for i in range(draw(st.integers(1, max_stages))):
        versions = draw(st.sampled_from([(HVX,), (HMX,), (HVX, HMX)]))
        after = (i - 1,) if i and draw(st.booleans()) else ()
        stages.append(Work({(v, 0): draw(kernels(v)) for v in versions}, after=after))
    arrival = draw(st.sampled_from(arrivals))
    deadline = draw(st.sampled_from([None, 30.0, 60.0, 150.0]))
    times = tuple(sorted(draw(st.lists(st.sampled_from([0.0, 10.0, 45.0, 90.0]), min_size=1, max_size=2))))
    own = tuple(draw(st.sampled_from([30.0, 60.0, 150.0])) for _ in times) if deadline and draw(st.booleans()) else ()
    return Source(
        tuple(stages),
        arrival=arrival,
        times=times,
        period=draw(st.sampled_from([40.0, 90.0])),
        gap=draw(st.sampled_from([0.0, 15.0])),
        jitter=draw(st.sampled_from([0.0, 5.0])),
        deadline=deadline,
        deadlines=own,
        firm=draw(st.booleans()),
        weight=draw(st.sampled_from([0.5, 1.0])),
        queue=1 if arrival is Arrival.CLOSED_LOOP else draw(st.integers(1, 2)),
    )


noises = st.sampled_from([0.0, 0.2])
modes = st.sampled_from(list(Mode))
costs = st.fixed_dictionaries(
    {
        "batch_ns": st.sampled_from([0, 4000]),
        "op_ns": st.sampled_from([0, 1000]),
        "entry_ns": st.sampled_from([0, 1500]),
        "decision_ns": st.sampled_from([0, 500]),
        "eta_shared": st.sampled_from([1.0, 0.8]),
        "ddr_free": st.sampled_from([1.0, 0.9]),
        "beta": st.sampled_from([0.0, 0.64]),
        "miss_weight": st.sampled_from([0.5, 2.0]),
    }
)


@st.composite
def scenarios(draw: Any, streams: int = 2, **kwargs: Any) -> Tables:
    """Tables of up to ``streams`` streams under any mode; waits last to the next event."""
    made = draw(st.lists(sources(**kwargs), min_size=1, max_size=streams))
    settings: dict[str, Any] = {
        "mode": draw(modes),
        "horizon_ns": draw(st.sampled_from([80_000, 200_000])),
        **draw(costs),
    }
    settings["wait_max_ns"] = settings["horizon_ns"]
    return with_deadlines(toy_tables(*made, **settings), draw(st.sampled_from([0.75, 1.0, 1.5])))


def with_deadlines(tables: Tables, factor: float) -> Tables:
    """The same scenario with every deadline so many times as long."""
    settings = tables.settings.copy()
    settings["tightness"] *= factor
    return replace(tables, settings=settings)
