"""Tags of reductions: a partial result's tag is the sum of its elements' tags, whatever the order of combining.

An element that is left out, or taken twice, changes the sum. The index of an extremum is traced as a pair of sums, of
its elements' tags and of these times the elements' indices, so that it follows the elements that are compared.
"""

from __future__ import annotations

from math import prod

import numpy as np

from ...dtypes import DType
from ...ir.nodes import TileOp
from ...ops.reduce import Reduction, axes_of
from . import tags
from .tags import TAG, Array, Value, is_tag, tag

#: in place of the sum of tags: the second number is an index that hasn't been compared yet
_LEAF = np.uint64(0x4C454146)


class Decision:
    """A condition that compares two values. winner: the value if it holds, and the other one, once that is known."""

    def __init__(self, one: Array, other: Array) -> None:
        self.one, self.other = one, other
        self.sides: tuple[Array, Array] | None = None

    def decides(self, yes: Array, no: Array) -> bool:
        pairs = ((self.one, self.other), (self.other, self.one))
        return any(np.array_equal(yes, x) and np.array_equal(no, y) for x, y in pairs)


class Sums:
    """The operations of a reduction on tags. dtype: the type of partial results."""

    def __init__(self, reduction: Reduction, dtype: DType) -> None:
        self.reduction = reduction
        identity = reduction.identity(dtype)
        self.identity = tags.of_float(identity) if dtype.is_float else tag(int(identity))

    def weight(self, value: Value) -> Array:
        """Return the sum of the tags of a partial result's elements: 0 for the identity."""
        found = tag(value)
        return np.where(found == self.identity, np.uint64(0), found)

    def operation(self, name: str, args: list[Value]) -> Value:
        """Return the result of an operation on elements."""
        if not any(is_tag(a) or isinstance(a, Decision) for a in args):
            return tags.computed(name, args)
        if name == "where":
            return self._chosen(*args)
        if self.reduction.picks:
            return self._picked(name, args)
        if name == self.reduction.combines:
            return self.weight(args[0]) + self.weight(args[1])
        assert name == "not_equal" and self.reduction.tests, f"{self.reduction.name} computes {name} of elements"
        return args[0]

    def _picked(self, name: str, args: list[Value]) -> Value:
        if name == "add":
            index, by = args if is_tag(args[0]) else args[::-1]
            sums = _pair(index)
            return np.stack([sums[0], sums[1] + np.where(sums[0] == _LEAF, np.uint64(1), sums[0]) * _bits(by)])
        made = [a for a in args if isinstance(a, Decision)]
        if made:
            # a value compared with itself is NaN or not, which doesn't matter here
            return next((each for each in made if each.one is not each.other), made[0])
        assert name in (*tags.ORDERED, "equal", "not_equal"), f"{self.reduction.name} computes {name} of elements"
        one, other = (tag(a) for a in args)
        return Decision(one, one if np.array_equal(one, other) else other)

    def _chosen(self, cond: Value, yes: Value, no: Value) -> Value:
        decisions = [each for each in (yes, no) if isinstance(each, Decision)]
        if decisions:
            return self._picked("logical_or", decisions)
        if not isinstance(cond, Decision):
            if self.reduction.picks and _is_index(yes) != _is_index(no) and np.ndim(yes) + np.ndim(no) > 2:
                yes, no = _pair(yes), _pair(no)
            return tags.chosen(cond, yes, no)
        if cond.sides is None:
            assert cond.decides(tag(yes), tag(no)), "what is chosen isn't what was compared"
            cond.sides = self.weight(yes), self.weight(no)
            return cond.sides[0] + cond.sides[1]
        return sum(_weighted(index, weight) for index, weight in zip((yes, no), cond.sides, strict=True))

    def across(self, value: Array, threads: int) -> Array:
        """Return the combination of the values of each group of `threads` consecutive threads."""
        groups = self.weight(value).reshape(-1, threads)
        if self.reduction.tests:
            # threads that hold the same elements may all contribute them
            groups = np.array([np.sum(np.unique(group), dtype=TAG, keepdims=True) for group in groups], TAG)
        return np.repeat(groups.sum(axis=1, dtype=TAG), threads)


def _bits(number: Value) -> Array:
    return np.atleast_1d(np.asarray(number, np.int64)).view(TAG)


def _is_index(value: Value) -> bool:
    return is_tag(value) and value.ndim == 2


def _pair(index: Value) -> Array:
    """Return an index as a pair of sums; a number as one that hasn't been compared."""
    if is_tag(index):
        return np.asarray(index)
    bits = _bits(index)
    return np.stack([np.full_like(bits, _LEAF), bits])


def _weighted(index: Value, weight: Array) -> Array:
    """Return the pair of sums of an index whose value's elements have the sum `weight`; 0 without elements."""
    total, product = _pair(index)
    product = np.where(total == _LEAF, weight * product, product)
    agrees = (total == _LEAF) | (total == weight)
    product = np.where(agrees, product, tags.mixed(product + total))
    return np.where(weight == 0, np.uint64(0), np.stack(np.broadcast_arrays(weight, product)))


def stored(value: Value, picks: bool) -> Value:
    """Return a number as it is kept in a register or in memory, where it is data."""
    if is_tag(value):
        return value
    return _pair(value) if picks else tag(value)


def results(op: TileOp, values: Array) -> Array:
    """Return the tag of each result of a reduction of elements with these tags."""
    shape, reduction = op.region("src").shape, op.record.reduction
    assert reduction is not None
    axes = axes_of(dict(op.attrs), len(shape))
    if not reduction.picks:
        return np.asarray(values.reshape(shape).sum(axis=axes, dtype=TAG)).ravel()
    extents = [n if d in axes else 1 for d, n in enumerate(shape)]
    index = np.broadcast_to(np.arange(prod(extents)).reshape(extents), shape)
    weights = values.reshape(shape)
    if prod(extents) == 1:
        weights = np.full(shape, _LEAF)
        return tag(np.stack([weights.ravel(), _bits(index.ravel())]))
    sums = [np.asarray(each.sum(axis=axes, dtype=TAG)).ravel() for each in (weights, weights * index.astype(TAG))]
    return tag(np.stack(sums))
