"""A scenario in code: graphs that are all there at time 0, for figures and laws about how work shares the device."""

from __future__ import annotations

from dataclasses import dataclass, replace

from hexenv.engine.layout import Arrival
from hexenv.workload.graph import Graph
from hexenv.workload.scenario import EngineSettings, Scenario, Settings, Stream


@dataclass(frozen=True, slots=True)
class _GraphJob:
    """A job whose graph is given."""

    work: Graph

    def graph(self) -> Graph:
        return self.work


def at_once(*graphs: Graph, engine: EngineSettings) -> Scenario:
    """One job a graph, each in a stream of its own, all at time 0 and without deadlines."""
    streams = tuple(
        Stream(
            name=f"s{i}",
            arrival=Arrival.TRACE,
            period_us=0.0,
            jitter_us=0.0,
            offset_us=None,
            gap_us=None,
            trace_us=(0.0,),
            trace_deadlines_us=(),
            scales=False,
            deadline_us=None,
            firm=False,
            weight=1.0,
            queue=1,
            jobs=(_GraphJob(graph),),
        )
        for i, graph in enumerate(graphs)
    )
    settings = Settings(first_seed=0, seeds=1, loads=(1.0,), mixes=("all",))
    return Scenario(
        name="at_once",
        file="",
        description="",
        engine=engine,
        streams=streams,
        mixes={"all": tuple(stream.name for stream in streams)},
        train=settings,
        heldout=replace(settings, first_seed=1),
    )
