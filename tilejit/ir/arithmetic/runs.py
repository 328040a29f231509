"""Conditions that must hold for every value of a variable in a range, tested only at the range's ends if possible.

    0 <= at + k and at + k < n, for k = 0 .. 7        at >= 0 and at + 7 < n
    (at + k) % 3 != 0, for k = 0 .. 7                 at % 3 != 0 and (at + 1) % 3 != 0 and ...

A sum that changes by a constant step crosses a limit at most once, unless it wraps around. If an ascending sum wraps
once, its last value is below its first.
"""

from __future__ import annotations

from operator import is_

from ...dtypes import bool_
from ..nodes import TRUE, Cast, Expr, Op, Var
from ..walk import subexpressions
from . import build
from .affine import affine
from .facts import keeps_value


def at(expr: Expr, var: Var, value: Expr) -> Expr:
    """Return `expr` with `value` substituted for `var`, except in loads."""
    if isinstance(expr, Var):
        return value if expr == var else expr
    if isinstance(expr, Cast):
        return build.cast(at(expr.x, var, value), expr.dtype, expr.saturate)
    if isinstance(expr, Op):
        args = tuple([at(a, var, value) for a in expr.args])
        return expr if all(map(is_, args, expr.args)) else build.apply(expr.name, args)
    return expr


def throughout(cond: Expr, var: Var, count: int) -> Expr:
    """Return the condition that `cond` holds for `var` = 0 .. count - 1; it may be false if a sum wraps around."""
    ends = by_ends(cond, var, count)
    if ends is not None:
        return ends
    every: Expr = TRUE
    for k in range(count):
        every = build.logical_and(every, at(cond, var, build.const(k, var.dtype)))
    return every


def by_ends(cond: Expr, var: Var, count: int) -> Expr | None:
    """Return the condition of `throughout` as tests for the first and last values; None if these don't suffice."""
    if not has(cond, var):
        return cond
    if not isinstance(cond, Op):
        return None
    if cond.name in ("logical_and", "bitwise_and") and cond.dtype == bool_:
        one, other = (by_ends(a, var, count) for a in cond.args)
        return None if one is None or other is None else build.logical_and(one, other)
    return _compared(cond, var, count)


def has(expr: Expr, var: Var) -> bool:
    """True if `expr` contains `var`."""
    return any(isinstance(part, Var) and part == var for part in subexpressions(expr))


#: comparison -> the equivalent comparison with swapped operands
_FLIPPED = {"less": "greater", "greater": "less", "less_equal": "greater_equal", "greater_equal": "less_equal"}


def _compared(cond: Op, var: Var, count: int) -> Expr | None:
    """Return `by_ends` of a comparison; None unless a sum with a constant step is compared with an invariant."""
    if cond.name not in _FLIPPED or not cond.args[0].dtype.is_integer:
        return None
    name, (moving, limit) = cond.name, cond.args
    if not has(moving, var):
        name, moving, limit = _FLIPPED[name], limit, moving
    step = _step(moving, var)
    if step is None or has(limit, var) or abs(step) * (count - 1) >= 2**moving.dtype.bits:
        return None
    first, last = (at(moving, var, build.const(k, var.dtype)) for k in (0, count - 1))
    low, high = (first, last) if step > 0 else (last, first)
    passes: Expr = TRUE if affine(moving).is_exact else build.less_equal(low, high)
    return build.logical_and(build.op(name, high if name.startswith("less") else low, limit), passes)


def _step(expr: Expr, var: Var) -> int | None:
    """Return the change of `expr` per increment of `var`, modulo 2**bits; None if it isn't constant, or is zero."""
    step = 0
    for term, coefficient in affine(expr).terms:
        if _is(term, var):
            step += coefficient
        elif has(term, var):
            return None
    return step or None


def _is(term: Expr, var: Var) -> bool:
    return term == var or (isinstance(term, Cast) and term.x == var and keeps_value(term))
