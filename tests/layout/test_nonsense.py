"""Whatever is passed to a layout's functions gives an answer or a LayoutError that says what was wrong."""

from __future__ import annotations

import contextlib
import inspect
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tilejit import layout as public
from tilejit.errors import LayoutError
from tilejit.layout import Axis, Iter, R, S, Swizzle, TileLayout, laneid

#: no argument of any function
WRONG = (
    "x y", b"m", 1.5, math.nan, math.inf, 1j, ["a b"], (1.5, 2.5), {"m": "x"}, object(), np.arange(3.0), len, iter, S,
    ((1.5, 2), (0, 1)), [[object()]],
)
HUGE = 2**200
#: what some functions take
ODD = (
    None, -3, HUGE, True, (), [], {}, [[1]], ["a", "b"], (-4, -8), (HUGE, HUGE), np.float32, R[2:1], Swizzle(1, 1, 1),
    laneid, ((1, 2), (3, 4)), ((0, HUGE), (-1, 2)), "m", "128B",
)

ROWS = S[(32, 8) : (1 @ laneid, 1)]
PLAIN = S[(4, 8)]
OUTER = S[(2, 2)]

#: name -> a call that is right, with its arguments by name
RIGHT: dict[str, tuple[Callable[..., Any], dict[str, Any]]] = {
    "S": (lambda extents: S[extents], {"extents": (4, 8)}),
    "S:": (lambda extents, strides: S[extents:strides], {"extents": (4, 8), "strides": (8, 1)}),
    "R:": (lambda extents, strides: R[extents:strides], {"extents": (4, 8), "strides": (8, 1)}),
    "@": (lambda number: number @ laneid, {"number": 4}),
    "+": (lambda other: PLAIN + other, {"other": 3}),
    "Axis": (Axis, {"name": "m"}),
    "Iter": (Iter, {"extent": 4, "stride": 1, "axis": laneid}),
    "Swizzle": (Swizzle, {"bits": 3, "base": 3, "shift": 3, "inner": True}),
    "Swizzle.for_dtype": (Swizzle.for_dtype, {"dtype": tj.float16, "mode": "128B"}),
    "Swizzle.apply": (Swizzle(3, 3, 3).apply, {"address": 70}),
    "Swizzle.repacked": (Swizzle(3, 3, 3).repacked, {"log2": 1}),
    "Swizzle.xor_separable": (Swizzle(3, 3, 3).xor_separable, {"base_bits": 7, "offset": 8}),
    "TileLayout": (
        TileLayout,
        {"shard": PLAIN.shard, "replica": (), "offset": ((laneid, 1),), "swizzle": None},
    ),
    "from_iters": (
        TileLayout.from_iters,
        {"shard": [(4, 1, "laneid")], "replica": [], "offset": {"laneid": 3}, "swizzle": None},
    ),
    "from_iters of one": (
        lambda extent, stride, axis: TileLayout.from_iters([(extent, stride, axis)]),
        {"extent": 4, "stride": 1, "axis": "laneid"},
    ),
    "row_major": (TileLayout.row_major, {"shape": (4, 8), "swizzle": None}),
    "apply": (lambda i, j, shape: PLAIN.apply(i, j, shape=shape), {"i": 1, "j": 2, "shape": (4, 8)}),
    "apply flat": (lambda i: PLAIN.apply(i), {"i": 1}),
    "L()": (lambda i, j: PLAIN(i, j), {"i": 1, "j": 2}),
    "size": (ROWS.size, {"axis": "laneid"}),
    "span": (ROWS.span, {"axis": "m"}),
    "lowest": (ROWS.lowest, {"axis": "m"}),
    "flat_index": (ROWS.flat_index, {"coord": (1, 2), "shape": None}),
    "map_all": (ROWS.map_all, {"shape": (32, 8)}),
    "canonical": (ROWS.canonical, {"fuse": True}),
    "group": (ROWS.group, {"shape": (32, 8)}),
    "group_many": (ROWS.group_many, {"shapes": ((32, 8), (256,))}),
    "permute_groups": (ROWS.permute_groups, {"separators": (0, 1, 2), "perm": (1, 0)}),
    "slice": (ROWS.slice, {"shape": (32, 8), "region": ((0, 8), (0, 4))}),
    "window": (ROWS.window, {"shape": (32, 8), "window": (8, 4), "multiples": (8, 4)}),
    "broadcast": (ROWS.broadcast, {"extent": 4, "position": 1}),
    "unpack": (PLAIN.unpack, {"count": 2}),
    "pack": (PLAIN.pack, {"count": 2}),
    "tile": (PLAIN.tile, {"outer": OUTER, "outer_shape": (2, 2), "inner_shape": (4, 8)}),
    "direct_sum": (PLAIN.direct_sum, {"left": OUTER, "left_shape": (2, 2), "right_shape": (4, 8)}),
    "is_tile_inner": (PLAIN.is_tile_inner, {"tiled": S[(8, 16)], "tiled_shape": (8, 16), "inner_shape": (4, 8)}),
    "is_tile_outer": (OUTER.is_tile_outer, {"tiled": S[(8, 16)], "tiled_shape": (8, 16), "outer_shape": (2, 2)}),
    "is_direct_sum_left": (
        OUTER.is_direct_sum_left, {"total": S[(8, 16)], "interleaved_shape": (2, 4, 2, 8), "left_shape": (2, 2)},
    ),
    "owners": (lambda i, shape: ROWS.owners(i, shape=shape), {"i": 3, "shape": None}),
    "inverse": (ROWS.inverse, {"thread": 1, "register": 2, "shape": None}),
    "equivalent": (ROWS.equivalent, {"other": ROWS}),
    "replace": (lambda shard: ROWS.replace(shard=shard), {"shard": PLAIN.shard}),
    "swizzled": (ROWS.swizzled, {"swizzle": Swizzle(1, 1, 1)}),
    "adapted": (S[8].swizzled(Swizzle(1, 1, 1)).adapted, {"shape": (4, 8)}),
    "common_refinement": (public.common_refinement, {"shapes": ((4, 8), (32,))}),
    "draw": (PLAIN.draw, {"shape": (4, 8), "dtype": "float16"}),
    "swizzled_atom_layout": (public.swizzled_atom_layout, {"shape": (8, 64), "bits": 16, "mode": "128B"}),
    "datapath": (public.datapath, {"path": "D", "rows": 128, "columns": 8, "half": 0}),
    "atom_layout": (public.atom_layout, {"shape": "32x32b", "num": 4, "dtype": tj.float32, "rows": 128}),
    "layout_a": (public.layout_a, {"shape": (16, 16), "dtype": tj.float16, "warps": (1, 1), "scope": "cta"}),
    "layout_b": (public.layout_b, {"shape": (16, 16), "dtype": tj.float16, "warps": (1, 1), "scope": "cta"}),
    "layout_c": (public.layout_c, {"shape": (16, 16), "dtype": tj.float32, "warps": (1, 1), "scope": "cta"}),
}

#: what isn't a function, and what users reach through a layout's methods
NOT_CALLED = {
    "TCGEN05_SHAPES", "TMEM_LANES", "TCol", "TLane", "Tcgen05Shape", "R", "Replica", "Term", "digits",
    "laneid", "m", "tid_in_wg", "tx", "warpid", "weights", "wgid", "wid_in_wg",
}


def with_arguments(owner: type) -> Iterator[str]:
    """The public methods of a class that take an argument."""
    for name, member in inspect.getmembers(owner, callable):
        if not name.startswith("_") and len(inspect.signature(member).parameters) > 1:
            yield name


def test_nothing_is_missing() -> None:
    methods = {*with_arguments(TileLayout), *(f"Swizzle.{name}" for name in with_arguments(Swizzle))}
    assert {*public.__all__, *methods} - NOT_CALLED == {name for name in RIGHT if name.replace(".", "_").isidentifier()}


@pytest.mark.parametrize("name", RIGHT)
def test_nonsense_is_refused_and_what_is_odd_is_no_python_error(name: str) -> None:
    function, right = RIGHT[name]
    function(**right)
    for parameter in right:
        for nonsense in WRONG:
            with pytest.raises(LayoutError) as caught:
                function(**{**right, parameter: nonsense})
            assert len(caught.value.message) < 400
        for odd in ODD:
            with contextlib.suppress(LayoutError):
                function(**{**right, parameter: odd})
