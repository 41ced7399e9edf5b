"""A linear program that is built up a variable and a row at a time."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
from scipy.optimize import linprog
from scipy.sparse import csr_array

Terms = Iterable[tuple[int, float]]
"""Pairs (variable, coefficient); a variable may come up more than once."""

_linprog: Any = linprog
_SLACK = 1e-6
"""The solver's results hold to about 1e-7 of their size; a bound must not be short by that."""


class Program:
    """Maximise a sum over variables >= 0 under rows ``sum of terms <= limit``."""

    def __init__(self) -> None:
        self._values: list[float] = []
        self._uppers: list[float] = []
        self._limits: list[float] = []
        self._rows: list[int] = []
        self._columns: list[int] = []
        self._coefficients: list[float] = []

    def variable(self, value: float = 0.0, upper: float = np.inf) -> int:
        """A new variable in [0, upper] that adds ``value`` a unit to the sum."""
        self._values.append(value)
        self._uppers.append(upper)
        return len(self._values) - 1

    def at_most(self, terms: Terms, limit: float = 0.0) -> None:
        """A new row: the sum of ``terms`` is at most ``limit``."""
        row = len(self._limits)
        self._limits.append(limit)
        for variable, coefficient in terms:
            self._rows.append(row)
            self._columns.append(variable)
            self._coefficients.append(coefficient)

    def upper_bound(self) -> float:
        """The maximum, rounded up by the solver's tolerance.

        Raises:
            RuntimeError: the solver found none.
        """
        if not self._values:
            return 0.0
        shape = (len(self._limits), len(self._values))
        matrix = csr_array((self._coefficients, (self._rows, self._columns)), shape=shape)
        solution = _linprog(
            c=-np.array(self._values),
            A_ub=matrix if self._limits else None,
            b_ub=np.array(self._limits) if self._limits else None,
            bounds=np.column_stack([np.zeros(len(self._uppers)), self._uppers]),
            method="highs",
        )
        if not solution.success:
            raise RuntimeError(f"the linear program was not solved: {solution.message}")
        scale = float(np.abs(np.array(self._values)) @ solution.x)
        return float(-solution.fun + _SLACK * max(1.0, scale))
