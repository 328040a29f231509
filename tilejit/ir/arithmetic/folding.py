"""Evaluation of expressions of constants and integer variables as Python integers."""

from __future__ import annotations

import operator
from collections.abc import Callable

from ..nodes import Cast, Const, Expr, Op, Var
from ..walk import inputs
from .affine import affine
from .facts import bounds, fits, full_range
from .intern import integer, wrap

#: returns an int that is congruent, modulo 2**bits, to the current value of an integer expression
Fold = Callable[[], int]

_FOLDS: dict[str, Callable[[int, int], int]] = {
    "add": operator.add, "sub": operator.sub, "mul": operator.mul, "floordiv": operator.floordiv, "mod": operator.mod,
}
_DIVISIONS = ("floordiv", "mod")


class IntegerFolding:
    """The current integer values of variables, and functions that evaluate expressions from them."""

    def __init__(self) -> None:
        #: the names of the integer variables to evaluate
        self.names: set[str] = set()
        #: the current values of these variables
        self.numbers: dict[str, int] = {}
        #: all values that each variable will have, by name, if known
        self.ranges: dict[str, range] = {}
        self._folds: dict[int, tuple[Expr, Fold | None]] = {}
        self._tables: dict[int, tuple[Expr, tuple[str, list[int]] | None]] = {}

    def constant(self, expr: Expr) -> Callable[[], Expr] | None:
        """Return a function that returns the expression's current value as a constant; None if it can't be folded."""
        for part in inputs(expr):
            if not isinstance(part, Var) or part.name not in self.names:
                return None
        dtype, numbers, linear = expr.dtype, self.numbers, self.linear(expr)
        if linear is not None:
            name, factor, constant = linear
            return lambda: integer(numbers[name] * factor + constant, dtype)
        table = self._table(expr)
        if table is not None:
            name, values = table
            constants = {n: integer(value, dtype) for n, value in zip(self.ranges[name], values, strict=True)}
            return lambda: constants[numbers[name]]
        fold = self.fold(expr)
        return None if fold is None else lambda: integer(fold(), dtype)

    def _table(self, expr: Expr) -> tuple[str, list[int]] | None:
        """Return an expression's only variable and the values over its range; None if it can't be tabulated."""
        entry = self._tables.get(id(expr))
        if entry is None:
            entry = self._tables[id(expr)] = (expr, self._tabled(expr))
        return entry[1]

    def _tabled(self, expr: Expr) -> tuple[str, list[int]] | None:
        if isinstance(expr, Var):
            return (expr.name, list(self.ranges[expr.name])) if expr.name in self.ranges else None
        if isinstance(expr, Cast):
            table = self._table(expr.x)
            return table if _widens(expr) and table is not None and _keeps(expr.x) else None
        fold = _FOLDS.get(expr.name) if isinstance(expr, Op) and expr.dtype.is_integer else None
        if fold is None or not isinstance(expr, Op):
            return None
        left, right = expr.args
        table = self._table(left)
        if table is None or (expr.name in _DIVISIONS and not (isinstance(right, Const) and _keeps(left))):
            return None
        name, values = table
        if isinstance(right, Const):
            number = int(right.value)
            is_known = number > 0 or expr.name not in _DIVISIONS
            return (name, [fold(value, number) for value in values]) if is_known else None
        other = self._table(right)
        if other is None or other[0] != name:
            return None
        return name, [fold(a, b) for a, b in zip(values, other[1], strict=True)]

    def linear(self, expr: Expr) -> tuple[str, int, int] | None:
        """Return (name, factor, constant) if the expression equals name * factor + constant, else None."""
        if isinstance(expr, Var):
            return (expr.name, 1, 0) if expr.name in self.names else None
        linear = self._terms(expr) if isinstance(expr, Op) and expr.dtype.is_integer else None
        if linear is None or len(linear[0]) != 1:
            return None
        ((name, factor),), constant = linear
        return name, factor, constant

    def fold(self, expr: Expr) -> Fold | None:
        """Return a function that evaluates the expression modulo 2**bits; None if it can't be folded."""
        entry = self._folds.get(id(expr))
        if entry is None:
            entry = self._folds[id(expr)] = (expr, self._folded(expr))
        return entry[1]

    def _folded(self, expr: Expr) -> Fold | None:
        if isinstance(expr, Const):
            if not expr.dtype.is_integer:
                return None
            number = int(expr.value)
            return lambda: number
        if isinstance(expr, Var):
            if expr.name not in self.names:
                return None
            name, numbers = expr.name, self.numbers
            return lambda: numbers[name]
        if not expr.dtype.is_integer:
            return None
        linear = self._linear(expr)
        if linear is not None:
            return linear
        if isinstance(expr, Cast):
            return self._value(expr.x) if _widens(expr) else None
        fold = _FOLDS.get(expr.name) if isinstance(expr, Op) else None
        if fold is None or not isinstance(expr, Op):
            return None
        return self._division(expr, fold) if expr.name in _DIVISIONS else self._arithmetic(expr, fold)

    def _linear(self, expr: Expr) -> Fold | None:
        """Like `fold`, but without nested calls, for a linear function of one or two variables; else None."""
        linear = self._terms(expr)
        if linear is None:
            return None
        (pairs, constant), numbers = linear, self.numbers
        if len(pairs) == 1:
            ((name, factor),) = pairs
            return lambda: numbers[name] * factor + constant
        if len(pairs) == 2:
            (name, factor), (other, times) = pairs
            return lambda: numbers[name] * factor + numbers[other] * times + constant
        return None

    def _terms(self, expr: Expr) -> tuple[list[tuple[str, int]], int] | None:
        """Return the (name, factor) pairs and the constant of a linear function of variables; None for any other."""
        if isinstance(expr, (Const, Cast)):
            return None
        form = affine(expr)
        pairs: list[tuple[str, int]] = []
        for term, factor in form.terms:
            if not isinstance(term, Var) or term.name not in self.names:
                return None
            pairs.append((term.name, factor))
        return pairs, form.constant

    def _arithmetic(self, op: Op, fold: Callable[[int, int], int]) -> Fold | None:
        left, right = op.args
        a, b = self.fold(left), self.fold(right)
        if a is None or b is None:
            return None
        if isinstance(right, Const):
            number = int(right.value)
            return lambda: fold(a(), number)
        return lambda: fold(a(), b())

    def _division(self, op: Op, fold: Callable[[int, int], int]) -> Fold | None:
        dividend, divisor = self._value(op.args[0]), op.args[1]
        if dividend is None or not isinstance(divisor, Const) or divisor.value <= 0:
            return None
        number = int(divisor.value)
        return lambda: fold(dividend(), number)

    def _value(self, expr: Expr) -> Fold | None:
        """Like `fold`, but the function's result is in the range of the type."""
        fold = self.fold(expr)
        if fold is None or _keeps(expr):
            return fold
        dtype = expr.dtype
        return lambda: wrap(fold(), dtype)


def _widens(cast: Cast) -> bool:
    source = cast.x.dtype
    return source.kind == cast.dtype.kind == "int" and source.bits <= cast.dtype.bits


def _keeps(expr: Expr) -> bool:
    """True if facts prove that an expression doesn't wrap around."""
    ends = bounds(expr)
    return not isinstance(expr, Op) or (fits(ends, expr.dtype) and ends != full_range(expr.dtype))
