"""What one statement may break by itself, by all checks that look at a statement and what holds before it."""

from __future__ import annotations

from ..nodes import Assert, Stmt
from .conditions import Conditions
from .divisions import by_zero
from .in_place import overlapping
from .indices import outside

__all__ = ["failing"]


def failing(stmt: Stmt, conditions: Conditions) -> tuple[Assert, ...]:
    """The assertions in front of a statement."""
    return (*by_zero(stmt, conditions), *outside(stmt, conditions), *overlapping(stmt, conditions))
