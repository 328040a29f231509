"""The devices on which every kernel test runs."""

from __future__ import annotations

import pytest

from tilejit.runtime import devices
from tilejit.runtime.device import Device


@pytest.fixture(params=["sim", pytest.param("cuda", marks=pytest.mark.gpu)], scope="session")
def device(request: pytest.FixtureRequest) -> Device:
    return devices.named(request.param)
