"""What makes two evaluations the same: hashes of the game, of a scheduler, and of the code that plays.

Records are hashed field by field, since the padding between fields is not part of their value.
"""

from __future__ import annotations

import hashlib
import importlib.metadata
import json
import platform
import sys
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any

import joblib
import numpy as np

import agents
import eval as evaluation
import hexenv
from agents.learned import Learned
from agents.scheduler import Scheduler
from eval.trained import Trained
from hexenv.engine.layout import Tables

EXECUTION = ("mode", "hmx_lock", "vtcm_split", "context_split")
"""Engine settings that say how a scheduler's choices are carried out: compared, not part of the game."""
_LIBRARIES = ("numpy", "numba", "torch")
_LENGTH = 12
"""Letters of a short hash."""


def config_parts(tables: Tables) -> dict[str, Any]:
    """What must agree for a comparison, by name: the engine's settings as numbers, everything else as short hashes.

    Left out are the scheduler, how its choices are carried out (:data:`EXECUTION`), and which episodes were played.
    """
    config = tables.config[0]
    assert tables.config.dtype.names is not None
    names = [name for name in tables.config.dtype.names if name not in EXECUTION]
    return {
        "scenario": tables.scenario,
        "split": tables.split,
        "device": tables.device,
        **{name: config[name].tolist() for name in names},
        "operators and their costs": _short(tables.variants, tables.ops, tables.constants),
        "jobs": _short(tables.stages, tables.templates, tables.links),
        "streams": _short(tables.streams, tables.trace_ns, tables.trace_deadline_ns, np.array(tables.stream_names)),
        "loads, tightness and mixes": _short(tables.settings),
    }


def config_hash(parts: Mapping[str, Any]) -> str:
    """Short hash of :func:`config_parts`; it stands in every row of the results."""
    return text_hash(parts)[:_LENGTH]


def tables_hash(tables: Tables) -> str:
    """Hash of everything in the tables that a scheduler or the engine can see."""
    names = (tables.scenario, tables.split, tables.device, *tables.stream_names)
    return _short(*tables.arrays, tables.constants, np.array(names))


def scheduler_hash(scheduler: Scheduler) -> str:
    """Hash of a scheduler before it starts: its class, its attributes, the weights of a learned one."""
    if isinstance(scheduler, Trained):
        return str(joblib.hash(("trained", scheduler.overrides, scheduler_hash(scheduler.policy))))
    if isinstance(scheduler, Learned):
        weights = {name: tensor.numpy() for name, tensor in scheduler._weights.items()}
        return str(joblib.hash(("learned", scheduler.overrides, weights)))
    kind = type(scheduler)
    source = getattr(sys.modules[kind.__module__], "__file__", None)
    code = "" if source is None else file_hash(Path(source))
    return str(joblib.hash((kind.__qualname__, code, vars(scheduler))))


@lru_cache(maxsize=1)
def code_hash() -> str:
    """Short hash of the code that decides what happens in an episode and what is measured, and of its libraries."""
    shells, own = Path(hexenv.__path__[0]), Path(evaluation.__path__[0])
    sources = [*shells.glob("*.py"), *(shells / "engine").glob("*.py")]
    sources += [path for path in Path(agents.__path__[0]).rglob("*") if path.suffix in (".py", ".toml")]
    sources += [own / name for name in ("episodes.py", "metrics.py", "play.py")]
    versions = [importlib.metadata.version(name) for name in _LIBRARIES]
    digest = hashlib.sha256(" ".join([*versions, platform.machine()]).encode())
    for path in sorted(sources):
        digest.update(path.read_bytes())
    return digest.hexdigest()[:_LENGTH]


def file_hash(path: Path) -> str:
    """SHA-256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def text_hash(value: Any) -> str:
    """SHA-256 of a value that JSON can hold."""
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def _short(*arrays: np.ndarray) -> str:
    digest = hashlib.sha256()
    for array in arrays:
        for field in _fields(array):
            digest.update(f"{field.dtype.str}{field.shape}".encode())
            digest.update(np.ascontiguousarray(field).tobytes())
    return digest.hexdigest()[:_LENGTH]


def _fields(array: np.ndarray) -> Iterator[np.ndarray]:
    """The plain arrays that a record array is made of."""
    if array.dtype.names is None:
        yield array
    else:
        for name in array.dtype.names:
            yield from _fields(array[name])
