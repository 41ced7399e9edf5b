"""What every operator family offers: the protocol that the workload compiler works against."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

from hexenv.device import Device
from hexenv.kernels.cost import StageCost


class Operator(Protocol):
    """One operator with its shape: a frozen, hashable dataclass, one class a family (``MatMul``, ``Stencil`` ...).

    Equal operators cost the same, so the compiler builds each distinct one once.
    """

    @property
    def family(self) -> str:
        """Name of the family, a class attribute: the key under which techniques are selected."""
        ...

    @property
    def name(self) -> str:
        """Short human label, for example ``matmul q4_0 6144x512x2048``."""
        ...

    def costs(self, device: Device) -> Iterable[StageCost]:
        """Every version and tile class that fits VTCM; ``hexenv.kernels.offers`` drops the dominated ones."""
        ...

    def split(self, parts: int) -> tuple[Operator, ...]:
        """Leaf operators over ``parts`` near-equal output ranges, independent of version.

        Fewer (down to the operator itself) come back where the output has fewer ranges to give.
        """
        ...
