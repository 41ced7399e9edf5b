"""Devices shared by the kernel tests."""

from __future__ import annotations

import pytest

from hexenv.device import Device, load_device


@pytest.fixture(scope="session")
def v79() -> Device:
    return load_device("v79")


@pytest.fixture(scope="session", params=["v75", "v79"])
def device(request: pytest.FixtureRequest) -> Device:
    return load_device(request.param)
