"""The simulator, arrays for `kernels.adding`, a clock and a disk of its own for each test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.tuning.kernels import Clock, installed_clock


@pytest.fixture(autouse=True)
def on_the_simulator() -> Iterator[None]:
    with tj.use_device("sim:sm_90a"):
        yield


@pytest.fixture
def arrays() -> tuple[np.ndarray, np.ndarray]:
    return np.zeros(256, np.float32), np.zeros(1, np.int32)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch, arrays: Any) -> Clock:
    return installed_clock(monkeypatch, arrays[1])


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """The folder of a cache, which is empty and used."""
    monkeypatch.setenv("TILEJIT_CACHE", "1")
    monkeypatch.setenv("TILEJIT_CACHE_DIR", str(tmp_path / "cache"))
    return tmp_path / "cache"
