"""Mixed programs (`mixed_programs`): the simulator with all checks, and a GPU, against NumPy."""

from __future__ import annotations

import functools
import re

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.kernels.mixed_programs import COMBINES, programs
from tests.kernels.test_trees import EXAMPLES, SCHEDULED, runs
from tests.kernels.tile_programs import Program
from tests.reference.values import ATOMICS
from tilejit.runtime.device import Device

#: what the programs are made to mix: a pattern of each
FEATURES = (
    r"def f\d+", r"return f\d+", r"tj\.cat\(", r"tj\.split\(", r"\.reshape\(", r"load\(T\d+\.at\(",
    r"store\(O\d+\.at\(",
    r"tj\.cdiv\(", r"tj\.tile_order\(", r"divmod\(", r"if tj\.warp_id\(\)", r"load\(S\d+\)", r"p\d+ : p\d+ \+",
    r"\n        for (.*\n)+            j\d+ =", r"break\n", *(rf"tj\.atomic\.{name}\(A" for name in ATOMICS),
    *(rf"def {name}\(" for name in COMBINES), r"(?s)tj\.warp\..*tj\.cta\.", r"tj\.thread\.", r"tj\.warpgroup\.",
)


@settings(max_examples=EXAMPLES)
@given(programs(), st.integers(0, SCHEDULED - 1))
def test_a_mixed_program_does_what_numpy_does(device: Device, program: Program, number: int) -> None:
    runs(program, device)
    if device.number < 0 and number == SCHEDULED - 1:
        runs(program, device, schedule=1)


@functools.cache
def texts() -> list[str]:
    """The same 300 programs in every run."""
    drawn: list[str] = []

    @settings(
        max_examples=300, database=None, deadline=None, derandomize=True, phases=[Phase.generate],
        suppress_health_check=list(HealthCheck),
    )
    @given(programs())
    def draw(program: Program) -> None:
        drawn.append(program.text)

    draw()
    return drawn


@pytest.mark.parametrize("pattern", FEATURES)
def test_every_feature_is_drawn(pattern: str) -> None:
    assert any(re.search(pattern, text) for text in texts())
