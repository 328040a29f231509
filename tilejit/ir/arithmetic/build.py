"""Constructors of expressions, which fold constants and produce a canonical form.

Arithmetic on indices uses them. Integer +, - and * become a sum of products with the constant last (see `affine`).
Comparisons, minima and maxima are replaced by their result if facts determine it. A Python number becomes a constant of
the other operand's type (of int32, if an int is combined with bool_); integers of two types are converted by `promote`.
Integer constants wrap around like values of their type. Simplifications that are valid only without overflow are
applied if overflow is disproved or assumed absent (see `facts`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from functools import lru_cache, partial, wraps

import numpy as np

from ...dtypes import DType, bool_, int32, promote
from ...errors import KernelTypeError
from ...ops.cast import convert
from ...ops.elementwise import ELEMENTWISE, result_type
from ...remember import LIMIT, remembered_pair
from ..nodes import FALSE, TRUE, Cast, Const, Expr, Op
from .affine import affine, affine_sum, decided, product
from .facts import bounds, full_range, multiple_of
from .intern import integer, operation, wrap

#: includes bool, a subclass of int
_NUMBER = (int, float)
ExprLike = Expr | bool | int | float


def const(value: bool | int | float, dtype: DType) -> Const:
    """Return `value` as a constant of `dtype`: integers wrap around, floats are rounded."""
    if dtype == bool_:
        return TRUE if value else FALSE
    if not dtype.is_float:
        return integer(int(value), dtype)
    # a cache would confuse -0.0 with 0.0, so floats aren't cached
    return _rounded_whole(value, dtype) if type(value) is int else _rounded(value, dtype)


def _rounded(value: float, dtype: DType) -> Const:
    exact = isinstance(value, int) and -(2**63) <= value < 2**63
    return Const(float(convert(np.asarray(value, dtype=np.int64 if exact else np.float64), dtype)), dtype)


_rounded_whole = lru_cache(LIMIT)(_rounded)


def difference(a: ExprLike, b: ExprLike) -> int | None:
    """Return the constant by which `a` exceeds `b`; None if they aren't integers with a provably constant difference.

    The constant is modulo 2**bits: if an operand overflows, the mathematical difference may be different.
    """
    x, y = _pair(a, b)
    if not x.dtype.is_integer:
        return None
    excess = affine(x).plus(affine(y), -1)
    return None if excess.terms else excess.constant


def op(name: str, *args: Expr) -> Expr:
    """Return operation `name`, with arguments and result converted to the types that its type rule requires.

    raises: KernelTypeError if the operation doesn't accept arguments of these types.
    """
    dtypes = tuple([a.dtype for a in args])
    rule = result_type(name, dtypes)
    if isinstance(rule, str):
        raise KernelTypeError(rule, hint=ELEMENTWISE[name].remedy(dtypes))
    compute, result = rule
    if dtypes.count(compute) < len(dtypes):
        conditions = ELEMENTWISE[name].conditions
        args = (*args[:conditions], *[a if a.dtype is compute else cast(a, compute) for a in args[conditions:]])
    value = apply(name, args)
    return value if value.dtype is result else cast(value, result)


def apply(name: str, args: tuple[Expr, ...]) -> Expr:
    """Return the operation, simplified, on arguments of the type in which it computes."""
    if {Const}.issuperset(map(type, args)):
        folded = _folded(name, args)
        if folded is not None:
            return folded
    if args[0].dtype.is_float:
        # float operations are simplified only if all operands are constant
        return _plain(name, args)
    constructor = _CONSTRUCTORS.get(name)
    return constructor(*args) if constructor is not None else _plain(name, args)


def _plain(name: str, args: tuple[Expr, ...]) -> Op:
    return operation(name, args, ELEMENTWISE[name].value_type(args[-1].dtype))


def _folded(name: str, args: tuple[Expr, ...]) -> Const | None:
    """Return the constant result of an operation; None if an argument isn't constant, or a GPU's result may differ."""
    for a in args:
        if not isinstance(a, Const):
            return None
    if not ELEMENTWISE[name].folds(args[0].dtype):
        return None
    values = [np.asarray(a.value, dtype=a.dtype.numpy) for a in args if isinstance(a, Const)]
    with np.errstate(all="ignore"):
        value = np.asarray(ELEMENTWISE[name].formula(*values))
    return const(value.item(), ELEMENTWISE[name].value_type(args[-1].dtype))


def _folded_or_plain(name: str, *args: Expr) -> Expr:
    return _folded(name, args) or _plain(name, args)


def _pair(a: ExprLike, b: ExprLike) -> tuple[Expr, Expr]:
    if isinstance(a, _NUMBER):
        if isinstance(b, _NUMBER):
            raise TypeError(f"at least one of {a!r} and {b!r} must be an expression")
        a = _weak(a, b.dtype)
    elif isinstance(b, _NUMBER):
        b = _weak(b, a.dtype)
    if a.dtype is b.dtype:
        return a, b
    if a.dtype.is_float or b.dtype.is_float:
        raise TypeError(f"the operands have types {a.dtype} and {b.dtype}; cast one")
    common = promote(a.dtype, b.dtype)
    return cast(a, common), cast(b, common)


def _weak(value: bool | int | float, dtype: DType) -> Const:
    """Return a Python number as a constant that can be combined with an expression of `dtype`."""
    if dtype.is_integer and not isinstance(value, float):
        return integer(int(value), dtype)
    if isinstance(value, float) and not dtype.is_float:
        raise TypeError(f"the operands are {value!r} and an expression of {dtype}; cast one")
    return const(value, int32 if dtype == bool_ and not isinstance(value, bool) else dtype)


def _constructor(function: Callable[[Expr, Expr], Expr]) -> Callable[[ExprLike, ExprLike], Expr]:
    """Return a memoized constructor of an operation, given a function of the same name that simplifies it."""
    return wraps(function)(_of_two(function.__name__, function))


def _of_two(name: str, function: Callable[[Expr, Expr], Expr]) -> Callable[[ExprLike, ExprLike], Expr]:
    """Return a memoized constructor of operation `name`, given a function that simplifies it.

    The constructor accepts Python numbers and operands of two types, which it converts to the type of the computation.
    """
    takes_bools = ELEMENTWISE[name].kind not in ("arithmetic", "exact", "shift")
    made = remembered_pair(function)

    def constructor(a: ExprLike, b: ExprLike) -> Expr:
        if isinstance(a, _NUMBER):
            a, b = _pair(a, b)
        elif type(b) is int and a.dtype.is_integer:
            # the most frequent case
            b = integer(b, a.dtype)
        elif isinstance(b, _NUMBER) or a.dtype is not b.dtype:
            a, b = _pair(a, b)
        if a.dtype is bool_ and not takes_bools:
            a, b = cast(a, int32), cast(b, int32)
        return made(a, b)

    return constructor


@_constructor
def add(x: Expr, y: Expr) -> Expr:
    """Return x + y."""
    if x.dtype.is_float:
        return _folded_or_plain("add", x, y)
    if isinstance(y, Const):
        if y.value == 0:
            return x
        if isinstance(x, Const):
            return integer(int(x.value) + int(y.value), x.dtype)
    elif isinstance(x, Const) and x.value == 0:
        return y
    return affine(x).plus(affine(y)).expr()


@_constructor
def sub(x: Expr, y: Expr) -> Expr:
    """Return x - y."""
    if x.dtype.is_float:
        return _folded_or_plain("sub", x, y)
    return affine(x).plus(affine(y), -1).expr()


def total(terms: Iterable[Expr], dtype: DType) -> Expr:
    """Return the sum of terms of integer type `dtype`; 0 without terms."""
    return weighted_sum(((term, 1) for term in terms), dtype)


def weighted_sum(terms: Iterable[tuple[Expr, int]], dtype: DType) -> Expr:
    """Return the sum of term * factor over the pairs (term, factor), with terms of type `dtype`; 0 without terms."""
    forms = [(affine(term), factor) for term, factor in terms]
    return affine_sum(forms, dtype).expr() if forms else integer(0, dtype)


def apart(x: Expr, divisor: int) -> tuple[Expr, Expr]:
    """Split the integer `x` into two summands: the parts that are provably multiples of `divisor`, and the rest."""
    multiples, others = affine(x).apart(divisor)
    return multiples.expr(), others.expr()


def neg(a: Expr) -> Expr:
    """Return -a."""
    if a.dtype.is_float:
        return _folded_or_plain("neg", a)
    return affine(cast(a, int32) if a.dtype == bool_ else a).times(-1).expr()


@_constructor
def mul(x: Expr, y: Expr) -> Expr:
    """Return x * y."""
    if x.dtype.is_float:
        return _folded_or_plain("mul", x, y)
    if isinstance(x, Const):
        x, y = y, x
    if isinstance(y, Const):
        if y.value == 1:
            return x
        if isinstance(x, Const):
            return integer(int(x.value) * int(y.value), x.dtype)
    scaled = product(affine(x), affine(y))
    return _plain("mul", (x, y)) if scaled is None else scaled.expr()


@_constructor
def floordiv(x: Expr, y: Expr) -> Expr:
    """Return x // y, rounded down."""
    if x.dtype.is_float or not isinstance(y, Const) or y.value <= 0:
        return _folded_or_plain("floordiv", x, y)
    return _divided(x, int(y.value))


def _divided(x: Expr, by: int) -> Expr:
    if by == 1:
        return x
    if isinstance(x, Const):
        return integer(int(x.value) // by, x.dtype)
    form = affine(x)
    if not form.is_exact:
        return _quotient(x, by)
    quotient, remainder = form.split(by)
    if not quotient.terms and quotient.constant == 0:
        return _quotient(remainder.expr(), by)
    if not remainder.is_exact:
        return _quotient(x, by)
    return quotient.plus(affine(_quotient(remainder.expr(), by))).expr()


def _quotient(x: Expr, by: int) -> Expr:
    """Return x // by as a constant if the bounds of x determine it, else as one division."""
    low, high = bounds(x)
    if low is not None and high is not None and low // by == high // by:
        return const(low // by, x.dtype)
    inner = x.args[1] if isinstance(x, Op) and x.name == "floordiv" else None
    if isinstance(x, Op) and isinstance(inner, Const) and inner.value > 0:
        both = int(inner.value) * by
        if both == wrap(both, x.dtype):
            return _plain("floordiv", (x.args[0], const(both, x.dtype)))
    return _plain("floordiv", (x, const(by, x.dtype)))


@_constructor
def mod(x: Expr, y: Expr) -> Expr:
    """Return x % y, with the sign of y."""
    if x.dtype.is_float or not isinstance(y, Const) or y.value <= 0:
        return _folded_or_plain("mod", x, y)
    by = int(y.value)
    if isinstance(x, Const):
        return const(x.value % by, x.dtype)
    if multiple_of(x) % by == 0:
        return const(0, x.dtype)
    form = affine(x)
    remainder = form.split(by)[1]
    # a power of two divides 2**bits, so wrapping around doesn't change the remainder
    if by & (by - 1) == 0 or (form.is_exact and remainder.is_exact):
        x = remainder.expr()
    low, high = bounds(x)
    if low is not None and high is not None and low >= 0 and high < by:
        return x
    return _plain("mod", (x, y))


def _extreme(name: str, x: Expr, y: Expr) -> Expr:
    folded = _folded(name, (x, y))
    if folded is not None or x.dtype.is_float:
        return folded or _plain(name, (x, y))
    first, second = ("less_equal", "greater_equal") if name == "minimum" else ("greater_equal", "less_equal")
    if decided(first, x, y):
        return x
    if decided(second, x, y):
        return y
    return _plain(name, (y, x) if isinstance(x, Const) else (x, y))


minimum = _of_two("minimum", partial(_extreme, "minimum"))
maximum = _of_two("maximum", partial(_extreme, "maximum"))


@_constructor
def bitwise_and(x: Expr, y: Expr) -> Expr:
    """Return x & y."""
    folded = _folded("bitwise_and", (x, y))
    if folded is not None:
        return folded
    if isinstance(x, Const):
        x, y = y, x
    if x == y:
        return x
    if not isinstance(y, Const):
        return _plain("bitwise_and", (x, y))
    mask = int(y.value)
    low, high = bounds(x)
    if mask == 0 or mask == -1 or (x.dtype == bool_ and mask == 1):
        return y if mask == 0 else x
    if mask > 0 and mask & (mask + 1) == 0:
        rest = apart(x, mask + 1)[1]
        if isinstance(rest, Const):
            return rest
    within = mask & (mask + 1) == 0 and low is not None and high is not None and low >= 0 and high <= mask
    return x if within else _plain("bitwise_and", (x, y))


def _or_xor(name: str, x: Expr, y: Expr) -> Expr:
    folded = _folded(name, (x, y))
    if folded is not None:
        return folded
    if isinstance(x, Const):
        x, y = y, x
    if x == y:
        return x if name == "bitwise_or" else const(0, x.dtype)
    return x if isinstance(y, Const) and y.value == 0 else _plain(name, (x, y))


bitwise_or = _of_two("bitwise_or", partial(_or_xor, "bitwise_or"))
bitwise_xor = _of_two("bitwise_xor", partial(_or_xor, "bitwise_xor"))


def bitwise_not(a: Expr) -> Expr:
    """Return ~a."""
    return _folded_or_plain("bitwise_not", a)


@_constructor
def left_shift(x: Expr, y: Expr) -> Expr:
    """Return x << y."""
    return _folded("left_shift", (x, y)) or affine(_plain("left_shift", (x, y))).expr()


@_constructor
def right_shift(x: Expr, y: Expr) -> Expr:
    """Return x >> y, an arithmetic shift for signed types."""
    if isinstance(y, Const) and y.value == 0:
        return x
    return _folded_or_plain("right_shift", x, y)


def _compared(name: str, x: Expr, y: Expr) -> Expr:
    answer = decided(name, x, y)
    if answer is not None:
        return TRUE if answer else FALSE
    return _folded_or_plain(name, x, y)


less, less_equal, greater, greater_equal, equal, not_equal = (
    _of_two(name, partial(_compared, name))
    for name in ("less", "less_equal", "greater", "greater_equal", "equal", "not_equal")
)


def logical_and(a: ExprLike, b: ExprLike) -> Expr:
    """Return the conjunction of a and b, each converted to bool_."""
    if a is TRUE and not isinstance(b, _NUMBER) and b.dtype is bool_:
        # the initial value of most conjunctions
        return b
    x, y = _truth(a), _truth(b)
    if isinstance(x, Const):
        return y if x.value else FALSE
    if isinstance(y, Const):
        return x if y.value else FALSE
    return x if x == y else _plain("logical_and", (x, y))


def logical_or(a: ExprLike, b: ExprLike) -> Expr:
    """Return the disjunction of a and b, each converted to bool_."""
    x, y = _truth(a), _truth(b)
    if isinstance(x, Const):
        return TRUE if x.value else y
    if isinstance(y, Const):
        return TRUE if y.value else x
    return x if x == y else _plain("logical_or", (x, y))


def logical_not(a: ExprLike) -> Expr:
    """Return the negation of a, converted to bool_."""
    x = _truth(a)
    if isinstance(x, Const):
        return Const(not x.value, bool_)
    if not isinstance(x, Op):
        return _plain("logical_not", (x,))
    if x.name == "logical_not":
        return x.args[0]
    # with a NaN operand, an ordering comparison of floats and its opposite are both false
    if x.name in ("equal", "not_equal") or (x.name in _OPPOSITE and not x.args[0].dtype.is_float):
        return Op(_OPPOSITE[x.name], x.args, bool_)
    return _plain("logical_not", (x,))


_OPPOSITE = {
    "less": "greater_equal", "greater_equal": "less", "greater": "less_equal", "less_equal": "greater",
    "equal": "not_equal", "not_equal": "equal",
}


def _truth(a: ExprLike) -> Expr:
    if isinstance(a, _NUMBER):
        return const(a, bool_)
    return a if a.dtype is bool_ else cast(a, bool_)


def where(cond: ExprLike, a: ExprLike, b: ExprLike) -> Expr:
    """Return a if the condition is true, else b."""
    test = _truth(cond)
    x, y = _pair(a, b)
    if isinstance(test, Const):
        return x if test.value else y
    # like other float operations, it isn't simplified if the operands are equal
    if x == y and not x.dtype.is_float:
        return x
    return _plain("where", (test, x, y))


def cast(x: Expr, dtype: DType, saturate: bool = True) -> Expr:
    """Return `x` converted to `dtype`, simplified if possible.

    saturate: for conversions to fp8, as in `Cast`.
    """
    if x.dtype == dtype:
        return x
    if isinstance(x, Const):
        return _cast_const(x, dtype, saturate)
    if x.dtype.is_integer and dtype.is_integer:
        return _converted(x, dtype)
    if isinstance(x, Cast) and x.x.dtype == dtype and _holds(x.dtype, dtype):
        return x.x
    return Cast(x, dtype, saturate or not dtype.is_fp8)


@remembered_pair
def _converted(x: Expr, dtype: DType) -> Expr:
    converted = Cast(x, dtype)
    return affine(converted).expr() if isinstance(x, (Op, Cast)) else converted


def _cast_const(x: Const, dtype: DType, saturate: bool) -> Expr:
    if not x.dtype.is_float or dtype == bool_:
        return const(x.value, dtype)
    if dtype.is_float:
        return Const(float(convert(np.asarray(x.value, dtype=x.dtype.numpy), dtype, saturate)), dtype)
    low, high = full_range(dtype)
    in_range = math.isfinite(x.value) and low <= math.trunc(x.value) <= high
    return Const(math.trunc(x.value), dtype) if in_range else Cast(x, dtype)


def _holds(wide: DType, narrow: DType) -> bool:
    """True if every value of `narrow` is known to survive a conversion to `wide` and back."""
    if narrow == bool_:
        return not wide.is_fp8
    if narrow.is_float and wide.is_float:
        return wide.bits > narrow.bits
    return False


#: operation -> constructor, for arguments of the type in which it computes
_CONSTRUCTORS: dict[str, Callable[..., Expr]] = {
    "add": add, "sub": sub, "neg": neg, "mul": mul, "floordiv": floordiv, "mod": mod, "minimum": minimum,
    "maximum": maximum, "bitwise_and": bitwise_and, "bitwise_or": bitwise_or, "bitwise_xor": bitwise_xor,
    "left_shift": left_shift, "right_shift": right_shift,
    "less": less, "less_equal": less_equal, "greater": greater, "greater_equal": greater_equal, "equal": equal,
    "not_equal": not_equal,
    "logical_and": logical_and, "logical_or": logical_or, "logical_not": logical_not, "where": where,
}
