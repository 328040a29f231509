"""sin and cos over the whole range, and atan2.

x = n·pi/2 + r with |r| up to about pi/4; the low two bits of n choose between ±sin(r) and ±cos(r). For moderate x,
n·pi/2 is subtracted in three parts with fma. For larger x, the integer significand is multiplied by the relevant window
of the bits of 2/pi, in integer arithmetic.

source: Payne and Hanek, "Radian reduction for trigonometric functions" (1983); Cody and Waite,
"Software Manual for the Elementary Functions" (1980).
"""

from __future__ import annotations

import math

import numpy as np

from ..fitted import Polynomial, RealConstant
from ..scalar import BlockBuilder, Number, ScalarBuilder, called
from .record import INF, NAN, Accuracy, Elementwise, in_double

#: bound on |x| below which n·pi/2 in three parts is exact enough, even for the x closest to a multiple of pi/2
_MODERATE = {"float32": 2.0**17, "float64": 2.0**30}

#: the number of leading bits of the binary fraction of 2/pi that are stored, and these bits as an integer
TWO_OVER_PI_BITS = 1280
TWO_OVER_PI_FRACTION = int(
    "a2f9836e4e441529fc2757d1f534ddc0db6295993c439041fe5163abdebbc561b7246e3a424dd2e0"
    "06492eea09d1921cfe1deb1cb129a73ee88235f52ebb4484e99c7026b45f7e413991d639835339f4"
    "9c845f8bbdf9283b1ff897ffde05980fef2f118b5a0a6d1f6d367ecf27cb09b74f463f669e5fea2d"
    "7527bac7ebe5f17b3d0739f78a5292ea6bfb5fb11f8d5d0856033046fc7b6babf0cfbc209af4361d",
    16,
)

TWO_OVER_PI = RealConstant("2 / mp.pi", "0x1.45f306p-1", "0x1.45f306dc9c883p-1")

HALF_PI = RealConstant(
    "mp.pi / 2",
    "0x1.921fb6p+0 -0x1.777a5cp-25 -0x1.ee59dap-50",
    "0x1.921fb54442d18p+0 0x1.1a62633145c07p-54 -0x1.f1976b7ed8fbcp-110",
)

SIN_FIT = Polynomial(
    "(mp.sin(mp.sqrt(x)) - mp.sqrt(x)) / mp.sqrt(x) ** 3",
    low="mp.mpf(0)",
    high="(mp.pi / 4) ** 2 * mp.mpf('1.01')",
    float32="-0x1.555552p-3 0x1.110c12p-7 -0x1.9abcdp-13",
    float64=(
        "-0x1.5555555555555p-3 0x1.1111111110b6dp-7 -0x1.a01a019e736d2p-13 0x1.71de37818b695p-19 "
        "-0x1.ae5ff535e10ffp-26 0x1.5e03475132dbdp-33"
    ),
)

COS_FIT = Polynomial(
    "(mp.cos(mp.sqrt(x)) - 1 + x / 2) / x**2",
    low="mp.mpf(0)",
    high="(mp.pi / 4) ** 2 * mp.mpf('1.01')",
    float32="0x1.555554p-5 -0x1.6c12cp-10 0x1.9bce34p-16",
    float64=(
        "0x1.5555555555555p-5 -0x1.6c16c16c16944p-10 0x1.a01a019f468bfp-16 -0x1.27e4fa0d5485bp-22 "
        "0x1.1eeb5dfccf6f8p-29 -0x1.9075ccae9c6d3p-37"
    ),
)


def _reduce_moderate(b: ScalarBuilder, x: Number) -> tuple[Number, Number]:
    """Return r and the i32 n with x = n·pi/2 + r for |x| below the moderate bound; only n's low bits are valid."""
    high, middle, low = b.parts(HALF_PI)
    shifted = b.fma(x, b.parts(TWO_OVER_PI)[0], b.format.round_shift)
    n = shifted - b.format.round_shift
    r = b.fma(n, -high, x)  # exact
    r = b.fma(n, -middle, r)
    return b.fma(n, -low, r), b.convert("trunc", b.bits(shifted), "i32")


def _two_over_pi_words(b: ScalarBuilder, offset: Number, first_bit: int, rows: int) -> list[Number]:
    """Return three words, the highest first, that start at bit `offset` of the fraction of 2/pi >> `first_bit`.

    Words have the format's width. They are selected by bisection in `rows` steps, each of which drops words at the
    start or at the end. This requires selects but no table in memory.
    """
    bits = b.format.bits
    count = (1 << rows) + 3
    shifted = TWO_OVER_PI_FRACTION >> (TWO_OVER_PI_BITS - bits * count + first_bit)
    words = [
        b.constant(b.format.integer, (shifted >> (bits * (count - 1 - i))) & ((1 << bits) - 1)) for i in range(count)
    ]
    for row in reversed(range(rows)):
        skip = (offset & (bits << row)).differs(0)
        step = 1 << row
        words = [b.select(skip, words[i + step], words[i]) for i in range(len(words) - step)]
    within = b.convert("zext", offset & (bits - 1), b.format.integer)
    return [b.intrinsic("fshl", words[i], words[i + 1], within) for i in range(3)]


def _reduce_large(b: ScalarBuilder, x: Number) -> tuple[Number, Number]:
    """Return r and the i32 n with x = n·pi/2 + r modulo 2·pi for finite x at or above the moderate bound.

    x = M·2^E with an integer M, and M·(2^E·2/pi/4 mod 1) mod 1 is x·2/pi/4 mod 1: two bits of n followed by the
    fraction. Three words of 2/pi leave at least one significant word of the fraction if x is close to a multiple of
    pi/2, where the leading bits cancel.
    """
    f = b.format
    wide = f"i{2 * f.bits}"
    bits = b.bits(x)
    exponent = b.convert("trunc", bits.logical_shift_right(f.precision_bits), "i32")
    significand = (bits & ((1 << f.precision_bits) - 1)) | (1 << f.precision_bits)
    smallest = f.bias + int(math.log2(_MODERATE[f.dtype]))
    # at the smallest exponent, bit `smallest - bias - precision - 2` of 2/pi gets weight 1; the window starts after it
    first_bit = -(smallest - f.bias - f.precision_bits - 2)
    words = _two_over_pi_words(b, exponent - smallest, first_bit, rows=2 if f.bits == 32 else 4)

    factor = b.convert("zext", significand, wide)
    products = [factor * b.convert("zext", word, wide) for word in words]
    fraction = (products[0] << f.bits) + products[1] + products[2].logical_shift_right(f.bits)

    quarter = fraction + (1 << (2 * f.bits - 3))
    n = b.convert("trunc", quarter.logical_shift_right(2 * f.bits - 2), "i32")
    return _fraction_to_angle(b, fraction << 2), n


def _fraction_to_angle(b: ScalarBuilder, signed: Number) -> Number:
    """Return signed·2^-w·pi/2 for a signed integer of w bits, twice as wide as the format."""
    f = b.format
    high, low, _ = b.parts(HALF_PI)
    unit = 2.0 ** (-2 * f.bits)
    if f.bits == 32:
        value = b.convert("sitofp", signed, f.type)
    else:
        # the top 53 bits convert exactly, and the next 64 hold what remains after cancellation
        top = b.convert("trunc", signed >> 64, "i64") & -(1 << 11)
        below = b.convert("trunc", signed.logical_shift_right(11), "i64")
        value = b.fma(b.convert("sitofp", top, f.type), 2.0**64, b.convert("uitofp", below, f.type) * 2.0**11)
    return b.fma(value, high * unit, value * (low * unit))


def _reduce(b: BlockBuilder, x: Number) -> tuple[Number, Number]:
    """Return r and the i32 n with x = n·pi/2 + r modulo 2·pi for x >= 0; r is NaN for infinite and NaN x."""
    before, large, done = b.block, "large", "done"
    r, n = _reduce_moderate(b, x)
    is_large = x >= _MODERATE[b.format.dtype]
    b.branch(is_large, large, done)

    b.start(large)
    large_r, large_n = _reduce_large(b, x)
    large_r = b.select(x < float("inf"), large_r, float("nan"))
    b.jump(done)

    b.start(done)
    return b.phi((r, before), (large_r, large)), b.phi((n, before), (large_n, large))


def _sin_or_cos(b: BlockBuilder, x: Number, quarter_turns: int) -> tuple[Number, Number]:
    """Return sin(x + quarter_turns·pi/2) for x >= 0, as a value and a sign bit to xor into it."""
    r, n = _reduce(b, x)
    if quarter_turns:
        n = n + quarter_turns
    s = r * r
    sine = b.fma(r * s, b.horner(s, SIN_FIT), r)
    cosine = b.fma(s, b.fma(s, b.horner(s, COS_FIT), -0.5), 1.0)
    value = b.select((n & 1).equals(0), sine, cosine)
    return value, b.convert("zext", n & 2, b.format.integer) << (b.format.bits - 2)


def _sin(b: BlockBuilder, x: Number) -> Number:
    value, flip = _sin_or_cos(b, abs(x), 0)
    sign = b.bits(x) & (1 << (b.format.bits - 1))
    return b.from_bits(b.bits(value) ^ flip ^ sign)


SIN = Elementwise(
    name="sin", operands=("x",), kind="function", meaning="sine of x radians", formula=in_double(np.sin),
    floats=called(_sin), accuracy=Accuracy((2.25, 4.0), "mp.sin(x)", ((-10, 10),), ((-10, 10),), precision_bits=1300),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, NAN), (-INF, NAN), (NAN, NAN)), symmetry="odd",
)


def _cos(b: BlockBuilder, x: Number) -> Number:
    value, sign = _sin_or_cos(b, abs(x), 1)
    return b.from_bits(b.bits(value) ^ sign)


COS = Elementwise(
    name="cos", operands=("x",), kind="function", meaning="cosine of x radians", formula=in_double(np.cos),
    floats=called(_cos), accuracy=Accuracy((2.26, 4.0), "mp.cos(x)", ((-10, 10),), ((-10, 10),), precision_bits=1300),
    special=((0.0, 1.0), (-0.0, 1.0), (INF, NAN), (-INF, NAN), (NAN, NAN)), symmetry="even",
)

QUARTER_PI = RealConstant("mp.pi / 4", "0x1.921fb6p-1 -0x1.777a5cp-26", "0x1.921fb54442d18p-1 0x1.1a62633145c07p-55")

THREE_QUARTERS_PI = RealConstant(
    "mp.pi * 3 / 4",
    "0x1.2d97c8p+1 -0x1.99bc5cp-28",
    "0x1.2d97c7f3321d2p+1 0x1.a79394c9e8a0ap-54",
)

ATAN_FIT = Polynomial(
    "(mp.atan(mp.sqrt(x)) - mp.sqrt(x)) / mp.sqrt(x) ** 3",
    low="mp.mpf(0)",
    high="(mp.sqrt(2) - 1) ** 2 * mp.mpf('1.01')",
    float32="-0x1.555556p-2 0x1.99997cp-3 -0x1.248a0ep-3 0x1.c57928p-4 -0x1.612a4ap-4 0x1.9ce7acp-5",
    float64=(
        "-0x1.5555555555555p-2 0x1.999999999995p-3 -0x1.249249248d4cap-3 0x1.c71c71c2dabdep-4 "
        "-0x1.745d16552f55bp-4 0x1.3b1391cd5a7e6p-4 -0x1.110e744aff0d8p-4 0x1.e1983b93e61e1p-5 "
        "-0x1.ac6c8abf03f8dp-5 0x1.749c03f3cc98fp-5 -0x1.1a866c52b0551p-5 0x1.094b6e7ae61b2p-6"
    ),
)


def _atan2(b: ScalarBuilder, y: Number, x: Number) -> Number:
    """Return C ± (t + t³·P(t²)), with the sign of y, for a multiple C of pi/4 and |t| up to about tan(pi/8).

    With a and c the lesser and the greater of |x| and |y|, t is a/c, whose angle is at most pi/4. In the upper half of
    that range t is (a - c)/(a + c), which rotates the angle by -pi/4.

    source: Moshier, Cephes Math Library, single/atanf.c, the range reduction.
    """
    is_left = b.bits(x) < 0
    is_steep = abs(y) > abs(x)
    least, greatest = b.select(is_steep, abs(x), abs(y)), b.select(is_steep, abs(y), abs(x))
    # scale by 1/4 if the sum might overflow
    factor = b.select(greatest > 2.0 ** (b.format.bias - 1), b.constant(x.type, 0.25), 1.0)
    a, c = least * factor, greatest * factor
    # two zeros give t = 0 without the rotation, two infinities t = 0 with it
    is_rotated = (a * 2.4140625 >= c) & (least > 0.0)
    top = b.select(a.equals(c), 0.0, b.select(is_rotated, a - c, a))
    t = b.select(least > 0.0, top / b.select(is_rotated, a + c, c), 0.0)
    square = t * t
    angle = b.fma(t * square, b.horner(square, ATAN_FIT), t)
    angle = b.select(is_left ^ is_steep, -angle, angle)

    high, low = (_base(b, is_left, is_steep, is_rotated, part) for part in range(2))
    return b.select(b.compare("unordered", x, y), NAN, b.intrinsic("copysign", high + (angle + low), y))


def _base(b: ScalarBuilder, is_left: Number, is_steep: Number, is_rotated: Number, part: int) -> Number:
    """Return one part of C, the multiple of pi/4 in `_atan2`. part: 0 for the high part, 1 for the low part."""
    quarter, three_quarters = b.parts(QUARTER_PI)[part], b.parts(THREE_QUARTERS_PI)[part]
    rotated = b.select(is_left, b.constant(b.format.type, three_quarters), quarter)
    flat = b.select(is_left, b.constant(b.format.type, 4 * quarter), 0.0)
    return b.select(is_rotated, rotated, b.select(is_steep, 2 * quarter, flat))


ATAN2 = Elementwise(
    name="atan2", operands=("y", "x"), kind="function",
    meaning="the angle of the point (x, y) in radians, from -pi to pi", formula=in_double(np.arctan2),
    floats=called(_atan2), accuracy=Accuracy((2.3, 2.2), "mp.atan2(y, x)", ((-4, 4), (-4, 4)), ((-4, 4), (-4, 4))),
    special=(
        (0.0, 0.0, 0.0), (-0.0, 0.0, -0.0), (0.0, 1.0, 0.0), (-0.0, 1.0, -0.0), (0.0, INF, 0.0), (1.0, INF, 0.0),
        (-1.0, INF, -0.0), (NAN, 1.0, NAN), (1.0, NAN, NAN), (NAN, NAN, NAN), (INF, NAN, NAN), (NAN, INF, NAN),
        (0.0, -1.0, math.pi), (-0.0, -1.0, -math.pi), (0.0, -0.0, math.pi), (-0.0, -0.0, -math.pi),
        (1.0, -INF, math.pi), (-1.0, -INF, -math.pi), (1.0, 0.0, math.pi / 2), (-1.0, -0.0, -math.pi / 2),
        (INF, 1.0, math.pi / 2), (-INF, 1.0, -math.pi / 2), (INF, INF, math.pi / 4), (-INF, INF, -math.pi / 4),
        (INF, -INF, 3 * math.pi / 4), (-INF, -INF, -3 * math.pi / 4), (1.0, 1.0, math.pi / 4),
    ),
)
