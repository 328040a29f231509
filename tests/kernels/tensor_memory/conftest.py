"""Every test here runs on the simulator of a Blackwell GPU, with all checks.

At the end all PTX that was emitted is read for registers used before their wait, and assembled for another GPU.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest

from tests.kernels.tensor_memory.whole_tiles import DEVICE
from tests.support.ptx import early_uses
from tests.support.ptxas import EmittedPtx, complaints, covering
from tilejit.target import target as find_target


@pytest.fixture(autouse=True)
def simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", DEVICE)
    monkeypatch.delenv("TILEJIT_SIM_CHECKS", raising=False)


@pytest.fixture(scope="package", autouse=True)
def emitted_here(emitted_ptx: EmittedPtx) -> Iterator[None]:
    """What these tests emit; the session assembles it for its own target, sm_100a, this for sm_103a."""
    before = set(emitted_ptx.programs)
    yield
    made = {key: name for key, name in emitted_ptx.programs.items() if key not in before}
    early = [f"{name}: {use}" for (ptx, _), name in made.items() for use in early_uses(ptx)]
    assert not early, "\n".join(early)
    major, minor = find_target("sm_103a").ptx
    header = f".version {major}.{minor}\n.target sm_103a"
    elsewhere = [
        (re.sub(r"\.version \S+\n\.target sm_100a", header, ptx), "sm_103a", name)
        for (ptx, target), name in made.items()
        if target == "sm_100a"
    ]
    refused = complaints(covering(elsewhere))
    assert not refused, "\n".join(refused)
