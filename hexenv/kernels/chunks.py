"""Chunk sizes inside a VTCM budget: the rule of the llama.cpp Hexagon backend (``htp/matmul-ops.h``, PR 21554)."""

from __future__ import annotations

from dataclasses import dataclass

TILE = 32
"""Rows and columns of an HMX tile."""
WEIGHT_COST = 3
"""Relative cost of loading weights; 3:2 against activations comes from profiling on v81 (PR 21554)."""
ACTIVATION_COST = 2


def blocks(total: int, size: int) -> int:
    """How many blocks of ``size`` cover ``total``."""
    return -(-total // size)


def padded(total: int, step: int = TILE) -> int:
    """``total`` rounded up to a multiple of ``step``, by default to whole tiles."""
    return blocks(total, step) * step


@dataclass(frozen=True, slots=True)
class Footprint:
    """VTCM bytes of a chunk of ``c`` outputs and ``t`` tokens: ``fixed + c*output + t*token + c*t*element``."""

    output: int
    token: int
    element: int
    fixed: int = 0

    def bytes(self, outputs: int, tokens: int) -> int:
        """Footprint of a chunk, bytes."""
        return self.fixed + outputs * self.output + tokens * self.token + outputs * tokens * self.element


@dataclass(frozen=True, slots=True)
class Chunk:
    """Outputs and tokens worked on at a time, both multiples of 32."""

    outputs: int
    tokens: int


def choose_chunk(outputs: int, tokens: int, footprint: Footprint, budget: int) -> Chunk | None:
    """Best chunk whose footprint stays within ``budget`` bytes; None if not even 32 x 32 fits.

    Outputs run from the largest multiple of 32 down; for each, tokens are the largest multiple of 32 that fits. The
    lowest ``3 * token blocks * outputs + 2 * output blocks * tokens`` wins, ties go to the larger area.
    """
    best: Chunk | None = None
    best_key = (0, 0)
    room = budget - footprint.fixed - TILE * footprint.token
    most = min(room // (footprint.output + TILE * footprint.element) // TILE * TILE, padded(outputs))
    for chunk_outputs in range(most, 0, -TILE):
        left = budget - footprint.fixed - chunk_outputs * footprint.output
        fit = left // (footprint.token + chunk_outputs * footprint.element)
        chunk_tokens = min(fit // TILE * TILE, padded(tokens))
        cost = (
            WEIGHT_COST * blocks(tokens, chunk_tokens) * outputs
            + ACTIVATION_COST * blocks(outputs, chunk_outputs) * tokens
        )
        key = (cost, -chunk_outputs * chunk_tokens)
        if best is None or key < best_key:
            best, best_key = Chunk(chunk_outputs, chunk_tokens), key
    return best
