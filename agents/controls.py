"""The controls of the study: one online rule, executed in different ways, with one mechanism between neighbours.

The rule is the slack gate with fastest versions (``agents.paired.gate``): it decides from the state of the moment which
stage runs beside which, while every known deadline keeps its margin. All controls share the margin of ``slack_gate``.
"""

from __future__ import annotations

from agents.ordered import concurrent
from agents.paired import Paired, gate

MARGIN_US = 1500.0


def online_serial(margin_us: float = MARGIN_US) -> Paired:
    """The online rule in mode ``serial``: nothing can be paired, so it serves the earliest deadline, one at a time."""
    return Paired("online_serial", gate(margin_us, any_version=False), {"mode": "serial"})


def online_unfused(margin_us: float = MARGIN_US, **settings: str) -> Paired:
    """The online rule over two independent graphs, no fusion: the gain of scheduling alone.

    Args:
        margin_us: see :func:`agents.paired.slack_gate`.
        settings: what the runtime legally gives, as in :func:`agents.ordered.concurrent`.
    """
    return Paired("online_unfused", gate(margin_us, any_version=False), concurrent(**settings).overrides)


def online_barrier(margin_us: float = MARGIN_US) -> Paired:
    """The online rule with one entry for both stages and a barrier inside: saves a dispatch, overlaps nothing."""
    return Paired("online_barrier", gate(margin_us, any_version=False), {"mode": "fused_serial"})


def online_pairs(margin_us: float = MARGIN_US) -> Paired:
    """The online rule with fused execution: tiles of both stages interleave in one entry."""
    return Paired("online_pairs", gate(margin_us, any_version=False), {"mode": "fused"})


def online_versions(margin_us: float = MARGIN_US) -> Paired:
    """The online rule with fused execution that also chooses the versions: ``slack_gate`` as a control."""
    return Paired("online_versions", gate(margin_us, any_version=True), {"mode": "fused"})
