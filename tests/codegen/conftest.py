"""The devices on which generated code runs."""

from __future__ import annotations

import pytest

from tests.codegen.devices import Gpu, Runner, Simulator


@pytest.fixture(params=["sim", pytest.param("gpu", marks=pytest.mark.gpu)], scope="session")
def device(request: pytest.FixtureRequest) -> Runner:
    return Simulator() if request.param == "sim" else Gpu()
