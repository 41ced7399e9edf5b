"""A calibration as a device file: what the log says, on top of the device it started from."""

from __future__ import annotations

import json

from hexenv.calibrate.calibration import Calibration
from hexenv.device import UNITS, Constant, device_names

DIGITS = 6


def device_toml(calibration: Calibration, name: str, base: str) -> str:
    """Text of the device file ``name``.

    On a device of the package (``base`` is its name) only what the log says is written. A user's own file can be no
    ``base``, so all its constants are.
    """
    device = calibration.device
    bundled = base in device_names()
    said = {*calibration.facts, *(estimate.name for estimate in calibration.estimates)}
    counts = sum(calibration.log.counts.values())
    lines = [
        f"# python -m hexenv.calibrate {calibration.log.file} --device {base}: {len(calibration.log.ops)} operators in "
        f"{counts} messages.",
        "# What is not here is carried over from the base device at confidence D." if bundled else "",
        "",
        f"name = {json.dumps(name)}",
        *([f"base = {json.dumps(base)}"] if bundled else []),
        f"pipeline = {json.dumps(device.pipeline)}",
    ]
    for key, unit in UNITS.items():
        if key in said or not bundled:
            lines += ["", *_table(key, device.constants[key], unit)]
    return "\n".join(lines) + "\n"


def _table(key: str, constant: Constant, unit: str) -> list[str]:
    value, low, high = (_number(number, unit) for number in (constant.value, constant.low, constant.high))
    return [
        f"[constants.{key}]",
        f"value = {value}",
        f"unit = {json.dumps(unit)}",
        f"confidence = {json.dumps(constant.confidence)}",
        f"low = {low}",
        f"high = {high}",
        f"source = {json.dumps(constant.source)}",
    ]


def _number(value: float, unit: str) -> str:
    """Counts whole, all else to :data:`DIGITS` digits: rounding keeps low, value and high in order."""
    return str(int(value)) if unit in ("count", "bytes") else repr(float(f"{value:.{DIGITS}g}"))
