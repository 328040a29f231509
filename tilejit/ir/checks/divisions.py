"""Checks of scalar integer divisions for zero divisors.

Integer division by zero yields 0. For scalars, checked builds raise an error instead, like Python. Divisions of tiles
aren't checked. A division guarded by a condition in the same expression is checked only if the condition holds:

    m // n if n != 0 else 5         where(n != 0, m // n, 5)
    n != 0 and m // n > 2
"""

from __future__ import annotations

from collections.abc import Iterator

from ...dtypes import int64
from ...ops.elementwise.division import DIVISIONS, FLOORDIV
from .. import walk
from ..arithmetic import build, facts
from ..nodes import TRUE, Assert, Cast, Const, Element, Expr, Load, Op, Stmt
from ..walk import subexpressions
from .conditions import Conditions


def by_zero(stmt: Stmt, conditions: Conditions) -> Iterator[Assert]:
    """Yield an assertion for each scalar integer division whose divisor contains no load and may be zero."""
    for expr in walk.expressions(stmt):
        for division, guard in _divisions(expr, TRUE):
            dividend, divisor = division.args
            nonzero = (compare(divisor, 0) for compare in (build.not_equal, build.greater, build.less))
            if any(map(conditions.holds, nonzero)):
                continue
            cond = build.logical_or(build.logical_not(guard), build.not_equal(divisor, 0))
            message = f"integer division by zero: {{0}} {'//' if division.name == FLOORDIV.name else '%'} 0"
            yield Assert(cond, message, "division", (build.cast(dividend, int64),), division.span or stmt.span)


def _divisions(expr: Expr, guard: Expr) -> Iterator[tuple[Op, Expr]]:
    """Yield the divisions to check, each with the condition under which its result is used."""
    if isinstance(expr, Cast):
        yield from _divisions(expr.x, guard)
    if isinstance(expr, Load) and isinstance(expr.place, Element):
        for index in expr.place.indices:
            yield from _divisions(index, guard)
    if not isinstance(expr, Op):
        return
    first, *others = expr.args
    yield from _divisions(first, guard)
    for k, other in enumerate(others):
        yield from _divisions(other, _guarded(expr, k, guard))
    if expr.name in DIVISIONS and expr.dtype.is_integer and _may_be_zero(others[0]):
        yield expr, guard


def _guarded(expr: Op, number: int, guard: Expr) -> Expr:
    first = expr.args[0]
    if expr.name == "logical_and" or (expr.name == "where" and number == 0):
        return build.logical_and(guard, first)
    if expr.name == "logical_or" or expr.name == "where":
        return build.logical_and(guard, build.logical_not(first))
    return guard


def _may_be_zero(divisor: Expr) -> bool:
    if isinstance(divisor, Const):
        return divisor.value == 0
    low, high = facts.bounds(divisor)
    is_signed = (low is not None and low > 0) or (high is not None and high < 0)
    # a divisor with a load isn't checked: the check would load again, and might get another value
    return not is_signed and not any(isinstance(part, Load) for part in subexpressions(divisor))
