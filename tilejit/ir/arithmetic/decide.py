"""Results of integer comparisons that follow from facts about the operands."""

from __future__ import annotations

from ..nodes import Expr
from ..walk import LEAVES
from .affine import affine
from .facts import Bounds, bounds, difference


def decided(name: str, x: Expr, y: Expr) -> bool | None:
    """Return the result of comparison `name` if x and y are integers and facts determine the result, else None."""
    if not x.dtype.is_integer:
        return None
    gap = difference(bounds(x), bounds(y))
    answer = _by_gap(name, *gap)
    return _by_gap(name, *_gap_of_terms(x, y, gap)) if answer is None else answer


def _gap_of_terms(x: Expr, y: Expr, gap: Bounds) -> Bounds:
    """Return `gap`, the difference of the bounds, narrowed by cancelling common terms if neither sum wraps around."""
    if isinstance(x, LEAVES) and isinstance(y, LEAVES):
        return (0, 0) if x == y else gap
    first, second = affine(x), affine(y)
    if first == second:
        return 0, 0
    if not (first.is_exact and second.is_exact):
        return gap
    (low, high), by_terms = gap, first.gap(second)
    return (
        max([g for g in (low, by_terms[0]) if g is not None], default=None),
        min([g for g in (high, by_terms[1]) if g is not None], default=None),
    )


def _by_gap(name: str, low: int | None, high: int | None) -> bool | None:
    """Return the result of comparing x with y, given bounds of x - y, or None if these don't determine it."""
    if name in ("less", "greater_equal"):
        answer = True if high is not None and high < 0 else False if low is not None and low >= 0 else None
        return answer if answer is None or name == "less" else not answer
    if name in ("greater", "less_equal"):
        answer = True if low is not None and low > 0 else False if high is not None and high <= 0 else None
        return answer if answer is None or name == "greater" else not answer
    apart = (low is not None and low > 0) or (high is not None and high < 0)
    answer = False if apart else True if low == 0 and high == 0 else None
    return answer if answer is None or name == "equal" else not answer
