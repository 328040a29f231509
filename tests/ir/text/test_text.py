"""The IR's text reads back as the same IR, and says where it can't be read."""

from __future__ import annotations

import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.ir.text.kernels import LAYOUTS, kernels
from tilejit.dtypes import bool_, float16, float32, float64, int32, int64
from tilejit.errors import KernelSyntaxError
from tilejit.ir import nodes as ir
from tilejit.ir.text.layout_text import layout_from_text
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import expr_text, to_text
from tilejit.ir.verify import verify
from tilejit.layout import S, TileLayout

SQRT = """\
kernel sqrt_tile threads=32 target=sm_90a
  param A: global float32[A.shape.0, 8] strides(A.stride.0, 1; align 16; extent_align 4) align 16 written
  param A.shape.0: int64 within 0..1099511627776 extent 0 of A
  param A.stride.0: int64 multiple_of 4 stride 0 of A
  param n: int32 scalar of n
  alloc smem: shared float32[32, 8] S[(32, 8) : (8, 1)] align 128
  warp.copy smem[0 +: 32, 0 +: 8], A[%cta_id.0 * 32 +: 32, 0 +: 8] inside, 0.0; variant="gmem_smem", require_bits=128
  cta.sync
  let x: float32 = smem[0, 1]
  var i: int32 = 0
  loop
    if i >= n or %lane_id == 31
      break
    else
      set i = i + 1
"""

LANE = """\
kernel lanes threads=128 target=sm_90a max_registers=64 cluster=(2, 1, 1) debug
  alloc smem: shared float32[32, 8] S[(32, 8) : (8, 1)] align 128
  alloc r: local float32[32, 8] S[(32, 8) : (1 @ laneid, 1)] align 4
  unrolled for f: int32 in 0 .. 2 step 1
    move r[f * 4 +: 4] <- smem[%lane_id * 8 + f * 4 +: 4] when %lane_id < 30 otherwise -inf
    store r[f +: 1] <- sqrt(r[f +: 1])
  instruction ldmatrix.x4 r[0 +: 4] <- smem[%lane_id * 8 +: 4]
  instruction div.approx.f32 r[0 +: 1] <- (r[1 +: 1]), 3.0
"""


OPEN = """\
kernel centred threads=64 target=sm_90a
  alloc x: local float16[32, 48] open cta align 16
  alloc s: local float16[32] open cta align 16
  alloc y: local float16[7, 13] in [8, 16] S[128 : 1 @ tx] align 16
  alloc z: local float16[7, 13] in [128] S[128 : 1 @ tx] align 16
  view c: local float16[32, 1] open cta (0, None) align 16 of s
  view t: local float16[48, 32] open cta (1, 0) align 16 of x
  cta.copy s[0 +: 32], s[0 +: 32]; axis=(0, 1)
  cta.sub x[0 +: 32, 0 +: 48], x[0 +: 32, 0 +: 48], c[0 +: 32, 0 +: 1]
"""


def test_open_tiles_and_slots_read_back() -> None:
    kernel = from_text(OPEN)
    assert to_text(kernel) == OPEN
    assert {v.message for v in verify(kernel, "open")} == {"copy has no attribute 'axis'"}
    assert {v.message for v in verify(kernel, "tile")} >= {"x has no layout yet", "c has no layout yet"}


@pytest.mark.parametrize(
    "line, message",
    [
        ("alloc a: shared float16[8] open cta align 16", "only local tiles can be open"),
        ("alloc a: local float16[8] open grid align 16", "unknown scope 'grid'"),
        ("alloc a: local float16[8] open cta (0) align 16", "if and only if it is a view"),
        ("view a: local float16[8, 1] open cta (0, 0) align 16 of s", "can't map to dimensions (0, 0)"),
        ("view a: local float16[8] open cta (0) align 16 of s", "doesn't match (0,) of s"),
        ("view a: local float32[32] open cta (0) align 16 of s", "has another width"),
        ("view a: local float16[32] open warp (0) align 16 of s", "open on the same scope"),
        ("alloc a: local float16[7, 13] in [90] S[90 : 1 @ tx] align 16", "91 elements but 90 slots"),
        ("alloc a: local float16[7, 13] in [8, 12] S[96 : 1 @ tx] align 16", "doesn't fit in slots (8, 12)"),
        ("alloc a: local float16[7, 13] in [8, 16] S[96 : 1 @ tx] align 16", "has 128 slots"),
        ("alloc a: shared float16[7] in [8] S[8 : 1] align 16", "only a local tile with a layout can have slots"),
    ],
)
def test_what_is_wrong_with_open_tiles_and_slots_is_said(line: str, message: str) -> None:
    kernel = from_text(f"kernel k threads=64 target=sm_90a\n  alloc s: local float16[32] open cta align 16\n  {line}\n")
    assert any(message in v.message for v in verify(kernel, "open")), verify(kernel, "open")


@given(kernels("tile"))
def test_tile_ir_reads_back(kernel: ir.Kernel) -> None:
    text = to_text(kernel)
    assert from_text(text) == kernel, text
    assert to_text(from_text(text)) == text


@given(kernels("lane"))
def test_lane_ir_reads_back(kernel: ir.Kernel) -> None:
    text = to_text(kernel)
    assert from_text(text) == kernel, text
    assert to_text(from_text(text)) == text


COMBINE = """\
kernel k threads=32 target=sm_90a
  let a: int32 = 1
  alloc x: local float32[32, 8] S[(32, 8) : (1 @ laneid, 1)] align 16
  alloc i: local int32[32, 8] S[(32, 8) : (1 @ laneid, 1)] align 16
  warp.reduce x[0 +: 32, 0], x[0 +: 32, 0 +: 8], i[0 +: 32, 0], i[0 +: 32, 0 +: 8]; axis=(1), combine=def \
(a: float32, i: int32 within 0..7), (`b c`: float32, j: int32) let t: bool_ = `b c` > a, u: float32 = a - 1.0 \
-> (where(t, 2.0, u), j + 1)
  warp.reduce x[0 +: 32, 0], x[0 +: 32, 0 +: 8]; combine=def (a: float32), (b: float32) -> (0.5:float16)
  set a = a + 1
"""


@pytest.mark.parametrize("text", [SQRT, LANE, COMBINE])
def test_the_text_is_as_documented(text: str) -> None:
    assert to_text(from_text(text)) == text


def test_bare_literals_take_the_type_of_their_place() -> None:
    kernel = from_text(SQRT)
    copy = kernel.body[1]
    assert isinstance(copy, ir.TileOp)
    region = copy.operands[1]
    assert isinstance(region, ir.Region)
    assert region.starts[0] == ir.Op("mul", (ir.Special("cta_id.0"), ir.Const(32, int64)), int64)
    assert region.starts[1] == ir.Const(0, int64)
    assert copy.operands[2] == ir.Const(0.0, float32)
    move = from_text(LANE).body[2]
    assert isinstance(move, ir.For) and isinstance(move.body[0], ir.Move)
    assert move.body[0].otherwise == ir.Const(-math.inf, float32)


def test_signs_of_zero_and_exact_floats_survive() -> None:
    for value in (-0.0, 0.1, 1e-45, 2.0**-1074, math.pi, 1e300):
        kernel = ir.Kernel("k", (), 32, "sm_90a", (ir.Let(ir.Var("x", float64), ir.Const(value, float64)),))
        (let,) = from_text(to_text(kernel)).body
        assert isinstance(let, ir.Let) and isinstance(let.value, ir.Const)
        assert math.copysign(1, let.value.value) == math.copysign(1, value) and let.value.value == value


def test_parentheses_follow_precedence() -> None:
    i, j, p = ir.Var("i", int32), ir.Var("j", int32), ir.Var("p", bool_)
    minus = ir.Op("sub", (i, ir.Op("sub", (j, ir.Const(-3, int32)), int32)), int32)
    assert expr_text(minus) == "i - (j - -3)"
    assert expr_text(ir.Op("mul", (minus, j), int32)) == "(i - (j - -3)) * j"
    less = ir.Op("less", (i, j), bool_)
    assert expr_text(ir.Op("equal", (less, p), bool_)) == "(i < j) == p"
    assert expr_text(ir.Op("logical_not", (ir.Op("logical_or", (less, p), bool_),), bool_)) == "not (i < j or p)"
    assert expr_text(ir.Cast(ir.Const(1.0, float16), float32)) == "float32(1.0:float16)"


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_layouts_repr_reads_back(layout: TileLayout) -> None:
    assert layout_from_text(repr(layout)) == layout


@pytest.mark.parametrize(
    "text", ["__import__('os')", "S[8].replace()", "S[(8, 4) : (4, 1)] * 2", "laneid", "S[8", "S[x.y]", "open('f')"]
)
def test_only_layouts_are_read_as_layouts(text: str) -> None:
    with pytest.raises(KernelSyntaxError, match="not a layout"):
        layout_from_text(text)


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("set y = 1", "'y' isn't defined"),
        ("let y: int33 = 1", "'int33' isn't an element type"),
        ("let y: int32 = frobnicate(1)", "unknown operation 'frobnicate'"),
        ("let y: int32 = 1 +", "expected"),
        ("let y: int32 = 1 2", "unexpected '2'"),
        ("let y: int32 = %nothing", "unknown special register"),
        ("jump y", "unknown statement 'jump'"),
        ("loop", "expected an indented block"),
        ("alloc s: shared float32[8] S[8 align 4", "not a layout"),
        ("alloc s: cache float32[8] S[8 : 1] align 4", "'cache' isn't a memory space"),
        ("let y: int32 = $", "unexpected '$'"),
        ("warp.reduce; combine=def (a: int32), (b: int32) -> (c)", "'c' isn't defined"),
        ("warp.reduce; combine=def (a: int32) -> (a)", "expected ','"),
        ("warp.reduce; combine=def (a: int32), (b: int32) (a)", "expected '->'"),
    ],
)
def test_unreadable_text_says_where(line: str, message: str) -> None:
    with pytest.raises(KernelSyntaxError) as caught:
        from_text(f"kernel k threads=32 target=sm_90a\n  {line}\n")
    assert message in caught.value.message
    assert "<tile IR>:2:" in str(caught.value) and "grammar" in (caught.value.hint or "")


#: put in place of a word, beside the words of the text itself
WORDS = ("", "007", "0xb", '"\\q"', "`\\q`", "-", "1e999", "view", "(", "]", "None", "9" * 30, "`", "$")


@given(st.data())
def test_changed_text_reads_or_is_refused(data: st.DataObject) -> None:
    """It never ends in an error of the reader's own."""
    lines = data.draw(st.sampled_from([SQRT, LANE, OPEN])).splitlines()
    number = data.draw(st.integers(0, len(lines) - 1))
    words = re.findall(r"\s+|\w+|.", lines[number])
    first, last = sorted(data.draw(st.tuples(*[st.integers(0, len(words))] * 2)))
    words[first:last] = [data.draw(st.sampled_from([*WORDS, *words]))]
    lines[number] = "".join(words)
    readable_or_refused("\n".join(lines))


@pytest.mark.parametrize(
    "line", ["view", "view ", 'assert n, "\\q"', "alloc s: shared float32[007] S[7 : 1] align 4", "set n = 0xb"]
)
def test_a_line_reads_or_is_refused(line: str) -> None:
    readable_or_refused(f"kernel k threads=32 target=sm_90a\n  param n: int32 scalar of n\n  {line}\n")


def readable_or_refused(text: str) -> None:
    try:
        from_text(text)
    except KernelSyntaxError as error:
        assert error.hint


def test_a_layout_with_one_iterator_reads_back() -> None:
    assert layout_from_text("S[256]") == S[256:1]
