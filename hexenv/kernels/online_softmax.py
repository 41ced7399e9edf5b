"""The softmax of flash attention in pieces: what each costs, and which of them a published idea drops or moves.

The pieces divide two fitted rates of the device (a score; a row and KV block) by the operation count of the llama.cpp
Hexagon kernel (``htp/flash-attn-ops.c``), so they always add up to the fitted rates.
"""

from __future__ import annotations

from dataclasses import dataclass

from hexenv.device import Device


@dataclass(frozen=True, slots=True)
class Pieces:
    """Context-time of each piece, us."""

    move: float
    """Load scores, apply the mask, store probabilities as tiles, spread the maximum over a row's vectors."""
    scale: float
    """Scale and add the mask (FlashAttention-T: scale-add)."""
    maximum: float
    """Running maximum: over the scores, then over the lanes of a row."""
    exp: float
    """Exponentials, as the fp16 polynomial."""
    total: float
    """Running sum: over the probabilities, then over the lanes of a row."""
    alpha: float
    """Correction factor of each row, its exponential and the correction of the running sum."""
    rescale: float
    """Scatter the correction factors into diagonal tiles."""


def pieces(device: Device, scores: float, row_blocks: float) -> Pieces:
    """Pieces of the softmax of ``scores`` scores in ``row_blocks`` (row, KV block) pairs."""
    score = _parts(
        scores * device.softmax_element_ns * 1e-3,
        device.softmax_move_operations,
        device.softmax_scale_operations,
        device.softmax_max_operations,
        device.softmax_exp_operations,
        device.softmax_sum_operations,
    )
    row = _parts(
        row_blocks * device.softmax_row_us,
        device.softmax_row_spread_operations,
        device.softmax_row_max_operations,
        device.softmax_row_sum_operations,
        device.softmax_row_alpha_operations,
        device.softmax_row_diagonal_operations,
    )
    return Pieces(
        move=score[0] + row[0],
        scale=score[1],
        maximum=score[2] + row[1],
        exp=score[3],
        total=score[4] + row[2],
        alpha=row[3],
        rescale=row[4],
    )


def _parts(whole_us: float, *operations: float) -> list[float]:
    count = sum(operations)
    return [whole_us * part / count for part in operations]
