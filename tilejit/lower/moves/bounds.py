"""Bounds checks of checked builds: one assertion for all elements that an operation accesses in one dimension."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from ...dtypes import bool_, int64
from ...ir.arithmetic import build
from ...ir.checks.indices import title
from ...ir.nodes import Assert, Assign, Declare, Expr, Region, Var
from ..builder import Builder
from ..schedule.placement import extent_of


@contextmanager
def each_inside(b: Builder, region: Region, dim: int) -> Iterator[Callable[[Expr, Expr], None]]:
    """Yield a function that checks an index of dimension `dim` if a condition holds; assert once, on exit."""
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
