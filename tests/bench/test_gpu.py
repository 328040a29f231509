"""The line that names the machine, beside a benchmark's figures."""

from __future__ import annotations

import platform
import subprocess
from typing import Any

import pytest

import tilejit as tj
from tests.bench import gpu


def test_the_machine_is_named_with_its_clock_and_versions(monkeypatch: pytest.MonkeyPatch) -> None:
    def answer(command: list[str], **_: Any) -> subprocess.CompletedProcess[str]:
        assert command[0] == "nvidia-smi"
        return subprocess.CompletedProcess(command, 0, "NVIDIA H100, 1755 MHz, 1980 MHz, 580.1\nanother, 1 MHz\n")

    monkeypatch.setattr(subprocess, "run", answer)
    line = gpu.machine()
    assert line.startswith("NVIDIA H100, SM clock 1755 MHz of 1980 MHz, driver 580.1, Python ")
    assert platform.python_version() in line and f"tilejit {tj.__version__}" in line
    assert "cuda-bindings" in line and "another" not in line


def test_without_nvidia_smi_the_device_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    assert gpu.machine().startswith(f"{tj.device()}, Python ")
