"""`gemm` and `tj.mma` as users write them: tile IR, layouts at compile time, errors."""

from __future__ import annotations

import pytest

import tilejit as tj
from tests.support.programs import array, statements, tile_ir
from tilejit import dtypes
from tilejit.dtypes import DType
from tilejit.errors import DispatchError, KernelTypeError, LayoutError
from tilejit.ir import nodes as ir
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import to_text
from tilejit.ir.verify import verify
from tilejit.layout import layout_a, layout_b, layout_c

START = """def k(A, B, n):
    acc = tj.alloc_local((32, 16), tj.float32, layout=tj.mma.layout_c((32, 16)))
    tj.warp.fill(acc, 0)
    a = tj.warp.load(A[0:32, 0:32], layout=tj.mma.layout_a((32, 32), A.dtype))
    b = tj.warp.load(B[0:32, 0:16], layout=tj.mma.layout_b((32, 16), B.dtype))
"""


def built(body: str, a: DType = dtypes.float16, b: DType = dtypes.float16, threads: int = 32) -> ir.Kernel:
    """The tile IR of `body` after `START`."""
    types = (array(a, 2), array(b, 2), dtypes.int32)
    return tile_ir(START + f"    {body}\n", *types, threads=threads)


def test_a_product_has_its_operands_in_order_and_reads_back_from_text() -> None:
    kernel = built("tj.warp.gemm(acc, a, b)")
    op = statements(kernel.body, ir.TileOp)[-1]
    assert (op.name, op.scope, op.attrs) == ("gemm", "warp", ())
    assert [r.buffer.name for r in op.operands if isinstance(r, ir.Region)][0] == "acc"
    assert [r.shape for r in op.operands if isinstance(r, ir.Region)] == [(32, 16), (32, 32), (32, 16)]
    assert from_text(to_text(kernel)) == kernel


def test_attributes_are_kept() -> None:
    kernel = built("tj.warp.gemm(acc, a, b, precision='tf32', variant='mma')", dtypes.float32, dtypes.float32)
    assert statements(kernel.body, ir.TileOp)[-1].attrs == (("precision", "tf32"), ("variant", "mma"))
    assert from_text(to_text(kernel)) == kernel


def test_layouts_are_the_same_on_the_host_and_in_a_kernel() -> None:
    kernel = built("tj.warp.gemm(acc, a, b)")
    made = [s.buffer.layout for s in statements(kernel.body, ir.Alloc)]
    expected = {layout_c((32, 16)), layout_a((32, 32), dtypes.float16), layout_b((32, 16), dtypes.float16)}
    assert set(made) == expected
    assert tj.mma.layout_a((32, 32), tj.float16) == layout_a((32, 32), dtypes.float16)


def test_layouts_take_constexprs_and_keywords() -> None:
    text = (
        "def k(A, WARPS: tj.constexpr):\n"
        "    M = 16 * WARPS[0]\n"
        "    a = tj.cta.load(A[0:M, 0:16], layout=tj.mma.layout_a((M, 16), dtype=A.dtype, warps=WARPS))\n"
        "    A[0, 0] = a.registers[0]\n"
    )
    kernel = tile_ir(text, array(dtypes.bfloat16, 2), (4, 2), threads=256)
    (alloc,) = (s for s in statements(kernel.body, ir.Alloc) if s.buffer.name.startswith("a"))
    assert alloc.buffer.layout == layout_a((64, 16), dtypes.bfloat16, warps=(4, 2))


@pytest.mark.parametrize(
    ("body", "words", "help_words"),
    [
        ("tj.warp.gemm(acc, a, a)", r"\(32, 32\) by \(32, 32\) isn't \(32, 16\)", "slice or transpose"),
        ("tj.warp.gemm(acc, a, b.T)", r"\(32, 32\) by \(16, 32\) isn't \(32, 16\)", "slice or transpose"),
        ("tj.warp.gemm(acc, a, b, precision='tf32')", "precision='tf32' is for float32 operands", "element type"),
        ("tj.warp.gemm(acc, a, b, precision='ieee')", '"tf32" or "tf32x3" or None; got \'ieee\'', "tj.matmul(a, b, "),
        ("tj.warp.gemm(acc, a, b, precision=1)", "precision= takes str; got 1", "leave precision= out"),
        ("tj.warp.gemm(acc, a, 1)", "b of gemm must be a buffer or a region", "slice"),
        ("tj.warp.gemm(a, a, b)", "a is the result of an expression", "alloc_local"),
        ("tj.warp.gemm(acc, acc, acc)", "isn't", "slice"),
        ("x = a.astype(tj.int8)\n    tj.warp.gemm(acc, x, b)", "products of int8 by", "element"),
    ],
)
def test_operands_that_dont_fit_are_refused_at_their_location(body: str, words: str, help_words: str) -> None:
    with pytest.raises(KernelTypeError, match=words) as refused:
        built(body)
    assert help_words in str(refused.value.hint) and refused.value.span is not None


def test_float32_operands_need_a_precision() -> None:
    with pytest.raises(KernelTypeError, match='float32 operands need precision="tf32"'):
        built("tj.warp.gemm(acc, a, b)", dtypes.float32, dtypes.float32)


def test_a_layout_that_doesnt_divide_is_refused_at_its_location() -> None:
    with pytest.raises(LayoutError, match="M is 24; a fragment needs a positive multiple of 16") as refused:
        built("x = tj.mma.layout_a((24, 16), tj.float16)")
    assert refused.value.span is not None and "layout_a" in refused.value.span.text


@pytest.mark.parametrize(
    ("body", "threads"),
    [
        ("if tj.lane_id() < 16:\n        tj.warp.gemm(acc, a, b)", 32),
        ("if n > tj.thread_id():\n        tj.warp.gemm(acc, a, b)", 32),
        ("if tj.warp_id() == 0:\n        tj.cta.gemm(acc, a, b)", 64),
    ],
)
def test_a_product_that_some_threads_dont_come_to_names_the_branch(body: str, threads: int) -> None:
    with pytest.raises(DispatchError, match="gemm") as refused:
        built(body, threads=threads)
    assert refused.value.span is not None and "if" in refused.value.span.text


def test_warps_may_multiply_in_branches_of_their_own() -> None:
    kernel = built("if tj.warp_id() == 1:\n        tj.warp.gemm(acc, a, b)", threads=64)
    assert verify(kernel, "tile") == []


def test_the_verifier_finds_shapes_and_types_that_dont_fit() -> None:
    kernel = built("tj.warp.gemm(acc, a, b)")
    *rest, op = kernel.body
    assert isinstance(op, ir.TileOp)
    acc, a, b = op.operands
    for operands, attrs, words in (
        ((acc, b, a), (), "isn't"),
        ((acc, a, b), (("precision", "tf32"),), "is for float32 operands"),
        ((acc, a, ir.TRUE), (), "can't be a scalar"),
    ):
        broken = ir.Kernel("k", kernel.params, 32, "sm_90a", (*rest, ir.TileOp("gemm", "warp", operands, attrs)))
        assert any(words in v.message for v in verify(broken, "tile")), words
