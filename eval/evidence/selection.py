"""Which schedulers have room in a figure that shows a line or a row for each."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from eval.evidence.ladder import rungs_of
from eval.play import Outcome
from eval.summary import best_rule_of, is_learned, reference_of

FEATURED = 8
"""At most so many, one a colour."""


def featured(outcomes: Sequence[Outcome]) -> list[str]:
    """Learned policies, the best rule, the reference, the rungs of the ladder, then the best of the rest.

    ``outcomes`` are of one scenario; names come back in its order. A scheduler that played exactly as another one did
    is left out.
    """
    learned = [o for o in outcomes if is_learned(o.scheduler)]
    ranked = sorted(outcomes, key=lambda o: -float(o.episodes["return"].mean()))
    order = [*learned, best_rule_of(outcomes), reference_of(outcomes), *(o for _, o in rungs_of(outcomes)), *ranked]
    chosen: list[Outcome] = []
    for outcome in order:
        if len(chosen) < FEATURED and not any(plays_alike(outcome, other) for other in chosen):
            chosen.append(outcome)
    names = {outcome.scheduler for outcome in chosen}
    return [outcome.scheduler for outcome in outcomes if outcome.scheduler in names]


def plays_alike(outcome: Outcome, other: Outcome) -> bool:
    """Whether two schedulers had the same return in every episode."""
    return np.array_equal(outcome.episodes["return"].to_numpy(), other.episodes["return"].to_numpy())
