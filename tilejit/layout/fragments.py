"""`tj.mma`: the layouts of the operands of warp-level tensor core products.

In a fragment, lane 4g + t holds these elements in 32-bit registers:

    A (16 x k)     row g + 8i        columns pack*t + p + 4*pack*h      register i + 2h
    B (k x 8)      rows pack*t + p + 4*pack*h       column g            register h
    C, D (16 x 8)  row g + 8i        columns 2t + j                     register 2i + j (float16: half j of register i)

with i, j in {0, 1}, h < k / (4 * pack) and p < pack. A register has pack elements: 1 float32 (as tf32), 2 of 16 bits,
or 4 of 8 bits. A float64 has a 64-bit register.
source: PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f64 ...", "... mma.m16n8k4", "... mma.m16n8k8",
    "... mma.m16n8k16 with floating point type", "... mma.m16n8k32".
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

from ..dtypes import DTYPES, DType, as_dtype, float16, float32, float64, int32
from ..errors import LayoutError
from ..scopes import SCOPES
from ..target import WARP, WARPGROUP
from ..wording import shown
from .axes import Axis, axis_between, laneid, m
from .grid import Projection
from .iters import Iter
from .tile_layout import TileLayout

#: scope -> the axis that counts its warps
_WARP_AXES = {name: axis_between("warp", name) for name, scope in SCOPES.items() if "warp" in scope.axes.values()}

_ROWS, _COLUMNS = 16, 8

#: name of the element type of A or B -> required divisor of K
_K = {
    **dict.fromkeys(("float32", "float16", "bfloat16"), 8),
    **dict.fromkeys(("int8", "uint8", "float8_e4m3fn", "float8_e5m2"), 32),
    "float64": 4,
}


def layout_a(
    shape: Sequence[int], dtype: DType, warps: tuple[int, int] = (1, 1), scope: str = "cta"
) -> TileLayout:
    """Return the layout of `gemm`'s operand A, of shape (M, K).

    dtype: the type of A's elements; float32 is used as tf32.
    warps: (wm, wn): warp wn*y + x holds block y of wm blocks of rows, so wn warps hold each block.
    scope: the scope within which warps are numbered, "cta" or "warpgroup".
    raises: LayoutError for invalid arguments. M is a multiple of 16 * wm; K of 8, 8-bit types 32, float64 4.

    Example:
        a = tj.mma.layout_a((16, 16), tj.float16)
        assert a.apply(1, 2, shape=(16, 16)) == {"laneid": 5, "m": 0}
    """
    return _a(matrix_shape(shape, "A", "(M, K)"), dtype, _warps(warps, scope), _WARP_AXES[scope])


def _a(shape: tuple[int, int], dtype: DType, warps: tuple[int, int], axis: Axis) -> TileLayout:
    (rows, depth), (wm, wn) = shape, warps
    need_multiple("M", rows, _ROWS, wm)
    pack, words = registers_of(depth, dtype)
    height = (
        Iter(wm, wn, axis), Iter(rows // (_ROWS * wm), 2 * pack * words, m), Iter(2, pack, m), Iter(8, 4, laneid),
    )
    width = (Iter(words, 2 * pack, m), Iter(4, 1, laneid), Iter(pack, 1, m))
    return _layout((*height, *width), Iter(wn, 1, axis))


def layout_b(
    shape: Sequence[int], dtype: DType, warps: tuple[int, int] = (1, 1), scope: str = "cta"
) -> TileLayout:
    """Return the layout of `gemm`'s operand B, of shape (K, N).

    Like `layout_a`, except that warp wn*y + x holds block x of wn blocks of columns.
    dtype: the type of B's elements. N must be a multiple of 8 * wn.

    Example:
        b = tj.mma.layout_b((16, 8), tj.float16)
        assert b.apply(2, 1, shape=(16, 8)) == {"laneid": 5, "m": 0}
    """
    return _b(matrix_shape(shape, "B", "(K, N)"), dtype, _warps(warps, scope), _WARP_AXES[scope])


def _b(shape: tuple[int, int], dtype: DType, warps: tuple[int, int], axis: Axis) -> TileLayout:
    (depth, columns), (wm, wn) = shape, warps
    need_multiple("N", columns, _COLUMNS, wn)
    pack, words = registers_of(depth, dtype)
    height = (Iter(words, pack, m), Iter(4, 1, laneid), Iter(pack, 1, m))
    width = (Iter(wn, 1, axis), Iter(columns // (_COLUMNS * wn), pack * words, m), Iter(8, 4, laneid))
    return _layout((*height, *width), Iter(wm, wn, axis))


def layout_c(
    shape: Sequence[int], dtype: DType = float32, warps: tuple[int, int] = (1, 1), scope: str = "cta"
) -> TileLayout:
    """Return the layout of `gemm`'s accumulator, of shape (M, N): warp wn*y + x holds block (y, x) of wm x wn blocks.

    dtype: float32, float16, float64 or int32. raises: LayoutError unless M is a multiple of 16 * wm and N of 8 * wn.

    Example:
        c = tj.mma.layout_c((16, 8), tj.float32)
        assert c.apply(1, 2, shape=(16, 8)) == {"laneid": 5, "m": 0}
    """
    return _c(matrix_shape(shape, "the accumulator", "(M, N)"), dtype, _warps(warps, scope), _WARP_AXES[scope])


def _c(shape: tuple[int, int], dtype: DType, warps: tuple[int, int], axis: Axis) -> TileLayout:
    (rows, columns), (wm, wn) = shape, warps
    need_multiple("M", rows, _ROWS, wm)
    need_multiple("N", columns, _COLUMNS, wn)
    if as_dtype(dtype) not in (float32, float16, float64, int32):
        raise LayoutError(
            f"tensor cores accumulate in float32, float16, float64 or int32; got {shown(dtype)}",
            hint="use one of these types",
        )
    tiles = columns // (_COLUMNS * wn)
    height = (Iter(wm, wn, axis), Iter(rows // (_ROWS * wm), 4 * tiles, m), Iter(2, 2, m), Iter(8, 4, laneid))
    width = (Iter(wn, 1, axis), Iter(tiles, 4, m), Iter(4, 1, laneid), Iter(2, 1, m))
    return _layout((*height, *width), Iter(1, 1, axis))


@lru_cache(maxsize=1024)
def fragment_layout(
    operand: str, shape: tuple[int, ...], dtype: DType, warps: tuple[int, int], copies: int, step: int, scope: str
) -> Projection:
    """Return the layout of an operand of any extents, padded to whole tiles for each warp.

    A dimension of extent 1 isn't padded; the lanes and warps along it hold replicas.
    operand: "acc", "a" or "b". warps: as in `layout_a`. copies: number of groups of warps that hold the same elements.
    step: K is padded to a multiple of it.
    raises: LayoutError if tensor cores don't support the type.
    """
    make, tiles = {
        "acc": (_c, (_ROWS * warps[0], _COLUMNS * warps[1])),
        "a": (_a, (_ROWS * warps[0], step)),
        "b": (_b, (step, _COLUMNS * warps[1])),
    }[operand]
    first, second = (-(-n // tile) * tile for n, tile in zip(shape, tiles, strict=True))
    whole, axis = (first, second), _WARP_AXES[scope]
    made = make(whole, dtype, warps, axis)
    if copies > 1:
        made = TileLayout(made.shard, (*made.replica, Iter(copies, warps[0] * warps[1], axis)))
    dims = [None if n == 1 else d for d, n in enumerate(shape)]
    padded = Projection(made, whole)
    return (padded.along(shape, dims) if None in dims else padded).concise(shape)


def _layout(shard: Sequence[Iter], replica: Iter) -> TileLayout:
    kept = tuple(it for it in shard if it.extent > 1)
    return TileLayout(kept, (replica,) if replica.extent > 1 else ())


def matrix_shape(shape: Sequence[int], operand: str, wanted: str) -> tuple[int, int]:
    """Return `shape` as two ints, or raise LayoutError. operand, wanted: the name and expected shape in messages."""
    if not isinstance(shape, Sequence) or len(shape) != 2 or not all(isinstance(n, int) for n in shape):
        raise LayoutError(f"{operand} has shape {wanted}; got {shown(shape)}", hint="give a tuple of two ints")
    return shape[0], shape[1]


def _warps(warps: tuple[int, int], scope: str) -> tuple[int, int]:
    if not isinstance(scope, str) or scope not in _WARP_AXES:
        raise LayoutError(
            f"warps are counted in a cta or a warpgroup; got scope={shown(scope)}",
            hint='omit scope, even for the tiles of one warp, or write scope="warpgroup"',
        )
    listed = tuple(warps) if isinstance(warps, Sequence) else ()
    if len(listed) != 2 or not all(isinstance(n, int) and n >= 1 for n in listed):
        raise LayoutError(f"warps is (warps along M, warps along N); got {shown(warps)}", hint="give two positive ints")
    if scope == "warpgroup" and listed[0] * listed[1] not in (1, WARPGROUP // WARP):
        raise LayoutError(
            f"a warpgroup has {WARPGROUP // WARP} warps; got warps={listed}",
            hint='write (4, 1), (2, 2) or (1, 4), or omit scope="warpgroup"',
        )
    return listed[0], listed[1]


def need_multiple(name: str, extent: int, tile: int, warps: int = 1, by: str = "a fragment") -> None:
    """Raise LayoutError unless `extent`, called `name`, is a positive multiple of tile * warps, as `by` requires."""
    if extent < 1 or extent % (tile * warps):
        among = f" for each of {warps} warps" if warps > 1 else ""
        raise LayoutError(
            f"{name} is {shown(extent)}; {by} needs a positive multiple of {tile}{among}",
            hint=f"make {name} a positive multiple of {tile * warps}",
        )


def registers_of(depth: int, dtype: DType) -> tuple[int, int]:
    """Return (elements per register, registers per lane along K); raise LayoutError for an invalid type or depth."""
    element = as_dtype(dtype)
    if element is None or element.name not in _K:
        names = ", ".join(name for name in DTYPES if name in _K)
        raise LayoutError(f"tensor cores multiply {names}; got {shown(dtype)}", hint="use one of these types")
    need_multiple("K", depth, _K[element.name])
    pack = max(1, 32 // element.bits)
    return pack, depth // (4 * pack)
