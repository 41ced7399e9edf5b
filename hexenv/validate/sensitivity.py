"""How much each constant of a device matters: main predictions with it at the low and at the high end of its range."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pandas as pd

from hexenv.device import Device
from hexenv.kernels import (
    Conv2d,
    ExpertMatMul,
    FlashAttention,
    GatedDeltaNet,
    MatMul,
    Operator,
    RmsNorm,
    Softmax,
    Stencil,
    fastest_us,
)
from hexenv.validate.backend import GENERATIONS
from hexenv.validate.pair import makespan_us
from hexenv.validate.subjects import Steps
from hexenv.validate.tables import Table, percent

SHOWN = 0.0005
"""Effects below this part are left out of the table."""


def _fastest(operator: Operator) -> Callable[[Device], float]:
    """The operator's fastest version alone, us."""
    return lambda device: fastest_us(operator, device)


def _steps(steps: Steps) -> Callable[[Device], float]:
    """A step of a language model as the host sees it, us."""
    return lambda device: steps.predict(device, GENERATIONS[device.pipeline], "us")


MAIN_PREDICTIONS: Mapping[str, Callable[[Device], float]] = {
    "GEMV q4_0 2048x1x2048": _fastest(MatMul("q4_0", 2048, 1, 2048)),
    "GEMM q4_0 6144x512x2048": _fastest(MatMul("q4_0", 6144, 512, 2048)),
    "attention prefill 512x2048": _fastest(FlashAttention(512, 2048, 16, 8, 128)),
    "attention decode 1x1024": _fastest(FlashAttention(1, 1024, 16, 8, 128)),
    "RMS norm 512x2048": _fastest(RmsNorm(512, 2048)),
    "softmax 512x2048": _fastest(Softmax(512, 2048)),
    "Gaussian 5x5 2160x3840": _fastest(Stencil("gaussian5x5", 2160, 3840)),
    "convolution 3x3 80x80x64->64": _fastest(Conv2d(80, 80, 64, 64, 3, 3, 1, 1)),
    "delta net 512 tokens": _fastest(GatedDeltaNet(512, 16, 16, 128)),
    "experts q4_0 1792x2048, 32 x 56 rows": _fastest(ExpertMatMul("q4_0", 1792, 2048, (56,) * 32)),
    "decode step Qwen3-1.7B, 256 tokens": _steps(Steps("Qwen3-1.7B", "decode", 512)),
    "prefill chunk Qwen3-1.7B, 512 tokens": _steps(Steps("Qwen3-1.7B", "prefill", 512)),
    "fused pair: GEMM beside Gaussian": makespan_us,
}
"""Times in us by name: an operator a family, a step and a chunk of a model, and an engine figure."""


@dataclass(frozen=True)
class Effect:
    """What one constant does to one prediction over its range."""

    constant: str
    prediction: str
    at_low: float
    """Relative change of the time with the constant at its low end."""
    at_high: float

    @property
    def size(self) -> float:
        """The larger change."""
        return max(abs(self.at_low), abs(self.at_high))


def effects(device: Device, predictions: Mapping[str, Callable[[Device], float]] = MAIN_PREDICTIONS) -> list[Effect]:
    """Every constant with a range, one at a time; the largest effects first."""
    base = {name: predict(device) for name, predict in predictions.items()}
    found = []
    for key, constant in device.constants.items():
        if constant.low >= constant.high:
            continue
        low, high = device.with_values(**{key: constant.low}), device.with_values(**{key: constant.high})
        for name, predict in predictions.items():
            found.append(Effect(key, name, predict(low) / base[name] - 1.0, predict(high) / base[name] - 1.0))
    return sorted(found, key=lambda effect: -effect.size)


def effect_table(found: Sequence[Effect], device: Device) -> Table:
    """Effects that show, largest first."""
    rows = [
        (
            *(effect.constant, device.constants[effect.constant].confidence, effect.prediction),
            *(f"{device.constants[effect.constant].low:g}", f"{device.constants[effect.constant].high:g}"),
            *(percent(effect.at_low), percent(effect.at_high)),
        )
        for effect in found
        if effect.size >= SHOWN
    ]
    columns = ("constant", "confidence", "prediction", "low", "high", "time at low", "time at high")
    return Table(f"Sensitivity on {device.name}: change of the predicted time", columns, rows, left=3)


def strongest_table(found: Sequence[Effect], device: Device) -> Table:
    """For each prediction the constants that move it most."""
    rows = []
    for name in dict.fromkeys(effect.prediction for effect in found):
        strongest = [effect for effect in found if effect.prediction == name and effect.size >= SHOWN][:3]
        cells = [f"{e.constant} ({percent(e.at_low)}, {percent(e.at_high)})" for e in strongest]
        rows.append((name, *cells, *[""] * (3 - len(cells))))
    order = list(MAIN_PREDICTIONS)
    rows.sort(key=lambda row: order.index(row[0]) if row[0] in order else len(order))
    title = f"What moves each prediction most on {device.name} (change of time at low, at high)"
    return Table(title, ("prediction", "first", "second", "third"), rows, left=4)


def effect_frame(found: Sequence[Effect]) -> pd.DataFrame:
    """Every effect, for a CSV file."""
    rows = [(effect.constant, effect.prediction, effect.at_low, effect.at_high) for effect in found]
    return pd.DataFrame(rows, columns=["constant", "prediction", "at_low", "at_high"])


def as_dict(found: Sequence[Effect], device: Device) -> dict[str, Any]:
    """The effects for machines, by constant and prediction."""
    by_constant: dict[str, dict[str, Any]] = {}
    for effect in found:
        by_constant.setdefault(effect.constant, {})[effect.prediction] = [effect.at_low, effect.at_high]
    return {"device": device.name, "effects": by_constant}
