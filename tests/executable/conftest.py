"""What the tests of executables share: each kernel compiled once."""

import pytest

from tests.executable.kernels import EXECUTABLES


@pytest.fixture(scope="session", params=list(EXECUTABLES))
def compiled(request):
    """Each kernel of the list."""
    return EXECUTABLES[request.param]()
