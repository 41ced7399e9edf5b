"""A window of tasks as in Diffuse (ASPLOS 2025): hold ready tasks back, then fuse the legal prefix."""

from __future__ import annotations

from agents.kernels.pairs import Pairing
from agents.paired import Paired


def window(tasks: int = 2, hold_us: float = 400.0) -> Paired:
    """Fills an empty device when ``tasks`` tasks are ready, or when holding them would break the deadline rule.

    The prefix is the most urgent task and the next one that may legally join it, whether they gain or not. A wait is
    charged like any other delay: it must leave every known deadline the time for its queue and its rest.

    Args:
        tasks: width of the window; 1 never holds.
        hold_us: time after its arrival for which a job may be held.
    """
    pairing = Pairing(
        any_version=False,
        gated=False,
        in_order=True,
        margin=0.0,
        joins=False,
        least_gain=0.0,
        window=tasks,
        hold=1000.0 * hold_us,
    )
    return Paired("window", pairing)
