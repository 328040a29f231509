"""Facts about counted loops: the sign of the step, and whether the body certainly executes."""

from __future__ import annotations

from ...scopes import THREAD_IDS
from ..nodes import Cast, Expr, For, Special
from . import facts


def is_descending(loop: For) -> bool:
    """True if the step is provably not positive."""
    _, greatest = facts.bounds(loop.step)
    return greatest is not None and greatest <= 0


def is_ascending(loop: For) -> bool:
    """True if the step is provably not negative."""
    least, _ = facts.bounds(loop.step)
    return least is not None and least >= 0


def step_may_be_zero(loop: For) -> bool:
    """True if the step may be zero; with a step of zero, the loop has no iterations."""
    least, greatest = facts.bounds(loop.step)
    return (least is None or least <= 0) and (greatest is None or greatest >= 0)


def surely_iterates(loop: For, threads: int) -> bool:
    """True if a loop provably has an iteration in each of a CTA's `threads` threads. Its step's sign must be known."""
    (least_start, greatest_start), (least_stop, greatest_stop) = ends(loop.start), ends(loop.stop)
    start = loop.start.x if isinstance(loop.start, Cast) else loop.start
    if isinstance(start, Special) and start.name in THREAD_IDS:
        # the form of loops whose iterations are distributed over threads
        greatest_start = min(greatest_start, THREAD_IDS[start.name].greatest_of(threads))
    return least_start > greatest_stop if is_descending(loop) else greatest_start < least_stop


def ends(expr: Expr) -> tuple[int, int]:
    """Return bounds of an integer expression, with the type's bound for an unknown one."""
    (low, high), (least, greatest) = facts.bounds(expr), facts.full_range(expr.dtype)
    return least if low is None else low, greatest if high is None else high
