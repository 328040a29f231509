"""Every kind of error: its class, its words, the line and the caret, and what to do."""

from __future__ import annotations

from typing import Any

import pytest

import tilejit as tj
from tests.frontend.programs import array, tile_ir
from tilejit import dtypes
from tilejit.errors import DispatchError, KernelSyntaxError, KernelTypeError, LayoutError, ResourceError

SYNTAX, TYPE = KernelSyntaxError, KernelTypeError

# body of `def k(A, n)` (A float32 of one dimension, n int32), what the caret marks, class, words, words of the help
CASES = [
    ("x = [1, 2]", "[1, 2]", SYNTAX, "a list", "tuple"),
    ("x = lambda: 1", "lambda: 1", SYNTAX, "a lambda", "def"),
    ("x = [i for i in n]", "[i for i in n]", SYNTAX, "list comprehension", "static_range"),
    ("x = {1: n}", "{1: n}", SYNTAX, "a dict", "tuples"),
    ("x = (y := n)", "y := n", SYNTAX, ":=", "line of its own"),
    ("try:\n        pass\n    finally:\n        pass", "try:", SYNTAX, "try", "if"),
    ("with n:\n        pass", "with n:", SYNTAX, "with", "context managers"),
    ("raise n", "raise n", SYNTAX, "raise", "assert"),
    ("import math", "import math", SYNTAX, "import", "top of the module"),
    ("global q", "global q", SYNTAX, "global", "array"),
    ("del n", "del n", SYNTAX, "del", "leave it out"),
    ("match n:\n        case 1:\n            pass", "match n:", SYNTAX, "match", "elif"),
    ("class C:\n        pass", "class C:", SYNTAX, "a class", "outside"),
    ("return n", "n", SYNTAX, "returns nothing", "array argument"),
    ("A.foo = 1", "A.foo", SYNTAX, "attribute", "variable"),
    ("x: tj.int32", "x: tj.int32", SYNTAX, "without a value", "assign"),
    ("a, *b = 1, 2", "a, *b", SYNTAX, r"\*", "every item"),
    ("x = tj.exp(*n)", "*n", SYNTAX, r"\*", "write the arguments out"),
    ("for i in A:\n        pass", "A", SYNTAX, "for loop goes over", "static_range"),
    ("for i in range(n):\n        pass\n    else:\n        pass", "pass", SYNTAX, "else", "flag"),
    ("x = range(n)", "range(n)", SYNTAX, "for loops only", "for i in"),
    ("x = plain(n)", "plain(n)", SYNTAX, "plain Python function", "@tj.function"),
    ("x = np.exp(1)", "np.exp(1)", SYNTAX, "can't be called", "outside"),
    ("x = A @ A", "A @ A", SYNTAX, "@", "gemm"),
    ("x = 3j", "3j", SYNTAX, "3j", "floats"),
    ("A[0] = foo", "foo", TYPE, "no name foo", "define it"),
    ("limitt = 1\n    A[0] = limit", "limit", TYPE, "no name limit", "limitt"),
    ("A[0] = x\n    x = 1", "x", TYPE, "no value yet", "before"),
    ("A[0] = tj.cta_idd(0)", "tj.cta_idd", TYPE, "no cta_idd", "cta_id"),
    ("tj.warp.coppy(A, A)", "tj.warp.coppy", TYPE, "coppy", "copy"),
    ("A[0] = A.shap[0]", "A.shap", TYPE, "shap", "shape"),
    ("A[0] = n.foo", "n.foo", TYPE, "foo", "astype"),
    ("if n > 0:\n        x = 1.5\n    else:\n        x = n\n    A[0] = x", "x", TYPE, "line 5.*line 3", "convert"),
    ("if n > 0:\n        x = 1.5\n    A[0] = x", "x", TYPE, "one path only.*line 3", "both sides"),
    ("for i in range(n):\n        x = i\n    A[0] = x", "x", TYPE, "only inside the loop of line 2", "before"),
    ("for i in range(n):\n        pass\n    A[0] = i", "i", TYPE, "behind its loop", "copy it"),
    ("x = n\n    for i in range(n):\n        x = x * 1.5", "x", TYPE, "int32 .*line 2 .*float32 .*line 4", "convert"),
    ("tj.warp.copy(A[0:n], A[0:n])", "0:n", TYPE, "extent of this slice", "tile"),
    ("tj.warp.copy(A, A)", "A", TYPE, "known only at run time", "tj.spec"),
    ("x = A[4:2]", "4:2", TYPE, "extent -2", "count from the end"),
    ("x = A[0:4:2]", "2", TYPE, "step", "dense"),
    ("A[-1] = 0", "-1", TYPE, "index -1", r"A.shape\[0\] - 1"),
    ("A[0, 1] = 0", "A[0, 1]", TYPE, "2 indices for 1", ""),
    ("A[1.5] = 0", "1.5", TYPE, "must be an integer", ""),
    ("A[0:32] = n", "A[0:32]", TYPE, "single elements", "fill"),
    ("s = tj.alloc_shared((8,), A.dtype)\n    A[0] = s[8]", "8", TYPE, "index 8 is outside", ""),
    (
        "s = tj.alloc_shared((8,), A.dtype)\n"
        "    tj.thread.fill(s[4:12], 0)", "4:12", TYPE, "leaves dimension 0", "global"),
    ("x = tj.warp.load(A[0:64])\n    tj.warp.fill(x, 0)", "x", TYPE, "result of an expression", "alloc_local"),
    ("x = tj.warp.load(A[0:64])\n    A[0] = x[3]", "x[3]", TYPE, "spread over the threads", "registers"),
    ("x = tj.warp.load(A[0:65])", "tj.warp.load(A[0:65])", TYPE, "65 elements", "layout="),
    ("x = tj.warp.load(A[0:64])\n    if x > 1:\n        A[0] = 1", "x > 1", TYPE, "condition must be a scalar", "&"),
    ("A[0] = A[0:32] + 1", "A[0:32] + 1", TYPE, "global region", "load"),
    ("x = n + 3000000000", "n + 3000000000", TYPE, "doesn't fit in int32", "int64"),
    ("x = 1 // 0", "1 // 0", TYPE, "ZeroDivisionError", ""),
    ("A[0], x = n", "A[0], x", TYPE, "unpacked", ""),
    ("a, b = 1, 2, 3", "a, b", TYPE, "2 names for a tuple of 3", ""),
    ("tj.warp.copy(A[0:32], A[0:32], filll=3)", "filll=3", TYPE, "filll", "fill"),
    ("tj.warp.copy(A[0:32])", "tj.warp.copy(A[0:32])", TYPE, "needs src", "dst, src"),
    ("tj.warp.copy(A[0:32], A[0:64])", "tj.warp.copy(A[0:32], A[0:64])", TYPE, r"\(32,\).*\(64,\)", "slice"),
    ("tj.warp.copy(A[0:32], A[0:32], variant=3)", "3", TYPE, "variant= takes str", ""),
    ("s = tj.alloc_shared((n,), A.dtype)", "(n,)", TYPE, "known at compile time", "constexpr"),
    ("s = tj.alloc_shared((8, 0), A.dtype)", "(8, 0)", TYPE, "positive", ""),
    ("s = tj.alloc_shared(8, 'x')", "'x'", TYPE, "element type", "float32"),
    ("A[0] = len(n)", "len(n)", TYPE, "when the kernel is compiled", "shape"),
    ("A[0] = tj.exp('x')", "tj.exp('x')", TYPE, "takes scalars and local tiles", ""),
    ("x = n & 1.5", "n & 1.5", TYPE, "takes integers", ""),
    ("x = tj.float8_e4m3fn(n)\n    A[0] = x + 1", "x + 1", TYPE, "fp8 is storage.*float32", ""),
    ("A[0] = n if n > 0 else A", "n if n > 0 else A", TYPE, "the value is", ""),
    ("print(f'{n}')", "n", TYPE, "f-string", "by itself"),
    ("print(A)", "A", TYPE, "print takes scalars", "index it"),
    ("tj.static_assert(n > 0)", "n > 0", TYPE, "known at compile time", "assert"),
    ("tj.static_assert(1 > 2, 'no')", "tj.static_assert(1 > 2, 'no')", TYPE, "static_assert failed: no", ""),
    ("A[0] = data[0]", "data", TYPE, "data is a list", "tuple"),
    ("A[0] = weights[0]", "weights", TYPE, "is an array", "argument"),
    ("A[0] = tj.sum(n)", "tj.sum(n)", TYPE, "not available", "elementwise operations"),
    ("tj.atomic.add(A[0], n)", "tj.atomic.add(A[0], n)", TYPE, "not available", "elementwise operations"),
    ("x = tj.shuffle(n, 3)", "tj.shuffle(n, 3)", TYPE, "not available", "elementwise operations"),
    ("tj.warp.sum(A, A, 0)", "tj.warp.sum(A, A, 0)", TYPE, "not available", "elementwise operations"),
    ("tj.cp_async.wait(-1)", "-1", TYPE, "-1 groups", "wait"),
    ("tj.cp_async.wait(n)", "n", TYPE, "known at compile time", "literal"),
    ("tj.tcgen05.wait_ld()", "tj.tcgen05.wait_ld()", ResourceError, "no tensor memory", "sm_100a"),
    ("f = 3\n    f()", "f()", TYPE, "can't be called", ""),
    ("x = tj.cta_id(3)", "tj.cta_id(3)", TYPE, "axis 3", ""),
    ("for i in range(0, 8, 0):\n        pass", "range(0, 8, 0)", TYPE, "step of 0", ""),
    ("for i in tj.static_range(5000):\n        pass", "tj.static_range(5000)", TYPE, "4096", "range"),
    ("r = tj.alloc_local((8, 4), A.dtype, layout=S[(8, 8)])", "S[(8, 8)]", LayoutError, "64 elements", "multiply"),
    ("s = tj.alloc_shared((32, 2), A.dtype, layout=S[(32, 2) : (1 @ laneid, 1)])", "S[(32, 2) : (1 @ laneid, 1)]",
     LayoutError, "thread axes", "memory strides"),
    ("s = tj.alloc_shared((8, 7), A.dtype, swizzle='128B')", "'128B'", LayoutError, "divide into atoms", "pad"),
    ("s = tj.alloc_shared((8, 8), A.dtype, swizzle='12B')", "'12B'", LayoutError, "12B", ""),
    ("tj.alloc_tmem((128, 64), A.dtype)", "tj.alloc_tmem((128, 64), A.dtype)", ResourceError, "no tensor memory",
     "sm_100a"),
    ("if tj.lane_id() > 3:\n        tj.warp_sync()", "tj.lane_id() > 3", DispatchError, "warp_sync", "branch"),
    ("r = tj.alloc_local(4, A.dtype)\n    for i in range(n):\n        A[0] = r.registers[i]", "i", TYPE,
     "compile-time constants", "static_range"),
]  # fmt: skip


def plain(x):
    return x


def failing(body: str) -> Any:
    import numpy as np

    text = f"def k(A, n):\n    {body}\n"
    names = {"plain": plain, "data": [1], "weights": np.ones(3), "S": tj.S, "laneid": tj.laneid}
    return lambda: tile_ir(text, array(), dtypes.int32, **names)


@pytest.mark.parametrize(("body", "marked", "error", "words", "help_words"), CASES, ids=[c[0][:40] for c in CASES])
def test_an_error_names_the_place_and_what_to_do(
    body: str, marked: str, error: type[Any], words: str, help_words: str
) -> None:
    with pytest.raises(error, match=words) as caught:
        failing(body)()
    found = caught.value
    assert type(found) is error
    span = found.span
    end = span.end_column if span.end_line == span.line else len(span.text)
    assert span.text[span.column : end] == marked
    if help_words:
        assert found.hint is not None
        import re

        assert re.search(help_words, found.hint), found.hint
    assert "^" in str(found)


IN_TWO_LAYOUTS = """def k(A, n):
    x = tj.warp.load(A[0:32, 0:4])
    y = tj.warp.load(A[0:32, 0:4], layout=tj.S[(32, 4) : (1 @ tj.laneid, 1)])
    {}
    tj.warp.store(A[0:32, 0:4], z)
"""


@pytest.mark.parametrize(
    ("join", "lines"),
    [("z = x if n > 2 else y", (4, 4)), ("z = x\n    if n > 2:\n        z = y", (6, 4))],
    ids=["expression", "statement"],
)
def test_layouts_that_meet_are_named_in_full_and_the_help_changes_one(join: str, lines: tuple[int, int]) -> None:
    with pytest.raises(KernelTypeError) as caught:
        tile_ir(IN_TWO_LAYOUTS.format(join), array(rank=2), dtypes.int32)
    layouts = ["S[(1, 32, 4) : (4, 1 @ laneid, 1)]", "S[(32, 4) : (1 @ laneid, 1)]"]
    if lines[0] != lines[1]:
        layouts.reverse()
    (a, b), (line_a, line_b) = layouts, lines
    words = f"is in layout {a} where line {line_a} gives it, and in layout {b} where line {line_b} does"
    assert words in str(caught.value)
    assert "layout=" in (caught.value.hint or "")
    assert "astype" not in (caught.value.hint or "")


def test_an_error_in_a_helper_shows_the_call_too() -> None:
    text = "@tj.function\ndef f(x):\n    return x + y\n\ndef k(A):\n    A[0] = f(1)\n"
    with pytest.raises(KernelTypeError) as caught:
        tile_ir(text, array())
    assert (caught.value.span.line, caught.value.span.caller.line) == (3, 6)
    assert "called from" in str(caught.value)


def test_recursion_is_refused() -> None:
    text = "@tj.function\ndef f(x):\n    return f(x)\n\ndef k(A):\n    A[0] = f(1)\n"
    with pytest.raises(KernelTypeError, match="calls itself") as caught:
        tile_ir(text, array())
    assert "loop" in caught.value.hint


def test_intrinsics_outside_a_kernel_say_so() -> None:
    for call in (lambda: tj.cta_id(0), lambda: tj.warp.copy(1, 2), lambda: tj.exp(1.0), lambda: tj.function(plain)(1)):
        with pytest.raises(KernelTypeError, match="inside a kernel"):
            call()


def test_too_many_threads_are_a_resource_error() -> None:
    with pytest.raises(ResourceError, match="2000 threads"):
        tile_ir("def k(A):\n    pass\n", array(), threads=2000)


def test_a_partial_warp_cannot_carry_out_warp_operations() -> None:
    with pytest.raises(DispatchError):
        tile_ir("def k(A):\n    tj.warp.fill(A[0:32], 0)\n", array(), threads=48)
