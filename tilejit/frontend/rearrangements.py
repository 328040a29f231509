"""The records of `tj.gather`, `tj.flip`, `tj.roll` and `tj.histogram`, which `rearranging` translates."""

from __future__ import annotations

from .language import CallParameter, Intrinsic

_TILE = CallParameter("x", "Tile", "the tile")
_AXIS = CallParameter("axis", "int", "the axis; negative values count from the last")
_LOAD = "x = tj.cta.load(A[0:32, 0:8])\n"

REARRANGEMENTS = (
    Intrinsic(
        "gather", "Return the elements of a tile at an index along an axis, as NumPy's take_along_axis; an index must "
        "be at least 0 and below the extent, which checked builds test",
        (_TILE, CallParameter("index", "Tile", "integers, in x's shape except along the axis"), _AXIS),
        "Tile", f"{_LOAD}y = tj.gather(x, 7 - tj.cta.indices((32, 8), 1), axis=1)",
    ),
    Intrinsic("flip", "Reverse the order of elements along an axis", (_TILE, _AXIS), "Tile",
              f"{_LOAD}y = tj.flip(x, axis=1)"),
    Intrinsic(
        "roll", "Shift elements along an axis; those shifted past one end come in at the other",
        (_TILE, CallParameter("shift", "int", "the distance toward higher indices; the same in all threads"), _AXIS),
        "Tile", f"{_LOAD}y = tj.roll(x, 1, axis=0)",
    ),
    Intrinsic(
        "histogram", "Count the elements of each value from 0 to bins - 1, as int32; other values are not counted",
        (CallParameter("x", "Tile", "a tile of integers"),
         CallParameter("bins", "int", "the number of values, known at compile time"),
         CallParameter("mask", "Tile | bool | None", "the elements to count: a tile of bool_ that broadcasts", None)),
        "Tile", f"{_LOAD}counts = tj.histogram(x.astype(tj.int32), 16)",
    ),
)
