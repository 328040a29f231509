"""Logarithms, pow and softplus."""

from __future__ import annotations

import struct

import numpy as np

from ..fitted import Polynomial, RealConstant
from ..scalar import BlockBuilder, Number, ScalarBuilder, called
from .exponential import EXP2_LIMIT, EXP_LIMIT, LN2, clamp, exp2_parts, exp_parts, scale, scale_factors
from .record import INF, NAN, Accuracy, Elementwise, in_double

SQRT_HALF = RealConstant("mp.sqrt(mp.mpf('0.5'))", "0x1.6a09e6p-1", "0x1.6a09e667f3bcdp-1")

LOG_FIT = Polynomial(
    "(mp.log1p(x) - x) / x**2",
    weight="abs(x)",
    low="mp.sqrt(2) / 2 - 1",
    high="mp.sqrt(2) - 1",
    float32=(
        "-0x1.fffff8p-2 0x1.555544p-2 -0x1.0003fep-2 0x1.99a96ap-3 -0x1.543244p-3 0x1.22115cp-3 "
        "-0x1.0e842p-3 0x1.0a56ccp-3 -0x1.407224p-4"
    ),
    float64=(
        "-0x1.0000000000004p-1 0x1.555555555553ap-2 -0x1.fffffffffd9b1p-3 0x1.999999999ca33p-3 "
        "-0x1.5555555708cdbp-3 0x1.249249247c3fp-3 -0x1.fffffee79769cp-4 0x1.c71c70db8ac91p-4 "
        "-0x1.9999ca34dca8ap-4 0x1.745d64822a49ap-4 -0x1.55507a00b3c8ep-4 0x1.3b0886b472202p-4 "
        "-0x1.24d9b08d2f04dp-4 0x1.11efa29bba5e5p-4 -0x1.fbcba091ef8ebp-5 0x1.ceca065b1395cp-5 "
        "-0x1.ce86ce026c56p-5 0x1.0bc168d820516p-4 -0x1.f3a17c0c8a0fp-5 0x1.b92ea373803bp-6"
    ),
)

LOG2_FIT = Polynomial(
    "mp.log1p(x) / mp.log(2) / x",
    weight="x / mp.log1p(x)",
    low="mp.sqrt(2) / 2 - 1",
    high="mp.sqrt(2) - 1",
    float32=(
        "0x1.715476p+0 -0x1.71547p-1 0x1.ec7096p-2 -0x1.715a76p-2 0x1.277e36p-2 -0x1.eabc88p-3 "
        "0x1.a305a8p-3 -0x1.874be6p-3 0x1.7d4938p-3 -0x1.c25a4ap-4"
    ),
    float64=(
        "0x1.71547652b82fep+0 -0x1.71547652b8304p-1 0x1.ec709dc3a0392p-2 -0x1.71547652b6763p-2 "
        "0x1.2776c50f00073p-2 -0x1.ec709dc612491p-3 0x1.a61762a449b12p-3 -0x1.71547587c0c3cp-3 "
        "0x1.484b13da0c492p-3 -0x1.2776e8a89e462p-3 0x1.0c9aa82503d4p-3 -0x1.ec69641898a6p-4 "
        "0x1.c681fec2f3b66p-4 -0x1.a683dcf316a6ap-4 0x1.8b1961507119ap-4 -0x1.6e0333a09489dp-4 "
        "0x1.4e556f901810ap-4 -0x1.4f96fed66d593p-4 0x1.8213a67acae52p-4 -0x1.630345d452e11p-4 "
        "0x1.352fd2443229dp-5"
    ),
)


def _split(b: ScalarBuilder, x: Number) -> tuple[Number, Number]:
    """Return (m, k) with m·2^k = x and m in [sqrt(1/2), sqrt(2)), both as floats, for positive finite x."""
    f = b.format
    lift = f.precision_bits + 1
    is_subnormal = x < f.smallest_normal
    bits = b.bits(b.select(is_subnormal, x * 2.0**lift, x))
    code = "<f" if f.bits == 32 else "<d"
    sqrt_half = int.from_bytes(struct.pack(code, b.parts(SQRT_HALF)[0]), "little")
    exponent = (bits - sqrt_half) >> f.precision_bits
    mantissa = b.from_bits(bits - (exponent << f.precision_bits))
    k = b.convert("trunc", exponent, "i32") - b.select(is_subnormal, b.constant("i32", lift), 0)
    return mantissa, b.convert("sitofp", k, f.type)


def _with_special_values(b: ScalarBuilder, x: Number, result: Number, pole: float = 0.0) -> Number:
    """Return `result` for finite x > pole, else infinity, minus infinity (at the pole) or NaN, as a logarithm does."""
    special = b.select(x > pole, x, b.select(x.equals(pole), b.constant(x.type, -INF), NAN))
    return b.select((x > pole) & (x < INF), result, special)


def _log(b: ScalarBuilder, x: Number) -> Number:
    """Return k·ln(2) + f + f²·P(f) for x = (1 + f)·2^k, with the special values of a logarithm."""
    ln2_high, ln2_low = b.parts(LN2)
    m, k = _split(b, x)
    f = m - 1.0
    tail = b.fma(f * f, b.horner(f, LOG_FIT), k * ln2_low)
    return _with_special_values(b, x, b.fma(k, ln2_high, f + tail))


LOG = Elementwise(
    name="log", operands=("x",), kind="function", meaning="natural logarithm", formula=in_double(np.log),
    floats=called(_log), accuracy=Accuracy((0.92, 2.0), "mp.log(x)", ((0.4, 3),), ((0.4, 3),)),
    special=((0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (NAN, NAN), (-1.0, NAN), (1.0, 0.0)),
    is_ascending=True,
)


def _log2(b: ScalarBuilder, x: Number) -> Number:
    """Return k + f·P(f) for x = (1 + f)·2^k, with the special values of a logarithm."""
    m, k = _split(b, x)
    f = m - 1.0
    return _with_special_values(b, x, b.fma(f, b.horner(f, LOG2_FIT), k))


LOG2 = Elementwise(
    name="log2", operands=("x",), kind="function", meaning="logarithm to base 2", formula=in_double(np.log2),
    floats=called(_log2), accuracy=Accuracy((1.68, 3.0), "mp.log(x) / mp.log(2)", ((0.4, 3),), ((0.4, 3),)),
    special=((0.0, -INF), (-0.0, -INF), (INF, INF), (-INF, NAN), (NAN, NAN), (-1.0, NAN), (1.0, 0.0)),
    is_ascending=True,
)

TWO_OVER_LN2 = RealConstant(
    "2 / mp.log(2)", "0x1.715476p+1 0x1.4ae0cp-25", "0x1.71547652b82fep+1 0x1.777d0ffda0d24p-55"
)

TWO_OVER_3LN2 = RealConstant(
    "2 / mp.log(2) / 3",
    "0x1.ec709ep-1 -0x1.e2fe02p-28",
    "0x1.ec709dc3a03fdp-1 0x1.d27f05548af0cp-55",
)

ATANH_FIT = Polynomial(
    "2 * (mp.atanh(mp.sqrt(x)) - mp.sqrt(x) - mp.sqrt(x) ** 3 / 3) / mp.log(2) / mp.sqrt(x) ** 5",
    low="mp.mpf(0)",
    high="(mp.sqrt(2) - 1) ** 4",
    float32="0x1.2776ccp-1 0x1.a5f46ep-2 0x1.548568p-2",
    float64=(
        "0x1.2776c50ef9bfep-1 0x1.a61762a7aded7p-2 0x1.484b13d7c0903p-2 0x1.0c9a8498b629dp-2 "
        "0x1.c68f5748b8d37p-3 0x1.89f369e97c1bp-3 0x1.5baac3c4a0e23p-3 0x1.34f196a1f7674p-3 "
        "0x1.3e04422048194p-3"
    ),
)


def _log2_in_two_parts(b: ScalarBuilder, x: Number) -> tuple[Number, Number]:
    """Return log2 of a positive finite x as a sum of two floats, precise to about 12 bits more than one float.

    log2(m) = u·(2 + 2u²/3 + ...)/ln(2) for u = (m - 1)/(m + 1). The rounding errors of the division, the constant, the
    cubic term and the product with u are all propagated.
    """
    c_high, c_low = b.parts(TWO_OVER_LN2)
    third_high, third_low = b.parts(TWO_OVER_3LN2)
    m, k = _split(b, x)
    f, d = m - 1.0, m + 1.0
    d_low = m - (d - 1.0)
    reciprocal = 1.0 / d
    u = f * reciprocal
    u_low = b.fma(-u, d_low, b.fma(-u, d, f)) * reciprocal

    s = u * u
    s_low = b.fma(u + u, u_low, b.fma(u, u, -s))
    cubic = s * third_high
    cubic_low = b.fma(s, third_high, -cubic) + b.fma(s, third_low, s_low * third_high)
    cubic_low = b.fma(s * s, b.horner(s, ATANH_FIT), cubic_low)

    slope = cubic + c_high
    slope_low = (cubic - (slope - c_high)) + (cubic_low + c_low)
    product = u * slope
    product_low = b.fma(u, slope, -product) + b.fma(u, slope_low, u_low * slope)

    high = k + product
    low = (product - (high - k)) + product_low
    total = high + low
    return total, low - (total - high)


def _power(b: ScalarBuilder, x: Number, y: Number) -> Number:
    """Return 2^(y·log2|x|), with the sign and the special values of C's pow (ISO/IEC 9899:2011, F.10.4.4)."""
    limit = EXP2_LIMIT[b.format.dtype]
    magnitude = abs(x)
    log_high, log_low = _log2_in_two_parts(b, magnitude)
    product = y * log_high
    product_low = b.fma(y, log_low, b.fma(y, log_high, -product))
    limited = clamp(b, product, limit)
    p, n = exp2_parts(b, limited, b.select(abs(product) > limit, 0.0, product_low))
    result = scale(p, scale_factors(b, n))

    is_zero = magnitude.equals(0.0)
    is_extreme = is_zero | magnitude.equals(INF)
    extreme = b.select((y < 0.0) ^ is_zero, b.constant(x.type, 0.0), INF)
    result = b.select(is_extreme, extreme, result)
    result = b.select(magnitude.equals(1.0), 1.0, result)

    is_integer = b.intrinsic("rint", y).equals(y)
    half = y * 0.5
    is_odd = is_integer & b.intrinsic("rint", half).differs(half)
    is_negative = b.bits(x) < 0
    result = b.select(is_negative & is_odd, -result, result)
    is_complex = is_negative & ~(is_extreme | is_integer)
    is_nan = b.compare("unordered", x, y)
    result = b.select(is_complex | is_nan, NAN, result)
    return b.select(x.equals(1.0) | y.equals(0.0), 1.0, result)


def _square(b: ScalarBuilder, x: Number, y: Number) -> Number | None:
    """Return x·x for a literal y = 2, else None. It is one instruction, and for floats has pow's special values."""
    return x * x if y.text == b.constant(y.type, 2).text else None


def _integer_power(b: BlockBuilder, x: Number, y: Number) -> Number:
    """Return x^y modulo 2^bits by repeated squaring.

    A negative exponent gives the exact value truncated toward zero, ±1 for x = ±1 and 0 for larger |x|; 0 for x = 0.
    NumPy raises an exception, which a kernel can't do.
    """
    before, loop, done = b.block, "loop", "done"
    one = b.constant(x.type, 1)
    base = x
    if x.is_signed:
        is_negative = y < 0
        base = b.select(is_negative & (x + 1).logical_shift_right(1).differs(0), 0, x)
        base = b.select(is_negative & x.equals(1), 1, base)
    b.branch(y.equals(0), done, loop)

    b.start(loop)
    result = b.phi((one, before))
    square = b.phi((base, before))
    exponent = b.phi((y, before))
    next_result = b.select((exponent & 1).equals(0), result, result * square)
    next_square = square * square
    next_exponent = exponent.logical_shift_right(1)
    b.add_incoming(result, next_result, loop)
    b.add_incoming(square, next_square, loop)
    b.add_incoming(exponent, next_exponent, loop)
    b.branch(next_exponent.equals(0), done, loop)

    b.start(done)
    return b.phi((one, before), (next_result, loop))


def _power_formula(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Return x to the power y, for integers modulo 2**bits; with negative y truncated toward zero, and 0 for x = 0."""
    if x.dtype.kind == "f":
        return in_double(np.power)(x, y)
    negative = y < 0
    whole = np.power(x, np.where(negative, 0, y).astype(y.dtype))
    odd = (y & 1) != 0
    minus_one = x.dtype.type(0) - x.dtype.type(1)
    of_minus_one = np.where(odd, minus_one, x.dtype.type(1))
    of_negative = np.where(x == 1, x, np.where((x == minus_one) & (x < 0), of_minus_one, x.dtype.type(0)))
    return np.asarray(np.where(negative, of_negative, whole)).astype(x.dtype)


POW = Elementwise(
    name="pow", operands=("x", "y"), kind="arithmetic",
    meaning="x to the power y; integers wrap, and a negative y gives 1 / x**-y truncated toward zero, 0 for x = 0",
    formula=_power_formula, floats=called(_power, shortcut=_square),
    integers=called(_integer_power, shortcut=_square),
    accuracy=Accuracy((1.0, 2.0), "mp.power(x, y)", ((0, 4), (-60, 60)), ((0, 4), (-500, 500))),
    special=(
        (NAN, 0.0, 1.0), (1.0, NAN, 1.0), (0.0, -1.0, INF), (-0.0, -1.0, -INF), (-0.0, -2.0, INF), (-0.0, 3.0, -0.0),
        (-1.0, INF, 1.0), (0.5, INF, 0.0), (2.0, -INF, 0.0), (-INF, 3.0, -INF), (-INF, -2.0, 0.0), (-2.0, 0.5, NAN),
        (2.0, NAN, NAN), (NAN, 2.0, NAN),
    ),
)


def _softplus(b: ScalarBuilder, x: Number) -> Number:
    """Return max(x, 0) + log(1 + t), t = exp(-|x|); log is k·ln(2) + f + f²·P(f) for 1 + t = (1 + f)·2^k."""
    limit = EXP_LIMIT[b.format.dtype]
    w, n = exp_parts(b, -b.minimum(abs(x), limit))
    t = scale(w + 1.0, scale_factors(b, n))
    is_large = t > 0.40625
    f = b.select(is_large, (t - 1.0) * 0.5, t)
    k = b.select(is_large, b.constant(x.type, 1.0), 0.0)
    ln2_high, ln2_low = b.parts(LN2)
    tail = b.fma(f * f, b.horner(f, LOG_FIT), k * ln2_low)
    return b.select(x > 0.0, x, 0.0) + b.fma(k, ln2_high, f + tail)


SOFTPLUS = Elementwise(
    name="softplus", operands=("x",), kind="function", meaning="log(1 + exp(x))",
    formula=in_double(lambda x: np.logaddexp(x, 0)), floats=called(_softplus),
    accuracy=Accuracy((1.85, 2.2), "mp.log1p(mp.exp(x))", ((-104, 104),), ((-745, 745),)),
    special=((INF, INF), (-INF, 0.0), (NAN, NAN)), is_ascending=True,
)


def _log1p(b: ScalarBuilder, x: Number) -> Number:
    """Return f + f²·P(f) for small x = f, else k·ln(2) + f + f²·P(f) + c/u.

    u = (1 + f)·2^k is 1 + x rounded, and c is the rounding error: log(u + c) is log(u) + c/u up to (c/u)²/2.

    source: Muller et al., "Handbook of Floating-Point Arithmetic" (2018), "The 2Sum algorithm".
    """
    ln2_high, ln2_low = b.parts(LN2)
    u = x + 1.0
    rounded = u - 1.0
    c = (1.0 - (u - rounded)) + (x - rounded)
    m, k = _split(b, u)
    is_small = (x > -0.28125) & (x < 0.40625)
    f = b.select(is_small, x, m - 1.0)
    square, series = f * f, b.horner(f, LOG_FIT)
    tail = b.fma(square, series, b.fma(k, ln2_low, c / u))
    large = b.fma(k, ln2_high, f + tail)
    value = b.select(is_small, b.fma(square, series, f), large)
    return _with_special_values(b, x, value, pole=-1.0)


LOG1P = Elementwise(
    name="log1p", operands=("x",), kind="function", meaning="log(1 + x), accurate near 0",
    formula=in_double(np.log1p), floats=called(_log1p),
    accuracy=Accuracy((0.9, 1.1), "mp.log1p(x)", ((-1, 3),), ((-1, 3),)),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, NAN), (NAN, NAN), (-1.0, -INF), (-2.0, NAN)),
    is_ascending=True,
)
