"""Quotients, remainders, whole numbers.

Of integers they have NumPy's values where the hardware's or LLVM's are undefined. The floored remainder of floats is
exact for any quotient.
"""

from __future__ import annotations

import numpy as np

from ..scalar import BlockBuilder, Number, ScalarBlock, ScalarBuilder, called, inline
from .record import INF, NAN, Elementwise

Array = np.ndarray

DIV = Elementwise(
    name="div",
    operands=("x", "y"),
    kind="function",
    meaning="x / y, correctly rounded; of integers in float32",
    formula=np.divide,
    floats=inline(lambda b, x, y: x / y),
    special=((1.0, 0.0, INF), (1.0, -0.0, -INF), (0.0, 0.0, NAN), (INF, INF, NAN), (1.0, -INF, -0.0)),
)

FLOOR = Elementwise(
    name="floor",
    operands=("x",),
    kind="function",
    meaning="the greatest whole number that isn't greater",
    formula=np.floor,
    floats=inline(lambda b, x: b.intrinsic("floor", x)),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-0.5, -1.0)),
    rising=True,
)

CEIL = Elementwise(
    name="ceil",
    operands=("x",),
    kind="function",
    meaning="the least whole number that isn't less",
    formula=np.ceil,
    floats=inline(lambda b, x: b.intrinsic("ceil", x)),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-0.5, -0.0)),
    rising=True,
)

ROUND = Elementwise(
    name="round",
    operands=("x",),
    kind="function",
    meaning="the nearest whole number, ties to even",
    formula=np.rint,
    floats=inline(lambda b, x: b.intrinsic("rint", x)),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -INF), (NAN, NAN), (-0.5, -0.0), (1.5, 2.0), (2.5, 2.0)),
    symmetry="odd",
    rising=True,
)


def _safe_divisor(b: ScalarBuilder, y: Number) -> Number:
    """y, or 1 where the division is undefined: y = 0, and y = -1, which overflows for the smallest x."""
    undefined = y.equals(0)
    if y.is_signed:
        undefined = undefined | y.equals(-1)
    return b.select(undefined, 1, y)


def _floordiv_integers(b: ScalarBuilder, x: Number, y: Number) -> Number:
    """floor(x/y); 0 where y is 0, and the smallest integer divided by -1 is itself, as in NumPy."""
    divisor = _safe_divisor(b, y)
    if not y.is_signed:
        return b.select(y.equals(0), 0, x / divisor)
    quotient = x / divisor
    remainder = x - quotient * divisor
    is_inexact_negative = remainder.differs(0) & ((remainder ^ divisor) < 0)
    floored = b.select(is_inexact_negative, quotient - 1, quotient)
    return b.select(y.equals(0), 0, b.select(y.equals(-1), -x, floored))


def _mod_integers(b: ScalarBuilder, x: Number, y: Number) -> Number:
    """x - floor(x/y)·y; 0 where y is 0, as in NumPy."""
    divisor = _safe_divisor(b, y)
    remainder = b.binary("rem", x, divisor)
    if not y.is_signed:
        return remainder
    crosses = remainder.differs(0) & ((remainder ^ divisor) < 0)
    return b.select(crosses, remainder + divisor, remainder)


def _floordiv_proved(b: ScalarBuilder, x: Number, y: Number) -> Number | None:
    """The quotient of what isn't negative; by a power of two a shift."""
    if not b.proved:
        return None
    number = b.literal(y) or 0
    if number & (number - 1) or number == 0:
        return b.unsigned("div", x, y)
    return x.logical_shift_right(number.bit_length() - 1)


def _mod_proved(b: ScalarBuilder, x: Number, y: Number) -> Number | None:
    """The remainder of what isn't negative; by a power of two a mask."""
    if not b.proved:
        return None
    number = b.literal(y) or 0
    if number & (number - 1) or number == 0:
        return b.unsigned("rem", x, y)
    return x & (number - 1)


def _step(b: ScalarBuilder, x: Number, y: Number) -> Number:
    """x mod y for 0 <= x < 2^precision·y, y > 0: exact.

    The rounded quotient is at most one too large after truncation, and x - q·y is a multiple of the
    smaller unit in the last place, smaller than y.
    """
    quotient = b.intrinsic("trunc", x / y)
    remainder = b.fma(-quotient, y, x)
    return b.select(remainder < 0.0, remainder + y, remainder)


def _times_power_of_two(b: ScalarBuilder, y: Number, k: Number) -> Number:
    """y·2^k for k >= 0 where the result is finite; 2^k alone needn't be."""
    f = b.format
    half = k.logical_shift_right(1)
    result = y
    for part in (half, k - half):
        biased = b.convert("zext", part + f.bias, f.integer)
        result = result * b.from_bits(biased << f.precision_bits)
    return result


def _exponent(b: ScalarBuilder, x: Number) -> Number:
    """The biased exponent field of a positive x, extended below zero for subnormal x."""
    f = b.format
    lift = f.precision_bits + 1
    is_subnormal = x < f.smallest_normal
    bits = b.bits(b.select(is_subnormal, x * 2.0**lift, x))
    field = b.convert("trunc", bits.logical_shift_right(f.precision_bits), "i32")
    return field - b.select(is_subnormal, b.constant("i32", lift), 0)


def _magnitude(b: BlockBuilder, x: Number, y: Number) -> Number:
    """|x| - trunc(|x|/|y|)·|y|, exact, for finite x and y other than 0.

    A large quotient goes in rounds: x mod y·2^k leaves x mod y alone and is shorter by about a
    significand's length each.
    """
    f = b.format
    dividend, divisor = abs(x), abs(y)
    before, loop, done = b.block, ScalarBlock("loop"), ScalarBlock("done")
    bound = divisor * 2.0**f.precision_bits
    is_finite = dividend < INF
    divisor_exponent = _exponent(b, divisor)
    b.branch(is_finite & (divisor > 0.0) & (dividend >= bound), loop, done)

    # current >= bound, so that k >= 1 and the step's quotient is below 2^precision.
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
    """x - floor(x/y)·y as NumPy computes it: the exact remainder, then y added where the signs differ."""
    magnitude = _magnitude(b, x, y)
    signed = b.intrinsic("copysign", magnitude, x)
    result = b.select(_signs_differ(b, x, y), signed + y, signed)
    result = b.select(magnitude.equals(0.0), b.intrinsic("copysign", magnitude, y), result)
    has_value = (abs(x) < INF) & (abs(y) > 0.0)
    return b.select(has_value, result, NAN)


def _floordiv(b: BlockBuilder, x: Number, y: Number) -> Number:
    """floor(x/y) as NumPy computes it: (x - remainder)/y, rounded to the nearest whole number."""
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
    name="floordiv",
    operands=("x", "y"),
    kind="arithmetic",
    meaning="x // y rounds down; of integers by zero 0, an error in checked builds where x and y are scalars",
    formula=np.floor_divide,
    floats=called(_floordiv),
    integers=called(_floordiv_integers, shortcut=_floordiv_proved),
    special=((1.0, 0.0, INF), (0.0, 0.0, NAN), (INF, 1.0, NAN), (1.0, INF, 0.0), (-1.0, INF, -1.0), (NAN, 1.0, NAN)),
)

MOD = Elementwise(
    name="mod",
    operands=("x", "y"),
    kind="arithmetic",
    meaning="x % y, with the sign of y; of integers by zero as //",
    formula=np.remainder,
    floats=called(_mod),
    integers=called(_mod_integers, shortcut=_mod_proved),
    special=((1.0, 0.0, NAN), (INF, 1.0, NAN), (1.0, INF, 1.0), (-1.0, INF, INF), (-0.0, 1.0, 0.0), (1.0, NAN, NAN)),
)

#: by name, what has no value where integers are divided by zero
DIVISIONS = (FLOORDIV.name, MOD.name)
