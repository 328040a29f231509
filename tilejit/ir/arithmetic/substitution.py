"""Repeated substitution of variables in expressions, with folding as in `build`.

An expression is analyzed once, then instantiated per iteration of a loop. Most instances differ only in a constant:

    offset + i * 512, i = 3         offset + 1536: instances share the sum without `i`
    i // 2 * 16 + 8, i = 3          24: evaluated with Python integers
"""

from __future__ import annotations

from collections.abc import Callable

from ...remember import once
from ..nodes import Cast, Const, Expr, Load, Op, Special, Var, Vector
from ..walk import inputs
from . import build
from .affine import Affine, affine, affine_sum
from .facts import bounds, fits, full_range
from .intern import integer, operation, wrap

#: returns an instance of an expression for the current values of the variables
Make = Callable[[], Expr]

#: returns an int that is congruent, modulo 2**bits, to the current value of an integer expression
Fold = Callable[[], int]


class Substitution:
    """The current values of variables, and the instances of expressions for these values.

    A variable must be registered by `index` or `changing` before an expression with it is used, or it is invariant.
    numbers: name of a variable registered by `index` -> its current value.
    """

    def __init__(self) -> None:
        self.numbers: dict[str, int] = {}
        self._values: dict[str, Expr] = {}

    def index(self, name: str) -> None:
        """Register an integer variable whose value is always a constant, which the caller sets in `numbers`."""
        self.numbers[name] = 0

    def changing(self, var: Var) -> None:
        """Register a variable whose value is an expression, set by `value`."""
        self._values[var.name] = var

    def value(self, name: str, value: Expr) -> None:
        """Set the current value of a variable registered by `changing`."""
        self._values[name] = value

    def is_number(self, expr: Expr) -> bool:
        """True if every instance of an expression is known to be an integer constant."""
        return self._fold(expr) is not None

    def expr(self, expr: Expr) -> Expr:
        """Return the current instance of an expression, or `expr` itself if it is invariant."""
        make = self._make(expr)
        return expr if make is None else make()

    def maker(self, expr: Expr) -> Make:
        """Return a function that returns the current instance of `expr`."""
        return self._make(expr) or (lambda: expr)

    def place(self, place: Vector) -> Callable[[], Vector]:
        """Return a function that returns the current instance of a vector."""
        buffer, width, span, at = place.buffer, place.width, place.span, self._make(place.offset)
        return (lambda: place) if at is None else lambda: Vector(buffer, at(), width, span)

    @once
    def _make(self, expr: Expr) -> Make | None:
        """Return the function that instantiates an expression, or None if it is invariant."""
        if isinstance(expr, (Const, Special)):
            return None
        if isinstance(expr, Load):
            return self._load(expr)
        if isinstance(expr, Var):
            if expr.name in self._values:
                name, values = expr.name, self._values
                return lambda: values[name]
        elif all(self._make(part) is None for part in inputs(expr)):
            return None
        fold, dtype = self._fold(expr), expr.dtype
        if fold is not None:
            return lambda: integer(fold(), dtype)
        if isinstance(expr, Var):
            return None
        if dtype.is_integer:
            form = affine(expr)
            if form.terms != ((expr, 1),):
                return self._sum(form)
        return self._cast(expr) if isinstance(expr, Cast) else self._operation(expr)

    def _load(self, load: Load) -> Make | None:
        place, order, span = load.place, load.order, load.span
        assert isinstance(place, Vector), "lane level has no Element"
        if self._make(place.offset) is None:
            return None
        make = self.place(place)
        return lambda: Load(make(), order, span)

    def _cast(self, cast: Cast) -> Make:
        x, dtype, saturate = self.maker(cast.x), cast.dtype, cast.saturate
        if isinstance(cast.x, Load):
            span = cast.span
            return lambda: Cast(x(), dtype, saturate, span)
        return lambda: build.cast(x(), dtype, saturate)

    def _operation(self, op: Op) -> Make:
        name, dtype, span, makes = op.name, op.dtype, op.span, [self.maker(arg) for arg in op.args]
        if not op.args[-1].dtype.is_float or self._may_fold(op):
            return lambda: build.apply(name, tuple([make() for make in makes]))
        if len(makes) == 2:
            left, right = makes
            return lambda: Op(name, (left(), right()), dtype, span)
        return lambda: Op(name, tuple([make() for make in makes]), dtype, span)

    def _may_fold(self, op: Op) -> bool:
        """True if all arguments of an operation on floats, or the condition of `where`, may become constants."""
        deciding = op.args[:1] if op.name == "where" else op.args
        return all(
            isinstance(arg, Const) or not isinstance(arg, Load) and self._make(arg) is not None for arg in deciding
        )

    def _sum(self, form: Affine) -> Make:
        """Return the function that instantiates a sum, by adding the terms that vary to the sum of the others."""
        rest: list[tuple[Expr, int]] = []
        numbers: list[tuple[Fold, int]] = []
        terms: list[tuple[Make, int]] = []
        for term, factor in form.terms:
            make, fold = self._make(term), self._fold(term)
            if make is None:
                rest.append((term, factor))
            elif fold is not None:
                numbers.append((fold, factor))
            else:
                terms.append((make, factor))
        stays, dtype = Affine(form.dtype, tuple(rest)), form.dtype
        invariant = stays.expr()

        def number() -> Const:
            return integer(sum([fold() * factor for fold, factor in numbers], form.constant), dtype)

        def moved() -> Expr:
            constant = number()
            return invariant if constant.value == 0 else operation("add", (invariant, constant), dtype)

        def added() -> Expr:
            moving = [(affine(make()), factor) for make, factor in terms]
            return affine_sum([(stays, 1), *moving, (affine(number()), 1)], dtype).expr()

        return added if terms else moved

    @once
    def _fold(self, expr: Expr) -> Fold | None:
        """Return the `Fold` of an expression whose every instance is known to be an integer constant, else None."""
        if isinstance(expr, Var):
            name, numbers = expr.name, self.numbers
            return (lambda: numbers[name]) if name in numbers else None
        if not expr.dtype.is_integer or isinstance(expr, (Special, Load)):
            return None
        if isinstance(expr, Cast):
            source = expr.x.dtype
            is_widening = source.kind == expr.dtype.kind == "int" and source.bits <= expr.dtype.bits
            return self._in_range(expr.x) if is_widening else None
        form = affine(expr)
        if form.terms == ((expr, 1),):
            return self._product_or_division(expr) if isinstance(expr, Op) else None
        constant, folds = form.constant, list[tuple[Fold, int]]()
        for term, factor in form.terms:
            fold = self._fold(term)
            if fold is None:
                return None
            folds.append((fold, factor))
        if len(folds) == 1:
            ((only, times),) = folds
            return lambda: only() * times + constant
        return lambda: sum([fold() * factor for fold, factor in folds], constant)

    def _product_or_division(self, op: Op) -> Fold | None:
        if op.name == "mul":
            left, right = map(self._fold, op.args)
            return None if left is None or right is None else lambda: left() * right()
        if op.name not in ("floordiv", "mod"):
            return None
        dividend, divisor = self._in_range(op.args[0]), op.args[1]
        if dividend is None or not isinstance(divisor, Const) or divisor.value <= 0:
            return None
        number = int(divisor.value)
        return (lambda: dividend() // number) if op.name == "floordiv" else (lambda: dividend() % number)

    def _in_range(self, expr: Expr) -> Fold | None:
        """Like `_fold`, but the function's result is in the range of the type."""
        fold, dtype, ends = self._fold(expr), expr.dtype, bounds(expr)
        if fold is None or not isinstance(expr, Op) or (fits(ends, dtype) and ends != full_range(dtype)):
            return fold
        return lambda: wrap(fold(), dtype)
