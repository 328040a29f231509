"""What the checks keep of memory."""

from __future__ import annotations

import resource
import sys
from pathlib import Path

import numpy as np
import pytest

from tilejit.simulator.checks.records import Shadow
from tilejit.simulator.machine.memory import MemoryPart, MemoryRegion


def _resident_bytes() -> int:
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
@pytest.mark.parametrize("size", [1 << 26, 1 << 33], ids=str)
def test_records_of_an_array_take_no_memory_until_it_is_touched(size: int) -> None:
    page = np.zeros(1, np.uint8)
    memory = np.lib.stride_tricks.as_strided(page, (size,), (0,))
    before = _resident_bytes()
    shadow = Shadow(MemoryRegion("global", 0, size, memory, [MemoryPart("x", 0, size)]), 0, ())
    assert shadow.writes.size == size + 1
    assert not shadow.writes[:: size // 16].any()
    shadow.writes[size - 1] = 7
    assert shadow.writes[size - 1] == 7
    assert _resident_bytes() - before < 1 << 24
