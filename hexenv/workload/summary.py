"""What a compiled scenario asks of the device: tables for people, not for the engine."""

from __future__ import annotations

import numpy as np
import pandas as pd

from hexenv.engine.layout import NO_DEADLINE, Arrival, Tables


def streams(tables: Tables) -> pd.DataFrame:
    """A row a stream, averaged over its jobs in turn.

    Columns: ``stages`` of a job, ``chain_us`` (its stages one after another, fastest variants, one batch),
    ``deadline_us`` (of recorded arrivals the median), ``tightness`` (deadline / chain), ``utilisation`` (chain / mean
    time between jobs at load 1, recorded ones those of an episode; for a closed loop at the pace that its deadline asks
    for, without deadline at its own), ``choice`` (part of its stages with at least two versions).
    """
    rows = []
    for name, stream in zip(tables.stream_names, tables.streams, strict=True):
        first, count = int(stream["template_start"]), int(stream["template_count"])
        templates = tables.templates[first : first + count]
        chain_us = float(np.mean([_chain_us(tables, template) for template in templates]))
        best_effort = stream["deadline_ns"] == NO_DEADLINE
        deadline_us = np.nan if best_effort else stream["deadline_ns"] / 1e3
        spacing_us = _spacing_us(tables, stream, chain_us if best_effort else deadline_us)
        rows.append(
            {
                "stream": name,
                "stages": float(np.mean(templates["n_stages"])),
                "chain_us": chain_us,
                "deadline_us": deadline_us,
                "tightness": deadline_us / chain_us,
                "utilisation": chain_us / spacing_us,
                "choice": float(np.mean([_choice(tables, template) for template in templates])),
            }
        )
    return pd.DataFrame(rows)


def settings(tables: Tables) -> pd.DataFrame:
    """A row a setting: ``load``, ``tightness``, ``deadline_load`` and ``load_with_filler``.

    The last two are the serial utilisation of the active streams, at the pace that deadlines of tightness 1 ask for.

    1 means that the device is just busy when it runs one stage at a time.
    """
    table = streams(tables)
    rows = []
    for setting in tables.settings:
        active = setting["active"][: len(table)].astype(bool)
        factor = np.where(tables.streams["scales"], setting["load"], 1.0)
        use = np.where(active, table["utilisation"] * factor, 0.0)
        rows.append(
            {
                "load": float(setting["load"]),
                "tightness": float(setting["tightness"]),
                "streams": ", ".join(np.array(tables.stream_names)[active]),
                "deadline_load": float(use[table["deadline_us"].notna()].sum()),
                "load_with_filler": float(use.sum()),
            }
        )
    return pd.DataFrame(rows)


def _spacing_us(tables: Tables, stream: np.void, served_us: float) -> float:
    """Mean time between jobs; a closed loop serves each in ``served_us``."""
    if stream["arrival"] == Arrival.CLOSED_LOOP:
        return served_us + float(stream["gap_ns"]) / 1e3
    if stream["arrival"] == Arrival.TRACE:
        horizon_ns = int(tables.config["horizon_ns"][0])
        jobs = np.sum(tables.trace_ns[stream["trace_start"] : stream["trace_end"]] < horizon_ns)
        return horizon_ns / 1e3 / jobs if jobs else np.inf
    return float(stream["period_ns"]) / 1e3


def _chain_us(tables: Tables, template: np.ndarray) -> float:
    config = tables.config[0]
    return float(template["ref_ns"] + config["batch_ns"] + template["n_stages"] * config["op_ns"]) / 1e3


def _choice(tables: Tables, template: np.ndarray) -> float:
    first = template["first_stage"]
    ops = tables.ops[tables.stages[first : first + template["n_stages"]]["op"]]
    versions = (ops["variant"] >= 0).any(axis=2).sum(axis=1)
    return float(np.mean(versions >= 2))
