"""The common refinement of several shapes."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence
from functools import lru_cache

from ..errors import LayoutError
from .arguments import extents, items


def common_refinement(shapes: Sequence[Sequence[int]]) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Return the coarsest common refinement of `shapes`, and the positions in it of each shape's dimensions.

    The boundary of a dimension is the product of the extents to its right. The boundaries of all shapes are merged, and
    each must be a multiple of the next. A boundary that a shape repeats becomes an extent of 1.
    raises: LayoutError if no shapes are given, their sizes differ, or there is no common refinement.
    """
    listed = items(shapes, "the shapes", "give a tuple of shapes, such as ((8, 4), (32,))")
    return _common_refinement(tuple(map(extents, listed)))


@lru_cache(1024)
def _common_refinement(shapes: tuple[tuple[int, ...], ...]) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
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
