"""How long a graph takes alone on a device, one operator after another: the time that reports of imports speak of."""

from __future__ import annotations

from hexenv.device import Device
from hexenv.kernels import fastest_us, leaves
from hexenv.kernels.operator import Operator
from hexenv.workload.graph import Graph


def operator_us(operator: Operator, device: Device) -> float:
    """The operator's leaves one after another in their fastest variants, with the launch of each, us."""
    return sum(fastest_us(leaf, device) + device.op_us for leaf in leaves(operator, device))


def node_us(graph: Graph, device: Device) -> list[float]:
    """Time of each node in program order, us. Equal operators are looked at once."""
    known = {operator: operator_us(operator, device) for operator in {node.operator for node in graph.nodes}}
    return [known[node.operator] for node in graph.nodes]


def graph_us(graph: Graph, device: Device) -> float:
    """The whole job, as one batch of the runtime, us."""
    return device.batch_us + sum(node_us(graph, device))
