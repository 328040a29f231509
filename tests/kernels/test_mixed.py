"""Mixed programs (`mixed_programs`): the simulator with all checks, and a GPU, against NumPy."""

from __future__ import annotations

import functools
import re

import numpy as np
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from tests.kernels.mixed_programs import COMBINES, programs
from tests.kernels.test_trees import EXAMPLES, SCHEDULED, runs
from tests.kernels.tile_programs import Memory, Program
from tests.reference.values import ATOMICS
from tilejit.dtypes import uint16
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


#: Pairs of 16-bit elements in registers that are defined on two paths. ptxas 12.6 to 13.5 for sm_90 can take the
#: register after such a one for its upper half, so that row 2 of O becomes 36 instead of 0.
HALVES = """
@tj.function
def chosen(x, y, k):
    z = tj.where(x < y, x, y * x)
    if k > 1:
        return x + y
    return z
@tj.function
def last(x, y):
    return y
@tj.function
def doubled(x, y, k):
    z = (x + y).astype(x.dtype)
    return chosen(z, y, k)
def kernel(n: tj.int32, m: tj.int64, T: tj.Tensor, P: tj.Tensor, O: tj.Tensor = tj.spec((11, 2), tj.uint16)):
    x = tj.thread.load(T[-2 : 9, n + 0 : n + 1])
    pair = tj.cat(x, x, -1)
    first, second = tj.split(pair, 2, axis=-1)
    z = chosen(second, first, (divmod(m, 3)[1] >> 3) % 4).astype(tj.uint16)
    tj.thread.store(O.at(((tj.thread.indices((11,), 0) * 5 + (m >> 3) % 11) % 11))[:, 0:2], pair)
    whole = tj.cat(z, second, 0).reshape((22, 1, 1))
    flat = tj.reduce(whole, 2, last)
    w = doubled(flat, flat, n).astype(tj.uint16)
    tj.thread.store(P[0, 3 : 4, 3 : 25], w.T)
"""


def test_rows_of_16_bit_elements_keep_their_registers(device: Device) -> None:
    halves_program().run(device)


def halves_program() -> Program:
    memories = (
        Memory("T", uint16, (14, 1), (1, 0), (0, 4), (2, -1), 3, 34533, True),
        Memory("P", uint16, (3, 4, 25), (2, 1, 0), (0, 0, 0), (1, 1, 1), 0, 169, False),
        Memory("O", uint16, (11, 2), (1, 0), (0, 0), (1, 1), 0, 17092, True, True),
    )
    return Program(HALVES, memories, {"n": np.int32(0), "m": np.int64(3 - 2**63)}, {}, 48)


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


@pytest.mark.integration
@pytest.mark.parametrize("pattern", FEATURES)
def test_every_feature_is_drawn(pattern: str) -> None:
    assert any(re.search(pattern, text) for text in texts())
