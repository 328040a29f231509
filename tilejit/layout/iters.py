"""Iterators, and the arithmetic on runs of them: merging, refining to a shape, slicing."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from ..errors import LayoutError
from .axes import Axis, m

__all__ = ["Iter", "digits", "groups_to", "merged", "refined", "sliced", "steps", "weights"]


@dataclass(frozen=True, slots=True, repr=False)
class Iter:
    """One digit of a logical index: `extent` values, each `stride` further along `axis`."""

    extent: int
    stride: int
    axis: Axis

    def __post_init__(self) -> None:
        if self.extent < 1:
            raise LayoutError(
                f"an extent is at least 1; got {self.extent} with stride {self.stride} on {self.axis}",
                hint="leave empty dimensions out",
            )

    def __repr__(self) -> str:
        return f"{self.extent}:{self.stride}@{self.axis}"


def weights(extents: Sequence[int]) -> tuple[int, ...]:
    """What a step of each digit is worth in the flat row-major index."""
    return tuple(math.prod(extents[k + 1 :]) for k in range(len(extents)))


def digits(index: int, extents: Sequence[int]) -> tuple[int, ...]:
    """The mixed-radix digits of `index`, the first one left unreduced."""
    worth = weights(extents)
    return tuple(index // w if k == 0 else index // w % extents[k] for k, w in enumerate(worth))


def steps(iters: Iterable[Iter], coord: Iterable[int]) -> dict[Axis, int]:
    """How far `coord` goes along each axis."""
    total: dict[Axis, int] = {}
    for it, x in zip(iters, coord, strict=True):
        total[it.axis] = total.get(it.axis, 0) + x * it.stride
    return total


def merged(iters: Iterable[Iter]) -> tuple[Iter, ...]:
    """The same function with as few iterators as possible; none where all extents are 1."""
    run: list[Iter] = []
    for it in iters:
        if it.extent == 1:
            continue
        while run and run[-1].axis == it.axis and run[-1].stride == it.extent * it.stride:
            it = Iter(run.pop().extent * it.extent, it.stride, it.axis)
        run.append(it)
    return tuple(run)


def refined(iters: Sequence[Iter], shape: Sequence[int]) -> tuple[tuple[Iter, ...], ...]:
    """The same function with iterators split so that consecutive ones multiply to each extent of `shape`.

    returns: one group of iterators a dimension, never empty.
    raises: LayoutError with the iterator and the extent that don't divide.
    """
    stack = list(reversed(iters))
    groups: list[list[Iter]] = []
    for dim, extent in enumerate(shape):
        groups.append(_take(stack, extent, f"dimension {dim} of shape {tuple(shape)}"))
    if groups:
        groups[-1].extend(reversed(stack))
    return tuple(tuple(g) for g in groups)


def groups_to(iters: Sequence[Iter], shape: Sequence[int]) -> bool:
    """Whether `refined` accepts this shape."""
    try:
        refined(iters, shape)
    except LayoutError:
        return False
    return True


def _take(stack: list[Iter], extent: int, what: str) -> list[Iter]:
    """Pop iterators that multiply to `extent`, splitting the last one where it is larger."""
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
                f"iterator {it!r} doesn't fit {what}: {need} of its {extent} remain, "
                f"and of {it.extent} and {need} neither divides the other",
                hint="choose a shape whose extents split the layout's iterators evenly",
            )
    return group


def sliced(group: Sequence[Iter], start: int, extent: int) -> tuple[tuple[Iter, ...], dict[Axis, int]]:
    """The iterators over [start, start + extent) of one dimension, and the offset of its first element.

    accepts: windows that stay inside one digit, that cover whole inner digits, or whose middle is the end of a digit
        and whose second half lies elsewhere along one axis. Of digits (2, 8), for instance:

            0 1 2 3 4 5 6 7 | 8 9 ...
                2 3 4 5                   inside a digit
            0 1 2 3 4 5 6 7               a whole inner digit
                        6 7 | 8 9         the middle is the end of the inner digit
    raises: LayoutError for every other window.
    """
    run = merged(group)
    if not run:
        return (Iter(1, 1, group[0].axis),), {}
    offset = steps(run, digits(start, [it.extent for it in run]))
    tail: list[Iter] = []
    outer, at, rest = list(run), start, extent
    # Whole inner digits keep their iterator: the window then is one of the outer digits alone.
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
        f"[{start}, {start + extent}) isn't a layout: it crosses the end of iterator {pivot!r} "
        f"after {pivot.extent - digit} of {rest} steps",
        hint="start at a multiple of that extent, or take a window that ends with it",
    )


def _jump(outer: Sequence[Iter], at: int, half: int) -> Iter | None:
    """The iterator that leads from a window's first half to its second; None where it changes two axes."""
    extents = [it.extent for it in outer]
    here, there = steps(outer, digits(at, extents)), steps(outer, digits(at + half, extents))
    moved = [a for a in here if here[a] != there[a]]
    if len(moved) > 1:
        return None
    axis = moved[0] if moved else outer[-1].axis
    return Iter(2, there[axis] - here[axis], axis)
