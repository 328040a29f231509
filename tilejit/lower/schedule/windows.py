"""What part of a region lies inside its tensor: the one place that tests it, for every access of every variant.

Coordinate c of a region lies inside, in one dimension, where 0 <= start + c < size: one comparison, unsigned, for what
lies before the tensor's beginning is a great number. A tensor's starts and sizes have 64 bits, a region's coordinates
fit in 32. So where there are many accesses, start and size are clamped to the region first, and tests take 32 bits:

    tensor          |0 . . . . . . . . 9|                  size 10
    region      . . . . . . . .                            start -3, extent 8
    coordinate  0 1 2 3 4 5 6 7                            clamped: start -3, size 5
    region                        . . . . . . . .          start 6, extent 8
    coordinate                    0 1 2 3 4 5 6 7          clamped: start 0, size 4

Coordinates that count padding lie past the region's extent; for them that is an edge as well.

Where a region is known to pass its tensor's end, the tensor ends before it: no limit by the region is needed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from ...dataclass import lean
from ...dtypes import DType, int32, int64, uint32, uint64
from ...ir.arithmetic import build, facts
from ...ir.nodes import FALSE, TRUE, Const, Expr
from ..builder import Builder
from .placement import ends_inside, extent_of, inside
from .views import View

__all__ = ["Edges", "Mask"]



@lean(frozen=True, slots=True)
class Edges:
    """The edges that an operand in memory may pass: those of a global tensor, and of its region where that is padded.

    dims: dimensions of the buffer, in which it may pass the tensor's. padded: dimensions of the space, in which it
    passes the region's. run_dim: the dimension of the space along which vectors run, None where it spans several;
    run_step: how far the next element of a vector is in it. width: elements of a vector. whole: whether no vector
    straddles an edge.
    """

    view: View
    dims: tuple[int, ...]
    padded: tuple[int, ...]
    run_dim: int | None
    run_step: int
    width: int
    whole: bool

    @staticmethod
    def of(view: View, width: int) -> Edges:
        """Those that vectors of `width` along the last digit may pass."""
        return Edges.within(view, width, view.placement.edges)

    @staticmethod
    def within(view: View, width: int, dims: tuple[int, ...]) -> Edges:
        """As `of`, where the region is known to lie inside its tensor but in the buffer's dimensions `dims`."""
        padded = view.space.padded
        if not view.digits:
            return Edges(view, dims, padded, None, 1, width, True)
        run = view.digits[-1]
        whole = not (dims or padded) or _moves_whole(view, dims, padded, width)
        return Edges(view, dims, padded, run.dim, run.weight, width, whole)

    @property
    def all_inside(self) -> Expr:
        """Whether all of the region lies inside its tensor."""
        cond: Expr = TRUE
        for d in self.dims:
            cond = build.logical_and(cond, inside(self.view.placement.region, d))
        return cond

    def mask(self, b: Builder, vectors: int, refuted: Expr = FALSE) -> Mask:
        """The tests of the statements that `b` writes from here on, for so many vectors of a thread.

        refuted: what is known to be false there.
        """
        tests = vectors if self.whole else vectors * self.width
        if tests >= _MANY_TESTS:
            return self.clamped(b, refuted)
        return self._mask([_plain(self.view, d, refuted) for d in self.dims])

    def clamped(self, b: Builder, refuted: Expr = FALSE) -> Mask:
        """As `mask`, with windows that are clamped: what a loop repeats tests 32 bits."""
        return self._mask([_clamped_window(self.view, d, b, refuted) for d in self.dims])

    @property
    def without_tensor(self) -> Mask:
        """What is tested where all of the region lies inside its tensor."""
        return Edges.within(self.view, self.width, ())._mask([])

    def _mask(self, windows: Sequence[Window]) -> Mask:
        """The windows, and one in each padded dimension that has none."""
        open_dims = [dim for dim in self.padded if dim not in [window.dim for window in windows]]
        of_region = [Window(dim, _ZERO, build.const(self.view.space.dims[dim], int32)) for dim in open_dims]
        return Mask((*windows, *of_region), self.run_dim, self.run_step, self.whole)


def _moves_whole(view: View, dims: Sequence[int], padded: Sequence[int], width: int) -> bool:
    """Whether each vector of `width` along the last digit lies on one side of every edge.

    True where the dimension's start and size are multiples of what a vector spans, as is what all slower digits add.
    """
    run = view.digits[-1]
    if width == 1 or run.dim is None:
        return True
    multiples = [digit.weight for digit in view.digits if digit.dim == run.dim and digit.weight > run.weight]
    d, is_padded = view.dims[run.dim], run.dim in padded
    if d is not None and d in dims:
        multiples += [facts.multiple_of(view.placement.region.starts[d]), facts.multiple_of(extent_of(view.buffer, d))]
    elif not is_padded:
        return True
    multiples += [view.space.dims[run.dim]] if is_padded else []
    return all(multiple % (width * run.weight) == 0 for multiple in multiples)


#: gives the coordinate in a dimension of the space, below its extent, in a type
Coordinate = Callable[[int, DType], Expr]


@lean(frozen=True, slots=True)
class Window:
    """In one dimension a coordinate lies inside the tensor where 0 <= start + coordinate < size.

    dim: the space's dimension, None where the region has one coordinate, 0. start, size: of one type.
    """

    dim: int | None
    start: Expr
    size: Expr

    @property
    def begins_inside(self) -> bool:
        """Whether nothing lies before the tensor."""
        low = facts.bounds(self.start)[0]
        return low is not None and low >= 0

    def holds(self, coordinate: Coordinate, step: Expr | None = None) -> Expr:
        """Whether a coordinate lies inside, `step` further where that is given."""
        at = self._at(coordinate, step)
        low = facts.bounds(at)[0]
        if low is not None and low >= 0:
            return build.less(at, self.size)
        begins = build.greater_equal(at, 0)
        if isinstance(begins, Const):
            return build.logical_and(begins, build.less(at, self.size))
        unsigned = uint64 if self.size.dtype == int64 else uint32
        return build.less(build.cast(at, unsigned), build.cast(self.size, unsigned))

    def count_from(self, coordinate: Coordinate, first: Expr, width: int, step: int) -> Expr:
        """How many of `width` coordinates, `step` apart, lie inside: none before the tensor, the `first` further."""
        ahead = build.sub(self.size, self._at(coordinate, first))
        if step > 1:
            ahead = build.floordiv(build.add(ahead, step - 1), step)
        return build.cast(build.minimum(build.maximum(ahead, 0), width), int32)

    def _at(self, coordinate: Coordinate, step: Expr | None) -> Expr:
        dtype = self.size.dtype
        at = self.start
        if self.dim is not None:
            along = coordinate(self.dim, dtype)
            # most regions begin at 0
            at = along if isinstance(at, Const) and at.value == 0 else build.add(at, along)
        return at if step is None else build.add(at, build.cast(step, dtype))


@lean(frozen=True, slots=True)
class Mask:
    """Which elements of an operand lie inside its tensor. run_dim, run_step, whole: as of Edges."""

    windows: tuple[Window, ...]
    run_dim: int | None
    run_step: int
    whole: bool

    def inside(self, coordinate: Coordinate, step: Expr | None = None) -> Expr:
        """Whether an element does: that `step` further in its vector than the first, whose coordinates are given."""
        cond: Expr = TRUE
        further = step if step is None or self.run_step == 1 else build.mul(step, self.run_step)
        for window in self.windows:
            along = window.dim is not None and window.dim == self.run_dim
            cond = build.logical_and(cond, window.holds(coordinate, further if along else None))
        return cond

    def throughout(self, coordinate: Coordinate, first: Expr, last: Expr) -> Expr:
        """Whether all elements of a vector from number `first` to `last` do."""
        cond: Expr = TRUE
        for window in self.windows:
            ends: tuple[Expr | None, ...] = (None,)
            if window.dim is not None and window.dim == self.run_dim:
                ends = (last,) if window.begins_inside else (first, last)
            for end in ends:
                further = None if end is None else build.mul(end, self.run_step)
                cond = build.logical_and(cond, window.holds(coordinate, further))
        return cond

    def count_ahead(self, coordinate: Coordinate, start: int, width: int) -> Expr:
        """How many of elements [start, start + width) of a vector lie before the edge that it runs towards.

        accepts: a vector that doesn't begin before the tensor.
        """
        (ahead,) = (w for w in self.windows if w.dim is not None and w.dim == self.run_dim)
        first = build.const(start * self.run_step, int32)
        return ahead.count_from(coordinate, first, width, self.run_step)


#: So many tests of a thread pay for a window that is clamped: of 64 bits a test is about 4 machine instructions (an
#: addition and a comparison of two words each) and holds two registers, of 32 bits 2 and one; clamping takes about 20.
#: A softmax of 65,536 float16 in 1,024 threads (8 vectors) has 24 instructions less, and spills 8 registers less.
_MANY_TESTS = 8


_ZERO = build.const(0, int32)

#: a start up to here stays below 2**63 when an extent is added
_FAR = 1 << 62


def _passes_end(view: View, d: int, refuted: Expr) -> bool:
    """Whether the region is known to pass its tensor's end in dimension `d`, as `refuted` is false.

    A test of several dimensions or operands, or of a start too, doesn't say which of them it is.
    """
    return ends_inside(view.placement.region, d) == refuted


def _plain(view: View, d: int, refuted: Expr) -> Window:
    """The window in dimension `d` of the buffer, in 64 bits."""
    dim = view.dims.index(d) if d in view.dims else None
    start, size = build.cast(view.placement.region.starts[d], int64), extent_of(view.buffer, d)
    if dim in view.space.padded and not _passes_end(view, d, refuted):
        size = build.minimum(size, build.add(start, view.placement.region.counts[d]))
        low, high = facts.bounds(start)
        if low is None or low < 0 or high is None or high > _FAR:
            # the whole region may lie before the tensor, and past 2**63 the sum is negative: no size is, as unsigned
            size = build.maximum(size, 0)
    return Window(dim, start, size)


def _clamped_window(view: View, d: int, b: Builder, refuted: Expr) -> Window:
    """The window in 32 bits; that of a single coordinate stays as it is."""
    plain = _plain(view, d, refuted)
    if plain.dim is None:
        return plain
    extent = view.placement.region.counts[d]
    ahead = build.maximum(build.sub(plain.size, plain.start), 0)
    if _passes_end(view, d, refuted):
        end = b.let("end", build.cast(ahead, int32), within=(0, extent - 1))
    else:
        end = b.let("end", build.cast(build.minimum(ahead, extent), int32))
    low = facts.bounds(plain.start)[0]
    if low is not None and low >= 0:
        return Window(plain.dim, build.const(0, int32), end)
    before = b.let("before", _clamped(plain.start, -extent, 0))
    return Window(plain.dim, before, b.let("size", build.add(end, before)))


def _clamped(x: Expr, low: int, high: int) -> Expr:
    return build.cast(build.minimum(build.maximum(x, low), high), int32)
