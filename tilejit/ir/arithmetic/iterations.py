"""What is known of a counted loop's turns: which way its step leads, and whether there surely is one."""

from __future__ import annotations

from ...scopes import THREAD_IDS
from ..nodes import Cast, Expr, For, Special
from . import facts

__all__ = ["ends", "is_descending", "step_may_be_zero", "is_ascending", "surely_iterates"]


def is_descending(loop: For) -> bool:
    """Whether the step is known not to be positive."""
    _, greatest = facts.bounds(loop.step)
    return greatest is not None and greatest <= 0


def is_ascending(loop: For) -> bool:
    """Whether the step is known not to be negative."""
    least, _ = facts.bounds(loop.step)
    return least is not None and least >= 0


def step_may_be_zero(loop: For) -> bool:
    """Whether the step may be zero, of which there is no turn."""
    least, greatest = facts.bounds(loop.step)
    return (least is None or least <= 0) and (greatest is None or greatest >= 0)


def surely_iterates(loop: For, threads: int) -> bool:
    """Whether a loop of a known direction surely has a turn in a CTA of so many threads, unless its step is zero."""
    (least_start, greatest_start), (least_stop, greatest_stop) = ends(loop.start), ends(loop.stop)
    start = loop.start.x if isinstance(loop.start, Cast) else loop.start
    if isinstance(start, Special) and start.name in THREAD_IDS:
        # as loops begin whose turns threads share
        greatest_start = min(greatest_start, THREAD_IDS[start.name].greatest_of(threads))
    return least_start > greatest_stop if is_descending(loop) else greatest_start < least_stop


def ends(expr: Expr) -> tuple[int, int]:
    """The least and the greatest value, at worst those of the type."""
    (low, high), (least, greatest) = facts.bounds(expr), facts.full_range(expr.dtype)
    return least if low is None else low, greatest if high is None else high
