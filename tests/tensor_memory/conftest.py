"""Every test here runs on the simulator of a Blackwell GPU, with all checks; ptxas sees its PTX for another one, too."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.tensor_memory.kit import DEVICE
from tests.toolchain import EmittedPtx, complaints
from tilejit.target import target as find_target


@pytest.fixture(autouse=True)
def simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", DEVICE)
    monkeypatch.delenv("TILEJIT_SIM_CHECKS", raising=False)


@pytest.fixture(scope="package", autouse=True)
def assembled_for_sm_103a(emitted_ptx: EmittedPtx) -> Iterator[None]:
    """What these tests emit for sm_100a, which the session has assembled, for sm_103a: see test_targets.py."""
    before = set(emitted_ptx.programs)
    yield
    major, minor = find_target("sm_103a").ptx
    header = f".version {major}.{minor}\n.target sm_103a"
    refused = complaints(
        (re.sub(r"\.version \S+\n\.target sm_100a", header, ptx), "sm_103a", name)
        for (ptx, target), name in emitted_ptx.programs.items()
        if target == "sm_100a" and (ptx, target) not in before
    )
    assert not refused, "\n".join(refused)
