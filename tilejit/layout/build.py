"""`S[extents : strides]` and `R[extents : strides]`, the notation for layouts, and the layout of swizzled tiles."""

from __future__ import annotations

import operator
from collections.abc import Sequence

from ..errors import LayoutError
from ..wording import counted, shown
from .arguments import extents as checked_extents
from .axes import Axis, Term, m
from .iters import Iter, weights
from .swizzle import Swizzle
from .tile_layout import Replica, TileLayout

_ATOM_ROWS = 8


class _ShardBuilder:
    """`S[(e0, e1) : (s0, s1 @ axis)]`; without strides, row-major on m.

    Example:
        layout = S[(32, 8) : (1 @ laneid, 1)]
        assert layout.owners(3, 0) is not None
    """

    def __getitem__(self, spec: object) -> TileLayout:
        return TileLayout(_iters(spec, "a layout", "S"))

    def __repr__(self) -> str:
        return "S"


class _ReplicaBuilder:
    """`R[(e0, e1) : (s0, s1 @ axis)]`, to be added to a layout.

    Example:
        layout = S[(32,) : (1,)] + tj.R[32 : 1 @ laneid]
        assert len(layout(5)) == 32
    """

    def __getitem__(self, spec: object) -> Replica:
        return Replica(_iters(spec, "a replica", "R"))

    def __repr__(self) -> str:
        return "R"


S = _ShardBuilder()
R = _ReplicaBuilder()


def _iters(spec: object, what: str, name: str) -> tuple[Iter, ...]:
    if not isinstance(spec, slice):
        extents = _extents(spec)
        return tuple(Iter(n, w, m) for n, w in zip(extents, weights(extents), strict=True))
    if spec.step is not None or spec.start is None:
        raise LayoutError(f"{what} is {name}[extents : strides]", hint=f"write {name}[(8, 4) : (4 @ laneid, 1)]")
    extents = _extents(spec.start)
    strides = _strides(spec.stop, extents, single=not isinstance(spec.start, Sequence))
    if len(strides) != len(extents):
        found = f"{what} has {counted(len(extents), 'extent')} {extents} but {counted(len(strides), 'stride')}"
        raise LayoutError(found, hint="give each extent exactly one stride")
    return tuple(Iter(n, t.value, t.axis) for n, t in zip(extents, strides, strict=True))


def _extents(spec: object) -> tuple[int, ...]:
    listed = spec if isinstance(spec, (tuple, list)) else (spec,)
    try:
        return tuple(operator.index(n) for n in listed)
    except TypeError:
        raise LayoutError(f"extents are integers; got {shown(spec)}", hint="write S[(32, 8) : (8, 1)]") from None


def _strides(spec: object, extents: Sequence[int], *, single: bool) -> tuple[Term, ...]:
    if spec is None:
        return tuple(Term(w, m) for w in weights(extents))
    if single or not isinstance(spec, (tuple, list)):
        return (_stride(spec),)
    return tuple(_stride(s) for s in spec)


def _stride(spec: object) -> Term:
    """Parse a stride: an integer on m, `n @ axis`, an axis or its name (stride 1), or (n, axis name)."""
    if isinstance(spec, Term):
        return spec
    if isinstance(spec, Axis):
        return Term(1, spec)
    if isinstance(spec, str):
        return Term(1, Axis(spec))
    if isinstance(spec, tuple) and len(spec) == 2 and isinstance(spec[1], str):
        return Axis(spec[1]).__rmatmul__(spec[0])
    try:
        return Term(operator.index(spec), m)  # type: ignore[arg-type]
    except TypeError:
        raise LayoutError(
            f"a stride is an integer or integer @ axis; got {shown(spec)}", hint="write 4 @ laneid, or 4 for memory"
        ) from None


def swizzled_atom_layout(shape: Sequence[int], bits: int, mode: str) -> TileLayout:
    """Return a shared memory layout for ldmatrix, TMA, wgmma and tcgen05: atoms of 8 rows by 16, 32, 64 or 128 bytes.

    The last two dimensions are tiled by the atom. In memory, blocks of rows are fastest, then blocks of columns, then
    the leading dimensions.
    shape: at least two dimensions. bits: the width of an element. mode: "none" (16 bytes), "32B", "64B" or "128B".
    source: `mma_shared_layout` of Apache TVM's TIRx.
    """
    swizzle = Swizzle.for_dtype(bits, mode)
    atom_columns = swizzle.chunk << swizzle.bits
    shape = checked_extents(shape)
    if len(shape) < 2:
        raise LayoutError(
            f"a swizzled tile has rows and columns; got shape {tuple(shape)}", hint="give at least two extents"
        )
    *leading, rows, columns = shape
    if rows % _ATOM_ROWS != 0 or columns % atom_columns != 0:
        raise LayoutError(
            f"shape {tuple(shape)} doesn't divide into atoms of {_ATOM_ROWS} rows by {atom_columns} columns "
            f"(swizzle mode {mode!r}, {bits}-bit elements)",
            hint=f"pad rows to a multiple of {_ATOM_ROWS} and columns to one of {atom_columns}"
            + (", or choose a narrower swizzle" if columns % atom_columns and swizzle.bits else ""),
        )
    outer = (Iter(n, w * rows * columns, m) for n, w in zip(leading, weights(leading), strict=True))
    tile = (
        Iter(rows, atom_columns, m),
        Iter(columns // atom_columns, rows * atom_columns, m),
        Iter(atom_columns, 1, m),
    )
    return TileLayout((*outer, *tile), swizzle=None if swizzle.is_identity else swizzle)
