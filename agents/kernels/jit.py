"""The compiler decorator of this package: its cache follows every change here and in the engine."""

from __future__ import annotations

from pathlib import Path

from hexenv.engine.jit import compiler

njit = compiler(Path(__file__).resolve().parent)
"""The decorator of all kernels of the rules."""
