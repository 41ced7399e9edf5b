"""Tables with less on offer: the reference time of an operator, and so what it earns, stays as it is."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np

from hexenv.engine.layout import Tables

Keep = Callable[[np.ndarray, int], np.ndarray]
"""Which of an operator's variants, bool (versions, tile classes), stay, given its rows of the variant table (-1 = not
offered, same shape) and its fastest one."""


def keeping(tables: Tables, keep: Keep) -> Tables:
    """Offer only what ``keep`` names; an operator of which it would leave nothing keeps everything."""
    ops = tables.ops.copy()
    alone_ns = _alone_ns(tables)
    for op in ops:
        rows = op["variant"].copy()
        kept = keep(rows, int(op["fastest"])) & (rows >= 0)
        if kept.any():
            op["variant"] = np.where(kept, rows, -1)
            left = rows[kept]
            op["fastest"] = left[np.argmin(alone_ns[left])]
    return replace(tables, ops=ops)


def _alone_ns(tables: Tables) -> np.ndarray:
    """Predicted duration of each variant alone on all contexts, (variants,)."""
    return tables.variants["alone_ns"][:, int(tables.config["contexts"][0])]


def leaning_to(versions: tuple[int, ...], at_most: float) -> Callable[[Tables], Tables]:
    """Leave only ``versions`` wherever one of them takes at most ``at_most`` times as long alone as the fastest."""

    def change(tables: Tables) -> Tables:
        alone_ns = _alone_ns(tables)

        def keep(rows: np.ndarray, fastest: int) -> np.ndarray:
            stays = np.zeros_like(rows, np.bool_)
            stays[list(versions)] = True
            offered = rows[stays & (rows >= 0)]
            close = offered.size > 0 and alone_ns[offered].min() <= at_most * alone_ns[fastest]
            return stays if close else np.ones_like(stays)

        return keeping(tables, keep)

    return change


def only_tiles(*classes: int) -> Callable[[Tables], Tables]:
    """Offer these tile classes only, wherever an operator has one of them."""

    def keep(rows: np.ndarray, fastest: int) -> np.ndarray:
        del fastest
        stays = np.zeros_like(rows, np.bool_)
        stays[:, list(classes)] = True
        return stays

    return lambda tables: keeping(tables, keep)


def best_tile(tables: Tables) -> Tables:
    """Of each version only its fastest tile class by itself: what a kernel library tuned alone would ship."""
    alone_ns = _alone_ns(tables)

    def keep(rows: np.ndarray, fastest: int) -> np.ndarray:
        del fastest
        times = np.where(rows >= 0, alone_ns[rows], np.iinfo(np.int64).max)
        return np.arange(rows.shape[1]) == times.argmin(axis=1)[:, None]

    return keeping(tables, keep)
