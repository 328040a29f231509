"""What holds wherever control comes to a statement: conditions of branches, limits of loops, checks passed."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager

from ..arithmetic import build, facts
from ..arithmetic.build import FALSE
from ..nodes import TRUE, Cast, Const, Expr, For, Op, Var
from ..walk import subexpressions

__all__ = ["Known"]


class Known:
    """Conditions that hold, innermost block last.

    changing: the variables that statements assign, of which no condition is kept.
    """

    def __init__(self, changing: frozenset[str]) -> None:
        self._changing = changing
        self._conditions: list[set[Hashable]] = [set()]
        self._limits: dict[str, Expr] = {}

    @contextmanager
    def block(self) -> Iterator[None]:
        """What is added inside holds inside only."""
        self._conditions.append(set())
        yield
        self._conditions.pop()

    def add(self, cond: Expr) -> None:
        """From here to the end of the block the condition holds."""
        if isinstance(cond, Op) and cond.name == "logical_and":
            for part in cond.args:
                self.add(part)
        elif not any(isinstance(e, Var) and e.name in self._changing for e in subexpressions(cond)):
            self._conditions[-1].add(_plain(cond))

    def add_limit(self, loop: For) -> None:
        """A rising loop's variable stays below its stop."""
        least, _ = facts.bounds(loop.step)
        stop_changes = any(isinstance(e, Var) and e.name in self._changing for e in subexpressions(loop.stop))
        if least is not None and least > 0 and not stop_changes:
            self._limits[loop.var.name] = loop.stop

    def holds(self, cond: Expr) -> bool:
        """Whether a condition is sure to hold."""
        if cond == TRUE:
            return True
        if isinstance(cond, Op) and cond.name == "logical_and":
            return all(self.holds(part) for part in cond.args)
        plain = _plain(cond)
        return any(plain in block for block in self._conditions)

    def is_below(self, index: Expr, limit: Expr) -> bool:
        """Whether an index is sure to be below a limit."""
        cond = build.less(index, limit)
        if cond == FALSE or self.holds(cond):
            return cond != FALSE
        for part in subexpressions(index):
            if isinstance(part, Var) and part.name in self._limits and self._moves_with(index, limit, part):
                return True
        return False

    def _moves_with(self, index: Expr, limit: Expr, var: Var) -> bool:
        """Whether the index is a loop's variable and a constant, and below the limit at the loop's last turn."""
        ahead = build.difference(index, build.cast(var, index.dtype))
        beyond = build.difference(build.cast(self._limits[var.name], limit.dtype), limit)
        return ahead is not None and beyond is not None and ahead + beyond <= 0


#: comparison -> the one that says the same of its operands exchanged
_EXCHANGED = {"greater": "less", "greater_equal": "less_equal"}


def _plain(cond: Expr) -> Hashable:
    """A condition so that two are equal which differ in how wide they compare, or from which side."""
    if not isinstance(cond, Op) or len(cond.args) != 2:
        return cond
    x, y = (_number(arg) for arg in cond.args)
    return (_EXCHANGED[cond.name], y, x) if cond.name in _EXCHANGED else (cond.name, x, y)


def _number(expr: Expr) -> Expr | int:
    """An integer without the casts that keep its value."""
    while isinstance(expr, Cast) and facts.keeps_value(expr):
        expr = expr.x
    return int(expr.value) if isinstance(expr, Const) and expr.dtype.is_integer else expr
