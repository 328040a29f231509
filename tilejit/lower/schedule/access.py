"""Valid accesses: vector widths, with the reasons why wider vectors can't be proven valid, and bounds tests.

In each dimension, coordinate c of a region is inside the tensor if 0 <= start + c < size. That is a single unsigned
comparison, since a negative index becomes a large number. Starts and sizes have 64 bits; coordinates fit in 32 bits. If
there are many accesses, start and size are clamped to the region first, so that the tests can use 32 bits:

    tensor          |0 . . . . . . . . 9|                  size 10
    region      . . . . . . . .                            start -3, extent 8
    coordinate  0 1 2 3 4 5 6 7                            clamped: start -3, size 5

Coordinates of padding are past the region's end, so the end of a padded region is tested like an edge. That test isn't
needed if the region is known to extend past its tensor's end, because the tensor ends before the padding.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import contextmanager

from ...dataclass import dataclass, lean
from ...dtypes import DType, bool_, int32, int64, uint32, uint64
from ...ir.arithmetic import build, facts
from ...ir.checks.indices import title
from ...ir.nodes import FALSE, TRUE, Assert, Assign, Const, Declare, Expr, Region, Strided, Var
from ...isa.access import WIDEST_BITS
from ..builder import Builder
from .addresses import Folded, Stride, Thread, multiple_of, shown
from .placement import Placement, ends_inside, extent_of, gathered_offsets, inside
from .views import DigitSchedule, View

#: an index without known facts
_ANY = Var("any", int64)


@dataclass(frozen=True, slots=True)
class Width:
    """A vector width in elements, and the reason why it isn't the widest possible ("" if it is)."""

    elements: int
    limit: str


def widest_vector(schedule: DigitSchedule, names: Collection[str], *, ragged: bool) -> Width:
    """Return the widest vector along a schedule's last digit for which all accesses to operands `names` are aligned.

    A vector has at most `WIDEST_BITS`, is contiguous in these operands, and lies in one chunk of each swizzle. Every
    term of its addresses must be provably a multiple of its width: the strides of all other digits, the offsets and the
    base.
    ragged: True if the last vector of a run may be partial; otherwise the width divides the run.
    source: PTX ISA, "State Spaces, Types, and Variables: vectors", on the alignment of vector accesses.
    """
    bits = max([schedule.operands[name][0].region.dtype.bits for name in names])
    width, limit = max(1, WIDEST_BITS // bits), ""
    while width > 1:
        reason = _obstacle(schedule, names, width, ragged)
        if reason is None:
            return Width(width, limit)
        limit = limit or reason
        width //= 2
    return Width(1, limit)


def _obstacle(schedule: DigitSchedule, names: Collection[str], width: int, ragged: bool) -> str | None:
    run = schedule.run_length(names)
    if run == 1:
        return _no_run([schedule[name] for name in names])
    if width > run:
        return f"only {run} elements are contiguous in all operands; {width} make a vector"
    if not ragged and run % width:
        return f"runs of {run} elements don't divide into vectors of {width}"
    for name in names:
        strides = [digit.strides[name] for digit in schedule.digits[:-1]]
        reason = misaligned(schedule.operands[name][0], strides, width)
        if reason is not None:
            return reason
    return None


def _no_run(views: Sequence[View]) -> str:
    for view in views:
        stride = view.strides[-1] if view.strides else 1
        name, layout = view.buffer.name, view.buffer.layout
        if isinstance(layout, Strided) and layout.unit_dim is None:
            return f"no dimension of {name} is known to have stride 1"
        if isinstance(stride, Folded):
            return f"a dimension of {name} has no constant stride, so its elements may not be contiguous"
        if stride != 1:
            return f"adjacent elements of the fastest dimension are {shown(stride)} elements apart in {name}"
    return "there is only one element"


def misaligned(placement: Placement, strides: Sequence[Stride], width: int) -> str | None:
    """Return why vectors of `width` elements, `strides` apart, may be misaligned or split by a swizzle, or None."""
    region, swizzle = placement.region, placement.swizzle
    buffer, offsets = region.buffer, placement.offsets
    bytes_each = buffer.dtype.bytes
    if swizzle is not None and swizzle.chunk < width:
        return f"the swizzle of {buffer.name} keeps {swizzle.chunk} elements together; needs {width}"
    if region.gathered is not None:
        offsets += gathered_offsets(region, _ANY)
    for offset in offsets:
        if offset.multiple % width:
            return (
                f"{offset.what} is a multiple of {offset.multiple * bytes_each} bytes; "
                f"needs a multiple of {width * bytes_each}"
            )
    for stride in strides:
        if isinstance(stride, Thread):
            continue
        if isinstance(stride, Folded):
            return f"a dimension of {buffer.name} has no constant stride"
        if multiple_of(stride) % width:
            return (
                f"rows of {buffer.name} start every {shown(stride, bytes_each)} bytes; "
                f"needs a multiple of {width * bytes_each}"
            )
    if buffer.space != "local" and buffer.align % (width * bytes_each):
        return f"the base of {buffer.name} is aligned to {buffer.align} bytes; needs {width * bytes_each}"
    return None


@lean(frozen=True, slots=True)
class Edges:
    """The edges that accesses to an operand may cross, of a tensor or a padded region, and the tests for them."""

    view: View
    #: the buffer's dimensions in which accesses may cross the tensor's edge
    dims: tuple[int, ...]
    #: the schedule's dimension along which vectors run, which is `Digit.dim` of the last digit; None without digits
    run_dim: int | None
    #: distance in that dimension between adjacent elements of a vector
    run_step: int
    width: int
    #: True if it is known that no vector straddles an edge
    whole: bool
    #: the tests that an accessed element passes, once `mask` has chosen them
    windows: tuple[Window, ...] = ()

    @staticmethod
    def of(view: View, width: int, dims: tuple[int, ...] | None = None) -> Edges:
        """Return the edges of a region that may exceed its tensor in `dims`, by default in those of its placement."""
        dims = view.placement.edges if dims is None else dims
        if not view.schedule.digits:
            return Edges(view, dims, None, 1, width, True)
        run = view.schedule.digits[-1]
        whole = not (dims or view.schedule.padded) or _moves_whole(view, dims, width)
        return Edges(view, dims, run.dim, run.weight, width, whole)

    @property
    def all_inside(self) -> Expr:
        cond: Expr = TRUE
        for d in self.dims:
            cond = build.logical_and(cond, inside(self.view.placement.region, d))
        return cond

    def mask(self, b: Builder, vectors: int, refuted: Expr = FALSE) -> Edges:
        """Choose the tests for `vectors` vectors per thread. refuted: a condition known to be false at the tests."""
        tests = vectors if self.whole else vectors * self.width
        if tests >= _MANY_TESTS:
            return self.clamped(b, refuted)
        return self._mask([_plain(self.view, d, refuted) for d in self.dims])

    def clamped(self, b: Builder, refuted: Expr = FALSE) -> Edges:
        """Return the tests with windows clamped to the region, so that most tests use 32 bits; for many tests."""
        return self._mask([_clamped_window(self.view, d, b, refuted) for d in self.dims])

    @property
    def without_tensor(self) -> Edges:
        """The tests that remain for a region inside its tensor: those for padding."""
        return Edges.of(self.view, self.width, ())._mask([])

    def _mask(self, windows: Sequence[Window]) -> Edges:
        schedule, tested = self.view.schedule, [window.dim for window in windows]
        of_region = [
            Window(dim, _ZERO, build.const(schedule.extents[dim], int32))
            for dim in schedule.padded if dim not in tested
        ]
        every = (*windows, *of_region)
        return Edges(self.view, self.dims, self.run_dim, self.run_step, self.width, self.whole, every)

    def inside(self, coordinate: Coordinate, step: Expr | None = None) -> Expr:
        """Return the condition that element `step` of a vector, the first if None, passes the tests."""
        cond: Expr = TRUE
        run_dim, run_step = self.run_dim, self.run_step
        further = step if step is None or run_step == 1 else build.mul(step, run_step)
        for window in self.windows:
            along = window.dim is not None and window.dim == run_dim
            cond = build.logical_and(cond, window.holds(coordinate, further if along else None))
        return cond

    def throughout(self, coordinate: Coordinate, first: Expr, last: Expr) -> Expr:
        """Return the condition that elements `first` to `last` of a vector all pass the tests."""
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
        """Return how many of the elements [start, start + width) precede the end, if none precedes the tensor."""
        (ahead,) = (w for w in self.windows if w.dim is not None and w.dim == self.run_dim)
        step = self.run_step
        return ahead.count_from(coordinate, build.const(start * step, int32), width, step)


def _moves_whole(view: View, dims: Sequence[int], width: int) -> bool:
    run = view.schedule.digits[-1]
    if width == 1 or run.dim is None:
        return True
    multiples = [digit.weight for digit in view.schedule.digits if digit.dim == run.dim and digit.weight > run.weight]
    d, is_padded = view.dims[run.dim], run.dim in view.schedule.padded
    if d is not None and d in dims:
        multiples += [facts.multiple_of(view.placement.region.starts[d]), facts.multiple_of(extent_of(view.buffer, d))]
    elif not is_padded:
        return True
    multiples += [view.schedule.extents[run.dim]] if is_padded else []
    return all(multiple % (width * run.weight) == 0 for multiple in multiples)


#: maps a dimension of the space and a data type to the coordinate in that dimension, in that type
Coordinate = Callable[[int, DType], Expr]


@lean(frozen=True, slots=True)
class Window:
    """The test 0 <= start + coordinate < size in the space's dimension `dim`, None if the only coordinate is 0."""

    dim: int | None
    start: Expr
    size: Expr

    @property
    def begins_inside(self) -> bool:
        """True if no coordinate can be before the tensor, because `start` is known not to be negative."""
        low = facts.bounds(self.start)[0]
        return low is not None and low >= 0

    def holds(self, coordinate: Coordinate, step: Expr | None = None) -> Expr:
        """Return the condition that a coordinate, advanced by `step`, passes the test."""
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
        """Return how many of `width` coordinates, `step` apart from `coordinate` + `first` on, precede the end.

        None of them may be before the beginning (start + coordinate < 0).
        """
        ahead = build.sub(self.size, self._at(coordinate, first))
        if step > 1:
            ahead = build.floordiv(build.add(ahead, step - 1), step)
        return build.cast(build.minimum(build.maximum(ahead, 0), width), int32)

    def _at(self, coordinate: Coordinate, step: Expr | None) -> Expr:
        dtype = self.size.dtype
        at = self.start
        if self.dim is not None:
            along = coordinate(self.dim, dtype)
            at = along if isinstance(at, Const) and at.value == 0 else build.add(at, along)
        return at if step is None else build.add(at, build.cast(step, dtype))


#: Smallest number of tests per thread for which a window is clamped. A 64-bit test takes about 4 machine instructions
#: and 2 registers, a 32-bit test 2 and 1; clamping takes about 20 instructions. A softmax of 65,536 float16 in 1,024
#: threads (8 vectors each) takes 24 fewer instructions with clamping and spills 8 fewer registers.
_MANY_TESTS = 8

_ZERO = build.const(0, int32)

#: the sum of a start up to this bound and an extent doesn't overflow
_FAR = 1 << 62


def _passes_end(view: View, d: int, refuted: Expr) -> bool:
    """True if the region extends past its tensor's end in dimension `d` whenever `refuted` is false.

    False if `refuted` also tests something else: another dimension, another operand or the start.
    """
    return ends_inside(view.placement.region, d) == refuted


def _plain(view: View, d: int, refuted: Expr) -> Window:
    dim = view.dims.index(d) if d in view.dims else None
    start, size = build.cast(view.placement.region.starts[d], int64), extent_of(view.buffer, d)
    if dim in view.schedule.padded and not _passes_end(view, d, refuted):
        size = build.minimum(size, build.add(start, view.placement.region.counts[d]))
        low, high = facts.bounds(start)
        if low is None or low < 0 or high is None or high > _FAR:
            # a size below 0, for a region before the tensor or after overflow, would be large as an unsigned number
            size = build.maximum(size, 0)
    return Window(dim, start, size)


def _clamped_window(view: View, d: int, b: Builder, refuted: Expr) -> Window:
    """Return the window in 32 bits, or in 64 bits if the region has a single coordinate in this dimension."""
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
    before = b.let("before", build.cast(build.minimum(build.maximum(plain.start, -extent), 0), int32))
    return Window(plain.dim, before, b.let("size", build.add(end, before)))


@contextmanager
def each_inside(b: Builder, region: Region, dim: int) -> Iterator[Callable[[Expr, Expr], None]]:
    """Yield a function that checks an index of dimension `dim` if a condition holds; emit one assertion on exit."""
    extent = extent_of(region.buffer, dim)
    is_wrong, wrong = Var(b.name("is_wrong"), bool_), Var(b.name("wrong"), int64)
    b.append(Declare(is_wrong, build.const(False, bool_), b.span))
    b.append(Declare(wrong, build.const(0, int64), b.span))

    def examine(index: Expr, is_examined: Expr) -> None:
        is_outside = build.logical_or(build.less(index, 0), build.greater_equal(index, extent))
        is_wrong_here = b.let("outside", build.logical_and(is_examined, is_outside))
        b.append(Assign(wrong, build.where(is_wrong_here, index, wrong), b.span))
        b.append(Assign(is_wrong, build.logical_or(is_wrong_here, is_wrong), b.span))

    yield examine
    message = f"index {{0}} is outside dimension {dim} of {title(region.buffer)}, whose extent is {{1}}"
    values = wrong, build.cast(extent, int64)
    b.append(Assert(build.logical_not(is_wrong), message, "bounds", values, region.span or b.span))
