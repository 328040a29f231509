"""How values are combined: what a thread keeps of those that it has seen, and how two such become one.

Of most reductions a partial result is one value; of those that pick an element it is the value and its index.
"""

from __future__ import annotations

from collections.abc import Sequence

from ...dataclass import dataclass
from ...dtypes import DType, bool_, int32
from ...ir.arithmetic import build
from ...ir.nodes import TRUE, Const, Expr
from ...ops.reduction import Reduction
from ..builder import Builder

__all__ = ["Combining", "Partial"]

#: what is kept of some elements, a value for each of `Combining.types`
Partial = tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Combining:
    """A reduction of values of one type. dtype: in which they are combined."""

    reduction: Reduction
    dtype: DType

    @property
    def types(self) -> tuple[DType, ...]:
        """Of the values that are kept."""
        return (self.dtype, int32) if self.reduction.picks else (self.dtype,)

    @property
    def words(self) -> int:
        """32-bit words of what is kept."""
        return sum(dtype.bits // 32 for dtype in self.types)

    def entered(self, x: Expr, index: int) -> Partial:
        """What is kept of one element. index: where it lies."""
        value = build.cast(build.not_equal(x, _zero(x.dtype)) if self.reduction.tests else x, self.dtype)
        return (value, build.const(index, int32)) if self.reduction.picks else (value,)

    def moved(self, partial: Partial, by: Expr) -> Partial:
        """What is kept of elements that lie `by` further."""
        return (partial[0], build.add(partial[1], by)) if self.reduction.picks else partial

    def combined(self, b: Builder, low: Partial, high: Partial, *, in_order: bool) -> Partial:
        """What is kept of two. in_order: no element of `high` lies before one of `low`."""
        if not self.reduction.picks:
            return (build.op(self.reduction.combines, low[0], high[0]),)
        takes = b.let("takes", self._takes_high(low, high, in_order=in_order))
        return tuple(
            b.let(stem, build.where(takes, new, old))
            for stem, new, old in zip(("value", "index"), high, low, strict=True)
        )

    def tree(self, b: Builder, partials: Sequence[Partial], *, in_order: bool, counts: Sequence[Expr] = ()) -> Partial:
        """What is kept of all: neighbours are combined, and what these give, until one is left.

        Five values are ((0, 1), (2, 3)), 4. in_order: as of `combined`.
        counts: for each whether it counts, else it is padding. Those with one condition are combined before that is
        asked.
        """
        level = list(zip(partials, counts or [TRUE] * len(partials), strict=True))
        while len(level) > 1:
            pairs, left_over = zip(level[::2], level[1::2], strict=False), level[len(level) & ~1 :]
            level = [*[self._joined(b, low, high, in_order=in_order) for low, high in pairs], *left_over]
        return self._counted(*level[0])

    def _joined(
        self, b: Builder, low: tuple[Partial, Expr], high: tuple[Partial, Expr], *, in_order: bool
    ) -> tuple[Partial, Expr]:
        """What is kept of two, each with the condition under which it counts."""
        if low[1] is high[1] or low[1] == high[1]:
            return self.combined(b, low[0], high[0], in_order=in_order), low[1]
        return self.combined(b, self._counted(*low), self._counted(*high), in_order=in_order), TRUE

    def _counted(self, partial: Partial, counts: Expr) -> Partial:
        """What changes nothing where it doesn't count; the index then plays no part."""
        identity = build.const(self.reduction.identity(self.dtype), self.dtype)
        return (build.where(counts, partial[0], identity), *partial[1:])

    def named(self, b: Builder, partial: Partial) -> Partial:
        """The same under names of its own."""
        return tuple(b.let(stem, value) for stem, value in zip((self.reduction.name, "index"), partial, strict=False))

    def result(self, partial: Partial, dtype: DType) -> Expr:
        """The reduction's result, as the destination has it."""
        if self.reduction.tests:
            return build.not_equal(partial[0], 0)
        return build.cast(partial[-1], dtype)

    def _takes_high(self, low: Partial, high: Partial, *, in_order: bool) -> Expr:
        """Whether the second of two candidates is the one: it is better, or as good and lies before."""
        better, no_worse = self._beats(low[0], high[0])
        if in_order:
            return better
        return build.where(build.less(high[1], low[1]), no_worse, better)

    def _beats(self, x: Expr, y: Expr) -> tuple[Expr, Expr]:
        """Whether y is better than x, and whether it is at least as good; NaN is better than all else."""
        is_greatest = self.reduction.combines == "maximum"
        above, reaches = (build.greater, build.greater_equal) if is_greatest else (build.less, build.less_equal)
        if not self.dtype.is_float:
            return above(y, x), reaches(y, x)
        # each comparison is false where one is NaN
        better = build.logical_and(build.equal(x, x), build.logical_not(reaches(x, y)))
        return better, build.logical_or(build.not_equal(y, y), reaches(y, x))


def _zero(dtype: DType) -> Const:
    return build.const(False if dtype == bool_ else 0, dtype)
