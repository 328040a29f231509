"""Tiles as values: what each form becomes in open IR."""

from __future__ import annotations

import ast
import re
from unittest.mock import Mock, patch

import pytest

import tilejit as tj
from tests.support.programs import array, tile_ir
from tilejit import dtypes
from tilejit.errors import KernelTypeError
from tilejit.frontend import names
from tilejit.frontend.context import Context
from tilejit.frontend.values import Constant
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import to_text

TYPES = (array(dtypes.float16, 2), array(dtypes.float32, 2), dtypes.int32, dtypes.float32)


def text_of(body: str, threads: int = 64) -> str:
    """The open IR of the body of `def k(A, B, n, a)`: float16 and float32 arrays, int32, float32."""
    lines = "".join(f"    {line}\n" for line in body.splitlines())
    kernel = tile_ir(f"def k(A, B, n, a):\n{lines}", *TYPES, threads=threads)
    assert from_text(to_text(kernel)) == kernel
    return to_text(kernel)


def shown(body: str, threads: int = 64) -> str:
    """As `text_of`, without parameters and alignment."""
    lines = [line[2:] for line in text_of(body, threads).splitlines()[1:] if not line.startswith("  param")]
    return "\n".join(line.replace(" align 16", "") for line in lines)


FORMS = {
    "a load": (
        "x = tj.cta.load(A[0:7, 0:13], fill=1, cache='streaming')",
        """
        alloc x: local float16[7, 13] open cta
        cta.copy x[0 +: 7, 0 +: 13], A[0 +: 7, 0 +: 13], 1.0; cache="streaming"
        """,
    ),
    "a mask": (
        "m = tj.cta.indices((7, 13), axis=-1) < n\nx = tj.cta.load(A[0:7, 0:13], mask=m)\n"
        "tj.cta.store(A[0:7, 0:13], x, mask=m, cache='evict_last')",
        """
        alloc m: local int32[7, 13] open cta
        alloc m.1: local bool_[7, 13] open cta
        alloc x: local float16[7, 13] open cta
        cta.indices m[0 +: 7, 0 +: 13]; axis=1
        cta.less m.1[0 +: 7, 0 +: 13], m[0 +: 7, 0 +: 13], n
        cta.copy x[0 +: 7, 0 +: 13], A[0 +: 7, 0 +: 13], None, m.1[0 +: 7, 0 +: 13]
        cta.copy A[0 +: 7, 0 +: 13], x[0 +: 7, 0 +: 13], None, m.1[0 +: 7, 0 +: 13]; cache="evict_last"
        """,
    ),
    "a condition as a mask": (
        "x = tj.warp.load(A[0, 0:13], mask=n > 0)",
        """
        alloc x: local float16[13] open warp
        alloc x.1: local bool_[] open warp
        warp.fill x.1[], n > 0
        warp.copy x[0 +: 13], A[0, 0 +: 13], None, x.1[]
        """,
    ),
    "no mask": (
        "x = tj.warp.load(A[0, 0:13], mask=True)",
        "alloc x: local float16[13] open warp\nwarp.copy x[0 +: 13], A[0, 0 +: 13]",
    ),
    "a result of given tiles": (
        "r = tj.warp.zeros((32, 8), A.dtype, layout=tj.S[(32, 8) : (1 @ tj.laneid, 1)])\ny = r + 1",
        """
        alloc r: local float16[32, 8] S[(32, 8) : (1 @ laneid, 1)]
        alloc y: local float16[32, 8] open warp
        warp.fill r[0 +: 32, 0 +: 8], 0.0
        warp.add y[0 +: 32, 0 +: 8], r[0 +: 32, 0 +: 8], 1.0
        """,
    ),
    "a thread's own tile": (
        "y = tj.thread.full(4, a, A.dtype) * 2",
        """
        alloc y: local float16[4] S[4 : 1]
        alloc y.1: local float16[4] S[4 : 1]
        thread.fill y[0 +: 4], float16(a)
        thread.mul y.1[0 +: 4], y[0 +: 4], 2.0
        """,
    ),
    "a row and a column that broadcast": (
        "c = tj.cta.load(B[0:32, 0])\nr = tj.cta.load(B[0, 0:48])\nz = c[:, None] - r",
        """
        alloc c: local float32[32] open cta
        alloc r: local float32[48] open cta
        view c.view: local float32[32, 1] open cta (0, None) of c
        alloc z: local float32[32, 48] open cta
        cta.copy c[0 +: 32], B[0 +: 32, 0]
        cta.copy r[0 +: 48], B[0, 0 +: 48]
        cta.sub z[0 +: 32, 0 +: 48], c.view[0 +: 32, 0 +: 1], r[0 +: 48]
        """,
    ),
    "transposed parts": (
        "x = tj.cta.load(A[0:32, 0:48])\nz = x[0:8, 16:32].T + 1",
        """
        alloc x: local float16[32, 48] open cta
        view x.view: local float16[48, 32] open cta (1, 0) of x
        alloc z: local float16[16, 8] open cta
        cta.copy x[0 +: 32, 0 +: 48], A[0 +: 32, 0 +: 48]
        cta.add z[0 +: 16, 0 +: 8], x.view[16 +: 16, 0 +: 8], 1.0
        """,
    ),
    "permuted and dropped dimensions": (
        "x = tj.cta.zeros((4, 1, 8), tj.int32)\nz = x.permute(2, 0, 1)[:, :, 0] + x[:, 0, None, :].reshape((4, 8)).T",
        """
        alloc x: local int32[4, 1, 8] open cta
        view x.view: local int32[8, 4, 1] open cta (2, 0, 1) of x
        view x.view.1: local int32[4, 1, 1, 8] open cta (0, 1, None, 2) of x
        view x.view.2: local int32[4, 8] open cta (0, 3) of x.view.1
        view x.view.3: local int32[8, 4] open cta (1, 0) of x.view.2
        alloc z: local int32[8, 4] open cta
        cta.fill x[0 +: 4, 0 +: 1, 0 +: 8], 0
        cta.add z[0 +: 8, 0 +: 4], x.view[0 +: 8, 0 +: 4, 0], x.view.3[0 +: 8, 0 +: 4]
        """,
    ),
    "another shape of a part": (
        "x = tj.cta.load(A[0:32, 0:48])\nz = x[3, 8:16].reshape((8, 1)) + x[4:12, 5:6].reshape((1, 8))",
        """
        alloc x: local float16[32, 48] open cta
        view x.view: local float16[32, 48, 1] open cta (0, 1, None) of x
        view x.view.1: local float16[48, 1, 32] open cta (1, None, 0) of x
        alloc z: local float16[8, 8] open cta
        cta.copy x[0 +: 32, 0 +: 48], A[0 +: 32, 0 +: 48]
        cta.add z[0 +: 8, 0 +: 8], x.view[3, 8 +: 8, 0 +: 1], x.view.1[5, 0 +: 1, 4 +: 8]
        """,
    ),
    "another shape": (
        "x = tj.cta.load(A[0:32, 0:48])\nz = x.reshape((16, -1)).reshape((16, 1, 96))",
        """
        alloc x: local float16[32, 48] open cta
        alloc z: local float16[16, 96] open cta
        view z.view: local float16[16, 1, 96] open cta (0, None, 1) of z
        cta.copy x[0 +: 32, 0 +: 48], A[0 +: 32, 0 +: 48]
        cta.reshape z[0 +: 16, 0 +: 96], x[0 +: 32, 0 +: 48]
        """,
    ),
    "tiles side by side, and their parts": (
        "x = tj.cta.load(A[0:32, 0:48])\nl, r = tj.split(x, 3, axis=-1)[1:]\nz = tj.cat(r, tj.float32(l), 1)",
        """
        alloc x: local float16[32, 48] open cta
        alloc z: local float32[32, 16] open cta
        alloc z.1: local float32[32, 16] open cta
        alloc z.2: local float32[32, 32] open cta
        cta.copy x[0 +: 32, 0 +: 48], A[0 +: 32, 0 +: 48]
        cta.cast z[0 +: 32, 0 +: 16], x[0 +: 32, 16 +: 16]
        cta.cast z.1[0 +: 32, 0 +: 16], x[0 +: 32, 32 +: 16]
        cta.copy z.2[0 +: 32, 0 +: 16], z.1[0 +: 32, 0 +: 16]
        cta.copy z.2[0 +: 32, 16 +: 16], z[0 +: 32, 0 +: 16]
        """,
    ),
    "a tile that changes in a loop": (
        "x = tj.cta.load(A[0:32, 0:48])\nfor i in range(n):\n    x = x + 1\ntj.cta.store(A[0:32, 0:48], x)",
        """
        alloc x: local float16[32, 48] open cta
        cta.copy x[0 +: 32, 0 +: 48], A[0 +: 32, 0 +: 48]
        for i: int32 within 0..2147483646 in 0 .. n step 1
          cta.add x[0 +: 32, 0 +: 48], x[0 +: 32, 0 +: 48], 1.0
        cta.copy A[0 +: 32, 0 +: 48], x[0 +: 32, 0 +: 48]
        """,
    ),
    "a tile that keeps its old value beside the new one": (
        "x = tj.cta.load(A[0:32, 0:48])\nfor i in range(n):\n    old = x\n    x += 1\n"
        "    tj.cta.store(A[0:32, 0:48], old)\ntj.cta.store(A[0:32, 0:48], x)",
        """
        alloc x: local float16[32, 48] open cta
        alloc x.2: local float16[32, 48] open cta
        cta.copy x[0 +: 32, 0 +: 48], A[0 +: 32, 0 +: 48]
        for i: int32 within 0..2147483646 in 0 .. n step 1
          cta.add x.2[0 +: 32, 0 +: 48], x[0 +: 32, 0 +: 48], 1.0
          cta.copy A[0 +: 32, 0 +: 48], x[0 +: 32, 0 +: 48]
          cta.cast x[0 +: 32, 0 +: 48], x.2[0 +: 32, 0 +: 48]
        cta.copy A[0 +: 32, 0 +: 48], x[0 +: 32, 0 +: 48]
        """,
    ),
    "a product": (
        "x = tj.cta.load(A[0:32, 0:48])\nz = x @ x.T",
        """
        alloc x: local float16[32, 48] open cta
        view x.view: local float16[48, 32] open cta (1, 0) of x
        alloc z: local float32[32, 32] open cta
        cta.copy x[0 +: 32, 0 +: 48], A[0 +: 32, 0 +: 48]
        cta.fill z[0 +: 32, 0 +: 32], 0.0
        cta.gemm z[0 +: 32, 0 +: 32], x[0 +: 32, 0 +: 48], x.view[0 +: 48, 0 +: 32]
        """,
    ),
    "products that are added up": (
        "acc = tj.cta.zeros((32, 32), tj.float32)\nfor i in range(n):\n"
        "    x = tj.cta.load(A[0:32, i * 16 : i * 16 + 16])\n    acc += x @ x.T\ntj.cta.store(B[0:32, 0:32], acc)",
        """
        alloc acc: local float32[32, 32] open cta
        alloc x: local float16[32, 16] open cta
        view x.view: local float16[16, 32] open cta (1, 0) of x
        cta.fill acc[0 +: 32, 0 +: 32], 0.0
        for i: int32 within 0..2147483646 in 0 .. n step 1
          cta.copy x[0 +: 32, 0 +: 16], A[0 +: 32, int64(i * 16) +: 16]
          cta.gemm acc[0 +: 32, 0 +: 32], x[0 +: 32, 0 +: 16], x.view[0 +: 16, 0 +: 32]
        cta.copy B[0 +: 32, 0 +: 32], acc[0 +: 32, 0 +: 32]
        """,
    ),
    "one of two": (
        "x = tj.cta.load(A[0:32, 0:48])\ny = x + 1 if n > 0 else x * 2\ntj.cta.store(A[0:32, 0:48], y)",
        """
        alloc x: local float16[32, 48] open cta
        alloc y: local float16[32, 48] open cta
        cta.copy x[0 +: 32, 0 +: 48], A[0 +: 32, 0 +: 48]
        if n > 0
          cta.add y[0 +: 32, 0 +: 48], x[0 +: 32, 0 +: 48], 1.0
        else
          cta.mul y[0 +: 32, 0 +: 48], x[0 +: 32, 0 +: 48], 2.0
        cta.copy A[0 +: 32, 0 +: 48], y[0 +: 32, 0 +: 48]
        """,
    ),
    "a tile that is asked for its registers": (
        "x = tj.warp.load(A[0:32, 0:4])\ny = x.T * 2\nA[0, 0] = x.registers[3]",
        """
        alloc x: local float16[32, 4] S[(32, 4) : (1 @ laneid, 1)]
        view x.view: local float16[4, 32] S[(4, 32) : (1, 1 @ laneid)] of x
        alloc y: local float16[4, 32] open warp
        view x.view.1: local float16[4] S[4 : 1] of x
        warp.copy x[0 +: 32, 0 +: 4], A[0 +: 32, 0 +: 4]
        warp.mul y[0 +: 4, 0 +: 32], x.view[0 +: 4, 0 +: 32], 2.0
        let x.value: float16 = x.view.1[3]
        store A[0, 0] <- x.value
        """,
    ),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_form_becomes_this_open_ir(form: str) -> None:
    body, wanted = FORMS[form]
    assert shown(body).split("\n") == [line.removeprefix(" " * 8) for line in wanted.strip().split("\n")]


REDUCTIONS = {
    "softmax": (
        "x = tj.cta.load(A[n, 0:1000], fill=-tj.inf).astype(tj.float32)\ne = tj.exp(x - tj.max(x))\n"
        "tj.cta.store(B[n, 0:1000], (e / tj.sum(e)).astype(B.dtype))",
        """
        alloc x: local float16[1000] open cta
        alloc x.1: local float32[1000] open cta
        alloc e: local float32[] open cta
        alloc e.1: local float32[1000] open cta
        alloc e.2: local float32[1000] open cta
        alloc sum: local float32[] open cta
        alloc div: local float32[1000] open cta
        cta.copy x[0 +: 1000], A[int64(n), 0 +: 1000], -inf
        cta.cast x.1[0 +: 1000], x[0 +: 1000]
        cta.max e[], x.1[0 +: 1000]; axis=(0)
        cta.sub e.1[0 +: 1000], x.1[0 +: 1000], e[]
        cta.exp e.2[0 +: 1000], e.1[0 +: 1000]
        cta.sum sum[], e.2[0 +: 1000]; axis=(0)
        cta.div div[0 +: 1000], e.2[0 +: 1000], sum[]
        cta.copy B[int64(n), 0 +: 1000], div[0 +: 1000]
        """,
    ),
    "axes": (
        "x = tj.cta.load(A[0:32, 0:48])\ns = tj.sum(x, axis=-1)\nm = tj.max(x[:, 0:8], (0, -1), keepdims=True)",
        """
        alloc x: local float16[32, 48] open cta
        alloc s: local float16[32] open cta
        alloc m: local float16[] open cta
        view m.view: local float16[1, 1] open cta (None, None) of m
        cta.copy x[0 +: 32, 0 +: 48], A[0 +: 32, 0 +: 48]
        cta.sum s[0 +: 32], x[0 +: 32, 0 +: 48]; axis=(1)
        cta.max m[], x[0 +: 32, 0 +: 8]; axis=(0, 1)
        """,
    ),
    "one value where a scalar is needed": (
        "x = tj.cta.load(B[n, 0:1000])\ns = tj.sum(x)\nif s > 0:\n    B[n, tj.argmax(x)] = s",
        """
        alloc x: local float32[1000] open cta
        alloc s: local float32[] S[1 : 1 @ tx] + R[64 : 1 @ tx]
        alloc greater: local bool_[] S[1 : 1 @ tx] + R[64 : 1 @ tx]
        view greater.view: local bool_[1] S[1 : 1] of greater
        alloc argmax: local int32[] S[1 : 1 @ tx] + R[64 : 1 @ tx]
        view argmax.view: local int32[1] S[1 : 1] of argmax
        view s.view: local float32[1] S[1 : 1] of s
        cta.copy x[0 +: 1000], B[int64(n), 0 +: 1000]
        cta.sum s[], x[0 +: 1000]; axis=(0)
        cta.greater greater[], s[], 0.0:float32
        let greater.value: bool_ = greater.view[0]
        if greater.value
          cta.argmax argmax[], x[0 +: 1000]; axis=(0)
          let argmax.value: int32 = argmax.view[0]
          let s.value: float32 = s.view[0]
          store B[int64(n), int64(argmax.value)] <- s.value
        """,
    ),
    "types": (
        "x = tj.cta.zeros((32, 48), tj.int8)\ns = tj.sum(x, 0)\nt = tj.sum(x, 0, dtype=tj.int64)\n"
        "m = tj.max(x, 0)\ni = tj.argmax(x, 1, keepdims=True)",
        """
        alloc x: local int8[32, 48] open cta
        alloc s: local int32[48] open cta
        alloc t: local int64[48] open cta
        alloc m: local int8[48] open cta
        alloc i: local int32[32] open cta
        view i.view: local int32[32, 1] open cta (0, None) of i
        cta.fill x[0 +: 32, 0 +: 48], 0
        cta.sum s[0 +: 48], x[0 +: 32, 0 +: 48]; axis=(0)
        cta.sum t[0 +: 48], x[0 +: 32, 0 +: 48]; axis=(0)
        cta.max m[0 +: 48], x[0 +: 32, 0 +: 48]; axis=(0)
        cta.argmax i[0 +: 32], x[0 +: 32, 0 +: 48]; axis=(1)
        """,
    ),
}


@pytest.mark.parametrize("form", REDUCTIONS)
def test_a_reduction_becomes_this_open_ir(form: str) -> None:
    body, wanted = REDUCTIONS[form]
    assert shown(body).split("\n") == [line.removeprefix(" " * 8) for line in wanted.strip().split("\n")]


#: what is wrong: the statement that follows a load, what the error says, its columns in the statement
WRONG = {
    "an axis that isn't there": ("s = tj.sum(x, axis=«2»)", "axis 2 is out of range for 2 dimensions"),
    "an axis twice": ("s = tj.sum(x, axis=«(1, -1)»)", "axis 1 is named twice"),
    "an axis that isn't known": ("s = tj.sum(x, «n»)", "known at compile time"),
    "memory": ("s = tj.sum(«A»)", "sum takes local tiles; got a global region"),
    "a scalar": ("s = tj.max(«n»)", "max reduces a local tile; this is a scalar of int32"),
    "a type of what doesn't grow": ("s = tj.max(x, «dtype=tj.float32»)", "tj.max has no parameter dtype"),
}


@pytest.mark.parametrize("what", WRONG)
def test_a_reduction_is_refused_where_it_is_wrong(what: str) -> None:
    statement, words = WRONG[what]
    with pytest.raises(KernelTypeError, match=re.escape(words)) as refused:
        shown("x = tj.cta.load(A[0:32, 0:48])\n" + statement.replace("«", "").replace("»", ""))
    span = refused.value.span
    text = f"    {statement}"
    assert (span.line, span.column) == (3, text.index("«"))
    assert refused.value.hint


def test_most_captured_values_are_not_tested_for_being_arrays() -> None:
    with patch.object(names, "is_array", side_effect=AssertionError):
        for value in (tj.warp, tj.exp, tj.fast, tj.float32, 3, 0.5, None, tj.S[(8,) : (1,)]):
            assert names.captured(Mock(Context), ast.Name("x"), value) == Constant(value)
