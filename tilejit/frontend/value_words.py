"""The records of words that compute tiles from tiles: rearrangements, sorts, random numbers and inline PTX.

`tile_words` has their handlers.
"""

from __future__ import annotations

from .language import CallParameter, Intrinsic

#: descriptions of result types that depend on the arguments
EACH = "Scalar for scalars, else Tile"
SAME = "the type of the first argument"

TYPES = "DType | DTypeLike"

_TILE = CallParameter("x", "Tile", "the tile")
_AXIS = CallParameter("axis", "int", "the axis; negative values count from the last")
LOAD = "x = tj.cta.load(A[0:32, 0:8])\n"

REARRANGEMENTS = (
    Intrinsic(
        "gather", "Return the elements of a tile at an index along an axis, as NumPy's take_along_axis; an index must "
        "be at least 0 and below the extent, which checked builds test",
        (_TILE, CallParameter("index", "Tile", "integers, in x's shape except along the axis"), _AXIS),
        "Tile", f"{LOAD}y = tj.gather(x, 7 - tj.cta.indices((32, 8), 1), axis=1)",
    ),
    Intrinsic("flip", "Reverse the order of elements along an axis", (_TILE, _AXIS), "Tile",
              f"{LOAD}y = tj.flip(x, axis=1)"),
    Intrinsic(
        "roll", "Shift elements along an axis; those shifted past one end come in at the other",
        (_TILE, CallParameter("shift", "int", "the distance toward higher indices; the same in all threads"), _AXIS),
        "Tile", f"{LOAD}y = tj.roll(x, 1, axis=0)",
    ),
    Intrinsic(
        "histogram", "Count the elements of each value from 0 to bins - 1, as int32; other values are not counted",
        (CallParameter("x", "Tile", "a tile of integers"),
         CallParameter("bins", "int", "the number of values, known at compile time"),
         CallParameter("mask", "Tile | bool | None", "the elements to count: a tile of bool_ that broadcasts", None)),
        "Tile", f"{LOAD}counts = tj.histogram(x.astype(tj.int32), 16)",
    ),
)

def _random(name: str, meaning: str, *more: CallParameter) -> Intrinsic:
    seed = CallParameter("seed", "int | Tile", "an integer, taken as uint64")
    offset = CallParameter("offset", "int | Tile", "an integer, taken as uint64, for each number")
    limits = "".join(f", {limit}" for limit in (0, 6)[: len(more)])
    return Intrinsic(name, meaning, (seed, offset, *more), EACH,
                     f"i = tj.cta_id(0) * 256 + tj.cta.indices((32, 8), 0) * 8 + tj.cta.indices((32, 8), 1)\n"
                     f"x = tj.{name}(7, i{limits})")


RANDOM = (
    _random("rand", "Return uniform float32 numbers in [0, 1): 24 bits of tj.random_bits, times 2**-24"),
    _random("randn", "Return normal float32 numbers, by Box and Muller's method, from the bits at an even offset and "
            "at the next one"),
    _random("randint", "Return int32 numbers in [low, high): low plus the 32 high bits of bits * (high - low)",
            CallParameter("low", "int", "the least number"),
            CallParameter("high", "int", "the end, exclusive, up to 2**31; low >= high is an error in checked builds")),
)
INLINE = Intrinsic(
    "ptx", "Run PTX instructions on scalars, or on each element of tiles that broadcast. In the text, $0, $1, ... are "
    "the outputs, then the inputs, and $$ is a dollar; names declared in braces are local. Types of up to 16 bits are "
    "in .b16 registers, extended by zeros or the sign, bool_ as 0 or 1, others in registers of their width. A literal "
    "int is an int32, a literal float a float32: write tj.int64(1) for another type. Instructions other than "
    "arithmetic, logic, conversions, selections and moves are volatile unless pure=True: they stay in place and in "
    "order with memory accesses, and on tiles, each thread that holds an element runs them for it",
    (CallParameter("text", "str", "the instructions, each with its `;`"),
     CallParameter("out", f"{TYPES} | tuple[{TYPES}, ...]", "the type of the output, a scalar or a tile, or a tuple "
                   "of at most 8 types, for which the result is a tuple, or None for ()", ()),
     CallParameter("inputs", "tuple[float | Tile, ...]", "at most 16 scalars and local tiles", ()),
     CallParameter("pure", "bool | None", "True if the text only computes its outputs from its inputs, so that it may "
                   "be moved, merged and dropped; if None, decided by the instructions", None)),
    "Any", f'{LOAD.rstrip()}; y = tj.ptx("rcp.approx.f32 $0, $1;", out=tj.float32, inputs=(x,))\n'
    'i = tj.ptx("{ .reg .pred p; setp.ne.u16 p, $1, 0; selp.b32 $0, $2, 1, p; }", out=tj.int32, inputs=(x > 0.0, 7))',
)
_SORTED_AXIS = CallParameter("axis", "int", "the axis; negative values count from the last", -1)
_DESCENDING = CallParameter("descending", "bool", "sort from the greatest to the least", False)
_IN_ORDER = "by `<`: zeros of both signs are ties, as are NaNs, which come last in both directions"
_FILLED = (
    ". Elements past the edge of a tensor are sorted, too, as the value of fill=: loaded with fill=tj.nan, or for "
    "integers with the last value of the order, they come last"
)
SORTS = (
    Intrinsic(
        "sort", f"Sort a tile along an axis, {_IN_ORDER}. Of a tuple of tiles, the first one is sorted, and the "
        f"elements of the others move along; ties keep their order{_FILLED}",
        (CallParameter("x", "Tile | tuple[Tile, ...]", "a tile, or up to four tiles of one shape"), _SORTED_AXIS,
         _DESCENDING), SAME, f"{LOAD}y = tj.sort(x)",
    ),
    Intrinsic(
        "argsort", f"Return the indices that sort a tile along an axis, as int32, {_IN_ORDER}; ties keep their order"
        f"{_FILLED}",
        (CallParameter("x", "Tile", "the tile"), _SORTED_AXIS, _DESCENDING), "Tile",
        f"{LOAD}y = tj.argsort(x, axis=1, descending=True)",
    ),
    Intrinsic(
        "top_k", "Return the k largest elements along an axis, the largest first, and their indices, as int32; of ties "
        f"the first ones, and NaNs only for lack of other elements{_FILLED}",
        (CallParameter("x", "Tile", "the tile"),
         CallParameter("k", "int", "the number of elements, from 1 to the extent, known at compile time"), _SORTED_AXIS,
         CallParameter("largest", "bool", "False for the smallest elements, the smallest first", True)),
        "tuple[Tile, Tile]", f"{LOAD}values, indices = tj.top_k(x, 3, axis=1)",
    ),
)
MATMUL = Intrinsic(
    "matmul", "Multiply matrices, (M, K) by (K, N), as a @ b does: leading dimensions are batches, and acc += "
    "tj.matmul(...) adds in the registers of acc. float32 needs a precision. \"tf32\" rounds the factors to 10 bits of "
    "fraction. \"tf32x3\" takes three products of parts of the factors: the error is at most (2**-20 + K * 2**-22) * "
    "|a| @ |b| if no factor but 0 is below 2**-114, and infinities and NaN give what they do in float32, except an "
    "infinity times a number below 2**-136, which gives NaN. \"ieee\" takes no tensor cores: from acc, or 0, on, acc = "
    "fma(a[k], b[k], acc) for k = 0, 1, ..., K - 1",
    (CallParameter("a", "Tile", "the left operand, of shape (..., M, K)"),
     CallParameter("b", "Tile", "the right operand, of shape (..., K, N)"),
     CallParameter("precision", 'Literal["tf32", "tf32x3", "ieee"] | None', "that of float32 operands; None for other "
                   "types", None)),
    "Tile", f'{LOAD}y = tj.matmul(x, x.T, precision="tf32x3")',
)

WORDS = (*SORTS, *REARRANGEMENTS, *RANDOM, INLINE, MATMUL)
