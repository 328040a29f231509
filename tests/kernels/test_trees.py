"""Whole programs on tiles as values, drawn as source text: the simulator with all checks, and a GPU, against NumPy."""

from __future__ import annotations

import re

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.kernels.tile_programs import Memory, Program, compare, programs
from tilejit.dtypes import float16, float32
from tilejit.errors import DispatchError, KernelTypeError, ResourceError
from tilejit.runtime.device import Device

#: operations of drawn programs that are refused, with why
REFUSED = (
    # tensor cores multiply by whole warps, not in a thread alone, those of older targets fewer types
    r"@ multiplies tiles of a warp or warpgroup or cta; these are of a thread",
    r"mma: needs whole warps",
    r"mma of \w+ by \w+ into \w+ needs sm_\d+",
    # a thread's own tile is row-major, its transpose isn't, and joining paths must agree
    r"is in layout .*: paths that join must agree",
    # many tiles that live at once
    r"needs [\d,]+ registers per thread for the tiles that are live at once",
)

#: one program in this number also runs under a second schedule
SCHEDULED = 10

EXAMPLES = settings.default.max_examples


def runs(program: Program, device: Device, target: str | None = None, schedule: int = 0) -> None:
    """The program against its meaning; what is known to be refused counts as drawn in vain."""
    try:
        program.run(device, target, schedule)
    except (DispatchError, KernelTypeError, ResourceError) as error:
        if not any(re.search(reason, str(error)) for reason in REFUSED):
            raise


def test_layouts_that_differ_where_paths_join_count_as_refused(device: Device) -> None:
    lines = (
        "x = tj.thread.load(X[0:5, 0:5])",
        "y = x.T",
        "for i in range(n):",
        "    y = x + 1",
        "tj.thread.store(Y[0:5, 0:5], y)",
    )
    with pytest.raises(KernelTypeError):
        written(*lines).run(device)
    runs(written(*lines), device)


@settings(max_examples=3 * EXAMPLES // 2)
@given(programs(), st.integers(0, SCHEDULED - 1))
def test_a_program_on_tiles_does_what_numpy_does(device: Device, program: Program, number: int) -> None:
    runs(program, device)
    if device.number < 0 and number == SCHEDULED - 1:
        runs(program, device, schedule=1)


def memory(name: str, shape: tuple[int, ...], seed: int = 0, *, tame: bool = True) -> Memory:
    rank = len(shape)
    order = tuple(reversed(range(rank)))
    return Memory(name, float32, shape, order, (0,) * rank, (1,) * rank, 0, seed, tame)


def written(*lines: str) -> Program:
    """A program that reads X, 24 rows of 40, and writes Y, as large."""
    text = "\n".join(["def kernel(X: tj.Tensor, Y: tj.Tensor, n: tj.int32):", *(f"    {line}" for line in lines), ""])
    return Program(text, (memory("X", (24, 40)), memory("Y", (24, 40), 1)), {"n": np.int32(3)}, {}, 64)


RIGHT = ("x = tj.cta.load(X[0:24, 0:40])", "tj.cta.store(Y[0:24, 0:40], x + 1)")


def test_a_wrong_result_is_found(device: Device, monkeypatch: pytest.MonkeyPatch) -> None:
    program = written(*RIGHT)
    program.run(device)
    other = written(RIGHT[0], RIGHT[1].replace("1)", "2)")).tensors()
    monkeypatch.setattr(Program, "tensors", lambda _: other)
    with pytest.raises(AssertionError, match="960 of 960 differ"):
        program.run(device)


#: what is computed of `x` -> whether comparison is exact: sums of any order are equal, values that round aren't
SENSES = {
    "tj.sum(x, axis=1, keepdims=True)": True,
    "tj.sum(tj.exp(x), axis=1, keepdims=True)": False,
    "tj.where(x > 0, x, 0.5)": True,
    "tj.exp(x)": False,
    "tj.max(x)": True,
    "x.astype(tj.float16).astype(tj.float32) / 3": True,
    "((x + 100) * 1e30).astype(tj.int32).astype(tj.float32)": False,
}


@pytest.mark.parametrize("expression", SENSES)
def test_what_is_exact_is_compared_bit_for_bit(expression: str) -> None:
    wanted = written(RIGHT[0], f"tj.cta.store(Y[0:24, 0:40], x * 0 + {expression})").tensors()["Y"]
    got = np.nextafter(wanted.array, np.float32(np.inf))
    if SENSES[expression]:
        with pytest.raises(AssertionError, match="differ"):
            compare("Y", got, wanted)
    else:
        compare("Y", got, wanted)


def test_values_far_from_a_rounded_one_are_found() -> None:
    wanted = written(RIGHT[0], "tj.cta.store(Y[0:24, 0:40], tj.exp(x))").tensors()["Y"]
    with pytest.raises(AssertionError, match="differ"):
        compare("Y", wanted.array * np.float32(1.00001), wanted)


def test_a_product_is_summed_with_what_it_is_added_to(device: Device) -> None:
    """Exact alone, but not with four of its terms in one sum."""
    lines = (
        "x = tj.cta.zeros((16, 8), tj.float32)",
        "for i in range(n):",
        "    x += tj.cta.load(X[0:16, 0:17]) @ tj.cta.load(Y[0:17, 0:8])",
        "tj.cta.store(Z[0:16, 0:8], x)",
    )
    made = written(*lines)
    memories = tuple(
        Memory(name, dtype, shape, (1, 0), (0, 0), (1, 1), 0, seed, tame)
        for name, dtype, shape, seed, tame in (
            ("X", float16, (17, 18), 442, False), ("Y", float16, (17, 8), 173, True), ("Z", float32, (16, 8), 1, True)
        )
    )
    text = made.text.replace("Y: tj.Tensor", "Y: tj.Tensor, Z: tj.Tensor")
    Program(text, memories, {"n": np.int32(4)}, {}, 128).run(device)
