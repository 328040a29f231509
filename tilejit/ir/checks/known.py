"""What holds wherever control comes to a statement: conditions of branches, limits of loops, checks passed."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from ..arithmetic import build, facts
from ..arithmetic.build import FALSE
from ..nodes import TRUE, Expr, For, Op, Var
from ..walk import subexpressions

__all__ = ["Known"]


class Known:
    """Conditions that hold, innermost block last.

    changing: the variables that statements assign, of which no condition is kept.
    """

    def __init__(self, changing: frozenset[str]) -> None:
        self._changing = changing
        self._conditions: list[set[Expr]] = [set()]
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
            self._conditions[-1].add(cond)

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
        return any(cond in block for block in self._conditions)

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
