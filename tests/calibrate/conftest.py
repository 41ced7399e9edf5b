from __future__ import annotations

import dataclasses

import pytest

from hexenv.calibrate import Calibration, calibrate, observe
from hexenv.device import Device, load_device
from hexenv.kernels import FlashAttention, MatMul, Operator, RmsNorm
from hexenv.logs import parse
from tests.logs import made

GEMV = [(2048, 1, 2048), (1024, 1, 2048), (6144, 1, 2048), (2048, 1, 6144), (512, 1, 2048)]
GEMM = [(6144, 512, 2048), (2048, 512, 2048), (1024, 512, 2048), (2048, 128, 6144), (6144, 1024, 2048)]
MATMULS: list[Operator] = [MatMul("q4_0", *shape) for shape in GEMV + GEMM]
MODEL: list[Operator] = [
    *MATMULS,
    *(FlashAttention(256, kv, 8, 4, 128) for kv in (512, 1024, 2048)),
    *(FlashAttention(1, kv, 8, 4, 128) for kv in (512, 2048)),
    *(RmsNorm(rows, 2048) for rows in (1, 512)),
]
ALTERED = {
    "ddr_bytes_per_us": 52_000.0,
    "kernel_fixed_us": 6.0,
    "hmx_tile_us": 0.0046,
    "softmax_element_ns": 0.55,
}


def from_text(text: str, base: Device) -> Calibration:
    log = parse(text.splitlines(keepends=True), "made.log")
    return calibrate(log, observe(log, base), base)


@pytest.fixture(scope="session")
def v79() -> Device:
    return load_device("v79")


@pytest.fixture(scope="session")
def altered(v79: Device) -> Device:
    return dataclasses.replace(v79, **ALTERED)


@pytest.fixture(scope="session")
def made_log(altered: Device) -> str:
    return made.log_text(MODEL, altered, count=9, noise=0.02, seed=1)


@pytest.fixture(scope="session")
def calibrated(made_log: str, v79: Device) -> Calibration:
    return from_text(made_log, v79)
