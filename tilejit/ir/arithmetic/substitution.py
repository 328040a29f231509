"""Repeated substitution of variables in expressions, with folding as in `build`.

An expression is analyzed once and then instantiated for each iteration. Most instances differ only in a constant:

    offset + i * 512, i = 3         offset + 1536: instances share the sum without `i`
    i // 2 * 16 + 8, i = 3          24: evaluated with Python integers
    offset + i * 512 < end, i = 3   the distance to `end` is bounded once; here 1536 is added to the bounds
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from ..nodes import Cast, Const, Expr, Load, Op, Special, Var, Vector
from ..walk import inputs
from . import build
from .affine import Affine, affine, affine_sum
from .decide import COMPARISONS, by_gap
from .facts import room
from .folding import Fold, IntegerFolding
from .intern import integer, operation

#: returns an instance of an expression for the current values of the variables
Make = Callable[[], Expr]


class _Sum(NamedTuple):
    """An integer sum, split by what changes between instances."""

    #: the invariant terms, without the constant
    rest: Affine
    constant: int
    #: the terms that can be evaluated as Python integers
    counted: tuple[Expr, ...]
    #: evaluators of the `counted` terms, with their factors
    numbers: tuple[tuple[Fold, int], ...]
    #: products of an integer and an invariant sum: (evaluator of the integer, factor, sum)
    products: tuple[tuple[Fold, int, Affine], ...]
    #: makers of all other terms, with their factors
    terms: tuple[tuple[Make, int], ...]

    @property
    def has_numbers_only(self) -> bool:
        return not self.products and not self.terms

    def bounded(self, form: Affine) -> Affine:
        return Affine(form.dtype, tuple([(term, factor) for term, factor in form.terms if term not in self.counted]))

    def number(self) -> int:
        total = self.constant
        for fold, factor in self.numbers:
            total += factor * fold()
        return total


class Substitution:
    """A mapping from variables to expressions, and the instances of expressions under it.

    Variables are registered by `index` and `changing` before expressions with them are used; others are invariant.
    numbers: current values of the indices, by name.
    """

    def __init__(self) -> None:
        self._names: set[str] = set()
        self._folding = IntegerFolding()
        self.numbers = self._folding.numbers
        self._values: dict[str, Expr] = {}
        self._makes: dict[int, tuple[Expr, Make | None]] = {}
        self._totals: dict[tuple[tuple[int, int], ...], Make] = {}

    def index(self, name: str, indices: range | None = None) -> None:
        """Register an integer variable, set through `numbers`. indices: all values that it will have, if known."""
        self._names.add(name)
        if indices is not None:
            self._folding.ranges[name] = indices
        self._folding.names.add(name)

    def changing(self, name: str) -> None:
        """Register a variable that `value` sets."""
        self._names.add(name)

    def value(self, name: str, value: Expr) -> None:
        """Set the current value of a variable."""
        self._values[name] = value

    def is_number(self, expr: Expr) -> bool:
        """True if `IntegerFolding` can evaluate the expression, from indices and constants only."""
        return self._folding.fold(expr) is not None

    def changes(self, expr: Expr) -> bool:
        """True if the expression depends on a registered variable."""
        return self._make(expr) is not None

    def expr(self, expr: Expr) -> Expr:
        """Return the current instance of an expression, or the same object if it is invariant."""
        make = self._make(expr)
        return expr if make is None else make()

    def maker(self, expr: Expr) -> Make:
        """Return a function that returns the current instance of `expr`."""
        return self._make(expr) or (lambda: expr)

    def place(self, place: Vector) -> Callable[[], Vector]:
        """Return a function that returns the current instance of a vector."""
        buffer, width, span, offset = place.buffer, place.width, place.span, place.offset
        if isinstance(offset, Const):
            return lambda: place
        linear = self._folding.linear(offset)
        if linear is not None:
            # the common case of registers
            (name, factor, constant), numbers, dtype = linear, self.numbers, offset.dtype
            return lambda: Vector(buffer, integer(numbers[name] * factor + constant, dtype), width, span)
        at = self._make(offset)
        return (lambda: place) if at is None else lambda: Vector(buffer, at(), width, span)

    def _make(self, expr: Expr) -> Make | None:
        """Return the function that instantiates an expression, or None if it is invariant."""
        entry = self._makes.get(id(expr))
        if entry is None:
            entry = self._makes[id(expr)] = (expr, self._prepared(expr))
        return entry[1]

    def _prepared(self, expr: Expr) -> Make | None:
        if isinstance(expr, (Const, Special)):
            return None
        if isinstance(expr, Var):
            return self._variable(expr)
        if isinstance(expr, Load):
            return self._load(expr)
        for part in inputs(expr):
            if self._make(part) is not None:
                break
        else:
            return None
        if expr.dtype.is_integer:
            constant = self._folding.constant(expr)
            if constant is not None:
                return constant
            form = affine(expr)
            if form.constant or form.terms != ((expr, 1),):
                return self._sum(form)
        if isinstance(expr, Cast):
            return self._cast(expr)
        if expr.name in COMPARISONS and expr.args[0].dtype.is_integer:
            return self._comparison(expr)
        return self._operation(expr)

    def _variable(self, var: Var) -> Make | None:
        name, values = var.name, self._values
        if name not in self._names:
            return None
        return self._folding.constant(var) or (lambda: values[name])

    def _load(self, load: Load) -> Make | None:
        place, order, span = load.place, load.order, load.span
        assert isinstance(place, Vector), "lane level has no Element"
        linear = self._folding.linear(place.offset)
        if linear is not None:
            (name, factor, constant), numbers, dtype = linear, self.numbers, place.offset.dtype
            buffer, width, where = place.buffer, place.width, place.span
            return lambda: Load(
                Vector(buffer, integer(numbers[name] * factor + constant, dtype), width, where), order, span
            )
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
        may_fold = not op.args[-1].dtype.is_float or self._may_fold(op)
        if len(makes) == 2:
            left, right = makes
            if not may_fold:
                return lambda: Op(name, (left(), right()), dtype, span)
            if name in ("logical_and", "logical_or", "mul"):
                return self._plain(op, left, right)
            fold = self._folding.fold(op.args[1])
            if name in ("bitwise_xor", "bitwise_or") and fold is not None and not self.changes(op.args[0]):
                return self._bits(op, op.args[0], fold)
        elif not may_fold and len(makes) == 1:
            (only,) = makes
            return lambda: Op(name, (only(),), dtype, span)
        elif not may_fold:
            return lambda: Op(name, tuple([make() for make in makes]), dtype, span)
        return lambda: build.apply(name, tuple([make() for make in makes]))

    def _plain(self, op: Op, left: Make, right: Make) -> Make:
        """Return the maker of an operation that can be simplified only if an operand is constant or both are equal."""
        name = op.name

        def joined() -> Expr:
            x, y = left(), right()
            if isinstance(x, Const) or isinstance(y, Const) or x is y:
                return build.apply(name, (x, y))
            return operation(name, (x, y), op.dtype)

        return joined

    def _bits(self, op: Op, x: Expr, fold: Fold) -> Make:
        def changed() -> Expr:
            bits = integer(fold(), op.dtype)
            if isinstance(x, Const):
                return build.apply(op.name, (x, bits))
            return operation(op.name, (x, bits), op.dtype) if bits.value else x

        return changed

    def _may_fold(self, op: Op) -> bool:
        """True if the arguments of an operation on floats, or the condition of `where`, may become constant."""
        deciding = op.args[:1] if op.name == "where" else op.args
        return all(isinstance(arg, Const) or not isinstance(arg, Load) and self.changes(arg) for arg in deciding)

    def _comparison(self, op: Op) -> Make:
        """Return the maker of a comparison, decided if possible by bounds of the difference and the constants."""
        name, (left, right) = op.name, op.args
        x, y = self._parts(affine(left)), self._parts(affine(right))
        one, other = self.maker(left), self.maker(right)
        if x.products or y.products:
            return lambda: build.apply(name, (one(), other()))
        # facts about the other terms hold in every iteration, even if the terms change
        first, second = x.bounded(affine(left)), y.bounded(affine(right))
        (low, high), (least, most) = first.gap(second), room(first.bounds(), left.dtype, first.is_assumed)
        other_least, other_most = room(second.bounds(), left.dtype, second.is_assumed)

        def compared() -> Expr:
            a, b = x.number() if x.numbers else x.constant, y.number() if y.numbers else y.constant
            if not (least <= a <= most and other_least <= b <= other_most):
                return build.apply(name, (one(), other()))
            answer = by_gap(name, None if low is None else low + a - b, None if high is None else high + a - b)
            if answer is None:
                return operation(name, (one(), other()), op.dtype)
            return build.const(answer, op.dtype)

        return compared

    def _sum(self, form: Affine) -> Make:
        parts, dtype = self._parts(form), form.dtype
        rest = parts.rest.expr()
        if parts.has_numbers_only:
            def moved() -> Expr:
                constant = integer(parts.number(), dtype)
                return rest if constant.value == 0 else operation("add", (rest, constant), dtype)

            return moved

        if not parts.terms and len(parts.products) == 1:
            ((fold, factor, other),) = parts.products
            if _is_apart(parts.rest, other):
                return self._scaled_sum(parts, rest, fold, factor, other)

        total = self._total(form, parts)

        def added() -> Expr:
            there, constant = total(), integer(parts.number(), dtype)
            if constant.value == 0:
                return there
            if isinstance(there, Const) or _ends_in_constant(there):
                return affine(there).plus(Affine(dtype, (), int(constant.value))).expr()
            return operation("add", (there, constant), dtype)

        return added

    def _total(self, form: Affine, parts: _Sum) -> Make:
        """Return the maker of a sum without `parts.number()`; sums that differ only in their constants share it."""
        terms_by_identity = tuple([(id(term), factor) for term, factor in form.terms])
        made = self._totals.get(terms_by_identity)
        if made is not None:
            return made
        is_one_more = len(parts.terms) == 1 and parts.terms[0][1] == 1 and not parts.products
        if is_one_more and parts.rest.terms and all(factor > 0 for _, factor in parts.rest.terms):
            made = self._totals[terms_by_identity] = _one_more(parts.rest, parts.terms[0][0])
            return made
        last: list[tuple[list[Expr], list[int], Expr]] = []

        def total() -> Expr:
            terms, scales = [make() for make, _ in parts.terms], [fold() for fold, _, _ in parts.products]
            if last and last[0][1] == scales and all(a is b for a, b in zip(last[0][0], terms, strict=True)):
                return last[0][2]
            sums = [(parts.rest, 1)]
            sums += [(other, factor * scale) for scale, (_, factor, other) in zip(scales, parts.products, strict=True)]
            sums += [(affine(term), factor) for term, (_, factor) in zip(terms, parts.terms, strict=True)]
            last[:] = [(terms, scales, affine_sum(sums, form.dtype).expr())]
            return last[0][2]

        self._totals[terms_by_identity] = total
        return total

    def _scaled_sum(self, parts: _Sum, rest: Expr, fold: Fold, factor: int, other: Affine) -> Make:
        ((term, times),), dtype = other.terms, other.dtype

        def added() -> Expr:
            scale, constant = integer(fold() * factor * times, dtype), integer(parts.number(), dtype)
            if scale.value < 0:
                return parts.rest.plus(other, fold() * factor).plus(Affine(dtype, (), int(constant.value))).expr()
            total = rest
            if scale.value:
                scaled = term if scale.value == 1 else operation("mul", (term, scale), dtype)
                total = operation("add", (rest, scaled), dtype)
            return operation("add", (total, constant), dtype) if constant.value else total

        return added

    def _parts(self, form: Affine) -> _Sum:
        rest: list[tuple[Expr, int]] = []
        counted: list[Expr] = []
        numbers: list[tuple[Fold, int]] = []
        products: list[tuple[Fold, int, Affine]] = []
        terms: list[tuple[Make, int]] = []
        for term, factor in form.terms:
            make = self._make(term)
            if make is None:
                rest.append((term, factor))
            elif (fold := self._folding.fold(term)) is not None:
                counted.append(term)
                numbers.append((fold, factor))
            elif (scaled := self._scaled(term)) is not None:
                products.append((scaled[0], factor, scaled[1]))
            else:
                terms.append((make, factor))
        stays = Affine(form.dtype, tuple(rest))
        return _Sum(stays, form.constant, tuple(counted), tuple(numbers), tuple(products), tuple(terms))

    def _scaled(self, term: Expr) -> tuple[Fold, Affine] | None:
        """Return the factors of a product of a changing integer and an invariant; None for any other expression."""
        if not isinstance(term, Op) or term.name != "mul":
            return None
        for one, other in (term.args, term.args[::-1]):
            fold = self._folding.fold(one)
            if fold is not None and not self.changes(other):
                return fold, affine(other)
        return None


def _ends_in_constant(total: Expr) -> bool:
    return isinstance(total, Op) and total.name == "add" and isinstance(total.args[1], Const)


def _one_more(rest: Affine, make: Make) -> Make:
    before, dtype = rest.expr(), rest.dtype

    def added() -> Expr:
        term = make()
        is_product = isinstance(term, Op) and term.name == "mul" and not isinstance(term.args[1], Const)
        if is_product or isinstance(term, (Var, Load)):
            return operation("add", (before, term), dtype)
        return affine_sum([(rest, 1), (affine(term), 1)], dtype).expr()

    return added


def _is_apart(rest: Affine, other: Affine) -> bool:
    """True if a sum has terms, all with positive coefficients, and the other is a single term that it lacks."""
    if not rest.terms or len(other.terms) != 1 or other.constant:
        return False
    term, _ = other.terms[0]
    return all(factor > 0 and each != term for each, factor in rest.terms)
