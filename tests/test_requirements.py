"""What pyproject.toml asks for: lower bounds that exist, and nothing that keeps other GPU libraries out."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.oldest import oldest, requirements

pytestmark = pytest.mark.integration

#: what pip says where it can't ask, instead of finding that versions exclude each other
_NO_INDEX = ("No matching distribution found", "Could not find a version", "No module named pip", "timed out")


def resolve(*wanted: str) -> None:
    """Let pip find versions for all of these; nothing is installed."""
    command = [sys.executable, "-m", "pip", "install", "--dry-run", "--ignore-installed", "--quiet", *wanted]
    found = subprocess.run(command, capture_output=True, text=True, timeout=900)
    # an index that answers names a conflict
    if found.returncode and "ResolutionImpossible" not in found.stderr and any(s in found.stderr for s in _NO_INDEX):
        pytest.skip("no package index answers")
    assert found.returncode == 0, found.stderr


@pytest.mark.long
@pytest.mark.parametrize(("torch", "cupy"), [("torch==2.10.*", "cupy-cuda12x"), ("torch==2.11.*", "cupy-cuda13x")])
def test_it_resolves_beside_other_libraries(torch: str, cupy: str) -> None:
    needed = [f"{r[1]}>={r[2]}{r[3]}{r[4] or ''}" for r in requirements("dependencies")]
    resolve(*needed, torch, "numba-cuda", cupy)


@pytest.mark.long
def test_the_oldest_versions_resolve() -> None:
    resolve(*oldest())


def test_every_requirement_has_a_lower_bound() -> None:
    pins = oldest()
    assert len(pins) > 20 and "llvmlite==0.50" in pins and any(pin.startswith("cuda-python==12.9;") for pin in pins)
