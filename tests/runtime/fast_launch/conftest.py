"""A recording driver, and a torch with and without its guards."""

import pytest


@pytest.fixture(params=["keys", "guards"])
def torch(request):
    # not at the top: the tests skip where cuda-python isn't installed
    from tests.runtime.fast_launch.recording import torch_of

    return torch_of(guards=request.param == "guards")


@pytest.fixture
def driver(monkeypatch, torch):
    from tests.runtime.fake_driver import forget_devices
    from tests.runtime.fast_launch.recording import installed

    yield installed(monkeypatch, torch)
    forget_devices()
