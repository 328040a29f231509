"""The devices on which every kernel test runs."""

from __future__ import annotations

import pytest

from tilejit.runtime import devices
from tilejit.runtime.device import Device


@pytest.fixture(params=["sim", pytest.param("cuda", marks=pytest.mark.gpu)], scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    return devices.named(request.param)


@pytest.fixture(scope="session")
def hopper(device: Device) -> Device:
    """A device that runs kernels for sm_90a."""
    if device.number >= 0 and device.target.name != "sm_90a":
        pytest.skip(f"the device is {device.target}; warpgroups multiply on sm_90a alone")
    return device
