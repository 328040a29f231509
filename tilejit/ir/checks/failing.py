"""The assertions that a statement needs, given the conditions known before it."""

from __future__ import annotations

from ..nodes import Assert, Stmt
from .conditions import Conditions
from .divisions import by_zero
from .in_place import overlapping
from .indices import outside


def failing(stmt: Stmt, conditions: Conditions) -> tuple[Assert, ...]:
    """Return the assertions about divisors, indices and overlaps within one array to insert before a statement."""
    return (*by_zero(stmt, conditions), *outside(stmt, conditions), *overlapping(stmt, conditions))
