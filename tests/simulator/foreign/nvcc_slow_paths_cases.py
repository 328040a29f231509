"""nvcc's kernels with CUDA's mathematical functions: launches and references.

Tolerances are the maximum errors in ulp that the CUDA C++ Programming Guide states (appendix Mathematical Functions),
and half an ulp more where the reference is rounded from a double.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np

from . import precise
from .case import Launch
from .nvcc_entries import kernel, rng
from .precise import precisely

f4, i4, u4 = np.float32, np.int32, np.uint32
ULP, ULP4 = 2.0**-52, 2.0**-23


def large_floats(n: int) -> Any:
    """Their sines, cosines and tangents are known to half an ulp of a float: from doubles with all digits of pi."""
    x = (rng().normal(size=n) * 10.0 ** rng().integers(0, 37, n)).astype(f4)
    x[:4] = 105615.0, -1e5, 3.4e38, 16777215.0
    return x


def by(function: Any, *arrays: Any) -> Any:
    return np.array([function(*values) for values in zip(*(a.tolist() for a in arrays), strict=True)])


@kernel("slow_paths", (2,), (64,))
def sines_of_large_floats(device: Any) -> Launch:
    x = large_floats(100)
    s, c = by(math.sin, x).astype(f4), by(math.cos, x).astype(f4)
    return Launch([x, np.zeros(100, f4), np.zeros(100, f4), i4(100)], {1: s, 2: c}, rtol=2.5 * ULP4)


@kernel("slow_paths", (2,), (64,))
def tangents_of_large_floats(device: Any) -> Launch:
    x = large_floats(100)
    return Launch([x, np.zeros(100, f4), i4(100)], {1: by(math.tan, x).astype(f4)}, rtol=4.5 * ULP4)


@kernel("slow_paths", (2,), (64,))
def sines_of_large_doubles(device: Any) -> Launch:
    """The host's functions err by less than an ulp."""
    n = 100
    x = rng().normal(size=n) * 10.0 ** rng().integers(0, 300, n)
    x[:4] = 105615.0, -1e5, 1.7e308, 2.0**53 - 1
    return Launch(
        [x, np.zeros(n), np.zeros(n), np.zeros(n), i4(n)], {1: by(math.sin, x), 2: by(math.cos, x), 3: by(math.tan, x)},
        rtol=3 * ULP,
    )


def power(x: Decimal, y: Decimal) -> Decimal:
    return (y * x.ln()).exp()


@kernel("slow_paths", (2,), (64,))
def powers_of_doubles(device: Any) -> Launch:
    n = 100
    x = np.exp(rng().normal(size=n) * 3)
    y = rng().normal(size=n) * 40
    pairs = zip(x.tolist(), y.tolist(), strict=True)
    z = np.concatenate([precisely(lambda a, b=b: power(a, Decimal(b)))([a]) for a, b in pairs])
    half = precisely(lambda a: a * a * a.sqrt())(x)
    inf, nan = np.inf, np.nan
    special = np.array([
        (-2, 3, -8), (-2, 0.5, nan), (0, -1, inf), (-0.0, -3, -inf), (1, nan, 1), (nan, 0, 1), (-inf, 3, -inf),
        (-inf, -2, 0), (0.5, inf, 0), (2, inf, inf), (-1, inf, 1), (2, 1023, 2.0**1023), (2, -1074, 2.0**-1074),
        (10, 308, 1e308), (10, 309, inf), (10, -400, 0),
    ])
    x[:16], y[:16], z[:16] = special.T
    with np.errstate(all="ignore"):
        half[:16] = np.abs(x[:16]) ** 2.5
    return Launch([x, y, np.zeros(n), np.zeros(n), i4(n)], {2: z, 3: half}, rtol=2 * ULP)


@kernel("slow_paths", (2,), (64,))
def powers_of_floats(device: Any) -> Launch:
    n = 100
    x = np.exp(rng().normal(size=n) * 3).astype(f4)
    y = (rng().normal(size=n) * 6).astype(f4)
    x[:8] = -2, -2, 0, np.nan, 0.5, -1, -8, 1
    y[:8] = 3, 0.5, -1, 0, np.inf, np.inf, -3, np.nan
    with np.errstate(all="ignore"):
        z, half = (np.power(x.astype(np.float64), p).astype(f4) for p in (y.astype(np.float64), 2.5))
    assert ((np.abs(z) > 1e-37) | (z == 0) | np.isnan(z)).all()
    return Launch([x, y, np.zeros(n, f4), np.zeros(n, f4), i4(n)], {2: z, 3: half}, rtol=4.5 * ULP4)


def ieee_remainder(x: float, y: float) -> float:
    return math.nan if math.isinf(x) or y == 0 or x != x or y != y else math.remainder(x, y)


@kernel("slow_paths", (2,), (64,))
def remainders(device: Any) -> Launch:
    n = 100
    x = rng().normal(size=n) * 10.0 ** rng().integers(-3, 60, n)
    y = rng().normal(size=n) * 10.0 ** rng().integers(-3, 9, n)
    u, v = (np.clip(a, -1e38, 1e38).astype(f4) for a in (x, y))
    for a, b in ((x, y), (u, v)):
        a[:8] = np.inf, 1, -7, 5, -0.0, 3, 2.5, np.nan
        b[:8] = 2, np.inf, 0, -5, 3, 2, 1, 1
    with np.errstate(all="ignore"):
        modulo = {2: np.fmod(x, y), 6: np.fmod(u, v)}
    nearest = {3: by(ieee_remainder, x, y), 7: by(ieee_remainder, u, v).astype(f4)}
    return Launch(
        [x, y, np.zeros(n), np.zeros(n), u, v, np.zeros(n, f4), np.zeros(n, f4), i4(n)], modulo | nearest
    )


def erfc(x: Decimal) -> Decimal:
    return 1 - precise.erf(x)


@kernel("slow_paths", (1,), (64,))
def error_functions(device: Any) -> Launch:
    x = np.concatenate([np.linspace(-6.3, 6.1, 50), [0, 1e-9, -1e-9, 0.46875, 1e-300]])
    n = len(x)
    return Launch(
        [x, np.zeros(n), np.zeros(n), np.zeros(n), i4(n)],
        {1: precisely(precise.erf)(x), 2: precisely(erfc)(x), 3: precisely(precise.normal_cdf)(x)}, rtol=5 * ULP,
    )


@kernel("slow_paths", (1,), (64,))
def error_functions_of_floats(device: Any) -> Launch:
    x = np.linspace(-5, 8.5, 60).astype(f4)
    a, b = (precisely(f)(x).astype(f4) for f in (precise.erf, erfc))
    return Launch([x, np.zeros(60, f4), np.zeros(60, f4), i4(60)], {1: a, 2: b}, rtol=4.5 * ULP4)


@kernel("slow_paths", (1,), (64,))
def normal_quantiles(device: Any) -> Launch:
    p = np.concatenate([np.linspace(0.01, 0.99, 40), [1e-8, 1e-5, 1e-3, 0.5 - 2.0**-20, 1 - 2.0**-20]])
    a = precisely(precise.normal_quantile)(p)
    b = precisely(lambda v: -precise.normal_quantile(v) / Decimal(2).sqrt())(p)
    return Launch([p, np.zeros(45), np.zeros(45), i4(45)], {1: a, 2: b}, rtol=8 * ULP)


#: outside the interval about lgamma's zeros for which the guide states no error in ulp
OF_GAMMA = [
    0.001, 0.3, 0.5, 0.99, 1.25, 1.5, 2.5, 3, 4.75, 10, 25.5, 60.25, 1e3, 1e6, -0.001, -0.5, -1.3, -1.75, -2.1, -12.5,
    -30.25,
]


@kernel("slow_paths", (1,), (32,))
def logarithms_of_gamma(device: Any) -> Launch:
    x = np.array(OF_GAMMA)
    return Launch([x, np.zeros(len(x)), i4(len(x))], {1: precisely(precise.lgamma)(x)}, rtol=4 * ULP)


@kernel("slow_paths", (1,), (32,))
def logarithms_of_gamma_of_floats(device: Any) -> Launch:
    x = np.array(OF_GAMMA, f4)
    y = precisely(precise.lgamma)(x).astype(f4)
    return Launch([x, np.zeros(len(x), f4), i4(len(x))], {1: y}, rtol=6.5 * ULP4)


@kernel("slow_paths", (1,), (32,))
def gamma_function(device: Any) -> Launch:
    x = np.array([*OF_GAMMA[:12], 100.5, 170.5, -0.001, -0.5, -1.3, -2.1, -12.5, -50.5, 171.0, 5.0])
    return Launch([x, np.zeros(len(x)), i4(len(x))], {1: precisely(precise.gamma)(x)}, rtol=10 * ULP)


@kernel("slow_paths", (2,), (32,))
def exponentials(device: Any) -> Launch:
    x = rng().normal(size=50) * 10.0 ** rng().integers(-8, 3, 50)
    x = np.concatenate([np.clip(x, -690, 690), [0.0, 1e-17, -0.3, 0.3]])
    a = np.abs(x) + 1e-310
    two, ten = Decimal(2), Decimal(10)
    y = np.stack([
        precisely(Decimal.exp)(x), precisely(lambda v: (v * two.ln()).exp())(x), precisely(lambda v: v.exp() - 1)(x),
        precisely(Decimal.ln)(a), precisely(lambda v: v.ln() / two.ln())(a), precisely(lambda v: v.ln() / ten.ln())(a),
        precisely(lambda v: (1 + v).ln() if v > Decimal("1e-25") else v - v * v / 2)(a),
    ], 1)
    return Launch([x, np.zeros((54, 7)), i4(54)], {1: y}, rtol=ULP)


@kernel("slow_paths", (2,), (32,))
def hyperbolic_functions(device: Any) -> Launch:
    x = rng().normal(size=50) * 10.0 ** rng().integers(-6, 3, 50)
    x = np.clip(x, -600, 600)
    e = Decimal.exp
    y = np.stack([
        precisely(lambda v: (e(v) - e(-v)) / 2)(x), precisely(lambda v: (e(v) + e(-v)) / 2)(x),
        precisely(lambda v: 1 - 2 / (e(2 * v) + 1))(x), precisely(lambda v: (v + (v * v + 1).sqrt()).ln())(np.abs(x)),
        precisely(lambda v: (v + (v * v - 1).sqrt()).ln())(np.abs(x) + 1),
        precisely(lambda v: ((1 + v) / (1 - v)).ln() / 2)(x / (np.abs(x) + 1)),
    ], 1)
    y[:, 3] = np.copysign(y[:, 3], x)
    return Launch([x, np.zeros((50, 6)), i4(50)], {1: y}, rtol=3 * ULP)


@kernel("slow_paths", (2,), (32,))
def roots_and_norms(device: Any) -> Launch:
    n = 50
    x, y = rng().normal(size=(2, n)) * 10.0 ** rng().integers(-150, 150, (2, n))

    def root(v: Decimal) -> Decimal:
        return (abs(v).ln() / 3).exp().copy_sign(v)

    def norm(third: int) -> Any:
        pairs = zip(x, y, strict=True)
        return np.array([precisely(lambda a, b=b: (a * a + Decimal(b) ** 2 + third).sqrt())([a])[0] for a, b in pairs])

    out = np.stack([
        precisely(root)(x), norm(0), precisely(lambda v: 1 / abs(v).sqrt())(x), norm(1),
        precisely(lambda v: 1 / root(v))(y),
    ], 1)
    return Launch([x, y, np.zeros((n, 5)), i4(n)], {2: out}, rtol=2 * ULP)


@kernel("slow_paths", (2,), (32,))
def inverse_sines(device: Any) -> Launch:
    """The host's functions err by less than an ulp."""
    n = 50
    x = rng().uniform(-1, 1, n)
    y = rng().normal(size=n) * 10
    x[:4] = 1, -1, 0, 1e-9
    half_turns = precisely(lambda v: precise.sine(precise.PI * v))(np.fmod(y, 2))
    out = np.stack([by(math.asin, x), by(math.acos, x), by(math.atan, x * 1000), by(math.atan2, x, y), half_turns], 1)
    return Launch([x, y, np.zeros((n, 5)), i4(n)], {2: out}, rtol=3 * ULP)


@kernel("slow_paths", (2,), (64,))
def divisions_at_the_limits(device: Any) -> Launch:
    """Quotients that are subnormal, overflow, or have subnormal parts; all are rounded right."""
    n = 120
    limits = [0.0, -0.0, 5e-324, -2e-310, 2.0**-1022, 1.0, 3.0, -1e300, 1.7e308, np.inf, np.nan]
    x = np.concatenate([np.repeat(limits, 10)[:100], rng().normal(size=20) * 1e-308])
    y = np.concatenate([np.tile(limits, 10)[:100], rng().normal(size=20) * 1e2])
    limits4 = np.array([0.0, -0.0, 1e-45, -2e-40, 2.0**-126, 1.0, 3.0, -1e30, 3.4e38, np.inf, np.nan], f4)
    u = np.concatenate([np.repeat(limits4, 10)[:100], (rng().normal(size=20) * 1e-38).astype(f4)])
    v = np.concatenate([np.tile(limits4, 10)[:100], (rng().normal(size=20) * 1e2).astype(f4)])
    with np.errstate(all="ignore"):
        expected = {2: x / y, 3: np.sqrt(np.abs(x)) - 1 / y, 6: u / v, 7: np.sqrt(np.abs(u))}
    return Launch([x, y, np.zeros(n), np.zeros(n), u, v, np.zeros(n, f4), np.zeros(n, f4), i4(n)], expected)


@kernel("slow_paths", (2,), (32,))
def directed_rounding(device: Any) -> Launch:
    n = 50
    x, y = rng().normal(size=(2, n)) * 10.0 ** rng().integers(-9, 9, (2, n))
    x[:3], y[:3] = (1, 9, -6), (3, 0.25, 7)
    u, v = x.astype(f4), y.astype(f4)
    out, f = np.zeros((n, 8)), np.zeros((n, 6), f4)
    for i in range(n):
        a, b = Fraction(x[i]), Fraction(y[i])
        exact = [(a + b, "up"), (a + b, "down"), (a * b, "zero"), (a * b, "up"), (a / b, "down"), (a / b, "up")]
        out[i, :6] = [precise.directed(e, d, np.float64) for e, d in exact]
        out[i, 6] = precise.directed(a * b + 1, "zero", np.float64)
        out[i, 7] = precise.directed_sqrt(abs(a), "up", np.float64)
        a, b = Fraction(float(u[i])), Fraction(float(v[i]))
        exact = [(a + b, "up"), (a * b, "down"), (a / b, "zero"), (a / b, "up")]
        f[i, :4] = [precise.directed(e, d, f4) for e, d in exact]
        f[i, 4] = precise.directed_sqrt(abs(a), "down", f4)
        f[i, 5] = precise.directed(a * b + 1, "up", f4)
    return Launch([x, y, np.zeros((n, 8)), u, v, np.zeros((n, 6), f4), i4(n)], {2: out, 5: f})


@kernel("slow_paths", (2,), (64,))
def parts_of_numbers(device: Any) -> Launch:
    n = 100
    x = rng().normal(size=n) * 10.0 ** rng().integers(-300, 15, n)
    x[:9] = 0.5, -1.5, 2.5, 1024, -3e-320, 5e-324, 0.49999999999999994, 2.0**52 + 1, -4503599627370497.5
    fraction, exponent = np.frexp(x)
    part, whole = np.modf(x)
    i = np.arange(n)
    away = [math.copysign(math.floor(Fraction(abs(v)) + Fraction(1, 2)), v) for v in x]
    expected = {
        1: fraction, 2: exponent.astype(i4), 3: whole, 4: np.ldexp(part, i % 40 - 20), 5: exponent.astype(i4) - 1,
        6: np.nextafter(x, np.where(i & 1, 1e300, -1e300)),
        7: np.rint(x).astype(np.int64) + np.array(away).astype(np.int64),
    }
    arrays = [np.zeros_like(e) for e in expected.values()]
    return Launch([x, *arrays, i4(n)], expected)


@kernel("slow_paths", (2,), (32,))
def bessel_functions(device: Any) -> Launch:
    """The guide states 7 ulp for J below 8, 6 for I."""
    x = np.linspace(-7.9, 7.8, 50)
    y = np.stack([precisely(precise.bessel(o, s))(x) for o, s in ((0, -1), (1, -1), (0, 1), (1, 1))], 1)
    return Launch([x, np.zeros((50, 4)), i4(50)], {1: y}, rtol=7 * ULP)
