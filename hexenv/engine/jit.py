"""The compiler decorator of the numba kernels, with a cache that cannot go stale.

Numba stamps a cached function with its own file only: a changed callee in another file would go unnoticed. So the
cache folder carries a hash of every source file of this package.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
from numba.core import config

_PACKAGE = Path(__file__).resolve().parents[1]


def _cache_folder() -> Path:
    digest = hashlib.sha256(numba.__version__.encode())
    for source in sorted(_PACKAGE.rglob("*.py")):
        digest.update(source.read_bytes())
    base = config.CACHE_DIR or os.path.join(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"), "numba")
    return Path(base) / f"hexenv-{digest.hexdigest()[:16]}"


_FOLDER = str(_cache_folder())


def njit(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile in nopython mode without the GIL, with IEEE arithmetic (no fast math: same bytes everywhere), cached.

    Kernels must not allocate: numba's reference counting is off (``_nrt``), since counting the table arrays up and down
    at every call between kernels cost most of a decision's time (13 us against 2 us).
    """
    previous = config.CACHE_DIR
    config.CACHE_DIR = _FOLDER
    try:
        return numba.njit(nogil=True, cache=True, error_model="numpy", _nrt=False)(function)
    finally:
        config.CACHE_DIR = previous
