"""What `tj.operand` describes is what the `tj.alloc_*` of a kernel makes: layout, alignment, and what is refused."""

from __future__ import annotations

import pytest

import tilejit as tj
from tests.support.programs import tile_ir
from tilejit.dtypes import DTYPES
from tilejit.errors import TilejitError
from tilejit.ir.nodes import Alloc, Buffer
from tilejit.layout import S, Swizzle, TCol, TLane, datapath, laneid
from tilejit.lower.ask import operand

SHAPES = [(), (1,), (8,), (0,), (4, 0), (32, 8), (64, 32), (128, 4), (128, 64), (128, 2, 4), (3, 5, 7)]

LAYOUTS = {
    "default": None,
    "swizzle": Swizzle(3, 3, 3),
    "wide swizzle": Swizzle(3, 4, 3),
    "number": 7,
    "rows": S[(32, 8) : (8, 1)],
    "padded rows": S[(64, 32) : (40, 1)],
    "lanes": S[(32, 8) : (1 @ laneid, 1)],
    "tensor memory": S[(128, 64) : (1 @ TLane, 1 @ TCol)],
    "half of the lanes": datapath("F", 64, 32),
    "too many lanes": S[(128, 64) : (2 @ TLane, 1 @ TCol)],
}


def allocated(space: str, shape: tuple[int, ...], dtype: object, layout: object) -> Buffer:
    text = f"def k():\n    x = tj.alloc_{space}({shape!r}, DTYPE, layout=LAYOUT)\n"
    kernel = tile_ir(text, threads=128, on="sm_100a", DTYPE=dtype, LAYOUT=layout)
    (alloc,) = [stmt for stmt in kernel.body if isinstance(stmt, Alloc)]
    return alloc.buffer


def described(space: str, shape: tuple[int, ...], dtype: object, layout: object) -> Buffer:
    return operand(space, shape, dtype, layout).named("x").buffer


def outcome(make, *arguments: object) -> tuple[object, ...]:
    """What is made, or why it isn't."""
    try:
        buffer = make(*arguments)
    except TilejitError as error:
        return type(error), error.message, error.hint
    return buffer.space, buffer.dtype, buffer.shape, buffer.layout, buffer.align


@pytest.mark.parametrize("space", ["shared", "local", "tmem"])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_an_operand_is_the_buffer_that_a_kernel_makes(space, layout):
    agreed = 0
    for shape in SHAPES:
        for dtype in DTYPES.values():
            asked = outcome(described, space, shape, dtype, LAYOUTS[layout])
            made = outcome(allocated, space, shape, dtype, LAYOUTS[layout])
            assert asked == made, (space, shape, dtype)
            agreed += made[0] == space
    assert bool(agreed) == ((space, layout) in MADE)


#: which layouts make memory of a space at all, so that agreeing on refusals alone is no success
MADE = {
    *(("shared", n) for n in LAYOUTS.keys() - {"number", "lanes"}),
    *(("local", n) for n in LAYOUTS.keys() - {"number", "swizzle", "wide swizzle"}),
    *(("tmem", n) for n in ("default", "tensor memory", "half of the lanes")),
}


def test_a_swizzle_asks_for_whole_periods():
    assert operand("shared", (64, 32), tj.float32, Swizzle(3, 4, 3)).align == 128 * 4 * 8
    assert operand("shared", (64, 32), tj.float32).align == 128
