"""Allocation, regions, views: buffers with their layouts, starts and extents."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.reference.expressions import evaluate
from tests.support.programs import array, statements, tile_ir
from tilejit import dtypes
from tilejit.errors import KernelTypeError, LayoutError
from tilejit.ir import nodes as ir
from tilejit.ir import walk
from tilejit.layout import S, Swizzle, laneid, swizzled_atom_layout

A2 = array(dtypes.float16, 2)


def regions(body: str, *types: object, threads: int = 32) -> list[ir.Region]:
    """The operands of the tile operations in the body of `def k(A, n, i)`."""
    kernel = tile_ir(f"def k(A, n, i):\n    {body}\n", A2, dtypes.int32, dtypes.int64, threads=threads)
    return [o for op in statements(kernel.body, ir.TileOp) for o in op.operands if isinstance(o, ir.Region)]


def region(expression: str) -> ir.Region:
    return regions(f"tj.thread.fill({expression}, 0)")[0]


def buffer(allocation: str) -> ir.Buffer:
    kernel = tile_ir(f"def k(A):\n    mine = {allocation}\n", array(dtypes.float16, 2))
    (alloc,) = statements(kernel.body, ir.Alloc)
    return alloc.buffer


def value(expr: ir.Expr, **names: int) -> int:
    """An index expression's value."""
    return int(evaluate(expr, names))


def test_shared_memory_is_row_major_and_aligned_to_128_bytes() -> None:
    found = buffer("tj.alloc_shared((32, 8), A.dtype)")
    assert (found.name, found.space, found.dtype, found.shape) == ("mine", "shared", dtypes.float16, (32, 8))
    assert (found.layout, found.align) == (S[(32, 8) : (8, 1)], 128)


@pytest.mark.parametrize(("mode", "align"), [("32B", 256), ("64B", 512), ("128B", 1024)])
def test_a_swizzle_mode_gives_the_atom_layout_aligned_to_its_period(mode: str, align: int) -> None:
    found = buffer(f"tj.alloc_shared((64, 64), A.dtype, swizzle='{mode}')")
    assert found.layout == swizzled_atom_layout((64, 64), 16, mode)
    assert found.align == align


def test_a_swizzle_object_composes_as_it_is() -> None:
    found = buffer("tj.alloc_shared((64, 64), A.dtype, swizzle=tj.Swizzle(3, 3, 3))")
    assert found.layout == S[(64, 64) : (64, 1)].swizzled(Swizzle(3, 3, 3))
    other = buffer("tj.alloc_shared((64, 8), A.dtype, layout=tj.S[(64, 8) : (1, 64)], swizzle=tj.Swizzle(2, 3, 3))")
    assert other.layout == S[(64, 8) : (1, 64)].swizzled(Swizzle(2, 3, 3))


def test_a_local_tile_has_the_given_layout_or_is_the_threads_own() -> None:
    assert buffer("tj.alloc_local((32, 8), A.dtype, layout=tj.S[(32, 8) : (1 @ tj.laneid, 1)])").layout == S[
        (32, 8) : (1 @ laneid, 1)
    ]
    own = buffer("tj.alloc_local(4, tj.float32)")
    assert (own.layout, own.shape) == (S[4:1], (4,))


def test_registers_are_the_threads_part_in_one_dimension() -> None:
    text = (
        "def k(A):\n    r = tj.alloc_local((32, 8), A.dtype, layout=tj.S[(32, 8) : (1 @ tj.laneid, 1)])\n"
        "    for i in tj.static_range(8):\n        r.registers[i] = i\n"
    )
    stores = statements(tile_ir(text, A2).body, ir.Store)
    assert [s.place.indices[0].value for s in stores] == list(range(8))
    assert all(s.place.buffer.root.name == "r" and s.place.buffer.shape == (8,) for s in stores)


@pytest.mark.parametrize(
    ("expression", "extents", "starts"),
    [
        ("A[0:32, 0:8]", (32, 8), (0, 0)),
        ("A[i * 64 : i * 64 + 64, 0:8]", (64, 8), (192, 0)),
        ("A[i * 64 : (i + 1) * 64, 8:16]", (64, 8), (192, 8)),
        ("A[n : n + 4, i]", (4, None), (5, 3)),
        ("A[n, 0:8]", (None, 8), (5, 0)),
        ("A[-4:4, :8]", (8, 8), (-4, 0)),
        ("A[8:40, 0:16][4:8, 8:16]", (4, 8), (12, 8)),
        ("A[n, 0:16][8:16]", (None, 8), (5, 8)),
        ("A[n][0:8]", (None, 8), (5, 0)),
        ("A.tile((16, 8), (i, n))", (16, 8), (48, 40)),
        ("A.tile((16, 8), (i, n))[4:8, 0:8]", (4, 8), (52, 40)),
        ("A[0:32, 0:8].tile((8, 4), (1, 1))", (8, 4), (8, 4)),
        ("A[i // 2 * 8 :, 0:8][0:4]", (4, 8), (8, 0)),
    ],
)
def test_slices_give_static_extents_and_any_starts(expression: str, extents: tuple, starts: tuple) -> None:
    if "* 8 :" in expression:
        with pytest.raises(KernelTypeError, match="extent"):
            region(expression)
        return
    found = region(expression)
    assert found.extents == extents
    assert tuple(value(s, n=5, i=3) for s in found.starts) == starts


def test_the_extent_is_found_through_names() -> None:
    found = regions("lo = i * 64\n    hi = (i + 1) * 64\n    tj.thread.fill(A[lo:hi, 0:8], 0)")[0]
    assert found.extents == (64, 8)
    (bounds,) = {found.starts[0].multiple_of}
    assert bounds == 64


def test_assume_in_bounds_marks_the_region_only() -> None:
    found = regions(
        "tj.thread.fill(tj.assume_in_bounds(A[i : i + 4, 0:8]), 0)\n"
        "    tj.thread.fill(A[i : i + 4, 0:8], 0)"
    )
    assert [r.in_bounds for r in found] == [True, False]


def test_a_part_of_a_region_in_bounds_is_in_bounds() -> None:
    whole = "tj.assume_in_bounds(A[i : i + 8, 0:8])"
    assert region(f"{whole}[4:8, :]").in_bounds
    assert region(f"{whole}[2, 0:4]").in_bounds
    assert not region(f"{whole}[n : n + 2, :]").in_bounds


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        ("A[0:4, :][0:8, 0:8]", r"\[0 : 8\] is out of bounds for dimension 0 of a region of A, whose extent is 4"),
        (
            "A[i : i + 8, 0:8][4:12, :]",
            r"\[4 : 12\] is out of bounds for dimension 0 of a region of A, whose extent is 8",
        ),
        ("A[n, 0:8][-1:3]", r"\[-1 : 3\] is out of bounds for dimension 1 of a region of A, whose extent is 8"),
        ("A[0:4, :][4]", "index 4 is outside dimension 0 of a region of A, whose extent is 4"),
        (
            "A[0:12, 0:8].tile((8, 8), (1, 0))",
            r"\[8 : 16\] is out of bounds for dimension 0 of a region of A, whose extent is 12",
        ),
        ("s[0:4, :][2:6, :]", r"\[2 : 6\] is out of bounds for dimension 0 of a region of s, whose extent is 4"),
    ],
)
def test_a_part_of_a_region_stays_inside_it(expression: str, words: str) -> None:
    with pytest.raises(KernelTypeError, match=words):
        regions(f"s = tj.alloc_shared((8, 8), A.dtype)\n    tj.thread.fill({expression}, 0)")


@pytest.mark.parametrize(
    ("expression", "inside"),
    [
        ("A[0:4, :][n : n + 2, 0:8]", lambda n: 0 <= n <= 2), ("A[i : i + 4, 0:8][n, :]", lambda n: 0 <= n < 4),
        ("A[0:16, 0:8].tile((8, 8), (n, 0))", lambda n: 0 <= n < 2), ("s[2:6, :][n, :]", lambda n: 0 <= n < 4),
    ],
)
def test_that_a_part_of_a_region_at_a_run_time_place_stays_inside_it_is_asserted(
    expression: str, inside: Callable[[int], bool]
) -> None:
    text = f"    s = tj.alloc_shared((8, 8), A.dtype)\n    tj.thread.fill({expression}, 0)\n"
    kernel = tile_ir(f"def k(A, n, i):\n{text}", A2, dtypes.int32, dtypes.int64)
    (assertion,) = statements(kernel.body, ir.Assert)
    assert assertion.rule == "bounds"
    assert [bool(evaluate(assertion.cond, {"n": n, "i": 3})) for n in range(-2, 6)] == list(map(inside, range(-2, 6)))


def test_what_covers_a_dimension_passes_the_tensors_edge_as_the_tensor_does() -> None:
    text = "def k(A, n):\n    tj.thread.fill(A[n][n : n + 8], 0)\n    tj.thread.fill(A[:, 0:8][-4:4, :], 0)\n"
    kernel = tile_ir(text, A2, dtypes.int32)
    assert not statements(kernel.body, ir.Assert)


def test_a_permuted_region_keeps_its_place() -> None:
    found = region("A[i : i + 4, 8:16].T")
    assert found.shape == (8, 4)
    assert tuple(value(s, i=3) for s in found.starts) == (8, 3)
    assert found.buffer.layout.strides[0] == 1 and found.buffer.root.name == "A"


def test_views_reinterpret_shared_memory() -> None:
    text = (
        "def k(A):\n    s = tj.alloc_shared((32, 8), A.dtype)\n    tj.thread.fill(s.view((8, 32)), 0)\n"
        "    tj.thread.fill(s.view(tj.int8), 0)\n    tj.thread.fill(s.view(tj.int32), 0)\n"
        "    tj.thread.fill(s.permute(1, 0), 0)\n    tj.thread.fill(s[8:16, :].view((64,)), 0)\n"
        "    tj.thread.fill(s.view((8, 8), layout=tj.S[(8, 8) : (1, 8)]), 0)\n"
    )
    found = [op.operands[0] for op in statements(tile_ir(text, A2).body, ir.TileOp)]
    shapes = [(r.shape, r.dtype.name) for r in found]
    assert shapes == [
        ((8, 32), "float16"), ((32, 16), "int8"), ((32, 4), "int32"), ((8, 32), "float16"), ((64,), "float16"),
        ((8, 8), "float16"),
    ]
    assert all(r.buffer.root.name == "s" for r in found)
    assert found[3].buffer.layout.apply(3, 5, shape=(8, 32)) == {"m": 5 * 8 + 3}
    assert found[4].buffer.layout.apply(0, shape=(64,)) == {"m": 64}


@pytest.mark.parametrize(
    ("reshaped", "viewed"),
    [
        ("s.reshape(8, 32)", "s.view((8, 32))"),
        ("s.reshape(-1)", "s.view((256,))"),
        ("s.reshape((4, -1))", "s.view(4, 64)"),
        ("s[8:16].reshape(4, -1)", "s[8:16].view((4, 16))"),
        ("s.T.reshape(8, 4, 8)", "s.T.view((8, 4, 8))"),
    ],
)
def test_memory_with_a_place_is_reshaped_by_a_view(reshaped: str, viewed: str) -> None:
    def body(place: str) -> tuple[ir.Stmt, ...]:
        allocation = "s = tj.alloc_shared((32, 8), A.dtype)"
        return tile_ir(f"def k(A):\n    {allocation}\n    tj.thread.fill({place}, 0)\n", A2).body

    assert body(reshaped) == body(viewed)


def test_views_that_do_not_fit_are_refused() -> None:
    for view, words in (
        (".view((8, 8))", "64 elements"),
        (".view((8, 64), layout=tj.S[(8, 64) : (64, 1)])", "512 elements of storage"),
        (".permute(0, 0)", "permute"),
        (".reshape(8, 8)", "64 elements"),
        (".reshape(7, -1)", r"can't reshape 256 elements to \(7, -1\)"),
        (".reshape(-1, -1)", r"can't reshape 256 elements to \(-1, -1\)"),
        (".reshape(-1, 0)", r"can't reshape 256 elements to \(-1, 0\)"),
    ):
        with pytest.raises(KernelTypeError, match=words):
            tile_ir(f"def k(A):\n    s = tj.alloc_shared((32, 8), A.dtype)\n    x = s{view}\n", A2)
    with pytest.raises(KernelTypeError, match="run-time strides"):
        tile_ir("def k(A):\n    x = A.view((8, 8))\n", A2)


def test_a_view_may_cut_what_lies_together_and_nothing_else() -> None:
    text = "def k(A):\n    s = tj.alloc_shared((4, 6), A.dtype{})\n    tj.thread.fill(s.view((3, 8)), 0)\n"
    (op,) = statements(tile_ir(text.format(""), A2).body, ir.TileOp)
    assert op.operands[0].buffer.layout.apply(1, 2, shape=(3, 8)) == {"m": 10}
    with pytest.raises(LayoutError, match="4:8@m doesn't fit dimension 0 of shape .3, 8.") as caught:
        tile_ir(text.format(", layout=tj.S[(4, 6) : (8, 1)]"), A2)
    assert caught.value.span is not None and caught.value.span.line == 3


def test_shapes_strides_and_types_are_readable() -> None:
    text = (
        "def k(A):\n    s = tj.alloc_shared((32, 8), tj.int8)\n"
        "    tj.static_assert(s.shape == (32, 8) and s.strides == (8, 1) and s.dtype == tj.int8 and s.ndim == 2)\n"
        "    tj.static_assert(A.strides[1] == 1 and A[0:4, 0:8].shape[1] == 8 and A.dtype.bits == 16)\n"
        "    tj.static_assert(s.T.shape == (8, 32) and s.T.strides == (1, 8) and s.layout.size() == 256)\n"
    )
    tile_ir(text, A2)


def test_buffers_of_a_loop_and_of_helpers_are_made_once_each() -> None:
    text = (
        "@tj.function\ndef scratch(A):\n    s = tj.alloc_shared(8, A.dtype)\n    tj.thread.fill(s, 0)\n\n"
        "def k(A, n):\n    for i in range(n):\n        scratch(A)\n    scratch(A)\n"
    )
    kernel = tile_ir(text, A2, dtypes.int32)
    assert [s.buffer.name for s in kernel.body if isinstance(s, ir.Alloc)] == ["s", "s.1"]



HALOS = ["-N : 4 - N", "-4:4", "-8:0", "-4 : -4 + N", "-4 : A.shape[0] - A.shape[0] + 4", "i - 8 : i - 4", "i - 8 : i"]


@pytest.mark.parametrize("part", HALOS)
def test_a_negative_start_lies_outside_where_it_cant_be_meant_to_count_from_the_end(part):
    """A halo of a tensor's first tile, and what a loop over constants computes."""
    text = f"def k(A, N):\n    for i in tj.static_range(0, 4, 4):\n        x = tj.cta.load(A[{part}])\n"
    kernel = tile_ir(text, array(), 8)
    assert walk.each(kernel.body, ir.TileOp)[0].region("src").starts[0].value < 0
