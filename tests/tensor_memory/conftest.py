"""Every test here runs on the simulator of a Blackwell GPU, with all checks."""

from __future__ import annotations

import pytest

from tests.tensor_memory.kit import DEVICE


@pytest.fixture(autouse=True)
def simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", DEVICE)
    monkeypatch.delenv("TILEJIT_SIM_CHECKS", raising=False)
