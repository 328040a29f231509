"""Partial results of reductions, and how two of them are combined.

A partial result is one value for most reductions, and a value with its index for argmax and argmin.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...dataclass import dataclass
from ...dtypes import DType, bool_, int32
from ...ir.arithmetic import build
from ...ir.nodes import TRUE, Expr
from ...ops.reduce import Reduction
from ..builder import Builder

#: a partial result: one expression per value; in a `Combining`, one for each of its `types`
Partial = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Combining:
    """A reduction whose values are combined in `dtype`."""

    reduction: Reduction
    dtype: DType

    @property
    def types(self) -> tuple[DType, ...]:
        return (self.dtype, int32) if self.reduction.picks else (self.dtype,)

    @property
    def words(self) -> int:
        return sum(dtype.bits // 32 for dtype in self.types)

    def entered(self, x: Expr, index: int) -> Partial:
        if self.reduction.tests:
            x = build.not_equal(x, build.const(False if x.dtype == bool_ else 0, x.dtype))
        value = build.cast(x, self.dtype)
        return (value, build.const(index, int32)) if self.reduction.picks else (value,)

    def moved(self, partial: Partial, by: Expr) -> Partial:
        return (partial[0], build.add(partial[1], by)) if self.reduction.picks else partial

    def combined(self, b: Builder, low: Partial, high: Partial, *, in_order: bool) -> Partial:
        """Combine two partial results. in_order: True if all elements of `low` precede all elements of `high`."""
        if not self.reduction.picks:
            return (build.op(self.reduction.combines, low[0], high[0]),)
        takes = b.let("takes", self._takes_high(low, high, in_order=in_order))
        return tuple(
            b.let(stem, build.where(takes, new, old))
            for stem, new, old in zip(("value", "index"), high, low, strict=True)
        )

    def tree(self, b: Builder, partials: Sequence[Partial], *, in_order: bool, counts: Sequence[Expr] = ()) -> Partial:
        """Combine all partial results in a balanced tree of adjacent ones: five values become (((0, 1), (2, 3)), 4).

        counts: for each partial result, the condition that it isn't padding. Adjacent results with the same condition
        are combined before it is tested.
        """
        level = list(zip(partials, counts or [TRUE] * len(partials), strict=True))
        while len(level) > 1:
            pairs, left_over = zip(level[::2], level[1::2], strict=False), level[len(level) & ~1 :]
            level = [*[self._joined(b, low, high, in_order=in_order) for low, high in pairs], *left_over]
        return self._counted(*level[0])

    def _joined(
        self, b: Builder, low: tuple[Partial, Expr], high: tuple[Partial, Expr], *, in_order: bool
    ) -> tuple[Partial, Expr]:
        if low[1] is high[1] or low[1] == high[1]:
            return self.combined(b, low[0], high[0], in_order=in_order), low[1]
        return self.combined(b, self._counted(*low), self._counted(*high), in_order=in_order), TRUE

    def _counted(self, partial: Partial, counts: Expr) -> Partial:
        """Replace the value by the identity unless `counts` holds; the index of an identity is irrelevant."""
        identity = build.const(self.reduction.identity(self.dtype), self.dtype)
        return (build.where(counts, partial[0], identity), *partial[1:])

    def named(self, b: Builder, partial: Partial) -> Partial:
        return tuple(b.let(stem, value) for stem, value in zip((self.reduction.name, "index"), partial, strict=False))

    def result(self, partial: Partial, dtype: DType) -> Expr:
        if self.reduction.tests:
            return build.not_equal(partial[0], 0)
        return build.cast(partial[-1], dtype)

    def _takes_high(self, low: Partial, high: Partial, *, in_order: bool) -> Expr:
        """Return the condition that `high` wins: it is better, or equally good with a lower index."""
        better, no_worse = self._beats(low[0], high[0])
        if in_order:
            return better
        return build.where(build.less(high[1], low[1]), no_worse, better)

    def _beats(self, x: Expr, y: Expr) -> tuple[Expr, Expr]:
        """Return the conditions (y is better than x, y is at least as good as x); NaN beats every number."""
        is_greatest = self.reduction.combines == "maximum"
        above, reaches = (build.greater, build.greater_equal) if is_greatest else (build.less, build.less_equal)
        if not self.dtype.is_float:
            return above(y, x), reaches(y, x)
        # with NaN, every comparison except `!=` is false
        better = build.logical_and(build.equal(x, x), build.logical_not(reaches(x, y)))
        return better, build.logical_or(build.not_equal(y, y), reaches(y, x))
