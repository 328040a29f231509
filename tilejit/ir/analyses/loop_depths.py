"""Loop depths of expressions: an expression can be computed before the loops in which it doesn't change."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from ...remember import once
from ..arithmetic.intern import operation
from ..nodes import Cast, Const, Expr, Op, Special, Var

#: the depth of an expression that isn't hoisted, such as one with a load or a float operation
STAYS = 1 << 30

#: integer operations that are hoisted. Comparisons aren't: a thread has only seven predicate registers.
_MOVABLE = frozenset({
    "add", "sub", "mul", "neg", "minimum", "maximum", "bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_not",
})

#: operations that are hoisted only if the second operand is a positive constant: a division by a variable, for example,
#: is slow, and is wasted before a loop that has no iterations
_MOVABLE_BY_CONSTANTS = frozenset({"floordiv", "mod", "left_shift", "right_shift"})

_LEAVES = frozenset({Var, Const, Special})


class LoopDepths:
    """The depth of the innermost loop in which each value changes: 1 for an outermost loop, 0 if there is none.

    variables: the depth of each variable that is defined in a loop; `STAYS` for one that may be assigned.
    sums: name of a variable -> the sum to substitute for it at its uses.
    """

    def __init__(self) -> None:
        self.variables: dict[str, int] = {}
        self.sums: dict[str, Sum] = {}

    def of(self, expr: Expr) -> int:
        """Return the depth of an expression, or `STAYS`."""
        if type(expr) in _LEAVES:
            return self.variables.get(expr.name, 0) if type(expr) is Var else 0
        return self._of(expr)

    @once
    def _of(self, expr: Expr) -> int:
        parts: tuple[Expr, ...] = ()
        if isinstance(expr, Op):
            by = expr.args[1] if expr.name in _MOVABLE_BY_CONSTANTS else None
            is_movable = expr.name in _MOVABLE or (isinstance(by, Const) and by.value > 0)
            parts = expr.args if is_movable and expr.dtype.is_integer else ()
        elif isinstance(expr, Cast) and expr.dtype.is_integer and expr.x.dtype.is_integer:
            parts = (expr.x,)
        depth = 0 if parts else STAYS
        for part in parts:
            # the common cases first
            if type(part) is Var:
                depth = max(depth, self.variables.get(part.name, 0))
            elif type(part) is not Const:
                depth = max(depth, self.of(part))
        return depth

    def groups(self, terms: Iterable[Expr]) -> list[tuple[int, list[Expr]]]:
        """Return the terms grouped by their depth, outer loops first."""
        groups: dict[int, list[Expr]] = {}
        for term in terms:
            groups.setdefault(self.of(term), []).append(term)
        return sorted(groups.items())

    def record_sum(self, var: Var, value: Expr) -> bool:
        """If `value` is a sum of terms of different depths, record `var` for expansion at its uses, and return True."""
        if not value.dtype.is_integer or not isinstance(value, Op) or value.name != "add":
            return False
        terms, constant = self.summands(value)
        groups = self.groups(terms)
        if len(groups) > 1:
            self.sums[var.name] = Sum(tuple([added(group) for _, group in groups]), constant)
        return len(groups) > 1

    def summands(self, expr: Expr) -> Sum:
        """Return an expression as a sum, with terms from left to right; the variables in `sums` are expanded."""
        terms: list[Expr] = []
        constant = 0
        waiting = [expr]
        while waiting:
            part = waiting.pop()
            if isinstance(part, Op) and part.name == "add":
                waiting += reversed(part.args)
            elif isinstance(part, Const):
                constant += int(part.value)
            elif isinstance(part, Var) and part.name in self.sums:
                terms += self.sums[part.name].terms
                constant += self.sums[part.name].constant
            else:
                terms.append(part)
        return Sum(tuple(terms), constant)


class Sum(NamedTuple):
    terms: tuple[Expr, ...]
    constant: int


def added(terms: Sequence[Expr]) -> Expr:
    """Return the sum of terms of one integer type, in order."""
    first, *others = terms
    for term in others:
        first = operation("add", (first, term), term.dtype)
    return first
