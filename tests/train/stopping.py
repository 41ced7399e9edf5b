"""Stopping ``python -m train`` by a signal."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Callable, Sequence


def last_line_after(number: int, options: Sequence[str], begun: Callable[[], bool]) -> str:
    """The last line of a training that gets signal ``number`` once it has ``begun``; it must end with exit code 130."""
    command = [sys.executable, "-m", "train", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "COLUMNS": "200"})
    try:
        while process.poll() is None and not begun():
            time.sleep(0.05)
        process.send_signal(number)
        output, _ = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    return output.splitlines()[-1]
