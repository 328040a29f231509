"""Quotients, remainders and rounding to integers.

Integer results are NumPy's where the hardware or LLVM leaves them undefined. For floats, the remainder of truncated
division is exact, however large the quotient; that of floored division is derived from it, and rounded at most once.
"""

from __future__ import annotations

import numpy as np

from ..scalar import BlockBuilder, Code, Number, ScalarBuilder, called
from .record import INF, NAN, Elementwise

DIV = Elementwise(
    name="div", operands=("x", "y"), kind="function", meaning="x / y, correctly rounded; integers divide in float32",
    formula=np.divide, floats=Code(lambda b, x, y: x / y),
    special=((1.0, 0.0, INF), (1.0, -0.0, -INF), (0.0, 0.0, NAN), (INF, INF, NAN), (1.0, -INF, -0.0)),
)

FLOOR = Elementwise(
    name="floor", operands=("x",), kind="function", meaning="the greatest integer not above x", formula=np.floor,
    floats=Code(lambda b, x: b.intrinsic("floor", x)),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-0.5, -1.0)), is_ascending=True,
)

CEIL = Elementwise(
    name="ceil", operands=("x",), kind="function", meaning="the least integer not below x", formula=np.ceil,
    floats=Code(lambda b, x: b.intrinsic("ceil", x)),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-0.5, -0.0)), is_ascending=True,
)

ROUND = Elementwise(
    name="round", operands=("x",), kind="function", meaning="the integer nearest to x, ties to even", formula=np.rint,
    floats=Code(lambda b, x: b.intrinsic("rint", x)),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-0.5, -0.0), (1.5, 2.0), (2.5, 2.0)),
    symmetry="odd", is_ascending=True,
)

TRUNC = Elementwise(
    name="trunc", operands=("x",), kind="exact", meaning="x rounded to an integer toward zero; integers are unchanged",
    formula=lambda x: np.asarray(x if x.dtype.kind in "iu" else np.trunc(x)),
    floats=Code(lambda b, x: b.intrinsic("trunc", x)), integers=Code(lambda b, x: x),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-0.5, -0.0), (1.5, 1.0), (-2.5, -2.0)),
    symmetry="odd", is_ascending=True,
)


def _safe_divisor(b: ScalarBuilder, y: Number) -> Number:
    """Return y, or 1 if the division may be undefined: for 0, and for signed -1, which overflows for the smallest x."""
    undefined = y.equals(0)
    if y.is_signed:
        undefined = undefined | y.equals(-1)
    return b.select(undefined, 1, y)


def _floordiv_integers(b: ScalarBuilder, x: Number, y: Number) -> Number:
    """Return floor(x/y); 0 for y = 0, and x for the smallest x and y = -1, as in NumPy."""
    divisor = _safe_divisor(b, y)
    if not y.is_signed:
        return b.select(y.equals(0), 0, x / divisor)
    quotient = x / divisor
    remainder = x - quotient * divisor
    is_inexact_negative = remainder.differs(0) & ((remainder ^ divisor) < 0)
    floored = b.select(is_inexact_negative, quotient - 1, quotient)
    return b.select(y.equals(0), 0, b.select(y.equals(-1), -x, floored))


def _mod_integers(b: ScalarBuilder, x: Number, y: Number) -> Number:
    """Return x - floor(x/y)·y, and 0 for y = 0, as in NumPy."""
    divisor = _safe_divisor(b, y)
    remainder = b.binary("rem", x, divisor)
    if not y.is_signed:
        return remainder
    crosses = remainder.differs(0) & ((remainder ^ divisor) < 0)
    return b.select(crosses, remainder + divisor, remainder)


def _floordiv_proved(b: ScalarBuilder, x: Number, y: Number) -> Number | None:
    """Return x // y if x >= 0 and y > 0 are proved, by a shift if y is a literal power of two; else None."""
    if not b.proved:
        return None
    number = b.literal(y) or 0
    if number & (number - 1) or number == 0:
        return b.binary("udiv", x, y)
    return x.logical_shift_right(number.bit_length() - 1)


def _mod_proved(b: ScalarBuilder, x: Number, y: Number) -> Number | None:
    """Return x % y if x >= 0 and y > 0 are proved, by a mask if y is a literal power of two; else None."""
    if not b.proved:
        return None
    number = b.literal(y) or 0
    if number & (number - 1) or number == 0:
        return b.binary("urem", x, y)
    return x & (number - 1)


def _step(b: ScalarBuilder, x: Number, y: Number) -> Number:
    """Return x mod y, exactly, for 0 <= x < 2^precision_bits·y and y > 0.

    q, which is x/y rounded, then truncated, is too large by at most one. x - q·y is exact: it is a multiple of the
    smaller of x's and y's units in the last place, and at most y in magnitude.
    """
    quotient = b.intrinsic("trunc", x / y)
    remainder = b.fma(-quotient, y, x)
    return b.select(remainder < 0.0, remainder + y, remainder)


def _times_power_of_two(b: ScalarBuilder, y: Number, k: Number) -> Number:
    """Return y·2^k for k >= 0. The result must be finite; 2^k itself may overflow."""
    f = b.format
    half = k.logical_shift_right(1)
    result = y
    for part in (half, k - half):
        biased = b.convert("zext", part + f.bias, f.integer)
        result = result * b.from_bits(biased << f.precision_bits)
    return result


def _exponent(b: ScalarBuilder, x: Number) -> Number:
    """Return the biased exponent of a positive x, extended to 0 and below for subnormal x."""
    f = b.format
    lift = f.precision_bits + 1
    is_subnormal = x < f.smallest_normal
    bits = b.bits(b.select(is_subnormal, x * 2.0**lift, x))
    field = b.convert("trunc", bits.logical_shift_right(f.precision_bits), "i32")
    return field - b.select(is_subnormal, b.constant("i32", lift), 0)


def _magnitude(b: BlockBuilder, x: Number, y: Number) -> Number:
    """Return |x| - trunc(|x|/|y|)·|y|, exactly, for finite x and nonzero y.

    A large quotient takes several iterations: replacing x by x mod y·2^k preserves x mod y, and shortens x by about
    the length of a significand.
    """
    f = b.format
    dividend, divisor = abs(x), abs(y)
    before, loop, done = b.block, "loop", "done"
    bound = divisor * 2.0**f.precision_bits
    is_finite = dividend < INF
    divisor_exponent = _exponent(b, divisor)
    b.branch(is_finite & (divisor > 0.0) & (dividend >= bound), loop, done)

    # current >= bound, so k >= 1, and the quotient in `_step` is below 2^precision_bits
    b.start(loop)
    current = b.phi((dividend, before))
    k = _exponent(b, current) - divisor_exponent - (f.precision_bits - 1)
    reduced = _step(b, current, _times_power_of_two(b, divisor, k))
    b.add_incoming(current, reduced, loop)
    b.branch(reduced >= bound, loop, done)

    b.start(done)
    small = b.phi((dividend, before), (reduced, loop))
    remainder = _step(b, small, divisor)
    return b.select(small < divisor, small, remainder)


def _mod(b: BlockBuilder, x: Number, y: Number) -> Number:
    """Return x - floor(x/y)·y like NumPy: the remainder r of truncated division, or r + y if r·y < 0."""
    magnitude = _magnitude(b, x, y)
    signed = b.intrinsic("copysign", magnitude, x)
    result = b.select(_signs_differ(b, x, y), signed + y, signed)
    result = b.select(magnitude.equals(0.0), b.intrinsic("copysign", magnitude, y), result)
    has_value = (abs(x) < INF) & (abs(y) > 0.0)
    return b.select(has_value, result, NAN)


def _floordiv(b: BlockBuilder, x: Number, y: Number) -> Number:
    """Return floor(x/y) like NumPy: round((x - r)/y), less 1 if r·y < 0, for the remainder r of truncated division."""
    magnitude = _magnitude(b, x, y)
    quotient = x / y
    whole = (x - b.intrinsic("copysign", magnitude, x)) / y
    crosses = _signs_differ(b, x, y) & (magnitude > 0.0)
    whole = b.select(crosses, whole - 1.0, whole)
    below = b.intrinsic("floor", whole)
    nearest = b.select(whole - below > 0.5, below + 1.0, below)
    signed_zero = b.intrinsic("copysign", b.constant(x.type, 0.0), quotient)
    result = b.select(whole.equals(0.0), signed_zero, nearest)
    result = b.select(abs(x) < INF, result, NAN)
    return b.select(y.equals(0.0), quotient, result)


def _signs_differ(b: ScalarBuilder, x: Number, y: Number) -> Number:
    return (b.bits(x) ^ b.bits(y)) < 0


FLOORDIV = Elementwise(
    name="floordiv", operands=("x", "y"), kind="arithmetic",
    meaning="x // y, rounded down; integer division by 0 gives 0, and is an error for scalars in checked builds",
    formula=np.floor_divide, floats=called(_floordiv), integers=called(_floordiv_integers, shortcut=_floordiv_proved),
    special=((1.0, 0.0, INF), (0.0, 0.0, NAN), (INF, 1.0, NAN), (1.0, INF, 0.0), (-1.0, INF, -1.0), (NAN, 1.0, NAN)),
)

MOD = Elementwise(
    name="mod", operands=("x", "y"), kind="arithmetic",
    meaning="x % y, with the sign of y; integers modulo 0 as for //", formula=np.remainder, floats=called(_mod),
    integers=called(_mod_integers, shortcut=_mod_proved),
    special=((1.0, 0.0, NAN), (INF, 1.0, NAN), (1.0, INF, 1.0), (-1.0, INF, INF), (-0.0, 1.0, 0.0), (1.0, NAN, NAN)),
)

#: names of the operations for which, on integer scalars, a divisor of 0 is an error in checked builds
DIVISIONS = (FLOORDIV.name, MOD.name)
