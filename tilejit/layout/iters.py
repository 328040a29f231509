"""Iterators, and operations on sequences of them: merging, refining to a shape or to several, slicing."""

from __future__ import annotations

import math
import operator
from collections import Counter
from collections.abc import Iterable, Sequence

from ..dataclass import dataclass
from ..errors import LayoutError
from ..wording import shown
from .arguments import extents as checked_extents
from .arguments import integer, integers, items
from .axes import Axis, Term, m

TRIPLES = "give (extent, stride, axis name) triples, such as [(32, 1, 'laneid')]"
_PAIRS = "give (start, extent) for each dimension"


@dataclass(frozen=True, slots=True, repr=False)
class Iter:
    """One digit of a logical index: `extent` values, `stride` apart along `axis`."""

    extent: int
    stride: int
    axis: Axis

    def __post_init__(self) -> None:
        if type(self.extent) is not int or type(self.stride) is not int:
            hint = "write Iter(4, 1, laneid): an extent, a stride and an axis"
            object.__setattr__(self, "extent", integer(self.extent, "an extent", hint))
            object.__setattr__(self, "stride", integer(self.stride, "a stride", hint))
        if not isinstance(self.axis, Axis):
            got = shown(self.axis)
            raise LayoutError(f"an iterator moves along an axis; got {got}", hint="give laneid, tx or m")
        if self.extent < 1:
            raise LayoutError(
                f"an extent is at least 1; got {self.extent} with stride {self.stride} on {self.axis}",
                hint="leave empty dimensions out",
            )

    def __repr__(self) -> str:
        return f"{self.extent}:{self.stride}@{self.axis}"


def weights(extents: Sequence[int]) -> tuple[int, ...]:
    """Return how much incrementing each digit adds to the flat row-major index."""
    return tuple(math.prod(extents[k + 1 :]) for k in range(len(extents)))


def digits(index: int, extents: Sequence[int]) -> tuple[int, ...]:
    """Return the mixed-radix digits of `index`; the first isn't reduced modulo its extent."""
    worth = weights(extents)
    return tuple(index // w if k == 0 else index // w % extents[k] for k, w in enumerate(worth))


def steps(iters: Iterable[Iter], coord: Iterable[int]) -> dict[Axis, int]:
    """Return the displacement of `coord` along each axis."""
    total: dict[Axis, int] = {}
    for it, x in zip(iters, coord, strict=True):
        total[it.axis] = total.get(it.axis, 0) + x * it.stride
    return total


def merged(iters: Iterable[Iter]) -> tuple[Iter, ...]:
    """Return the fewest iterators that compute the same function; () if all extents are 1."""
    run: list[Iter] = []
    for it in iters:
        if it.extent == 1:
            continue
        while run and run[-1].axis == it.axis and run[-1].stride == it.extent * it.stride:
            it = Iter(run.pop().extent * it.extent, it.stride, it.axis)
        run.append(it)
    return tuple(run)


def refined(iters: Sequence[Iter], shape: Sequence[int]) -> tuple[tuple[Iter, ...], ...]:
    """Split `iters` into consecutive groups whose extents multiply to those of `shape`, which has the same size.

    returns: one nonempty group of iterators per dimension.
    raises: LayoutError if neither an iterator's extent nor what remains of a dimension's extent divides the other.
    """
    stack = list(reversed(iters))
    groups: list[list[Iter]] = []
    for dim, extent in enumerate(shape):
        groups.append(_take(stack, extent, f"dimension {dim} of shape {tuple(shape)}"))
    if groups:
        groups[-1].extend(reversed(stack))
    return tuple(tuple(g) for g in groups)


def groups_to(iters: Sequence[Iter], shape: Sequence[int]) -> bool:
    try:
        refined(iters, shape)
    except LayoutError:
        return False
    return True


def _take(stack: list[Iter], extent: int, what: str) -> list[Iter]:
    if extent == 1:
        return [stack.pop() if stack and stack[-1].extent == 1 else Iter(1, 1, m)]
    group: list[Iter] = []
    need = extent
    while need > 1:
        it = stack.pop()
        if need % it.extent == 0:
            group.append(it)
            need //= it.extent
        elif it.extent % need == 0:
            rest = it.extent // need
            group.append(Iter(need, it.stride * rest, it.axis))
            stack.append(Iter(rest, it.stride, it.axis))
            need = 1
        else:
            raise LayoutError(
                f"iterator {it!r} doesn't fit {what}: a factor of {need} of extent {extent} remains, "
                f"and neither {it.extent} nor {need} divides the other",
                hint="choose a shape whose extents split the layout's iterators evenly",
            )
    return group


def sliced(group: Sequence[Iter], start: int, extent: int) -> tuple[tuple[Iter, ...], dict[Axis, int]]:
    """Return the iterators of the window [start, start + extent) of one dimension, and its first element's offset.

    accepts: windows inside one digit, windows of whole inner digits, and windows centered on the end of a digit, if
        their second half is displaced from the first along a single axis. For digits (2, 8), for instance:

            0 1 2 3 4 5 6 7 | 8 9 ...
                2 3 4 5                   inside a digit
            0 1 2 3 4 5 6 7               a whole inner digit
                        6 7 | 8 9         centered on the end of the inner digit
    raises: LayoutError for every other window.
    """
    run = merged(group)
    if not run:
        return (Iter(1, 1, group[0].axis),), {}
    offset = steps(run, digits(start, [it.extent for it in run]))
    tail: list[Iter] = []
    outer, at, rest = list(run), start, extent
    # whole inner digits keep their iterators; what remains is a window of the outer digits
    while len(outer) > 1 and at % outer[-1].extent == 0 and rest % outer[-1].extent == 0:
        it = outer.pop()
        tail.insert(0, it)
        at, rest = at // it.extent, rest // it.extent
    pivot = outer[-1]
    digit = at % pivot.extent if len(outer) > 1 else at
    if digit + rest <= pivot.extent:
        return (Iter(rest, pivot.stride, pivot.axis), *tail), offset
    half = rest // 2
    if rest % 2 == 0 and digit + half == pivot.extent:
        jump = _jump(outer, at, half)
        if jump is not None:
            return (jump, Iter(half, pivot.stride, pivot.axis), *tail), offset
    raise LayoutError(
        f"window [{start}, {start + extent}) has no layout: it crosses the end of iterator {pivot!r} "
        f"after {pivot.extent - digit} of {rest} steps",
        hint="choose a window that ends where the iterator ends, or that covers whole periods of it",
    )


def _jump(outer: Sequence[Iter], at: int, half: int) -> Iter | None:
    extents = [it.extent for it in outer]
    here, there = steps(outer, digits(at, extents)), steps(outer, digits(at + half, extents))
    moved = [a for a in here if here[a] != there[a]]
    if len(moved) > 1:
        return None
    axis = moved[0] if moved else outer[-1].axis
    return Iter(2, there[axis] - here[axis], axis)


def iter_of(triple: object) -> Iter:
    """Parse an (extent, stride, axis name) triple; raise LayoutError if it isn't one."""
    parts = items(triple, "an iterator", TRIPLES)
    if len(parts) != 3:
        raise LayoutError(f"an iterator is (extent, stride, axis name); got {shown(triple)}", hint=TRIPLES)
    extent, stride, axis = parts
    try:
        return Iter(operator.index(extent), operator.index(stride), Axis(axis))  # type: ignore[arg-type]
    except TypeError:
        raise LayoutError(f"extent and stride are integers; got {shown(parts)}", hint=TRIPLES) from None


def windows(region: object) -> tuple[tuple[int, int], ...]:
    return tuple(map(_window, items(region, "a region", _PAIRS)))


def _window(pair: object) -> tuple[int, int]:
    numbers = integers(pair, "a region's dimension", _PAIRS)
    if len(numbers) != 2:
        raise LayoutError(f"a region has a start and an extent in each dimension; got {shown(pair)}", hint=_PAIRS)
    return numbers[0], numbers[1]


def summed(offset: Iterable[tuple[Axis, int]]) -> tuple[tuple[Axis, int], ...]:
    """Return the sum of the offsets along each axis, sorted by name and without zeros."""
    total: dict[Axis, int] = {}
    for pair in items(offset, "a layout's offset", "give (axis, number) pairs"):
        if not isinstance(pair, tuple) or len(pair) != 2 or not isinstance(pair[0], Axis):
            raise LayoutError(f"an offset is an axis and a number; got {shown(pair)}", hint="write S[...] + 3 @ laneid")
        total[pair[0]] = total.get(pair[0], 0) + integer(pair[1], "an offset", "write S[...] + 3 @ laneid")
    return tuple(sorted(((a, v) for a, v in total.items() if v != 0), key=lambda entry: entry[0].name))


def moved_along(group: Sequence[Iter], multiple: int, dim: int) -> Iter:
    """Return the iterator along which a window moves in steps of `multiple`; raise LayoutError if there are several."""
    run = merged(group)
    if len(run) <= 1:
        it = run[0] if run else group[0]
        return Iter(-(-it.extent // multiple), it.stride * multiple, it.axis)
    extent = math.prod(it.extent for it in run)
    outer = run
    if extent % multiple == 0 and groups_to(run, (extent // multiple, multiple)):
        outer = merged(refined(run, (extent // multiple, multiple))[0])
    if len(outer) > 1:
        raise LayoutError(
            f"dimension {dim} has iterators {', '.join(map(repr, run))}: a start known only to be a multiple of "
            f"{multiple} may move the window along several of them",
            hint=f"make the start a multiple of {extent // run[0].extent}",
        )
    return outer[0] if outer else Iter(1, 0, run[0].axis)


def source(iters: Sequence[Iter]) -> str:
    """Return `extents : strides` as Python source."""
    if len(iters) == 1:
        return f"{iters[0].extent} : {_stride_source(iters[0])}"
    extents = ", ".join(str(it.extent) for it in iters)
    return f"({extents}) : ({', '.join(map(_stride_source, iters))})"


def _stride_source(it: Iter) -> str:
    return str(it.stride) if it.axis == m else repr(Term(it.stride, it.axis))


def common_refinement(shapes: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return the coarsest common refinement of `shapes`, and where in it the dimensions of each shape begin and end.

    A boundary of a dimension is the product of the extents to the boundary's right. Those of all shapes are merged, and
    each must be a multiple of the next. A boundary that a shape repeats becomes an extent of 1.
    raises: LayoutError if no shapes are given, their sizes differ, or there is no common refinement.
    """
    given = items(shapes, "the shapes", "give a tuple of shapes, such as ((8, 4), (32,))")
    shapes = tuple(map(checked_extents, given))
    if not shapes or len({math.prod(shape) for shape in shapes}) != 1:
        sizes = ", ".join(f"{s} has {math.prod(s)}" for s in shapes)
        raise LayoutError(
            f"shapes to refine must have the same size; {sizes or 'none given'}", hint="give shapes of equal size"
        )
    marks = [[math.prod(shape[k:]) for k in range(len(shape) + 1)] for shape in shapes]
    repeats: Counter[int] = Counter()
    for own in marks:
        repeats |= Counter(own)
    common = sorted(repeats.elements(), reverse=True)
    for left, right in zip(common, common[1:], strict=False):
        if left % right != 0:
            listed = " and ".join(map(str, shapes))
            raise LayoutError(
                f"shapes {listed} have no common refinement: {right} doesn't divide {left}",
                hint="give shapes whose products of trailing extents divide each other",
            )
    refinement = tuple(left // right for left, right in zip(common, common[1:], strict=False))
    return refinement, tuple(_positions(own, common) for own in marks)


def _positions(own: Sequence[int], common: Sequence[int]) -> tuple[int, ...]:
    seen: Counter[int] = Counter()
    at = []
    for mark in own:
        at.append(common.index(mark) + seen[mark])
        seen[mark] += 1
    return (0, *at[1:-1], len(common) - 1)
