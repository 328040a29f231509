"""What part of a region lies inside its tensor: the one place that tests it, for every access of every variant.

A tensor has extents and starts of 64 bits, a region's own coordinates fit in 32. So in each dimension where a region
may pass an edge, the coordinates inside are worked out once in 64 bits, and clamped to the region:

    tensor          |0 . . . . . . . . 9|                  extent 10
    region      . . . . . . . .                            start -3, extent 8
    coordinate  0 1 2 3 4 5 6 7                            inside: first 3, end 8, size 5
    region                        . . . . . . . .          start 6, extent 8
    coordinate                    0 1 2 3 4 5 6 7          inside: first 0, end 4, size 4

Then an access takes one comparison of 32 bits: c - first < size, unsigned, for what lies before `first` is a great
unsigned number.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ...dtypes import int32, int64, uint32
from ...ir import build, facts
from ...ir.nodes import TRUE, Expr
from ..builder import Builder
from .placement import extent_of
from .views import View

__all__ = ["NO_EDGES", "Edges", "Mask"]

_ZERO = build.const(0, int32)


@dataclass(frozen=True, slots=True)
class Edges:
    """The edges of a global tensor that an operand may pass.

    dims: dimensions of the buffer. run_dim: the dimension of the space along which vectors run, None where it spans
    several. whole: whether no vector straddles an edge.
    """

    view: View
    dims: tuple[int, ...]
    run_dim: int | None
    whole: bool

    @staticmethod
    def of(view: View, width: int) -> Edges:
        """Those that vectors of `width` along the last digit may pass."""
        dims = view.placement.edges
        run_dim = view.digits[-1].dim if view.digits else None
        return Edges(view, dims, run_dim, not dims or _moves_whole(view, dims, run_dim, width))

    def mask(self, b: Builder) -> Mask:
        """The tests of the statements that `b` writes from here on."""
        return Mask(tuple(_window(self.view, d, b) for d in self.dims), self.run_dim, self.whole)


def _moves_whole(view: View, dims: Sequence[int], run_dim: int | None, width: int) -> bool:
    """Whether each vector of `width` along the last digit lies on one side of every edge in `dims`.

    True where the dimension's start and size are multiples of the width, as is what all other digits add.
    """
    if width == 1 or run_dim is None or (d := view.dims[run_dim]) is None or d not in dims:
        return True
    others = (digit.weight for digit in view.digits[:-1] if digit.dim == run_dim)
    start, size = view.placement.region.starts[d], extent_of(view.buffer, d)
    return all(multiple % width == 0 for multiple in (facts.multiple_of(start), facts.multiple_of(size), *others))


@dataclass(frozen=True, slots=True)
class Window:
    """In one dimension coordinates [first, end) of a region, `size` many, lie inside the tensor.

    dim: the space's dimension, None where the region has one coordinate, 0. extent: the region's.
    """

    dim: int | None
    extent: int
    first: Expr
    end: Expr
    size: Expr

    def holds(self, at: Expr) -> Expr:
        """Whether a coordinate lies in the window."""
        if self.first == _ZERO:
            return build.less(at, self.end)
        return build.less(build.cast(build.sub(at, self.first), uint32), build.cast(self.size, uint32))

    @property
    def is_full(self) -> Expr:
        """Whether all of the region lies inside."""
        return build.equal(self.size, self.extent)


@dataclass(frozen=True, slots=True)
class Mask:
    """Which elements of an operand lie inside its tensor. run_dim, whole: as of Edges."""

    windows: tuple[Window, ...]
    run_dim: int | None
    whole: bool

    @property
    def all_inside(self) -> Expr:
        """Whether all elements do."""
        cond: Expr = TRUE
        for window in self.windows:
            cond = build.logical_and(cond, window.is_full)
        return cond

    def inside(self, coordinate: Callable[[int], Expr], step: Expr = _ZERO) -> Expr:
        """Whether an element does: that `step` further in its vector than the first.

        coordinate: gives that of the first in a dimension of the space, below its extent.
        """
        cond: Expr = TRUE
        for window in self.windows:
            at = _ZERO if window.dim is None else coordinate(window.dim)
            along = window.dim is not None and window.dim == self.run_dim
            cond = build.logical_and(cond, window.holds(build.add(at, step) if along else at))
        return cond

    def count_ahead(self, coordinate: Callable[[int], Expr], start: int, width: int) -> Expr:
        """How many of elements [start, start + width) of a vector lie before the edge that it runs towards."""
        (ahead,) = (w for w in self.windows if w.dim is not None and w.dim == self.run_dim)
        assert ahead.dim is not None
        at = build.add(coordinate(ahead.dim), start)
        return build.minimum(build.maximum(build.sub(ahead.end, at), 0), width)


#: where all is known to lie inside
NO_EDGES = Mask((), None, True)


def _window(view: View, d: int, b: Builder) -> Window:
    region = view.placement.region
    start, extent = build.cast(region.starts[d], int64), region.extents[d] or 1
    dim = view.dims.index(d) if d in view.dims else None
    end = b.let("end", _clamped(build.sub(extent_of(view.buffer, d), start), extent))
    low = facts.bounds(start)[0]
    if low is not None and low >= 0:
        return Window(dim, extent, _ZERO, end, end)
    first = b.let("first", _clamped(build.neg(start), extent))
    return Window(dim, extent, first, end, b.let("size", build.sub(end, first)))


def _clamped(x: Expr, most: int) -> Expr:
    return build.cast(build.minimum(build.maximum(x, 0), most), int32)
