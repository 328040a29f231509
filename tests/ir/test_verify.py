"""Sound kernels pass; each invariant, broken, is reported."""

from __future__ import annotations

import math
import time
from dataclasses import replace
from typing import get_args

import pytest

from tests.ir.text.test_text import LANE, SQRT
from tilejit.dtypes import bool_, float8_e4m3fn, float32, int32
from tilejit.ir import nodes as ir
from tilejit.ir.combine import Combine
from tilejit.ir.params import ExtentParam, ScalarParam
from tilejit.ir.text.parser import from_text
from tilejit.ir.verify import examine, verify
from tilejit.ir.verify.kernel import _CHECKS
from tilejit.isa import ROWS, Row
from tilejit.isa.row import Direction, address, carried, predicate
from tilejit.source import Span

PARAMS = """\
  param A: global float32[A.shape.0, 8] strides(A.stride.0, 1; align 16; extent_align 4) align 16 written
  param A.shape.0: int64 within 0..1099511627776 extent 0 of A
  param A.stride.0: int64 multiple_of 4 stride 0 of A
  param n: int32 scalar of n
"""
BUFFERS = """\
  alloc s: shared float32[32, 8] S[(32, 8) : (8, 1)] align 128
  alloc r: local float32[32, 8] S[(32, 8) : (1 @ laneid, 1)] align 4
  alloc h: local float16[8] S[8 : 1] align 4
"""


def faults(level: str, *lines: str, params: str = "") -> list[str]:
    """What is wrong with a kernel of these lines. params: lines of further parameters."""
    body = "".join(f"  {line}\n" for line in lines)
    kernel = from_text(f"kernel k threads=64 target=sm_90a\n{PARAMS}{params}{BUFFERS}{body}")
    return [v.message for v in verify(kernel, level)]


def test_every_class_of_statement_is_looked_at() -> None:
    assert set(_CHECKS) == set(get_args(ir.Stmt))


def test_a_name_valid_in_a_block_is_checked_again_after_it() -> None:
    inner, outer = ir.Var("inner", int32), ir.Var("outer", int32)
    one = ir.Const(1, int32)
    of_inner = ir.Op("add", (ir.Op("add", (inner, one), int32), outer), int32)
    of_outer = ir.Op("add", (outer, one), int32)

    def let(name: str, value: ir.Expr) -> ir.Let:
        return ir.Let(ir.Var(name, int32), value)

    block: tuple[ir.Stmt, ...] = (let("inner", one), let("a", of_inner), let("b", of_outer), let("c", of_inner))
    after: tuple[ir.Stmt, ...] = (let("d", of_outer), let("e", of_inner))
    body = (let("outer", one), ir.If(ir.Const(True, bool_), block, after), let("f", of_inner), let("g", of_outer))
    kernel = replace(from_text(SQRT), body=body)
    assert [v.message for v in verify(kernel, "tile")] == ["inner is used outside the block that defines it"] * 2


def test_a_block_that_never_executes_may_have_constant_offsets_out_of_bounds() -> None:
    outside = "  let t: float32 = r[99 +: 1]"
    for line, blocks in (("let no: bool_ = False", ["if no", outside]), ("", ["if True", "  pass", "else", outside])):
        assert faults("lane", *filter(None, [line, *blocks])) == []
    for line in ("let no: bool_ = True", "let no: bool_ = %lane_id < 3"):
        (fault,) = faults("lane", line, "if no", outside)
        assert fault == "r holds 8 elements; accessing 1 from 99 is out of bounds"


def test_sound_kernels_have_no_violations() -> None:
    assert verify(from_text(SQRT), "tile") == []
    assert verify(from_text(LANE), "lane") == []
    copy = "warp.copy s[0 +: 32, 0 +: 8], A[-8 +: 32, 0 +: 8], 0.0"
    assert faults("tile", copy, "warp.add r[0 +: 32, 0 +: 8], s[0, 0 +: 8], 1.5") == []
    assert faults("lane", "let t: float32 = s[%lane_id +: 1]", "store r[3 +: 1] <- t + r[2 +: 1]") == []
    addressed = "alloc q: local float32[8] S[8 : 1] align 4 addressed"
    assert faults("lane", addressed, "move q[n +: 4] <- s[0 +: 4]", "store q[%lane_id +: 1] <- q[n + 1 +: 1]") == []


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["let x: int32 = 1", "let x: int32 = 2"], "x is defined twice"),
        (["if n < 0", "  let x: int32 = 1", "set x = 2"], "x is used outside the block"),
        (["let x: int32 = 1", "set x = 2"], "x is assigned, but not declared as mutable"),
        (["var x: int32 multiple_of 4"], "so it can't have facts"),
        (["let x: int32 within 4..2 = 1"], "x has empty bounds"),
        (["let x: int32 = n + int64(n)"], "cast its arguments"),
        (["let x: int64 = n"], "x must be int64; got int32"),
        (["let x: float32 = sqrt(n)"], "cast its arguments"),
        (["let x: int32 = int32(n + h[0])"], "must be the whole value of a `Let`"),
        (["let x: float16 = sqrt(1.0:float16)"], "computes in float32"),
        (["let x: float8_e5m2 = neg(1.0:float8_e5m2)"], "fp8 is a storage type"),
        (["let x: int32 = sqrt(n, n)"], "takes 1 operand; got 2"),
        (["let x: int32 = add(n, n):int64"], "its type is int64"),
        (["let x: int8 = 300"], "300 isn't a value of int8"),
        (["let x: float32 = 0.1"], "0.1 isn't a value of float32"),
        (["if n", "  pass"], "a condition must be bool_"),
        (["assert n, \"m\""], "an assertion must be bool_"),
        (["break"], "break outside a loop"),
        (["for i: int32 in 0 .. n step 0", "  pass"], "the step of i is zero"),
        (["for i: int32 in 0 .. n step 1", "  pass", "let y: int32 = i"], "i is used outside"),
        (["for i: float32 in 0.0 .. 1.0 step 1.0", "  pass"], "must be an integer"),
        (["unrolled for i: int32 in 0 .. 2 step 1", "  pass"], "unrolled at lane level only"),
        (["alloc s: shared float32[8] S[8 : 1] align 4"], "buffer s is defined twice"),
        (["alloc q: shared float32[8] S[16 : 1] align 4"], "q has 8 elements; its layout"),
        (["alloc q: shared float32[32] S[32 : 1 @ laneid] align 4"], "can't have thread axis laneid"),
        (["alloc q: shared float32[8] S[8 : 1] align 12"], "which isn't a power of two"),
        (["alloc q: global float32[8] S[8 : 1] align 4"], "only shared, local and tensor memory"),
        (["view q: local float32[256] S[256 : 1] align 4 of s"], "is a view of s in shared"),
        (["warp.copy s[0 +: 32, 4 +: 8], A[0 +: 32, 0 +: 8]"], "of s has 8 elements; accessing 8 from 4 is out"),
        (["warp.copy s[0 +: 32], A[0 +: 32, 0 +: 8]"], "1 dimension, but s has 2"),
        (["warp.copy s[%lane_id + 32 +: 1, 0 +: 8], A[0, 0 +: 8]"], "accessing 1 from 32 or more is out of bounds"),
        (["warp.copy s[0 +: 32, 0 +: 8], A[0 +: 32, 4 +: 8] inside"], "of A has 8 elements; accessing 8 from 4 is"),
        (["warp.copy s[0 +: 16, 0 +: 8], A[0 +: 32, 0 +: 8]"], "the destination has (16, 8), the source (32, 8)"),
        (["warp.copy h[0 +: 8], A[0, 0 +: 8]"], "types differ: the destination is float16, the source float32"),
        (["warp.copy s[0 +: 32, 0 +: 8], A[0 +: 32, 0 +: 8], 0:int32"], "the fill int32"),
        (["warp.copy s[0 +: 32, 0 +: 8], 1.0"], "src can't be a scalar"),
        (["warp.copy s[0 +: 32, 0 +: 8]"], "copy takes 2 to 4 operands; got 1"),
        (["warp.copy r[0 +: 32, 0 +: 8], A[at (32), 0 +: 8]"], "A is gathered, but no index is given"),
        (["warp.copy r[0 +: 32, 0 +: 8], A[0 +: 32, 0 +: 8], None, None, n"], "an index is given, but 0 regions are"),
        (["warp.copy r[0 +: 32, 0 +: 8], A[at (32), 0 +: 8], None, None, n"], "by (32,); the index has shape ()"),
        (["warp.copy r[0, 0 +: 8], A[at (), 0 +: 8], None, None, 1.5"], "the index must be an integer; got float32"),
        (["warp.copy s[0 +: 32, 0 +: 8], r[at (32), 0 +: 8], None, None, n"], "but it is in local memory"),
        (["warp.melt s[0 +: 32, 0 +: 8]"], "unknown tile operation 'melt'"),
        (["warp.sqrt r[0 +: 32, 0 +: 8], s[0 +: 32, 0 +: 8]; colour=1"], "has no attribute 'colour'"),
        (["warp.add r[0 +: 32, 0 +: 8], r[0 +: 32, 0 +: 4], 1.0"], "shapes (32, 8) and (32, 4) don't broadcast"),
        (["warp.where r[0 +: 32, 0 +: 8], 1.0, 2.0, 3.0"], "condition of where must be bool_"),
        (["view v = s + 1 align 4"], "v can be at an offset only at lane level"),
        (["move r[0 +: 4] <- s[0 +: 4]"], "a move is valid only at lane level"),
        (["store r[0 +: 1] <- 1.0"], "a vector of r is valid only at lane level"),
        (["store s[1, 9] <- 1.0"], "accessing 1 from 9 is out of bounds"),
        (["atomic add s[1, 9] @ relaxed.gpu <- 1.0"], "accessing 1 from 9 is out of bounds"),
        (["atomic add s[1, 1] @ relaxed <- 1.0"], "an atomic update has no order 'relaxed'"),
        (["atomic add r[1, 1] @ relaxed.gpu <- 1.0"], "memory (r) can't have an order"),
        (["atomic xor s[1, 1] @ relaxed.gpu <- 1.0"], "no atomic xor exists for float32"),
        (["atomic raise s[1, 1] @ relaxed.gpu <- 1.0"], "unknown atomic operation 'raise'"),
        (["atomic add s[1, 1] @ relaxed.gpu <- 1.0, 2.0"], "add takes (value); got 2"),
        (["atomic add s[1, 1] @ relaxed.gpu <- 1:int32"], "s must be float32; got"),
        (["atomic add s[1, 1] @ relaxed.gpu <- 1.0 as x: int32"], "x must be float32; got int32"),
        (["instruction vote.any <- True as x: int32"], "result must be a predicate"),
        (["instruction vote.any <- True"], "1 result value missing"),
        (["let x: int32 uniform grid = 1"], "uniform over unknown scope 'grid'"),
        (["store s[1] <- 1.0"], "1 index, but s has 2"),
        (["store s[1, 1] <- 1"], "s must be float32; got"),
        (["thread.sync"], "the threads of 'thread' have no barrier"),
    ],
)
def test_a_broken_invariant_of_tile_ir_is_reported(lines: list[str], message: str) -> None:
    lines = [line.replace("<- 1", "<- 1:int32") if line == "store s[1, 1] <- 1" else line for line in lines]
    found = faults("tile", *lines)
    assert any(message in f for f in found), found


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["warp.sqrt r[0 +: 32, 0 +: 8], r[0 +: 32, 0 +: 8]"], "tile operation sqrt at lane level"),
        (["let x: float32 = s[0, 0]"], "an element of s is valid only above lane level"),
        (["store r[0 +: 1] <- s[0 +: 1] + 1.0"], "must be the whole value of a `Let`"),
        (["store s[0 +: 2] <- 1.0"], "a store writes one element"),
        (["let x: float32 = s[0 +: 2]"], "a load reads one element"),
        (["move r[0 +: 1] <- s[0 +: 1] cache streaming"], "a move from shared to local memory has no cache hint"),
        (["let x: float32 = s[0 +: 1] @ release.gpu"], "a load has no order 'release.gpu'"),
        (["store s[0 +: 1] @ acquire.gpu <- 1.0"], "a store has no order 'acquire.gpu'"),
        (["store s[0 +: 1] @ relaxed.warp <- 1.0"], "a store has no order 'relaxed.warp'"),
        (["let x: float32 = r[0 +: 1] @ relaxed.cta"], "a load of local memory"),
        (["move r[0 +: 4] <- s[0 +: 2]"], "a move of 2 x float32 to 4 x float32"),
        (["move h[0 +: 2] <- s[0 +: 2]"], "a move of 2 x float32 to 2 x float16"),
        (["move s[0 +: 4] <- A[0 +: 4]"], "must go through registers"),
        (["move r[0 +: 3] <- s[0 +: 3]"], "an access of 12 bytes to s"),
        (["move r[6 +: 4] <- s[0 +: 4]"], "r holds 8 elements; accessing 4 from 6 is out of bounds"),
        (["move r[0 +: 4] <- s[256 +: 4]"], "s holds 256 elements"),
        (["move r[0 +: 4] <- A[0:int32 +: 4]"], "offsets into global memory must be int64"),
        (["move r[%lane_id +: 1] <- s[0 +: 1]"], "register of r is indexed by lane_id"),
        (["for i: int32 in 0 .. 4 step 1", "  move r[i +: 1] <- s[0 +: 1]"], "register of r is indexed by i"),
        (["alloc q: shared float32[8] S[(8,) : (1,)] align 4 addressed"], "q: only local buffers can be addressed"),
        (["alloc q: local float32[8] S[8 : 1] align 4 addressed", "move q[8 +: 1] <- s[0 +: 1]"], "q holds 8 elements"),
        (["alloc t: tmem float32[128, 8] S[(128, 8) : (1 @ TLane, 1 @ TCol)] align 4",
          "alloc q: local float32[8] S[8 : 1] align 4 addressed",
          "instruction tcgen05.ld.32x32b.x8 q[0 +: 8] <- t[0 +: 1]"], "uses registers until its wait; q is addressed"),
        (["move r[0 +: 1] <- s[0 +: 1] otherwise 1.0"], "needs a predicate and a destination in registers"),
        (["move r[0 +: 1] <- s[0 +: 1] when n"], "a predicate must be bool_"),
        (["unrolled for i: int32 in 0 .. n step 1", "  pass"], "the unrolled loop over i needs a constant start"),
        (["unrolled for i: int32 in 0 .. 2 step 1", "  break"], "break in an unrolled loop"),
        (["instruction ldmatrix s[0 +: 4] <- r[0 +: 4]"], "ldmatrix writes registers; s is shared"),
        (["view v = r + n align 4"], "v is at an offset from r, which is in registers"),
        (["view v = s + %cta_id.0 align 4"], "the offset of v from s must be int32; got int64"),
        (["var c: int32 = 0", "view v = s + c align 4"], "the offset of v may change"),
        (["view v = s + int32(r[0 +: 1]) align 4"], "the offset of v may change"),
        (["unrolled for i: int32 in 0 .. 2 step 1", "  view v = s + i align 4"], "outside unrolled loops"),
        (["if n < 1", "  view v = s + n align 4", "  move r[0 +: 1] <- v[0 +: 1]", "move r[0 +: 1] <- v[0 +: 1]"],
         "buffer v is used outside the block that defines it"),
        (["if n < 1", "  view v = s + n align 4", "else", "  view w = v + n align 4"],
         "buffer v is used outside the block that defines it"),
        (["alloc t: tmem float32[128, 8] S[(128, 8) : (1 @ TLane, 1 @ TCol)] align 4", "view v = t + n align 4"],
         "v is at an offset from t, which is in tensor memory"),
    ],
)
def test_a_broken_invariant_of_lane_ir_is_reported(lines: list[str], message: str) -> None:
    found = faults("lane", *lines)
    assert any(message in f for f in found), found


def combining(function: str, sources: int = 1) -> list[str]:
    """What is wrong with a reduction of tiles of float32 by this function."""
    pairs = ", ".join(["r[0, 0 +: 8], r[0 +: 32, 0 +: 8]"] * sources)
    return faults("tile", f"warp.reduce {pairs}; axis=(0), combine=def {function}")


def test_a_sound_function_has_no_violations() -> None:
    assert combining("(a: float32), (b: float32) let c: float32 = a * 2.0, d: bool_ = c < b -> (where(d, c, b))") == []
    assert combining("(a: float32, b: float32), (c: float32, d: float32) -> (a, d)", 2) == []


@pytest.mark.parametrize(
    ("function", "message"),
    [
        ("(a: float32), (a: float32) -> (a)", "combine: a is defined twice"),
        ("(a: float32), (b: float32) let b: float32 = a -> (b)", "combine: b is defined twice"),
        ("(a: float32), (b: int32) -> (a)", "the types of the higher values differ from those of the lower ones"),
        ("(a: float32), (b: float32) let c: int32 = a -> (b)", "combine: c must be int32; got float32"),
        ("(a: float32), (b: float32) -> (a + %thread_id)", "combine: the function contains a Special"),
        ("(a: float32), (b: float32) -> (a + r[0, 0])", "combine: the function contains a Load"),
        ("(a: float32), (b: float32) -> (a + 1:int32)", "computes in"),
        ("(a: float32), (b: float32) -> (1e300:float32)", "1e+300 isn't a value of float32"),
        ("(a: float32), (b: float32) -> (int32(a))", "combine changes the dtype: it returns int32 for float32"),
        ("(a: float32), (b: float32) -> (a, b)", "combine returns 2 values for 1 tile"),
    ],
)
def test_a_broken_function_is_reported(function: str, message: str) -> None:
    found = combining(function)
    assert any(message in f for f in found), found


def test_a_function_uses_no_variable_of_the_kernel() -> None:
    sound = from_text(
        "kernel k threads=64 target=sm_90a\n  param n: float32 scalar of n\n" + BUFFERS
        + "  warp.reduce r[0, 0 +: 8], r[0 +: 32, 0 +: 8]; axis=(0), combine=def (a: float32), (b: float32) -> (b)\n"
    )
    *others, op = sound.body
    assert isinstance(op, ir.TileOp)
    combine = dict(op.attrs)["combine"]
    assert isinstance(combine, Combine)
    foreign = replace(combine, results=(ir.Var("n", float32),))
    broken = replace(sound, body=(*others, replace(op, attrs=(op.attrs[0], ("combine", foreign)))))
    assert [v.message for v in verify(sound, "tile")] == []
    assert [v.message for v in verify(broken, "tile")] == ["combine: the function doesn't define n"]


def test_unknown_buffers_and_variables_are_reported() -> None:
    s = ir.Buffer("s", "shared", float32, (8,), from_text(SQRT).body[0].buffer.layout, 4)  # type: ignore[union-attr]
    use = ir.Store(ir.Element(s, (ir.Var("i", int32),)), ir.Const(1.0, float32))
    found = [v.message for v in verify(ir.Kernel("k", (), 32, "sm_90a", (use,)), "tile")]
    assert "buffer s is used without a prior definition" in found
    assert "i is used without a prior definition" in found


def test_a_use_must_say_what_the_definition_says() -> None:
    let = ir.Let(ir.Var("i", int32, 4), ir.Const(4, int32))
    use = ir.Let(ir.Var("j", int32), ir.Var("i", int32, 8))
    (found,) = verify(ir.Kernel("k", (), 32, "sm_90a", (let, use)), "tile")
    assert "used as" in found.message and "defined as" in found.message


def test_a_fault_in_an_expression_that_two_statements_share_is_reported_at_both() -> None:
    shared = ir.Op("add", (ir.Const(1, int32), ir.Const(2**40, int32)), int32)
    lets = {3: ir.Var("x", int32), 4: ir.Var("y", int32)}
    body = tuple(ir.Let(var, shared, Span("k.py", line, 4, line, 9)) for line, var in lets.items())
    found = verify(ir.Kernel("k", (), 32, "sm_90a", body), "tile")
    assert [(v.message, v.span and v.span.line) for v in found] == [
        (f"{2**40} isn't a value of int32", 3), (f"{2**40} isn't a value of int32", 4)
    ]


def test_an_expression_that_holds_in_a_block_is_checked_again_after_it() -> None:
    x, n = ir.Var("x", int32), ir.Var("n", int32)
    shared = ir.Op("add", (x, n), int32)
    inside = ir.If(ir.Op("less", (n, ir.Const(4, int32)), bool_), (ir.Let(x, n), ir.Let(ir.Var("y", int32), shared)))
    body = (inside, ir.Let(ir.Var("z", int32), shared))
    found = verify(ir.Kernel("k", (ScalarParam("n", n),), 32, "sm_90a", body), "tile")
    assert [v.message for v in found] == ["x is used outside the block that defines it"]


def test_only_the_definitions_of_a_block_end_with_it() -> None:
    text = """kernel k threads=32 target=sm_90a
  let a: int32 = %lane_id
  if a < 4
    let b: int32 = a
    if b < 2
      let c: int32 = b
    let d: int32 = b
  let e: int32 = a
"""
    assert verify(from_text(text), "tile") == []
    for name in "bcd":
        (violation,) = verify(from_text(text + f"  let f: int32 = {name}\n"), "tile")
        assert f"{name} is used outside the block that defines it" in violation.message


def test_each_block_is_verified_in_the_time_that_it_takes_alone() -> None:
    """Thousands of branches, as an unrolled loop has them: copying what is visible would take the square of that."""
    def seconds(branches: int) -> float:
        body: list[ir.Stmt] = []
        for k in range(branches):
            var = ir.Var(f"v{k}", int32)
            body += [ir.Declare(var, ir.Const(k, int32)), ir.If(ir.Const(True, bool_), (), ())]
        kernel = ir.Kernel("k", (), 32, "sm_90a", tuple(body))
        begin = time.process_time()
        assert verify(kernel, "tile") == []
        return time.process_time() - begin

    few, many = (min(seconds(n) for _ in range(3)) for n in (500, 4000))
    assert many < 24 * few


def test_examining_lists_the_names_that_are_used() -> None:
    kernel = from_text(
        f"kernel k threads=64 target=sm_90a\n{PARAMS}{BUFFERS}"
        "  view v: shared float32[256] S[256 : 1] align 128 of s\n"
        "  let t: float32 = A[int64(n) +: 1]\n"
        "  store v[0 +: 1] <- t\n"
    )
    found = examine(kernel, "lane")
    assert found.violations == []
    assert found.vars == {"n", "t"} and found.buffers == {"A", "s"}


def test_kernels_and_parameters_are_checked() -> None:
    bad = ExtentParam("A", ir.Var("A.shape.0", int32), 0)
    found = [v.message for v in verify(ir.Kernel("k", (bad,), 2000, "sm_1", ()), "tile")]
    assert any("threads; got 2000" in f for f in found)
    assert any("unknown target 'sm_1'" in f for f in found)
    assert any("an extent, a stride or an address must be int64" in f for f in found)


def test_infinity_is_a_value_of_e5m2_only() -> None:
    let = ir.Let(ir.Var("x", float8_e4m3fn), ir.Const(math.inf, float8_e4m3fn))
    (found,) = verify(ir.Kernel("k", (), 32, "sm_90a", (let,)), "tile")
    assert "inf isn't a value of float8_e4m3fn" in found.message


def test_a_violation_carries_its_place() -> None:
    span = Span("k.py", 3, 4, 3, 9, "    break")
    (found,) = verify(ir.Kernel("k", (), 32, "sm_90a", (ir.Break(span=span),)), "tile")
    assert found.span == span
    assert "k.py:3:5" in str(found)


def test_what_a_mask_may_leave_out_may_lie_outside() -> None:
    masked = (
        "alloc m: local bool_[32, 8] S[(32, 8) : (1 @ laneid, 1)] align 1",
        "warp.fill m[0 +: 32, 0 +: 8], n < 0",
        "warp.copy r[0 +: 32, 0 +: 8], A[0 +: 32, 4 +: 8] inside, 0.0, m[0 +: 32, 0 +: 8]",
    )
    assert faults("tile", *masked) == []


def test_what_a_branch_may_leave_out_may_lie_outside_global_memory() -> None:
    array = "  param B: global float32[8] S[8 : 1] align 16 written\n"
    beyond = "B holds 8 elements; accessing 1 from 8 is out of bounds"
    for access in ("store B[8 +: 1] <- 1.0", "atomic add B[8 +: 1] @ relaxed.gpu <- 1.0"):
        assert faults("lane", access, params=array) == [beyond]
        assert faults("lane", "if n < 0", f"  {access}", params=array) == []
        assert faults("lane", "if n < 0", "  pass", access, params=array) == [beyond]
    outside = "s holds 256 elements; accessing 1 from 256 is out of bounds"
    assert faults("lane", "if n < 0", "  store s[256 +: 1] <- 1.0") == [outside]


def test_a_level_is_tile_or_lane() -> None:
    with pytest.raises(ValueError, match="one of open, tile, lane"):
        verify(from_text(SQRT), "middle")


def test_only_an_address_whose_bytes_may_be_left_alone_may_lie_outside(monkeypatch: pytest.MonkeyPatch) -> None:
    operands = (
        address("to", "shared", Direction.OUT, 16),
        address("source", "global", Direction.IN, 16, is_cut=True),
        address("log", "global", Direction.OUT, 4),
        predicate("ignored"),
    )
    text = "demo.copy [$to], [$source], [$log], $ignored;"
    row = Row(name="demo.copy", text=text, meaning="", since=80, ptx=(7, 0), operands=operands)
    carrying = replace(row, name="demo.carrying", operands=(carried("held"), *operands))
    for each in (row, carrying):
        monkeypatch.setitem(ROWS, each.name, each)
    array = "  param B: global float32[8] S[8 : 1] align 16 written\n"
    for head in ("demo.copy <- ", "demo.carrying r[0 +: 2] <- r[0 +: 2], "):
        cut = f"instruction {head}s[0 +: 4], B[8 +: 4], B[4 +: 1], n < 0"
        assert faults("lane", cut, params=array) == []
        beyond = f"instruction {head}s[0 +: 4], B[0 +: 4], B[8 +: 1], n < 0"
        assert faults("lane", beyond, params=array) == ["B holds 8 elements; accessing 1 from 8 is out of bounds"]
