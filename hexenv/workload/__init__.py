"""What arrives: models, jobs, streams and scenarios, and the compiler that turns them into the engine's tables."""

from hexenv.workload.build import build
from hexenv.workload.compiler import compile_scenario
from hexenv.workload.graph import Graph, Node
from hexenv.workload.scenario import Scenario, Settings, Stream, load_scenario, scenario_names

__all__ = [
    "Graph",
    "Node",
    "Scenario",
    "Settings",
    "Stream",
    "build",
    "compile_scenario",
    "load_scenario",
    "scenario_names",
]
