"""Overlap of two regions of one buffer: whether they are identical, or have no element in common.

Elements are compared, not the byte ranges that they span: two columns of one array are disjoint. If starts are
known only at run time, the result is a condition on them.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from itertools import product

import numpy as np
from numpy.typing import NDArray

from ...dtypes import int64
from ...layout.iters import groups_to, merged, refined
from ..arithmetic import build, facts
from ..nodes import FALSE, TRUE, Buffer, Const, Element, Expr, Region, Strided
from ..walk import indices
from .elements import offsets

#: maximum number of elements that are compared at compile time, over all combinations of starts
_MOST_COMPARED = 1 << 22

#: maximum number of combinations of starts that a condition lists
_MOST_NAMED = 64


def same_or_apart(written: Region, other: Region) -> Expr | None:
    """Return the condition under which an operation may write one region while it reads the other.

    It is TRUE or FALSE if known at compile time, and None if it can't be determined, or has too many terms. Buffers
    with distinct roots are assumed not to overlap.
    """
    if written.buffer.root.name != other.buffer.root.name:
        return TRUE
    order = _same_dimensions(written.buffer, other.buffer)
    if order is not None:
        return _of_boxes(written, other, order)
    return _of_elements(written, other)


def are_apart(a: Region | Element, b: Region | Element) -> bool:
    """True if two boxes of one buffer, or of views of it with the same dimensions, are known to share no element."""
    order = _same_dimensions(a.buffer, b.buffer)
    if order is None or any(isinstance(box, Region) and box.gathered is not None for box in (a, b)):
        return False
    return _apart(a, b, order) == TRUE


def _same_dimensions(a: Buffer, b: Buffer) -> tuple[int, ...] | None:
    """Map each dimension of `a` to a distinct one of `b` with equal extent and strides; return None if that fails."""
    if a == b:
        return tuple(range(len(a.shape)))
    if a.dtype.bits != b.dtype.bits or len(a.shape) != len(b.shape):
        return None
    strides, others = _steps(a), _steps(b)
    if strides is None or others is None or strides[0] != others[0]:
        return None
    order: list[int] = []
    for dimension in strides[1:]:
        d = next((d for d, each in enumerate(others[1:]) if each == dimension and d not in order), None)
        if d is None:
            return None
        order.append(d)
    return tuple(order)


def _steps(buffer: Buffer) -> list[object] | None:
    """Return the layout's offset and swizzle, then each dimension's extent and strides; None if that isn't possible."""
    layout = buffer.layout
    if isinstance(layout, Strided):
        return [None, *zip(buffer.shape, layout.strides, strict=True)]
    layout, shape = buffer.tile_layout, buffer.fixed_shape
    if layout.replica or not groups_to(layout.adapted(shape).shard, shape):
        return None
    groups = [merged(group) for group in refined(layout.adapted(shape).shard, shape)]
    return [(layout.offset, layout.swizzle), *zip(shape, groups, strict=True)]


def _of_boxes(a: Region, b: Region, order: Sequence[int]) -> Expr:
    """Return the condition that two boxes are identical or apart. order: from `_same_dimensions` of their buffers."""
    a_extents, b_extents = a.counts, b.counts
    apart = _apart(a, b, order)
    kept = [k for k, n in zip(order, a_extents, strict=True) if n != 1]
    if kept != sorted(kept) or any(n != b_extents[k] for n, k in zip(a_extents, order, strict=True)):
        return apart
    same: Expr = TRUE
    for first, second in _starts(a, b, order):
        same = build.logical_and(same, build.equal(first, second))
    return build.logical_or(same, apart)


def _starts(a: Region | Element, b: Region | Element, order: Sequence[int]) -> list[tuple[Expr, Expr]]:
    of_a, of_b = indices(a), indices(b)
    return [(build.cast(of_a[d], int64), build.cast(of_b[k], int64)) for d, k in enumerate(order)]


def _apart(a: Region | Element, b: Region | Element, order: Sequence[int]) -> Expr:
    """Return the condition under which one box ends before the other starts in some dimension."""
    apart: Expr = FALSE
    for (first, second), n, k in zip(_starts(a, b, order), a.counts, order, strict=True):
        apart = build.logical_or(apart, build.less_equal(build.add(first, build.const(n, int64)), second))
        apart = build.logical_or(apart, build.less_equal(build.add(second, build.const(b.counts[k], int64)), first))
    return apart


def _of_elements(a: Region, b: Region) -> Expr | None:
    """Return the condition by comparing elements for all possible starts; None if that is too costly or impossible."""
    if isinstance(a.buffer.layout, Strided) or isinstance(b.buffer.layout, Strided):
        return None
    possible = dict([*_possible_starts(a), *_possible_starts(b)])
    moving = {start: values for start, values in possible.items() if not isinstance(start, Const)}
    tried = math.prod(len(values) for values in moving.values())
    if tried * (math.prod(a.counts) + math.prod(b.counts)) > _MOST_COMPARED:
        return None
    fine: list[tuple[int, ...]] = []
    for values in product(*moving.values()):
        at: dict[Expr, int] = dict(zip(moving, values, strict=True))
        if _compatible(_elements(a, at), _elements(b, at)):
            fine.append(values)
    if len(fine) in (0, tried):
        return build.const(bool(fine), TRUE.dtype)
    return _any_of(tuple(moving), fine) if len(fine) <= _MOST_NAMED else None


def _possible_starts(region: Region) -> Iterator[tuple[Expr, range]]:
    """Yield each start with its possible values, assuming that the region is inside its buffer."""
    for start, extent, size in zip(region.starts, region.counts, region.buffer.fixed_shape, strict=True):
        low, high = facts.bounds(start)
        least = 0 if low is None else max(low, 0)
        greatest = size - extent if high is None else min(high, size - extent)
        step = facts.multiple_of(start) or 1
        yield start, range(-(-least // step) * step, greatest + 1, step)


def _elements(region: Region, at: Mapping[Expr, int]) -> NDArray[np.int64]:
    """Return two rows: the offsets in the root of each element's first and last byte. at: values of run-time starts."""
    starts = [int(start.value) if isinstance(start, Const) else at[start] for start in region.starts]
    bits = offsets(region.buffer, starts, region.counts).ravel() * region.dtype.bits
    return np.stack([bits // 8, (bits + region.dtype.bits - 1) // 8])


def _compatible(a: NDArray[np.int64], b: NDArray[np.int64]) -> bool:
    """True if the elements are the same in the same order, or have no byte in common."""
    if a.shape == b.shape and (a == b).all():
        return True
    (a_first, a_last), (b_first, b_last) = a, b
    order = np.argsort(a_first)
    last_before = np.maximum.accumulate(a_last[order])
    before = np.searchsorted(a_first[order], b_last, side="right") - 1
    return not bool(((before >= 0) & (last_before[np.maximum(before, 0)] >= b_first)).any())


def _any_of(starts: Sequence[Expr], values: Sequence[tuple[int, ...]]) -> Expr:
    condition: Expr = FALSE
    for combination in values:
        here: Expr = TRUE
        for start, value in zip(starts, combination, strict=True):
            here = build.logical_and(here, build.equal(start, value))
        condition = build.logical_or(condition, here)
    return condition
