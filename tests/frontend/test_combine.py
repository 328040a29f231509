"""Functions for `tj.reduce`: what becomes of them, and what they may not be."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.marked import default_arguments, kernel_text, points_at, refused
from tests.support.programs import array, statements, tile_ir
from tilejit.ir import nodes as ir
from tilejit.ir.combine import Combine
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import to_text
from tilejit.ir.verify import verify

#: tiles x of float32, i of int32; n is known at compile time
KERNEL = """def k(A, n):
    x = tj.warp.load(A[0:30, 0:5])
    i = tj.warp.indices((30, 5), 1)
{function}
    {call}
"""


def read(function: str, call: str) -> tuple[Combine, ir.TileOp]:
    """The function that a call carries, sound and readable from its text."""
    lines = "".join(f"    {line}\n" for line in function.strip("\n").split("\n"))
    kernel = tile_ir(KERNEL.format(function=lines, call=call), array(rank=2), 3)
    assert verify(kernel, "open") == []
    assert from_text(to_text(kernel)) == kernel
    (op,) = [op for op in statements(kernel.body, ir.TileOp) if op.name == "reduce"]
    combine = op.attr("combine")
    assert isinstance(combine, Combine)
    return combine, op


def text_of(op: ir.TileOp) -> str:
    """The function as the IR's text has it."""
    return to_text(ir.Kernel("k", (), 32, "sm_90a", (op,))).split("combine=")[1].strip()


#: function, call -> its text
FORMS = {
    "an expression": (
        "def f(a, b):\n    return a * 2.0 - b",
        "tj.reduce(x, 1, f)",
        "def (a: float32), (b: float32) let f: float32 = a * 2.0 - b -> (f)",
    ),
    "tuples and names": (
        "def f(a, b):\n    d = b[0] - a[0]\n    return a[0] + d * d, a[1] + b[1]",
        "tj.reduce((x, i), 0, f)",
        "def (a.0: float32, a.1: int32), (b.0: float32, b.1: int32) let d: float32 = b.0 - a.0, "
        "f.0: float32 = a.0 + d * d, f.1: int32 within -2147483648..2147483647 = a.1 + b.1 -> (f.0, f.1)",
    ),
    "a tuple of one": (
        "def f(a, b):\n    return (a[0] * b[0],)",
        "tj.reduce((x,), 0, f)",
        "def (a.0: float32), (b.0: float32) let f.0: float32 = a.0 * b.0 -> (f.0)",
    ),
    "a choice": (
        "def f(a, b):\n    return b if b > a else a",
        "tj.reduce(x, 1, f)",
        "def (a: float32), (b: float32) let f: float32 = where(b > a, b, a) -> (f)",
    ),
    "a literal": ("def f(a, b):\n    return 1", "tj.reduce(x, 1, f)", "def (a: float32), (b: float32) -> (1.0)"),
    "a default": (
        "def f(a, b, by=2.0):\n    return a + b * by",
        "tj.reduce(x, 1, f)",
        "def (a: float32), (b: float32) let f: float32 = a + b * 2.0 -> (f)",
    ),
    "a compile-time value": (
        "def f(a, b):\n    return a + b * n",
        "tj.reduce(x, 1, f)",
        "def (a: float32), (b: float32) let f: float32 = a + b * 3.0 -> (f)",
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_function_becomes_these_expressions(form: str) -> None:
    function, call, wanted = FORMS[form]
    assert text_of(read(function, call)[1]) == wanted


#: a function with branches -> what it makes of (1, 9), (9, 10), (9, 1) and (1, 1)
BRANCHES = {
    "def f(a, b):\n    if b > 8.0:\n        return b\n    if a > 8.0:\n        return a * 2.0\n    return a + b":
        (9, 10, 18, 2),
    "def f(a, b):\n    c = a\n    if b > 8.0:\n        c = b * 2.0\n    return c": (18, 20, 9, 1),
    "def f(a, b):\n    if b > 8.0:\n        if a > 8.0:\n            return a\n        c = 5.0\n    else:\n"
    "        c = 7.0\n    return c + b": (14, 9, 8, 8),
}


@pytest.mark.parametrize("function", BRANCHES)
def test_values_that_branches_return_and_assign_are_merged(function: str) -> None:
    combine, _ = read(function, "tj.reduce(x, 1, f)")
    a, b = (np.asarray(values, np.float32) for values in ((1, 9, 9, 1), (9, 10, 1, 1)))
    np.testing.assert_array_equal(combine([a], [b])[0], BRANCHES[function])


def test_every_operand_and_the_axes_are_in_the_operation() -> None:
    _, op = read("def f(a, b):\n    return a[0] + b[0], b[1]", "m, j = tj.reduce((x, i), (0, 1), f)")
    assert list(op.tiles) == ["dst", "src", "dst2", "src2"]
    assert op.attr("axis") == (0, 1) and [r.shape for r in op.tiles.values()] == [(), (30, 5), (), (30, 5)]
    _, kept = read("def f(a, b):\n    return a + b", "m = tj.reduce(x, -1, f, keepdims=True)\n    y = x - m")
    assert kept.attr("axis") == (1,)


def test_it_can_be_called_on_a_scope() -> None:
    kernel = tile_ir(
        "def k(A):\n    x = tj.thread.load(A[0:4, 0:8])\n    s = tj.alloc_local((4,), tj.float32)\n"
        "    def f(a, b): return a + b\n    tj.thread.reduce(s, x, axis=-1, combine=f)\n",
        array(rank=2), threads=1,
    )
    (op,) = [op for op in statements(kernel.body, ir.TileOp) if op.name == "reduce"]
    assert op.attr("axis") == (1,) and text_of(op) == "def (a: float32), (b: float32) let f: float32 = a + b -> (f)"


#: what is wrong: definitions, statements of a kernel after x has been loaded, what the error says
WRONG = {
    "no function": ("", "tj.reduce(x, 1, «2»)", "combine must be a @tj.function or a nested function"),
    "an operation": ("", "tj.reduce(x, 1, «tj.maximum»)", "combine must be a @tj.function or a nested function"),
    "a plain function": ("", "tj.reduce(x, 1, «plain»)", "combine must be a @tj.function or a nested function"),
    "one argument": ("", "tj.reduce(x, 1, «helper»)", "helper has 1 parameter without a default; combine needs two"),
    "recursion": (
        "def f(a, b):\n    return «f(a, b)»", "tj.reduce(x, 1, f)", "f calls itself",
    ),
    "another type": (
        "def f(a, b):\n    return tj.int32(a + b)", "«tj.reduce(x, 1, f)»",
        "combine changes the dtype: it returns int32 for float32",
    ),
    "another type of one of two": (
        "def f(a, b):\n    return a[0], a[0] > b[0]", "«tj.reduce((x, x), 1, f)»",
        "combine changes the dtype of value 1: it returns bool_ for float32",
    ),
    "too many results": (
        "«def f(a, b):»\n    return a, b", "tj.reduce(x, 1, f)",
        "f returns a tuple of 2 items; it must return one value",
    ),
    "too few results": (
        "«def f(a, b):»\n    return a[0]", "tj.reduce((x, x), 1, f)",
        "f returns a scalar of float32; it must return a tuple of 2 values, one for each tile",
    ),
    "no result": (
        "«def f(a, b):»\n    c = a + b", "tj.reduce(x, 1, f)",
        "f returns nothing; it must return one value",
    ),
    "a load": (
        "def f(a, b):\n    return a + «A[0, 0]»", "tj.reduce(x, 1, f)",
        "f combines two values; it can't contain a load of A",
    ),
    "a store": (
        "def f(a, b):\n    «A[0, 0]» = a\n    return b", "tj.reduce(x, 1, f)",
        "f combines two values; it can't contain a store",
    ),
    "a loop": (
        "def f(a, b):\n    «for i in range(n):»\n        a = a + b\n    return a", "tj.reduce(x, 1, f)",
        "f combines two values; it can't contain a loop",
    ),
    "an endless loop": (
        "def f(a, b):\n    «while a < b:»\n        a = a + b\n    return a", "tj.reduce(x, 1, f)",
        "f combines two values; it can't contain a loop",
    ),
    "a print": (
        "def f(a, b):\n    «print(a)»\n    return b", "tj.reduce(x, 1, f)",
        "f combines two values; it can't contain a print",
    ),
    "an assert": (
        "def f(a, b):\n    «assert a < b»\n    return b", "tj.reduce(x, 1, f)",
        "f combines two values; it can't contain an assert",
    ),
    "a barrier": (
        "def f(a, b):\n    «tj.cta_sync()»\n    return b", "tj.reduce(x, 1, f)",
        "f combines two values; it can't contain a barrier",
    ),
    "a shuffle": (
        "def f(a, b):\n    return a + «tj.shuffle_xor(b, 1)»", "tj.reduce(x, 1, f)",
        "f combines two values; it can't contain an operation such as a shuffle, a barrier or a fence",
    ),
    "an atomic operation": (
        "def f(a, b):\n    «tj.atomic.add(A[0, 0], a)»\n    return b", "tj.reduce(x, 1, f)",
        "f combines two values; it can't contain an atomic operation",
    ),
    "a promise": (
        "def f(a, b):\n    return b if «tj.uniform(a > b, tj.warp)» else a", "tj.reduce(x, 1, f)",
        "f combines two values; it can't contain tj.uniform",
    ),
    "a tile operation": (
        "def f(a, b):\n    «tj.cta.fill(B[0:4, 0:4], 1.0)»\n    return b", "tj.reduce(x, 1, f)",
        "f combines two values; it can't contain a tile operation",
    ),
    "an allocation": (
        "def f(a, b):\n    s = «tj.alloc_shared((8,), tj.float32)»\n    return b", "tj.reduce(x, 1, f)",
        "f combines two values; it can't contain an operation on tiles or an allocation",
    ),
    "a run-time value": (
        "def f(a, b):\n    «return a + b * n»", "tj.reduce(x, 1, f)",
        "f combines two values; it can't contain n, a run-time value of the kernel",
    ),
    "a thread's number": (
        "def f(a, b):\n    return a + tj.float32(«tj.thread_id()»)", "tj.reduce(x, 1, f)",
        "f combines two values; it can't contain thread_id, a special register",
    ),
    "an axis that isn't there": (
        "def f(a, b):\n    return a + b", "tj.reduce(x, «2», f)", "axis 2 is out of range for 2 dimensions",
    ),
    "tiles of two shapes": (
        "def f(a, b):\n    return a", "«tj.reduce((x, tj.cta.zeros((32, 4), tj.float32)), 1, f)»",
        "the tiles have shapes (32, 48) and (32, 4)",
    ),
    "five tiles": ("def f(a, b):\n    return a", "tj.reduce(«(x, x, x, x, x)», 1, f)", "reduce can't take 5 tiles"),
    "memory": ("def f(a, b):\n    return a", "tj.reduce(«A», 1, f)", "reduce takes local tiles; got a global region"),
    "a scalar": ("def f(a, b):\n    return a", "tj.reduce(«n», 1, f)", "reduce reduces a local tile; this is a scalar"),
    "fp8": (
        "def f(a, b):\n    return b", "«tj.reduce(x.astype(tj.float8_e5m2), 1, f)»", "fp8 is a storage type",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_what_can_t_be_combined_is_refused_at_its_location(what: str) -> None:
    function, call, words = WRONG[what]
    text = kernel_text(f"{function}\nx = tj.cta.load(A[0:32, 0:48])\nr = {call}")
    error, marked = refused(text, default_arguments())
    assert words in error.message and error.hint
    points_at(error, marked)
