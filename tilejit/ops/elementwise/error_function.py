"""erf and gelu."""

from __future__ import annotations

import math

import numpy as np

from ..fitted import Polynomial
from ..scalar import Number, ScalarBuilder, called
from .exponential import exp2_narrow, exp2_parts, exp_parts, power_of_two, scale, scale_factors
from .record import INF, NAN, Accuracy, Elementwise, in_double

_erf_of = np.vectorize(math.erf, otypes=[np.float64])
_erfc_of = np.vectorize(math.erfc, otypes=[np.float64])

#: erf rounds to ±1 for arguments beyond ± this limit
_ERF_LIMIT = {"float32": 4.0, "float64": 6.0}
#: ERFC_FIT is a polynomial in |x| minus this constant
_ERF_CENTRE = {"float32": 1.75, "float64": 2.0}

ERF_FIT = Polynomial(
    "mp.erf(mp.sqrt(x)) / mp.sqrt(x) - 1",
    low="mp.mpf(0)",
    high="mp.mpf(1)",
    float32="0x1.06eba2p-3 -0x1.812688p-2 0x1.ce0bb2p-4 -0x1.b5be2ep-6 0x1.42c01ap-8 -0x1.28c08ap-11",
    float64=(
        "0x1.06eba8214db68p-3 -0x1.812746b0379c2p-2 0x1.ce2f21a041017p-4 -0x1.b82ce3120627bp-6 "
        "0x1.565bccfa99e9p-8 -0x1.c02db072db06cp-11 0x1.f9a2bf717d858p-14 -0x1.f4ca947265a02p-17 "
        "0x1.b9827996fa28p-20 -0x1.5c16d9d6f5055p-23 0x1.d784541e4e326p-27 -0x1.acdf3eb67afb3p-31"
    ),
)

ERFC_FIT = Polynomial(
    "mp.log(mp.erfc(x + (mp.mpf('1.75') if dtype == 'float32' else 2))) / mp.log(2)",
    weight="mp.erfc(x + (mp.mpf('1.75') if dtype == 'float32' else 2))",
    low="mp.mpf('-0.75' if dtype == 'float32' else -1)",
    high="mp.mpf('2.25' if dtype == 'float32' else 4)",
    float32=(
        "-0x1.8eadd8p+2 -0x1.6d99c6p+2 -0x1.501118p+0 -0x1.e55fbep-6 0x1.b3bb78p-8 -0x1.76d21p-10 "
        "0x1.18bb4p-12"
    ),
    float64=(
        "-0x1.ef5bbc912e9dep+2 -0x1.97f093d6590d2p+2 -0x1.552b38b782684p+0 -0x1.85301a3628be6p-6 "
        "0x1.519c099b210abp-8 -0x1.14fd2b259f084p-10 0x1.99629fec99ff4p-13 -0x1.f530154fbe0e5p-16 "
        "0x1.7a031f49f1259p-19 0x1.3b96fccb71f5dp-22 -0x1.0c41d99e36dc9p-22 0x1.65817f44d8ec1p-24 "
        "-0x1.5abedaca35c96p-26 0x1.02b56c900d7bap-28 -0x1.977d812990d62p-32 -0x1.c5dfa3b7fe21ep-34 "
        "0x1.d0bcb4ce52344p-35 -0x1.edee6da41323cp-38"
    ),
)


def _erf(b: ScalarBuilder, x: Number) -> Number:
    """Return x + x·P(x²) for |x| up to 1, else 1 - 2^Q(|x|) with the sign of x, where Q fits log2(erfc)."""
    magnitude = abs(x)
    square = x * x
    small = b.fma(x, b.horner(square, ERF_FIT), x)

    limit = _ERF_LIMIT[b.format.dtype]
    limited = b.minimum(magnitude, limit)
    p, n = exp2_parts(b, b.horner(limited - _ERF_CENTRE[b.format.dtype], ERFC_FIT))
    large = b.intrinsic("copysign", b.fma(-p, power_of_two(b, n), 1.0), x)
    return b.select(magnitude > 1.0, large, small)


ERF = Elementwise(
    name="erf", operands=("x",), kind="function", meaning="error function", formula=in_double(_erf_of),
    floats=called(_erf), accuracy=Accuracy((1.64, 4.0), "mp.erf(x)", ((-4, 4),), ((-6, 6),)),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, 1.0), (-INF, -1.0), (NAN, NAN)), symmetry="odd", is_ascending=True,
)

#: gelu rounds to -0 for finite arguments below minus this limit
_GELU_LIMIT = {"float32": 15.0, "float64": 40.0}

PHI_FIT = Polynomial(
    "mp.erf(mp.sqrt(x / 2)) / 2 / mp.sqrt(x)",
    low="mp.mpf(0)",
    high="mp.mpf(1)",
    float32="0x1.988452p-2 -0x1.10576cp-4 0x1.469c7ep-7 -0x1.329e1cp-10 0x1.8be058p-14",
    float64=(
        "0x1.9884533d4365p-2 -0x1.1058377e2ce7p-4 0x1.46d0429761d59p-7 -0x1.37403f68b3e99p-10 "
        "0x1.e42b0c2013c72p-14 -0x1.3ce8d6cfd5cd3p-17 0x1.6584faadea54ep-21 -0x1.61acf84729bdcp-25 "
        "0x1.32199b0b5508dp-29 -0x1.8d10870b7f2b9p-34"
    ),
)

GELU_FIT = Polynomial(
    "(lambda a: mp.exp(a * a / 2) * mp.erfc(a / mp.sqrt(2)) / 2 * (a + 4))(8 / (x + 1) - 4)",
    weight="1 / f",
    low="mp.mpf(8 / (19 if dtype == 'float32' else 44) - 1)",
    high="mp.mpf(0.6)",
    float32=(
        "0x1.82b4bcp-1 0x1.373e3ap-1 0x1.8c6dcp-2 0x1.7dff38p-3 0x1.eec4a4p-5 0x1.ee0dfap-8 "
        "-0x1.c8048p-9 -0x1.a8d64cp-10 0x1.142bcp-13 0x1.a4ddb6p-13"
    ),
    float64=(
        "0x1.82b4bb8c94dcep-1 0x1.373e3a893c28bp-1 0x1.8c6dbf2cfc275p-2 0x1.7dff2bff6809cp-3 "
        "0x1.eec4cc3e5596p-5 0x1.ee276105a2c1ap-8 -0x1.c81719e2e15a4p-9 -0x1.ab82602763596p-10 "
        "0x1.17a4b8d88da1ep-13 0x1.e4a44cc591269p-13 -0x1.00300002cad99p-19 -0x1.26d5108611a41p-15 "
        "0x1.819f94c25fc96p-21 0x1.8de884c1f3ee2p-18 -0x1.52d2a5bf6082cp-21 -0x1.18ad1bd68b44fp-20 "
        "0x1.1c868be7901b7p-22 0x1.97d24e8247222p-23 -0x1.139926027341dp-24 -0x1.31b3ae0eef62bp-25"
    ),
)


def _gelu(b: ScalarBuilder, x: Number) -> Number:
    """Return x·Phi(x) with Phi the cumulative normal distribution; NaN at minus infinity, like the product.

    For |x| up to 1, Phi(x) = 1/2 + x·Q(x²). Beyond, with a = |x| and q = a/(a + 4),
    a·Phi(-a) = exp(-a²/2)·q·P(1 - 2q) keeps its relative precision where 1 + erf(x/sqrt(2)) would cancel; for positive
    x, the result is x - x·Phi(-x).
    """
    magnitude = abs(x)
    limit = _GELU_LIMIT[b.format.dtype]
    a = b.minimum(magnitude, limit)
    q = a / (a + 4.0)
    mills = q * b.horner(b.fma(q, -2.0, 1.0), GELU_FIT)

    square = a * a
    square_low = b.fma(a, a, -square)
    w, n = exp_parts(b, square * -0.5, square_low * -0.5)
    tail = scale(b.fma(mills, w, mills), scale_factors(b, n))
    large = b.select(x < 0.0, -tail, x - tail)

    small = x * b.fma(x, b.horner(x * x, PHI_FIT), 0.5)
    result = b.select(magnitude > 1.0, large, small)
    return b.select(x.equals(-float("inf")), float("nan"), result)


#: gelu of float16 and bfloat16 rounds to x or -0 for finite arguments beyond ± this limit
_GELU_HALF_LIMIT = 14.0

#: log2(Phi(-x)), fitted more closely for x < 6; above, gelu(-x) is 0 in float16
PHI_LOG_FIT = Polynomial(
    "mp.log(mp.erfc(x / mp.sqrt(2)) / 2) / mp.log(2)",
    weight="1 if x < 6 else mp.mpf(1) / 16",
    low="mp.mpf(0)",
    high="mp.mpf(14)",
    float32=(
        "-0x1.ffff9cp-1 -0x1.26bcdp+0 -0x1.d52022p-2 -0x1.be3a12p-5 0x1.22932cp-7 -0x1.1708fep-10 "
        "0x1.75b42cp-14 -0x1.45dd96p-18 0x1.49aefcp-23 -0x1.23f7a6p-29"
    ),
)


def _gelu_of_half(b: ScalarBuilder, x: Number) -> Number:
    """Return max(x, 0) - a·Phi(-a) for a = |x|, and NaN at minus infinity.

    A polynomial for log2(Phi(-a)) avoids cancellation and division.
    """
    a = b.minimum(abs(x), _GELU_HALF_LIMIT)
    minus_phi = exp2_narrow(b, b.horner(a, PHI_LOG_FIT), -1.0)
    # the maximum of +0 and -0 is +0, so gelu preserves the sign of a zero
    result = b.fma(a, minus_phi, b.maximum(x, -0.0))
    return b.select(x.equals(-float("inf")), float("nan"), result)


GELU = Elementwise(
    name="gelu", operands=("x",), kind="function", meaning="x/2 * (1 + erf(x / sqrt(2))); nan at -inf",
    formula=in_double(lambda x: 0.5 * x * _erfc_of(-x / math.sqrt(2))), floats=called(_gelu),
    halves=called(_gelu_of_half),
    accuracy=Accuracy(
        (3.16, 4.0),
        # mpmath's erfc fails for huge arguments
        "x * (mp.erfc(-x / mp.sqrt(2)) / 2 if abs(x) < 1000 else mp.mpf(x > 0))",
        ((-15, 5),),
        ((-39, 8),),
        halves=(0.52, 0.52),
    ),
    special=((0.0, 0.0), (-0.0, -0.0), (INF, INF), (-INF, NAN), (NAN, NAN)),
)
