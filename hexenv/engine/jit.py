"""The compiler decorator of the numba kernels, with a cache that cannot go stale.

Numba stamps a cached function with its own file only: a changed callee in another file would go unnoticed. So the
cache folder carries a hash of every source file of the packages whose kernels call one another.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numba
import numba.core.config

_ENGINE = Path(__file__).resolve().parent
_CONFIG: Any = numba.core.config
_OPTIONS: dict[str, Any] = {
    "nogil": True,
    "cache": True,
    "error_model": "numpy",
    # Counting the references of the table arrays at every call between kernels took most of a decision's time (13 us
    # against 2 us). Without it kernels must not allocate.
    "_nrt": False,
    "forceinline": True,
}


Decorator = Callable[[Callable[..., Any]], Callable[..., Any]]


def compiler(*packages: Path) -> Decorator:
    """The decorator for kernels of ``packages`` (folders) that may call those of one another and of the engine.

    It compiles in nopython mode without the GIL, with IEEE arithmetic (no fast math: same bytes everywhere), and
    caches. Kernels must not allocate: numba's reference counting is off.
    """
    folder = _cache_folder((_ENGINE, *packages))

    def njit(function: Callable[..., Any]) -> Callable[..., Any]:
        previous = _CONFIG.CACHE_DIR
        _CONFIG.CACHE_DIR = folder
        try:
            return numba.njit(**_OPTIONS)(function)
        finally:
            _CONFIG.CACHE_DIR = previous

    return njit


def _cache_folder(packages: Sequence[Path]) -> str:
    digest = hashlib.sha256(numba.__version__.encode())
    for package in packages:
        for source in sorted(package.glob("*.py")):
            digest.update(source.read_bytes())
    caches = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    base = Path(_CONFIG.CACHE_DIR or os.path.join(caches, "numba"))
    return str(base / f"hexenv-{digest.hexdigest()[:16]}")


njit = compiler()
"""The engine's own decorator."""
