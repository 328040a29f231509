"""Tile operations with a destination, and expressions on local tiles."""

from __future__ import annotations

import pytest

import tilejit as tj
from tests.support.programs import array, statements, tile_ir
from tilejit import dtypes
from tilejit.dtypes import DType
from tilejit.errors import KernelTypeError
from tilejit.ir import nodes as ir
from tilejit.ir.params import PointerParam
from tilejit.ir.text.parser import from_text
from tilejit.ir.text.printer import to_text
from tilejit.layout import S, laneid

ROWS = S[(32, 8) : (1 @ laneid, 1)]


def ops(body: str, *types: object, threads: int = 32, **names: object) -> list[ir.TileOp]:
    """The tile operations in the body of `def k(A, B, n, x)`: float16 and float32 arrays, int32, float32."""
    start = "r = tj.alloc_local((32, 8), A.dtype, layout=ROWS)\n    tj.warp.fill(r, 0)"
    text = f"def k(A, B, n, x):\n    {start}\n    {body}\n"
    types = (array(dtypes.float16, 2), array(dtypes.float32, 2), dtypes.int32, dtypes.float32)
    kernel = tile_ir(text, *types, threads=threads, ROWS=ROWS, **names)
    assert from_text(to_text(kernel)) == kernel
    return statements(kernel.body, ir.TileOp)[1:]


def test_the_first_example_of_the_language() -> None:
    def sqrt_tile(A: tj.Tensor, B: tj.Tensor):
        smem = tj.alloc_shared((32, 8), A.dtype)
        r = tj.alloc_local((32, 8), A.dtype, layout=ROWS)
        tj.warp.copy(smem, A[0:32, 0:8])
        tj.cta_sync()
        tj.warp.copy(r, smem)
        tj.warp.sqrt(r, r)
        tj.warp.copy(smem, r)
        tj.cta_sync()
        tj.warp.copy(B[0:32, 0:8], smem)

    kernel = tile_ir(sqrt_tile, array(rank=2), array(rank=2))
    names = [s.name if isinstance(s, ir.TileOp) else type(s).__name__ for s in kernel.body]
    assert names == ["Alloc", "Alloc", "copy", "Sync", "copy", "sqrt", "copy", "Sync", "copy"]
    assert [p.written for p in kernel.params if isinstance(p, PointerParam)] == [False, True]
    assert kernel.body[5].span.text.strip() == "tj.warp.sqrt(r, r)"


def test_attributes_are_kept_in_the_tables_order() -> None:
    (op,) = ops("tj.warp.copy(r, A[0:32, 0:8], require_bits=64, fill=-1, variant='reg')")
    assert op.attrs == (("variant", "reg"), ("require_bits", 64))
    assert op.operands[2] == ir.Const(-1.0, dtypes.float16)


def test_scalars_and_broadcasting_tiles_are_accepted_as_inputs() -> None:
    text = (
        "tj.warp.add(r, r, 1)\n    tj.warp.mul(r, n, r)\n"
        "    tj.warp.sub(r, r, r[:, 0:1])\n    tj.warp.fma(r, r, x, 2)"
    )
    found = ops(text)
    assert found[0].operands[2] == ir.Const(1.0, dtypes.float16)
    assert found[1].operands[1].dtype == dtypes.float16
    assert found[2].operands[2].shape == (32, 1)
    assert [o.dtype for o in found[3].operands] == [dtypes.float16] * 4


def test_every_scope_offers_the_operations() -> None:
    text = "\n    ".join(f"tj.{s}.fill(B[0:8, 0:8], 1)" for s in ("thread", "warp", "warpgroup", "wg", "cta"))
    assert [op.scope for op in ops(text, threads=128)] == ["thread", "warp", "warpgroup", "warpgroup", "cta"]


def test_operations_of_scalars_only_fill_the_destination() -> None:
    (op,) = ops("tj.warp.add(r, x, 1)")
    assert [o.dtype for o in op.operands] == [dtypes.float16, dtypes.float32, dtypes.float16]


@pytest.mark.parametrize(
    ("expression", "dtype"),
    [("r + 1", dtypes.float16), ("r * x", dtypes.float16), ("r + 1.5", dtypes.float16), ("n - r", dtypes.float16),
     ("tj.exp(r)", dtypes.float16), ("r < x", dtypes.bool_), ("-r", dtypes.float16),
     ("r.astype(tj.int32)", dtypes.int32),
     ("r.astype(tj.int32) + x", dtypes.float32), ("r.astype(tj.int8) + 1", dtypes.int8),
     ("r.astype(tj.int32) / 2", dtypes.float32), ("tj.where(r > 0, r, 0)", dtypes.float16), ("abs(r)", dtypes.float16),
     ("~(r < 1) & (r > -1)", dtypes.bool_), ("r + r.astype(tj.float32)", dtypes.float32), ("r ** 2", dtypes.float16)],
)
def test_expressions_make_fresh_tiles_in_the_promoted_type(expression: str, dtype: DType) -> None:
    result = ops(f"y = {expression}")[-1].operands[0]
    assert isinstance(result, ir.Region)
    assert (result.dtype, result.shape, result.buffer.layout) == (dtype, (32, 8), ir.Open("warp"))
    assert result.buffer.name != "r"


def test_an_expression_has_its_tiles_scope_and_the_shape_to_which_they_broadcast() -> None:
    (made,) = ops("y = r[:, 0:1] - r[0:1, :]")
    assert made.scope == "warp"
    assert (made.operands[0].shape, made.operands[0].buffer.layout) == ((32, 8), ir.Open("warp"))


def test_load_makes_an_open_tile_and_store_writes_it() -> None:
    load, store = ops("y = tj.cta.load(B[n, 0:1000], fill=-tj.inf)\n    tj.cta.store(B[n, 0:1000], y)", threads=128)
    assert load.operands[0].buffer.layout == ir.Open("cta")
    assert load.operands[2] == ir.Const(float("-inf"), dtypes.float32)
    assert store.operands[1].buffer == load.operands[0].buffer


@pytest.mark.parametrize(
    ("shape", "layout"),
    [("0:32, 0:8", S[(32, 8) : (1 @ laneid, 1)]), ("0:32, 0:2", S[(32, 2) : (1 @ laneid, 1)]),
     ("0:8, 0:64", S[(2, 32, 8) : (8, 1 @ laneid, 1)])],
)
def test_a_tile_that_is_asked_for_its_layout_has_the_one_that_it_would_have_alone(shape: str, layout: object) -> None:
    load, add = ops(f"y = tj.warp.load(A[{shape}])\n    same = y.layout == WANTED\n    z = y + 1", WANTED=layout)
    assert load.operands[0].buffer.layout == layout
    assert add.operands[1].buffer == load.operands[0].buffer and add.operands[0].buffer.layout == ir.Open("warp")


def test_zeros_and_full_are_tiles() -> None:
    found = ops("y = tj.warp.zeros((32, 8), tj.float32, ROWS) + tj.warp.full((32, 8), 3, tj.float32, layout=ROWS)")
    assert [op.name for op in found] == ["fill", "fill", "add"]
    assert found[1].operands[1] == ir.Const(3.0, dtypes.float32)


def test_none_adds_a_dimension() -> None:
    found = ops("v = tj.warp.load(B[n, 0:32])\n    y = v[:, None]\n    z = y * 2")
    assert found[-1].operands[0].shape == (32, 1)
    assert found[-1].operands[1].buffer.root.name == "v"


def test_a_tile_that_changes_in_a_loop_is_kept_in_one_buffer() -> None:
    text = (
        "a = tj.warp.zeros((32, 8), tj.float32, layout=ROWS)\n"
        "    for i in range(n):\n        a = a + i\n    b = a * 2"
    )
    found = ops(text)
    kept = found[1].operands[0].buffer
    # what was given a layout stays in it, and is moved
    assert [op.name for op in found] == ["fill", "cast", "add", "mul"]
    assert [found[2].operands[k].buffer for k in (0, 1)] == [kept, kept] and found[3].operands[1].buffer == kept


def test_two_tiles_that_swap_in_a_loop_go_through_a_third() -> None:
    text = (
        "a = tj.warp.zeros((32, 8), tj.float32)\n    b = a + 1\n"
        "    for i in range(n):\n        a, b = b, a\n    c = a - b"
    )
    fill, add, *inside, sub = ops(text)
    a, b = fill.operands[0].buffer.name, add.operands[0].buffer.name
    held = inside[0].operands[0].buffer.name
    names = [(op.operands[0].buffer.name, op.operands[1].buffer.name) for op in inside]
    assert names == [(held, a), (a, b), (b, held)] and len({a, b, held}) == 3
    assert [operand.buffer.name for operand in sub.operands[1:]] == [a, b]


def test_tiles_of_two_layouts_are_not_combined() -> None:
    text = (
        "a = tj.warp.zeros((32, 8), tj.float32, layout=ROWS)\n    if n > 0:\n"
        "        a = tj.warp.zeros((32, 8), tj.float32, layout=OTHER)\n    b = a * 2"
    )
    with pytest.raises(KernelTypeError, match="layout .*line 6 .*layout .*line 4"):
        ops(text, OTHER=S[(8, 4, 8) : (1 @ laneid, 8 @ laneid, 1)])


def test_a_reused_name_of_another_type_is_no_error_when_it_is_not_read() -> None:
    ops("if n > 0:\n        t = 1.5\n    else:\n        t = n\n    t = 3")


def test_shapes_that_do_not_broadcast_are_refused() -> None:
    for text, words in (
        ("tj.warp.add(r, r, B[0:32, 0:4])", "broadcast"),
        ("y = r + r[0:16, :]", "broadcast"),
        ("tj.warp.copy(r, B[0:32, 0:8])", "types differ"),
        ("tj.warp.store(B[0:32, 0:8], r)", "astype"),
        ("tj.warp.store(B[0:32, 0:8], B[0:32, 0:8])", "local tile"),
    ):
        with pytest.raises(KernelTypeError) as error:
            ops(text)
        assert words in str(error.value)


def test_single_elements_may_be_copied_as_places() -> None:
    (op,) = ops("tj.thread.copy(A[n, 0], A[n, 1])")
    assert [o.shape for o in op.operands] == [(), ()]


def test_shared_regions_are_operands_too() -> None:
    text = "s = tj.alloc_shared((32, 8), A.dtype)\n    tj.cta.maximum(s, s, s)\n    tj.cta.cast(s, B[0:32, 0:8])"
    assert [op.name for op in ops(text)] == ["maximum", "cast"]
