"""Facts known at a statement: conditions of branches and assertions, loop limits, and elements written by loops."""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

from ...dtypes import int64
from .. import walk
from ..arithmetic import build, facts
from ..nodes import FALSE, TRUE, Break, Cast, Const, Continue, Element, Expr, For, Let, Load, Op, Store, Var
from ..walk import Place, subexpressions


class Conditions:
    """The conditions known to hold at the current statement.

    changing: names of the variables that statements assign; conditions on them are ignored.
    """

    def __init__(self, changing: frozenset[str]) -> None:
        self._changing = changing
        self._conditions: list[set[Hashable]] = [set()]
        self._filled: list[list[_Filled]] = [[]]
        self._limits: dict[str, Expr] = {}
        self._values: dict[str, Expr] = {}

    @contextmanager
    def block(self) -> Iterator[None]:
        """Return a context manager that, on exit, discards the conditions and elements recorded in it."""
        self._conditions.append(set())
        self._filled.append([])
        yield
        self._conditions.pop()
        self._filled.pop()

    def add(self, cond: Expr) -> None:
        """Record that a condition's conjuncts hold until the block ends, except those whose variables may change."""
        if isinstance(cond, Op) and cond.name == "logical_and":
            for part in cond.args:
                self.add(part)
        elif self._stays(cond):
            self._conditions[-1].add(_plain(cond))

    def add_value(self, stmt: Let) -> None:
        """Record a variable's value, for `add_limit` and `add_filled`, unless it may change or contains a load."""
        if self._stays(stmt.value) and not any(isinstance(e, Load) for e in subexpressions(stmt.value)):
            self._values[stmt.var.name] = stmt.value

    def add_limit(self, loop: For) -> None:
        """Record that a loop's variable is below the stop, if the step is positive and the stop can't change."""
        least, _ = facts.bounds(loop.step)
        if least is not None and least > 0 and self._stays(loop.stop):
            self._limits[loop.var.name] = self._value(loop.stop)

    def add_filled(self, loop: For) -> None:
        """Record local buffers' elements that a loop by 1, without `break` or `continue`, has written one by one."""
        is_left = any(isinstance(stmt, (Break, Continue)) for stmt in walk.statements(loop.body))
        if is_left or _number(loop.step) != 1 or not isinstance(loop.start, Const) or not self._stays(loop.stop):
            return
        for stmt in loop.body:
            place = stmt.place if isinstance(stmt, Store) else None
            if isinstance(place, Element) and _is_list(place) and _number(place.indices[0]) == loop.var:
                self._filled[-1].append(_Filled(place.buffer.name, int(loop.start.value), self._value(loop.stop)))

    def is_filled(self, place: Place) -> bool:
        """True if a loop recorded by `add_filled` has certainly written an element."""
        if not isinstance(place, Element) or not _is_list(place):
            return False
        index = build.cast(place.indices[0], int64)
        least, _ = facts.bounds(index)
        return least is not None and any(
            filled.name == place.buffer.name and filled.start <= least
            and self.is_below(index, build.cast(filled.stop, int64))
            for block in self._filled for filled in block
        )

    def _value(self, expr: Expr) -> Expr:
        return self._values.get(expr.name, expr) if isinstance(expr, Var) else expr

    def _stays(self, expr: Expr) -> bool:
        return not any(isinstance(e, Var) and e.name in self._changing for e in subexpressions(expr))

    def holds(self, cond: Expr) -> bool:
        """True if a condition is known to hold."""
        if cond == TRUE:
            return True
        if isinstance(cond, Op) and cond.name == "logical_and":
            return all(self.holds(part) for part in cond.args)
        plain = _plain(cond)
        return any(plain in block for block in self._conditions)

    def is_below(self, index: Expr, limit: Expr) -> bool:
        """True if an index is known to be below a limit."""
        cond = build.less(index, limit)
        if cond == FALSE or self.holds(cond):
            return cond != FALSE
        for part in subexpressions(index):
            if isinstance(part, Var) and part.name in self._limits and self._moves_with(index, limit, part):
                return True
        return False

    def _moves_with(self, index: Expr, limit: Expr, var: Var) -> bool:
        """True if `index` is the loop variable `var` plus a constant, and below `limit` if `var` is below its stop."""
        ahead = build.difference(index, build.cast(var, index.dtype))
        beyond = build.difference(build.cast(self._limits[var.name], limit.dtype), limit)
        return ahead is not None and beyond is not None and ahead + beyond <= 0


class _Filled(NamedTuple):
    """The elements of a buffer that a loop has written: from start to stop, exclusive."""

    name: str
    start: int
    stop: Expr


def _is_list(place: Element) -> bool:
    """True for an element of a one-dimensional local buffer that isn't a view."""
    return place.buffer.space == "local" and place.buffer.base is None and len(place.indices) == 1


#: comparison -> the equivalent comparison with swapped operands
_EXCHANGED = {"greater": "less", "greater_equal": "less_equal"}


def _plain(cond: Expr) -> Hashable:
    """Return a canonical form of a condition: no value-preserving casts of operands, and `a < b` for `b > a`."""
    if not isinstance(cond, Op) or len(cond.args) != 2:
        return cond
    x, y = (_number(arg) for arg in cond.args)
    return (_EXCHANGED[cond.name], y, x) if cond.name in _EXCHANGED else (cond.name, x, y)


def _number(expr: Expr) -> Expr | int:
    """Strip value-preserving casts from around an expression; return an integer constant as a Python int."""
    while isinstance(expr, Cast) and facts.keeps_value(expr):
        expr = expr.x
    return int(expr.value) if isinstance(expr, Const) and expr.dtype.is_integer else expr
