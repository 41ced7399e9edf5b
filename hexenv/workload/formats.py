"""In which format a model stores each of its matrices."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

from hexenv.kernels.matmul import Weight

WEIGHTS: Weight = "q4_0"
"""Format of all matrices but the router's where a model says nothing else."""


@dataclass(frozen=True)
class Formats:
    """Weight formats by the name of the node that multiplies with the matrix, for example ``blk.3.q`` or ``output``.

    The models of the table have none of their own: all their matrices have the usual format of their place.
    """

    own: tuple[tuple[str, Weight], ...] = ()

    @cached_property
    def _by_name(self) -> dict[str, Weight]:
        return dict(self.own)

    def of(self, name: str, usual: Weight = WEIGHTS) -> Weight:
        """Format of the matrix of node ``name``."""
        return self._by_name.get(name, usual)

    @classmethod
    def from_pairs(cls, pairs: Iterable[tuple[str, Weight]]) -> Formats:
        """Formats in one fixed order, so that equal files give equal models."""
        return cls(tuple(sorted(pairs)))


USUAL_FORMATS = Formats()
