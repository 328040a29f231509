"""exp, exp2 and functions derived from them.

`exp2_parts` returns a power as p·2^n, and `exp_parts` as (1 + w)·2^n: n is an integer, and p or 1 + w is in about
[0.7, 1.42]. Callers can compute with p or w before scaling by 2^n, which rounds only a subnormal result, and only once.
"""

from __future__ import annotations

import numpy as np

from ..fitted import Polynomial, RealConstant, RealRatio
from ..scalar import FORMATS, Number, ScalarBuilder, called
from .record import INF, NAN, Accuracy, Elementwise, in_double

#: exp rounds to 0 or infinity for arguments beyond ± this limit
EXP_LIMIT = {"float32": 104.0, "float64": 746.0}
#: exp2 rounds to 0 or infinity for arguments beyond ± this limit
EXP2_LIMIT = {"float32": 152.0, "float64": 1077.0}

LOG2E = RealConstant("1 / mp.log(2)", "0x1.715476p+0", "0x1.71547652b82fep+0")

LN2 = RealConstant("mp.log(2)", "0x1.62e43p-1 -0x1.05c61p-29", "0x1.62e42fefa39efp-1 0x1.abc9e3b39803fp-56")

EXP_FIT = Polynomial(
    "(mp.expm1(x) - x) / x**2",
    weight="1 / mp.exp(x)",
    low="-mp.log(2) / 2 * mp.mpf('1.0001')",
    high="mp.log(2) / 2 * mp.mpf('1.0001')",
    float32="0x1.fffffep-2 0x1.5554ep-3 0x1.5557b6p-5 0x1.1208d4p-7 0x1.6a55c6p-10",
    float64=(
        "0x1.0000000000001p-1 0x1.5555555555538p-3 0x1.5555555553e3ap-5 0x1.111111111dba4p-7 "
        "0x1.6c16c17845bfep-10 0x1.a01a014515f57p-13 0x1.a019b9f6eb18cp-16 0x1.71df203e88ad6p-19 "
        "0x1.289091e6e3812p-22 0x1.ad3bba9f537ffp-26"
    ),
)

#: for remainders from an interval twice as wide as that of EXP_FIT
WIDE_EXP_FIT = Polynomial(
    "mp.expm1(x) / x",
    weight="x / mp.exp(x)",
    low="-mp.log(2) * mp.mpf('1.0001')",
    high="mp.log(2) * mp.mpf('1.0001')",
    float64=(
        "0x1p+0 0x1p-1 0x1.555555555554dp-3 0x1.55555555555b7p-5 0x1.1111111111e9ep-7 "
        "0x1.6c16c16c0cab8p-10 0x1.a01a019dde3bbp-13 0x1.a01a01af47e98p-16 0x1.71de3d4d886dp-19 "
        "0x1.27e4f02b232eap-22 0x1.ae6028028bc69p-26 0x1.1ef5558b48911p-29 0x1.641e3e9daa65cp-33 "
        "0x1.909cb0e28d12ep-37"
    ),
)

#: step / rate; the remainder in float32's exp is x·rate - n·step, where n·step is exact because step has 17 bits
TWICE_LN2 = RealRatio("2 * mp.log(2)", "0x1.d5e1p-1", "0x1.52f22cp-1", precision_bits=32)
_STEP, _RATE = TWICE_LN2.numbers

#: greatest exponent of the square root of exp: the square of 2^64 overflows to infinity
_ROOT_EXPONENT = 64
#: the number that, added to n, gives a float with n - 64 in the low bits of its significand
_ROOT_SHIFT = FORMATS["float32"].round_shift - _ROOT_EXPONENT
#: _ROOT_SHIFT · step rounded to float32, and the rounding error
_SHIFT_STEPS = float(np.float32(_ROOT_SHIFT * _STEP))
_OFFSET = _SHIFT_STEPS - _ROOT_SHIFT * _STEP

#: 2^64 times the square root of exp, as a function of the remainder plus _OFFSET
ROOT_EXP_FIT = Polynomial(
    f"mp.exp((x - {_OFFSET}) / {2 * _RATE}) * 2**{_ROOT_EXPONENT}",
    weight="1 / f",
    low=f"{_OFFSET} - mp.mpf('.50005') * {_STEP}",
    high=f"{_OFFSET} + mp.mpf('.50005') * {_STEP}",
    float32=(
        "0x1.38c21ep+64 0x1.d87116p+63 0x1.64d3cep+62 0x1.675872p+60 0x1.0f4dc4p+58 0x1.435a4p+55 0x1.0d55f2p+52"
    ),
    nudges=((2, -1), (3, -2)),
)

EXP2_FIT = Polynomial(
    "mp.expm1(x * mp.log(2)) / x",
    low="mp.mpf('-.5001')",
    high="mp.mpf('.5001')",
    float32="0x1.62e43p-1 0x1.ebfbep-3 0x1.c6af6cp-5 0x1.3b29e4p-7 0x1.5f08c4p-10 0x1.446c3ap-13",
    float64=(
        "0x1.62e42fefa39efp-1 0x1.ebfbdff82c598p-3 0x1.c6b08d704a0cbp-5 0x1.3b2ab6fba1dc4p-7 "
        "0x1.5d87fe78a2cdcp-10 0x1.4309130975867p-13 0x1.ffcbfc74382e9p-17 0x1.62bfd46655d78p-20 "
        "0x1.b524dccbc74afp-24 0x1.e606616641a08p-28 0x1.ea042c1505621p-32"
    ),
)

#: like EXP2_FIT, for results rounded to at most 11 bits
NARROW_EXP2_FIT = Polynomial(
    "mp.expm1(x * mp.log(2)) / x",
    weight="x / mp.power(2, x)",
    low="mp.mpf('-.5001')",
    high="mp.mpf('.5001')",
    float32="0x1.62e12cp-1 0x1.ec037cp-3 0x1.c9fc9p-5 0x1.3a0212p-7",
)


def clamp(b: ScalarBuilder, x: Number, limit: float) -> Number:
    """Clamp x to ±limit; NaN stays NaN."""
    return b.minimum(b.maximum(x, -limit), limit)


def round_to_integer(b: ScalarBuilder, x: Number, factor: float = 1.0) -> tuple[Number, Number]:
    """Return the integer nearest to x·factor as a float, and as an i32 to which twice the exponent bias is added.

    If the i32 is split into two exponents, each of them gets one bias. Only the low bits of the i32 are valid: a
    multiple of 2^22 may be added, which a shift into the exponent field discards. If x is NaN, the i32 is arbitrary,
    but not poison.
    """
    shift = b.format.round_shift + 2 * b.format.bias
    shifted = x + shift if factor == 1.0 else b.fma(x, factor, shift)
    return shifted - shift, b.convert("trunc", b.bits(shifted), "i32")


def _power(b: ScalarBuilder, biased: Number) -> Number:
    """Return 2^n for n + bias in the low bits of `biased`; n must be the exponent of a normal number."""
    return b.from_bits(b.convert("zext", biased, b.format.integer) << b.format.precision_bits)


def power_of_two(b: ScalarBuilder, n: Number) -> Number:
    """Return 2^n, given `round_to_integer`'s i32 for n, which must be the exponent of a normal number."""
    return _power(b, n - b.format.bias)


def inverse_power(b: ScalarBuilder, power: Number) -> Number:
    """Return 1/power for a power of two whose inverse is also normal."""
    biases = 2 * b.format.bias << b.format.precision_bits
    return b.from_bits(biases - b.bits(power))


def scale_factors(b: ScalarBuilder, n: Number) -> tuple[Number, Number]:
    """Return two powers of two with product 2^n, given `round_to_integer`'s i32. Multiplying by the first is exact."""
    half = n.logical_shift_right(1)
    return _power(b, half), _power(b, n - half)


def scale(p: Number, factors: tuple[Number, Number]) -> Number:
    """Return p·2^n, rounded once even if the result is subnormal, zero or infinite."""
    return p * factors[0] * factors[1]


def exp_parts(b: ScalarBuilder, x: Number, correction: Number | None = None) -> tuple[Number, Number]:
    """Return (w, n) with (1 + w)·2^n = exp(x + correction), where n is encoded as by `round_to_integer`.

    |x| must be small enough for `scale_factors` to represent 2^n. An fma computes c·(1 + w) as c + c·w, rounded once.
    """
    ln2_high, ln2_low = b.parts(LN2)
    n_float, n = round_to_integer(b, x, b.parts(LOG2E)[0])
    r = b.fma(n_float, -ln2_high, x)  # exact
    r = b.fma(n_float, -ln2_low, r)
    if correction is not None:
        r = r + correction
    return b.fma(r * r, b.horner(r, EXP_FIT), r), n


def exp2_parts(b: ScalarBuilder, x: Number, correction: Number | None = None) -> tuple[Number, Number]:
    """Return (p, n) with p·2^n = 2^(x + correction), where n is encoded as by `round_to_integer`."""
    n_float, n = round_to_integer(b, x)
    r = x - n_float  # exact
    if correction is not None:
        r = r + correction
    return b.fma(r, b.horner(r, EXP2_FIT), 1.0), n


def exp2_narrow(b: ScalarBuilder, x: Number, factor: float = 1.0) -> Number:
    """Return 2^x·factor to 18 bits, fewer if subnormal, for x from -147 to 100. factor: ± a power of two."""
    exponent = b.format.precision_bits + 1
    shift = b.format.round_shift + exponent
    shifted = x + shift
    r = x - (shifted - shift)
    p = b.fma(r, b.horner(r, NARROW_EXP2_FIT), 1.0)
    scaled = b.from_bits(b.bits(p) + (b.bits(shifted) << b.format.precision_bits))
    return scaled * (factor * 2.0**-exponent)


def _exp(b: ScalarBuilder, x: Number) -> Number:
    return _exp_of_float32(b, x) if b.format.dtype == "float32" else _exp_of_float64(b, x)


def _exp_of_float32(b: ScalarBuilder, x: Number) -> Number:
    """Return the square of y = p·2^n for p = exp(x/2 - n·ln(2)): only one multiplication rounds a subnormal result.

    p is computed times 2^64, and n - 64 is added to its exponent. n is at most 64, and is 64 if x is NaN, so that p is
    unchanged even if it is infinite or NaN.
    """
    above = b.maximum(x, -EXP_LIMIT["float32"])
    shifted = b.intrinsic("minnum", b.fma(above, b.parts(LOG2E)[0] / 2, _ROOT_SHIFT), _ROOT_SHIFT + _ROOT_EXPONENT)
    r = b.fma(above, _RATE, b.fma(shifted, -_STEP, _SHIFT_STEPS))
    p = b.horner(r, ROOT_EXP_FIT)
    # The factor combines a shift by 23 and one by 31 bits; the latter may change the sign of y, which the square
    # removes. A shift and an addition would be two instructions; a multiply-add is one.
    y = b.from_bits(b.bits(shifted) * -0x7F800000 + b.bits(p))
    return y * y


def _exp_of_float64(b: ScalarBuilder, x: Number) -> Number:
    """Return p·s·s for p = 1 + r·P(r), s = 2^n, r = x - 2n·ln(2): a single power of two is computed."""
    limited = clamp(b, x, EXP_LIMIT[b.format.dtype])
    shift = b.format.round_shift + b.format.bias
    shifted = b.fma(limited, b.parts(LOG2E)[0] / 2, shift)
    n = shifted - shift
    ln2_high, ln2_low = b.parts(LN2)
    r = b.fma(n, -2 * ln2_high, limited)  # exact
    r = b.fma(n, -2 * ln2_low, r)
    root = b.from_bits(b.bits(shifted) << b.format.precision_bits)
    return scale(b.fma(r, b.horner(r, WIDE_EXP_FIT), 1.0), (root, root))


EXP = Elementwise(
    name="exp", operands=("x",), kind="function", meaning="e to the power x", formula=in_double(np.exp),
    floats=called(_exp), accuracy=Accuracy((2.4, 1.6), "mp.exp(x)", ((-104, 89),), ((-746, 710),)),
    special=((0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN)), is_ascending=True,
)


def _exp2(b: ScalarBuilder, x: Number) -> Number:
    limit = EXP2_LIMIT[b.format.dtype]
    p, n = exp2_parts(b, clamp(b, x, limit))
    return scale(p, scale_factors(b, n))


EXP2 = Elementwise(
    name="exp2", operands=("x",), kind="function", meaning="2 to the power x", formula=in_double(np.exp2),
    floats=called(_exp2), accuracy=Accuracy((0.92, 2.0), "mp.power(2, x)", ((-151, 128),), ((-1076, 1024),)),
    special=((0.0, 1.0), (-0.0, 1.0), (INF, INF), (-INF, 0.0), (NAN, NAN)), is_ascending=True,
)


def _sigmoid(b: ScalarBuilder, x: Number) -> Number:
    """Return 1/(1 + exp(-x)), for negative x computed as exp(x)/(1 + exp(x)), which can't overflow."""
    w, n = exp_parts(b, -b.minimum(abs(x), EXP_LIMIT[b.format.dtype]))
    t = scale(w + 1.0, scale_factors(b, n))
    return b.select(x < 0.0, t, 1.0) * (1.0 / (t + 1.0))


SIGMOID = Elementwise(
    name="sigmoid", operands=("x",), kind="function", meaning="1 / (1 + exp(-x))",
    formula=in_double(lambda x: 1 / (1 + np.exp(-x))), floats=called(_sigmoid),
    accuracy=Accuracy((2.83, 4.0), "1 / (1 + mp.exp(-x))", ((-104, 18),), ((-746, 38),)),
    special=((0.0, 0.5), (-0.0, 0.5), (INF, 1.0), (-INF, 0.0), (NAN, NAN)), is_ascending=True,
)

#: silu rounds to -0 for finite arguments below minus this limit
_SILU_LIMIT = {"float32": 110.0, "float64": 760.0}


def _silu(b: ScalarBuilder, x: Number) -> Number:
    """Return x·sigmoid(x), and NaN at minus infinity, like the product."""
    limit = _SILU_LIMIT[b.format.dtype]
    magnitude = abs(x)
    limited = b.minimum(magnitude, limit)
    w, n = exp_parts(b, -limited)
    factors = scale_factors(b, n)
    t = scale(w + 1.0, factors)
    is_negative = x < 0.0
    quotient = b.select(is_negative, b.fma(-limited, w, -limited), x) * (1.0 / (t + 1.0))
    result = b.select(is_negative, scale(quotient, factors), quotient)
    return b.select(x.equals(-float("inf")), float("nan"), result)


SILU = Elementwise(
    name="silu", operands=("x",), kind="function", meaning="x / (1 + exp(-x)); nan at -inf",
    formula=in_double(lambda x: x / (1 + np.exp(-x))), floats=called(_silu),
    accuracy=Accuracy((3.07, 4.0), "x / (1 + mp.exp(-x))", ((-110, 20),), ((-755, 40),)),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, NAN), (NAN, NAN)),
)

#: tanh rounds to ±1 for arguments beyond ± this limit
_TANH_LIMIT = {"float32": 10.0, "float64": 20.0}

TANH_FIT = Polynomial(
    "(mp.tanh(mp.sqrt(x)) - mp.sqrt(x)) / mp.sqrt(x) ** 3",
    low="mp.mpf(0)",
    high="(mp.mpf(9) / 16) ** 2",
    float32="-0x1.555554p-2 0x1.110fc2p-3 -0x1.b9934ep-5 0x1.5c807cp-6 -0x1.ac6f68p-8",
    float64=(
        "-0x1.5555555555555p-2 0x1.1111111110fcep-3 -0x1.ba1ba1b9f33ffp-5 0x1.664f48730086ap-6 "
        "-0x1.226e32366b982p-7 0x1.d6d31378ca0b6p-9 -0x1.7d957d720bbcbp-10 0x1.34af1fb2639ebp-11 "
        "-0x1.eb09428e9df58p-13 0x1.61acd48ed8a69p-14 -0x1.509a0f3ac0a77p-16"
    ),
)


def _tanh(b: ScalarBuilder, x: Number) -> Number:
    """Return x + x³·P(x²) for |x| up to 9/16, else 1 - 2/(exp(2|x|) + 1) with the sign of x."""
    square = x * x
    small = b.fma(x * square, b.horner(square, TANH_FIT), x)
    magnitude = abs(x)
    limit = _TANH_LIMIT[b.format.dtype]
    limited = b.minimum(magnitude, limit)
    w, n = exp_parts(b, limited + limited)
    power = (w + 1.0) * power_of_two(b, n)
    large = b.fma(1.0 / (power + 1.0), -2.0, 1.0)
    return b.intrinsic("copysign", b.select(magnitude > 0.5625, large, small), x)


TANH = Elementwise(
    name="tanh", operands=("x",), kind="function", meaning="hyperbolic tangent", formula=in_double(np.tanh),
    floats=called(_tanh), accuracy=Accuracy((1.45, 4.0), "mp.tanh(x)", ((-10, 10),), ((-20, 20),)),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN)), symmetry="odd", is_ascending=True,
)


def _expm1(b: ScalarBuilder, x: Number) -> Number:
    """Return (1 + w)·2^n - 1 as (w·f + (f - 1/g))·g for 2^n = f·g, which is w for small x, whose n is 0."""
    limit = EXP_LIMIT[b.format.dtype]
    # the result rounds to -1 below -40 in both formats
    w, n = exp_parts(b, b.minimum(b.maximum(x, -40.0), limit))
    first, second = scale_factors(b, n)
    value = b.fma(w, first, first - inverse_power(b, second)) * second
    return b.intrinsic("copysign", value, x)


EXPM1 = Elementwise(
    name="expm1", operands=("x",), kind="function", meaning="exp(x) - 1, accurate near 0",
    formula=in_double(np.expm1), floats=called(_expm1),
    accuracy=Accuracy((1.65, 2.3), "mp.expm1(x)", ((-20, 89),), ((-40, 710),)),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, -1.0), (NAN, NAN)), is_ascending=True,
)
