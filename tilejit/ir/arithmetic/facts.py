"""Facts about the value of an integer expression: a divisor, and bounds.

Facts come from `Var`, `Special`, `Const` and types, and propagate through `Op` and `Cast`. They hold for every value
that the expression can have, under one assumption: int64 arithmetic on the inputs of indices (ids, extents, strides,
and loop variables that range over them) doesn't overflow. Arithmetic on data (see `is_data`) or in another type may
wrap around, so a rule that requires the absence of overflow applies to it only if bounds prove the absence.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from math import gcd

from ...dtypes import DType, bool_, int64
from ...remember import remembered
from ..nodes import SPECIALS, Cast, Const, Expr, Load, Op, Special, Var

Bounds = tuple[int | None, int | None]

UNKNOWN: Bounds = (None, None)


def dtype_range(dtype: DType) -> Bounds:
    """Return the bounds of a type: None for int64's lower bound, 64-bit types' upper bound, and a float's bounds."""
    if dtype.is_float:
        return UNKNOWN
    low, high = full_range(dtype)
    return (None if low == -(2**63) else low), (None if dtype.bits == 64 else high)


@cache
def full_range(dtype: DType) -> tuple[int, int]:
    """Return the least and greatest values of an integer type or bool_."""
    if dtype == bool_:
        return 0, 1
    if dtype.kind == "uint":
        return 0, 2**dtype.bits - 1
    return -(2 ** (dtype.bits - 1)), 2 ** (dtype.bits - 1) - 1


def fits(ends: Bounds, dtype: DType) -> bool:
    """True if a result with these bounds, before wrapping around, provably fits `dtype`."""
    least, greatest = full_range(dtype)
    return ends[0] is not None and ends[1] is not None and least <= ends[0] and ends[1] <= greatest


_LARGE = 1 << 40


@remembered
def is_data(expr: Expr) -> bool:
    """True if int64 arithmetic on an integer expression may overflow, because a part of the expression is data.

    Loads are data, as are float constants, variables with `Var.data`, and variables of types other than int64 with wide
    or unknown bounds. Values that are implausible in an index are data, too: large constants, such as the factors of
    hashes, and int64 results of `^` and of `<<` by a variable amount. Operands of type bool_ don't count.
    """
    if isinstance(expr, Op):
        if expr.dtype is int64 and (
            expr.name == "bitwise_xor" or (expr.name == "left_shift" and not isinstance(expr.args[1], Const))
        ):
            return True
        # a loop, because a generator expression adds a call per argument
        for arg in expr.args:
            if arg.dtype is not bool_ and is_data(arg):
                return True
        return False
    if isinstance(expr, Cast):
        return expr.x.dtype is not bool_ and is_data(expr.x)
    if isinstance(expr, Var):
        return expr.data or (expr.dtype is not int64 and _is_wide(expr.bounds, expr.dtype))
    if isinstance(expr, Const):
        return expr.dtype.is_float or is_large(int(expr.value))
    return isinstance(expr, Load)


def is_large(number: int) -> bool:
    """True if a number is implausibly large in magnitude for an extent, a stride or a distance between elements."""
    return not -_LARGE < number < _LARGE


def flagged(value: Expr, bounds: tuple[int, int] | None) -> bool:
    """Return the value of `Var.data` for a variable with these bounds that is set to `value`."""
    return (value.dtype is int64 or not _is_wide(bounds, value.dtype)) and is_data(value)


def _is_wide(bounds: tuple[int, int] | None, dtype: DType) -> bool:
    """True if a variable's bounds are unknown, or span at least a quarter of its type's range."""
    return bounds is None or bounds[1] - bounds[0] >> dtype.bits - 2 > 0


def keeps_value(cast: Cast) -> bool:
    """True if a cast provably preserves every value; False for casts from or to a float."""
    if cast.x.dtype.is_float or cast.dtype.is_float:
        return False
    low, high = bounds(cast.x)
    least, greatest = full_range(cast.x.dtype)
    return fits((least if low is None else low, greatest if high is None else high), cast.dtype)


@remembered
def bounds(expr: Expr) -> Bounds:
    """Return inclusive bounds of `expr`, each None if unknown; those of bool_ are within 0..1."""
    dtype = expr.dtype
    if dtype.is_float:
        return UNKNOWN
    if isinstance(expr, Op):
        return _op_bounds(expr)
    if isinstance(expr, Cast):
        return bounds(expr.x) if keeps_value(expr) else dtype_range(expr.dtype)
    if isinstance(expr, Const):
        return int(expr.value), int(expr.value)
    if isinstance(expr, Var):
        return expr.bounds if expr.bounds is not None else dtype_range(expr.dtype)
    if isinstance(expr, Special):
        return SPECIALS[expr.name].least, SPECIALS[expr.name].greatest
    return dtype_range(dtype)


def _op_bounds(op: Op) -> Bounds:
    of_result, dtype = _BOUNDS.get(op.name), op.dtype
    if of_result is None:
        return dtype_range(dtype)
    of_values: list[Bounds] = []
    for value in op.args[1:] if op.name == "where" else op.args:
        if value.dtype is not dtype:
            return dtype_range(dtype)
        of_values.append(bounds(value))
    ends = of_result(*of_values)
    if dtype is int64 and (op.name not in _MAY_WRAP or not is_data(op)):
        return _in_range(ends, dtype)
    return ends if fits(ends, dtype) else dtype_range(dtype)


def _in_range(ends: Bounds, dtype: DType) -> Bounds:
    least, greatest = full_range(dtype)
    low = None if ends[0] is None or ends[0] < least else ends[0]
    return low, (None if ends[1] is None or ends[1] > greatest else ends[1])


def _add(a: Bounds, b: Bounds) -> Bounds:
    low = None if a[0] is None or b[0] is None else a[0] + b[0]
    high = None if a[1] is None or b[1] is None else a[1] + b[1]
    return low, high


def _neg(a: Bounds) -> Bounds:
    return (None if a[1] is None else -a[1]), (None if a[0] is None else -a[0])


def difference(a: Bounds, b: Bounds) -> Bounds:
    """Return the bounds of a difference, before wrapping around."""
    return _add(a, _neg(b))


def _mul(a: Bounds, b: Bounds) -> Bounds:
    if a == (0, 0) or b == (0, 0):
        return 0, 0
    if a[0] is not None and a[1] is not None and b[0] is not None and b[1] is not None:
        corners = [x * y for x in (a[0], a[1]) for y in (b[0], b[1])]
        return min(corners), max(corners)
    for scaled, by in ((a, b), (b, a)):
        if by[0] is not None and by[0] == by[1]:
            ends = (None if scaled[0] is None else scaled[0] * by[0], None if scaled[1] is None else scaled[1] * by[0])
            return ends if by[0] >= 0 else (ends[1], ends[0])
    if a[0] is not None and b[0] is not None and a[0] >= 0 and b[0] >= 0:
        return a[0] * b[0], None
    return UNKNOWN


def _floordiv(a: Bounds, b: Bounds) -> Bounds:
    if b[0] == 0 and a[0] is not None and a[0] >= 0:
        # the quotient by 0 is 0, as in NumPy
        return 0, a[1]
    if b[0] is None or b[0] <= 0:
        return UNKNOWN
    divisors = [b[0]] if b[1] is None else [b[0], b[1]]
    low = None if a[0] is None else min(a[0] // d for d in divisors)
    high = None if a[1] is None else max(a[1] // d for d in divisors)
    if b[1] is None:
        # as the divisor grows, the quotient approaches 0, or -1 if the dividend is negative
        low = None if low is None else min(low, 0)
        high = None if high is None else max(high, -1)
    return low, high


def _mod(a: Bounds, b: Bounds) -> Bounds:
    if b[0] == 0 and a[0] is not None and a[0] >= 0:
        return 0, _least(None if b[1] is None else max(b[1] - 1, 0), a[1])
    if b[0] is None or b[0] <= 0:
        return UNKNOWN
    greatest = None if b[1] is None else b[1] - 1
    if a[0] is None or a[0] < 0:
        return 0, greatest
    if a[1] is not None and a[1] < b[0]:
        return a
    return 0, _least(greatest, a[1])


def _least(a: int | None, b: int | None) -> int | None:
    numbers = [x for x in (a, b) if x is not None]
    return min(numbers) if numbers else None


def _greatest(a: int | None, b: int | None) -> int | None:
    numbers = [x for x in (a, b) if x is not None]
    return max(numbers) if numbers else None


def _minimum(a: Bounds, b: Bounds) -> Bounds:
    return (None if a[0] is None or b[0] is None else min(a[0], b[0])), _least(a[1], b[1])


def _maximum(a: Bounds, b: Bounds) -> Bounds:
    return _greatest(a[0], b[0]), (None if a[1] is None or b[1] is None else max(a[1], b[1]))


def _either(a: Bounds, b: Bounds) -> Bounds:
    low = None if a[0] is None or b[0] is None else min(a[0], b[0])
    high = None if a[1] is None or b[1] is None else max(a[1], b[1])
    return low, high


def _abs(a: Bounds) -> Bounds:
    if a[0] is not None and a[0] >= 0:
        return a
    return 0, _maximum(a, _neg(a))[1]


def _and(a: Bounds, b: Bounds) -> Bounds:
    above = [x[1] for x in (a, b) if x[0] is not None and x[0] >= 0 and x[1] is not None]
    if above:
        return 0, min(above)
    if any(x[0] is not None and x[0] >= 0 for x in (a, b)):
        return 0, None
    return UNKNOWN


def _or_xor(a: Bounds, b: Bounds) -> Bounds:
    if a[0] is None or b[0] is None or a[0] < 0 or b[0] < 0:
        return UNKNOWN
    if a[1] is None or b[1] is None:
        return 0, None
    return 0, 2 ** max(a[1].bit_length(), b[1].bit_length()) - 1


def _left_shift(a: Bounds, b: Bounds) -> Bounds:
    if b[0] is None or b[1] is None or b[0] < 0 or b[1] > 63:
        return UNKNOWN
    return _mul(a, (2 ** b[0], 2 ** b[1]))


def _right_shift(a: Bounds, b: Bounds) -> Bounds:
    if b[0] is None or b[0] < 0:
        return UNKNOWN
    most = 64 if b[1] is None else min(b[1], 64)
    return _floordiv(a, (2 ** min(b[0], 64), 2**most))


_BOUNDS: dict[str, Callable[..., Bounds]] = {
    "add": _add, "sub": difference, "mul": _mul, "neg": _neg, "abs": _abs,
    "relu": lambda a: _maximum(a, (0, 0)),
    "fma": lambda a, b, c: _add(_mul(a, b), c),
    "clamp": lambda x, low, high: _minimum(_maximum(x, low), high),
    "floordiv": _floordiv, "mod": _mod, "minimum": _minimum, "maximum": _maximum, "where": _either,
    "bitwise_and": _and, "bitwise_or": _or_xor, "bitwise_xor": _or_xor,
    "left_shift": _left_shift, "right_shift": _right_shift,
}


@remembered
def multiple_of(expr: Expr) -> int:
    """Return a divisor of every value of `expr`: 1 if nothing is known, 0 if the value is known to be zero."""
    if expr.dtype.is_float:
        return 1
    if isinstance(expr, Op):
        return _op_multiple(expr)
    if isinstance(expr, Cast):
        return _cast_multiple(expr)
    if isinstance(expr, Const):
        return abs(int(expr.value))
    return expr.multiple_of if isinstance(expr, Var) else 1


def power_of_two(number: int) -> int:
    """Return the greatest power of two that divides `number`; 0 for 0."""
    return number & -number


def _cast_multiple(cast: Cast) -> int:
    if cast.x.dtype.is_float or cast.dtype == bool_:
        return 1
    number = multiple_of(cast.x)
    return number if keeps_value(cast) else _wrapped(number, cast.dtype)


def _wrapped(number: int, dtype: DType) -> int:
    """Return a divisor of a value modulo 2**bits, given a divisor of the value."""
    return min(power_of_two(number), 1 << (dtype.bits - 1))


def _op_multiple(op: Op) -> int:
    values, dtype = op.args[1:] if op.name == "where" else op.args, op.dtype
    if dtype is bool_ or op.name not in _MULTIPLES:
        return 1
    for value in values:
        if value.dtype is not dtype:
            return 1
    divisor = _MULTIPLES[op.name](values)
    if op.name not in _MAY_WRAP or (dtype is int64 and not is_data(op)):
        return divisor
    wrapped = _wrapped(divisor, dtype)
    if wrapped == divisor:
        return divisor
    exact = _BOUNDS[op.name](*[bounds(v) for v in values])
    return divisor if fits(exact, dtype) else wrapped


def _common(values: tuple[Expr, ...]) -> int:
    return gcd(*map(multiple_of, values))


def _floordiv_multiple(values: tuple[Expr, ...]) -> int:
    number, divisor = multiple_of(values[0]), values[1]
    if not isinstance(divisor, Const) or divisor.value == 0:
        return 1
    by = abs(int(divisor.value))
    return number // by if number % by == 0 else 1


def _shift_multiple(values: tuple[Expr, ...], left: bool) -> int:
    number, by = multiple_of(values[0]), values[1]
    if not isinstance(by, Const) or not 0 <= int(by.value) < values[0].dtype.bits:
        return 1
    if left:
        return number << int(by.value)
    return number >> int(by.value) if number % (1 << int(by.value)) == 0 else 1


def _and_multiple(values: tuple[Expr, ...]) -> int:
    powers = [power_of_two(multiple_of(v)) for v in values]
    return 0 if 0 in powers else max(powers)


def _bit_multiple(values: tuple[Expr, ...]) -> int:
    return gcd(*(power_of_two(multiple_of(v)) for v in values))


_MAY_WRAP = ("abs", "add", "sub", "mul", "neg", "fma", "left_shift", "floordiv")

_MULTIPLES: dict[str, Callable[[tuple[Expr, ...]], int]] = {
    **dict.fromkeys(("add", "sub", "neg", "abs", "relu", "minimum", "maximum", "clamp", "where"), _common),
    # x % y is x - y * (x // y), so common divisors of x and y divide it
    "mod": _common,
    "mul": lambda v: multiple_of(v[0]) * multiple_of(v[1]),
    "fma": lambda v: gcd(multiple_of(v[0]) * multiple_of(v[1]), multiple_of(v[2])),
    "floordiv": _floordiv_multiple,

    "left_shift": lambda v: _shift_multiple(v, left=True),
    "right_shift": lambda v: _shift_multiple(v, left=False),
    "bitwise_and": _and_multiple,
    "bitwise_or": _bit_multiple,
    "bitwise_xor": _bit_multiple,
}
