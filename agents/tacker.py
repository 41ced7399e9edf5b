"""Tacker (HPCA 2022) and Aker (IEEE TC 2025): best-effort work as a guest of latency-critical stages.

Latency-critical are the jobs with a deadline, served by earliest deadline; best effort are the others. Both rules admit
a fused pair only if ``T_fuse - T_lc < T_qos - T_solo - T_queue`` less a guard for every known deadline; the released
code's guard is 4 ms of a 50 ms target. A critical stage without an admitted guest runs alone, and so does best-effort
work while nothing critical is ready.
"""

from __future__ import annotations

from agents.kernels.pairs import DIFFERENT_ENGINES, MATRIX_AND_VECTOR, Pairing
from agents.paired import Paired

GUARD = 4.0 / 50.0
"""Part of a deadline that must stay."""


def tacker(guard: float = GUARD) -> Paired:
    """One whole best-effort leaf fused with a critical one at its launch, a matrix kernel with a vector kernel.

    Args:
        guard: part of each deadline that must stay, 0 to 1.
    """
    pairing = Pairing(
        any_version=False,
        gated=True,
        in_order=False,
        margin=0.0,
        guard=guard,
        guests=True,
        joins=False,
        engines=MATRIX_AND_VECTOR,
    )
    return Paired("tacker", pairing)


def aker(guard: float = GUARD) -> Paired:
    """As much best-effort work as fits the knee of the pair, also a memory kernel with a vector kernel.

    The best-effort blocks of the original are leaves here: they enter one after another while the critical stage runs,
    each only if it ends no later than that stage, so no guest leaves a tail. The share of a guest is that of the
    largest saving at its knee.

    Args:
        guard: part of each deadline that must stay, 0 to 1.
    """
    pairing = tacker(guard).pairing._replace(joins=True, knee=True, engines=DIFFERENT_ENGINES)
    return Paired("aker", pairing)
