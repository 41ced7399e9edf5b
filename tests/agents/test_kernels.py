"""The compiled pieces: their cache must follow a change in any file, since a stale kernel would decide silently."""

import shutil
from importlib import import_module
from pathlib import Path

import pytest
from numba.core.registry import CPUDispatcher

from agents import kernels
from hexenv.engine.jit import compiler

PACKAGE = Path(kernels.__file__).parent
FILES = sorted(path.name for path in PACKAGE.glob("*.py"))


def kernel(number):
    return number


def cache_of(package):
    return compiler(package)(kernel).stats.cache_path


@pytest.mark.parametrize("name", FILES)
def test_a_change_in_any_file_changes_the_cache(tmp_path, name):
    copy = Path(shutil.copytree(PACKAGE, tmp_path / "kernels", ignore=shutil.ignore_patterns("__pycache__")))
    assert cache_of(copy) == cache_of(PACKAGE)
    with open(copy / name, "a") as file:
        file.write("\n")
    assert cache_of(copy) != cache_of(PACKAGE)


def test_all_kernels_share_that_cache():
    """One compiled with the engine's decorator would miss changes here."""
    root = Path(cache_of(PACKAGE)).parent
    found = {
        function.py_func.__qualname__: Path(function.stats.cache_path).parent
        for name in FILES
        for function in vars(import_module(f"agents.kernels.{name[:-3]}")).values()
        if isinstance(function, CPUDispatcher) and function.py_func.__module__.startswith("agents.")
    }
    assert {"first_task", "corun_ns", "act_in_pairs", "look_ahead"} <= found.keys()
    assert set(found.values()) == {root}
