"""Affine forms of integer expressions: coefficient · term + … + constant; and comparisons that facts determine.

Addition, subtraction and multiplication wrap around, and so do the coefficients. Expressions with equal forms therefore
have equal values, even if they overflow.
"""

from __future__ import annotations

from collections.abc import Iterable

from ...dataclass import lean
from ...dtypes import DType, bool_, int64
from ...remember import LIMIT, forgotten, memoized
from ..nodes import Cast, Const, Expr, Op
from ..walk import LEAVES
from .facts import Bounds, bounds, difference, fits, is_data, is_large, keeps_value, multiple_of
from .intern import integer, operation

#: number of terms up to which a sum is built as a chain of additions
_LONGEST_CHAIN = 64


@lean(frozen=True, slots=True)
class Affine:
    """A sum of terms with coefficients, in order of appearance, plus a constant. No term is itself a sum.

    Coefficients and constant are in the signed range of `dtype`'s width, even if `dtype` is unsigned, and no
    coefficient is 0, except in the difference that `gap` bounds.
    """

    dtype: DType
    terms: tuple[tuple[Expr, int], ...] = ()
    constant: int = 0

    def plus(self, other: Affine, factor: int = 1) -> Affine:
        """Return self + factor * other."""
        return affine_sum(((self, 1), (other, factor)), self.dtype)

    def times(self, factor: int) -> Affine:
        if factor == 1:
            return self
        return _normalized(self.dtype, [(t, c * factor) for t, c in self.terms], self.constant * factor)

    def bounds(self) -> Bounds:
        """Return bounds of the mathematical sum, before wrapping around, each None if unknown."""
        low: int | None = self.constant
        high: int | None = self.constant
        for term, coefficient in self.terms:
            if coefficient == 0:
                continue
            least, most = bounds(term) if coefficient > 0 else bounds(term)[::-1]
            low = None if low is None or least is None else low + least * coefficient
            high = None if high is None or most is None else high + most * coefficient
        return low, high

    def gap(self, other: Affine) -> Bounds:
        """Return bounds of the difference `self` - `other`, before wrapping around; equal terms cancel."""
        if not other.terms:
            return Affine(self.dtype, self.terms, self.constant - other.constant).bounds()
        if len(self.terms) == len(other.terms) == 1 and type(self.terms[0][0]) is not type(other.terms[0][0]):
            # the usual case, two distinct terms: a dictionary would hash both, which is slow for large terms
            ((term, factor),) = other.terms
            return Affine(self.dtype, (*self.terms, (term, -factor)), self.constant - other.constant).bounds()
        coefficients = dict(self.terms)
        _add(coefficients, other.terms, -1)
        return Affine(self.dtype, tuple(coefficients.items()), self.constant - other.constant).bounds()

    @property
    def is_exact(self) -> bool:
        """True if the sum provably doesn't wrap around, or, as an int64 sum without data, is assumed not to."""
        if self.dtype is int64 and not is_large(self.constant):
            for term, coefficient in self.terms:
                if is_large(coefficient) or is_data(term):
                    break
            else:
                return True
        return fits(self.bounds(), self.dtype)

    def split(self, divisor: int) -> tuple[Affine, Affine]:
        """Return (q, r) such that self = divisor * q + r, and r.constant, modulo 2**bits, is less than `divisor`."""
        quotient = tuple([(t, c // divisor) for t, c in self.terms if c % divisor == 0])
        if not quotient and 0 <= self.constant < divisor:
            return Affine(self.dtype), self
        remainder = tuple([(t, c) for t, c in self.terms if c % divisor != 0])
        constant = _signed(self.constant % divisor, self.dtype.bits)
        return Affine(self.dtype, quotient, self.constant // divisor), Affine(self.dtype, remainder, constant)

    def apart(self, divisor: int) -> tuple[Affine, Affine]:
        """Return (multiples, rest), whose sum is self; each summand of `multiples` is provably divisible by `divisor`.

        The constant of `rest`, modulo 2**bits, is less than `divisor`.
        """
        multiples: list[tuple[Expr, int]] = []
        others: list[tuple[Expr, int]] = []
        for term, coefficient in self.terms:
            (others if multiple_of(term) * coefficient % divisor else multiples).append((term, coefficient))
        remainder = self.constant % divisor
        bits = self.dtype.bits
        return (
            Affine(self.dtype, tuple(multiples), _signed(self.constant - remainder, bits)),
            Affine(self.dtype, tuple(others), _signed(remainder, bits)),
        )

    def expr(self) -> Expr:
        """Return the sum as an expression: positive terms first, the constant last."""
        if not self.terms:
            return integer(self.constant, self.dtype)
        if self.constant == 0 and len(self.terms) == 1 and self.terms[0][1] == 1:
            return self.terms[0][0]
        return _expr(self)


def affine_sum(parts: Iterable[tuple[Affine, int]], dtype: DType) -> Affine:
    """Return the sum of factor * part over the pairs (part, factor)."""
    constant = 0
    moving: list[tuple[Affine, int]] = []
    for part, factor in parts:
        constant += factor * part.constant
        if part.terms:
            moving.append((part, factor))
    if len(moving) == 1:
        # nothing to merge; a dictionary would hash the terms, which is slow for large terms
        ((only, factor),) = moving
        if constant == factor * only.constant:
            return only.times(factor)
        return _normalized(dtype, [(term, c * factor) for term, c in only.terms], constant)
    coefficients: dict[Expr, int] = {}
    for part, factor in moving:
        _add(coefficients, part.terms, factor)
    return _normalized(dtype, coefficients.items(), constant)


def _add(coefficients: dict[Expr, int], terms: Iterable[tuple[Expr, int]], factor: int) -> None:
    for term, coefficient in terms:
        # one lookup in the common case of a new term, as hashing is slow for large terms
        count, scaled = len(coefficients), factor * coefficient
        there = coefficients.setdefault(term, scaled)
        if len(coefficients) == count:
            coefficients[term] = there + scaled


def _normalized(dtype: DType, terms: Iterable[tuple[Expr, int]], constant: int) -> Affine:
    bits, half = dtype.bits, 1 << (dtype.bits - 1)
    kept = [(t, w) for t, c in terms if (w := c if -half <= c < half else _signed(c, bits)) != 0]
    return Affine(dtype, tuple(kept), constant if -half <= constant < half else _signed(constant, bits))


def _signed(value: int, bits: int) -> int:
    half = 1 << (bits - 1)
    return value if -half <= value < half else ((value + half) & ((1 << bits) - 1)) - half


def _expr(form: Affine) -> Expr:
    total: Expr | None = None
    negative: list[tuple[Expr, int]] = []
    for term, coefficient in form.terms if len(form.terms) <= _LONGEST_CHAIN else _trees(form):
        if coefficient < 0:
            negative.append((term, coefficient))
        else:
            total = _joined(total, term, coefficient, form.dtype)
    for term, coefficient in negative:
        total = _joined(total, term, coefficient, form.dtype)
    assert total is not None
    if form.constant:
        total = operation("add", (total, integer(form.constant, form.dtype)), form.dtype)
    if not negative or form.terms[-len(negative) :] == tuple(negative):
        # the terms of `total` are in the same order
        _forms[id(total)] = total, form
    return total


def _trees(form: Affine) -> list[tuple[Expr, int]]:
    """Return a long sum as at most two terms, trees of logarithmic depth, because traversals of expressions recurse."""
    terms = {sign: [_scaled(t, c * sign, form.dtype) for t, c in form.terms if c * sign > 0] for sign in (1, -1)}
    return [(_balanced(scaled, form.dtype), sign) for sign, scaled in terms.items() if scaled]


def _balanced(terms: list[Expr], dtype: DType) -> Expr:
    while len(terms) > 1:
        pairs, left_over = zip(terms[::2], terms[1::2], strict=False), terms[len(terms) & ~1 :]
        terms = [*[operation("add", pair, dtype) for pair in pairs], *left_over]
    return terms[0]


def _scaled(term: Expr, size: int, dtype: DType) -> Expr:
    return term if size == 1 else operation("mul", (term, integer(size, dtype)), dtype)


def _joined(total: Expr | None, term: Expr, coefficient: int, dtype: DType) -> Expr:
    if total is None and coefficient == -1:
        return operation("neg", (term,), dtype)
    size = coefficient if total is None else abs(coefficient)
    scaled = _scaled(term, size, dtype)
    if total is None:
        return scaled
    return operation("add" if coefficient > 0 else "sub", (total, scaled), dtype)


#: id of an expression -> the expression and its form
_forms: dict[int, tuple[Expr, Affine]] = forgotten({})


def _affine(expr: Expr) -> Affine:
    """Return the affine form of an integer expression."""
    if isinstance(expr, Const):
        return Affine(expr.dtype, (), _signed(int(expr.value), expr.dtype.bits))
    if isinstance(expr, Cast):
        return _of_cast(expr)
    if not isinstance(expr, Op) or expr.name not in _SUMS:
        return Affine(expr.dtype, ((expr, 1),))
    parts = [affine(a) for a in expr.args]
    if expr.name == "add":
        return parts[0].plus(parts[1])
    if expr.name == "sub":
        return parts[0].plus(parts[1], -1)
    if expr.name == "neg":
        return parts[0].times(-1)
    if expr.name == "left_shift":
        return _of_shift(expr, parts)
    return product(parts[0], parts[1]) or Affine(expr.dtype, ((expr, 1),))


affine = memoized(_affine, LIMIT, _forms)

_SUMS = frozenset(("add", "sub", "neg", "mul", "left_shift"))


def product(a: Affine, b: Affine) -> Affine | None:
    """Return a * b, or None if neither is a constant."""
    if not b.terms:
        return a.times(b.constant)
    return None if a.terms else b.times(a.constant)


def _of_shift(expr: Op, parts: list[Affine]) -> Affine:
    if parts[1].terms or not 0 <= parts[1].constant < expr.dtype.bits:
        return Affine(expr.dtype, ((expr, 1),))
    return parts[0].times(2 ** parts[1].constant)


def _of_cast(cast: Cast) -> Affine:
    """Return the form of a cast: between integers, the sum of the terms' casts, unless it widens a sum that may wrap.

    Addition commutes with a conversion to the same or a smaller width, modulo 2**bits. Widening preserves the value, so
    the sum mustn't have wrapped around. A cast of any other kind is itself a term.
    """
    source = cast.x.dtype
    if not source.is_integer or not cast.dtype.is_integer:
        return Affine(cast.dtype, ((cast, 1),))
    inner = affine(cast.x)
    if cast.dtype.bits > source.bits and not inner.is_exact:
        return Affine(cast.dtype, ((cast, 1),))
    if inner.terms == ((cast.x, 1),) and inner.constant == 0:
        return _of_atom(cast.x, cast.dtype) if isinstance(cast.x, Cast) else Affine(cast.dtype, ((cast, 1),))
    parts = [(_of_atom(term, cast.dtype), coefficient) for term, coefficient in inner.terms]
    return affine_sum([*parts, (Affine(cast.dtype, (), 1), inner.constant)], cast.dtype)


def _of_atom(term: Expr, dtype: DType) -> Affine:
    """Return the form of a converted term, without an inner cast that doesn't affect the result."""
    if term.dtype == dtype:
        return Affine(dtype, ((term, 1),))
    if isinstance(term, Cast) and term.x.dtype.is_integer and _undone(term, dtype):
        return affine(Cast(term.x, dtype)) if term.x.dtype != dtype else affine(term.x)
    return Affine(dtype, ((Cast(term, dtype), 1),))


def _undone(inner: Cast, dtype: DType) -> bool:
    """True if casting `inner` to `dtype` equals casting `inner.x`: the inner cast loses no bit that `dtype` keeps."""
    return inner.x.dtype != bool_ and (dtype.bits <= inner.dtype.bits or keeps_value(inner))


def decided(name: str, x: Expr, y: Expr) -> bool | None:
    """Return the result of comparison `name` if x and y are integers and facts determine the result, else None."""
    if not x.dtype.is_integer:
        return None
    if name in ("greater", "less_equal"):
        return decided("less" if name == "greater" else "greater_equal", y, x)
    gap = difference(bounds(x), bounds(y))
    answer = _by_gap(name, *gap)
    return _by_gap(name, *_gap_of_terms(x, y, gap)) if answer is None else answer


def _gap_of_terms(x: Expr, y: Expr, gap: Bounds) -> Bounds:
    """Return `gap`, the difference of the bounds, narrowed by cancelling common terms if neither sum wraps around."""
    if isinstance(x, LEAVES) and isinstance(y, LEAVES):
        return (0, 0) if x == y else gap
    first, second = affine(x), affine(y)
    if first == second:
        return 0, 0
    if not (first.is_exact and second.is_exact):
        return gap
    (low, high), by_terms = gap, first.gap(second)
    return (
        max([g for g in (low, by_terms[0]) if g is not None], default=None),
        min([g for g in (high, by_terms[1]) if g is not None], default=None),
    )


def _by_gap(name: str, low: int | None, high: int | None) -> bool | None:
    """Return the result of comparing x with y, given bounds of x - y, or None if these don't determine it.

    name: "less" or "equal", or the opposite of one of these.
    """
    if name in ("less", "greater_equal"):
        answer = True if high is not None and high < 0 else False if low is not None and low >= 0 else None
    else:
        apart = (low is not None and low > 0) or (high is not None and high < 0)
        answer = False if apart else True if low == 0 and high == 0 else None
    return answer if answer is None or name in ("less", "equal") else not answer
