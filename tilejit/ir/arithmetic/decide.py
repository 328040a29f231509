"""Comparisons of integers that the facts of their operands decide."""

from __future__ import annotations

from ..nodes import Expr
from .affine import affine
from .facts import bounds

__all__ = ["COMPARISONS", "by_gap", "decided"]

COMPARISONS = ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")


def decided(name: str, x: Expr, y: Expr) -> bool | None:
    """The result of a comparison of integers where the facts of its operands decide it, else None."""
    if not x.dtype.is_integer:
        return None
    (low_x, high_x), (low_y, high_y) = bounds(x), bounds(y)
    low = None if low_x is None or high_y is None else low_x - high_y
    high = None if high_x is None or low_y is None else high_x - low_y
    answer = by_gap(name, low, high)
    if answer is not None:
        return answer
    first, second = affine(x), affine(y)
    if first == second:
        low = high = 0
    elif first.is_exact and second.is_exact:
        by_terms = first.gap(second)
        low = max([g for g in (low, by_terms[0]) if g is not None], default=None)
        high = min([g for g in (high, by_terms[1]) if g is not None], default=None)
    return by_gap(name, low, high)


def by_gap(name: str, low: int | None, high: int | None) -> bool | None:
    """The comparison of two integers whose difference lies in low .. high."""
    if name in ("less", "greater_equal"):
        answer = True if high is not None and high < 0 else False if low is not None and low >= 0 else None
        return answer if answer is None or name == "less" else not answer
    if name in ("greater", "less_equal"):
        answer = True if low is not None and low > 0 else False if high is not None and high <= 0 else None
        return answer if answer is None or name == "greater" else not answer
    apart = (low is not None and low > 0) or (high is not None and high < 0)
    answer = False if apart else True if low == 0 and high == 0 else None
    return answer if answer is None or name == "equal" else not answer
