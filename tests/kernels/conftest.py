"""The devices on which every kernel test runs."""

from __future__ import annotations

import pytest

from tilejit.runtime import devices
from tilejit.runtime.device import Device
from tilejit.simulator.opcodes import INSTRUCTIONS


@pytest.fixture(params=["sim", pytest.param("cuda", marks=pytest.mark.gpu)], scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    return devices.named(request.param)


@pytest.fixture(scope="session")
def matrix_device(device: Device) -> Device:
    """A device that has ldmatrix and stmatrix."""
    if device.number < 0 and "ldmatrix" not in INSTRUCTIONS:
        pytest.skip("the simulator doesn't know ldmatrix")
    return device


@pytest.fixture(scope="session")
def tensor_device(device: Device) -> Device:
    """A device that has mma."""
    if device.number < 0 and "mma" not in INSTRUCTIONS:
        pytest.skip("the simulator doesn't know mma")
    return device


@pytest.fixture(scope="session")
def async_device(device: Device) -> Device:
    """A device that has cp.async."""
    if device.number < 0 and "cp" not in INSTRUCTIONS:
        pytest.skip("the simulator doesn't know cp.async")
    return device
