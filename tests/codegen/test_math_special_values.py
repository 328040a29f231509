"""Infinities, NaN, zeros and their signs, subnormal numbers; exact functions against exact arithmetic."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codegen.math_host import has, run
from tilejit.codegen.operations import definition, symbol
from tilejit.ops.elementwise import ELEMENTWISE

INF, NAN = math.inf, math.nan

SPECIAL = [name for name, op in ELEMENTWISE.items() if op.special]
FLOATS = pytest.mark.parametrize("dtype", [np.float32, np.float64])


def assert_same(got: np.ndarray, expected: np.ndarray, about: str = "") -> None:
    """Equal values with equal signs of zero; any NaN equals any other."""
    same = (got == expected) & (np.signbit(got) == np.signbit(expected)) | (np.isnan(got) & np.isnan(expected))
    assert same.all(), f"{about}: got {got[~same][:5]}, expected {expected[~same][:5]} at {np.nonzero(~same)[0][:5]}"


@FLOATS
@pytest.mark.parametrize("op", SPECIAL)
def test_special_arguments_have_the_values_of_the_record_and_numpy_the_same(op: str, dtype: type) -> None:
    *args, wanted = np.array(ELEMENTWISE[op].special, dtype).T.copy()
    assert_same(run(op, *args), wanted, op)
    with np.errstate(all="ignore"):
        assert_same(ELEMENTWISE[op].formula(*args), wanted, f"NumPy's {op}")


@FLOATS
@pytest.mark.parametrize("op", ["sin", "tanh", "erf"])
def test_an_odd_function_with_slope_near_1_keeps_subnormal_arguments(op: str, dtype: type) -> None:
    tiny = np.finfo(dtype).smallest_subnormal
    x = np.array([tiny, -tiny, 1000 * tiny, -1000 * tiny], dtype)
    slope = 2 / math.sqrt(math.pi) if op == "erf" else 1
    assert_same(run(op, x), (x.astype(np.longdouble) * slope).astype(dtype), op)


@FLOATS
def test_results_overflow_and_underflow_gradually_where_they_must(dtype: type) -> None:
    info = np.finfo(dtype)
    last, first_subnormal = info.maxexp, info.minexp - info.nmant
    x = np.array([last, np.nextafter(dtype(last), dtype(0)), first_subnormal, first_subnormal - 2], dtype)
    powers = run("exp2", x)
    assert powers[0] == INF and np.isfinite(powers[1])
    assert powers[2] == info.smallest_subnormal and powers[3] == 0
    logarithms = run("log2", np.array([info.smallest_subnormal, info.smallest_normal], dtype))
    assert_same(logarithms, np.array([first_subnormal, info.minexp], dtype))


@FLOATS
def test_powers_of_two_and_their_logarithms_are_exact(dtype: type) -> None:
    info = np.finfo(dtype)
    n = np.arange(info.minexp - info.nmant, info.maxexp).astype(dtype)
    powers = run("exp2", n)
    assert_same(powers, np.ldexp(dtype(1), n.astype(int)))
    assert_same(run("log2", powers), n)
    assert run("exp", np.zeros(1, dtype))[0] == 1
    assert_same(run("log", np.ones(1, dtype)), np.zeros(1, dtype))


def grid(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Every pair of the interesting numbers."""
    info = np.finfo(dtype)
    whole = 2.0 ** (info.nmant + 1)
    positive = [0.0, 1, 2, 3, 0.5, 1.5, 0.1, 1e-3, 1e30, 1e-38, INF, 1 + info.eps, 1 - info.epsneg, whole, whole - 1,
                whole / 2 - 1, 2 * whole, info.max, info.smallest_normal, info.smallest_subnormal]
    values = np.array([*positive, *(-v for v in positive), NAN], dtype)
    x, y = np.meshgrid(values, values)
    return x.ravel().copy(), y.ravel().copy()


@FLOATS
@pytest.mark.parametrize("op", ["mod", "floordiv"])
def test_remainder_and_quotient_are_numpys_for_every_pair_of_special_numbers(op: str, dtype: type) -> None:
    x, y = grid(dtype)
    with np.errstate(all="ignore"):
        expected = np.mod(x, y) if op == "mod" else np.floor_divide(x, y)
    assert_same(run(op, x, y), expected, op)


@FLOATS
def test_power_of_every_pair_of_special_numbers_is_numpys(dtype: type) -> None:
    """Exactly, where C's Annex F names the result; within an ulp elsewhere."""
    x, y = grid(dtype)
    got = run("pow", x, y)
    with np.errstate(all="ignore"):
        expected = np.power(x, y)
    special = ~np.isfinite(expected) | (expected == 0) | (np.abs(x) == 1) | (y == 0)
    assert_same(got[special], expected[special], "pow")
    np.testing.assert_array_max_ulp(got[~special], expected[~special], 1)


@given(st.floats(allow_nan=False, allow_infinity=False), st.floats(allow_nan=False, allow_infinity=False))
def test_the_remainder_is_exact_whatever_the_quotient(x: float, y: float) -> None:
    for dtype in (np.float32, np.float64):
        with np.errstate(all="ignore"):
            a, b = np.array([x]).astype(dtype), np.array([y]).astype(dtype)
        if b[0] == 0 or not (np.isfinite(a[0]) and np.isfinite(b[0])):
            continue
        exact = Fraction(float(a[0])) % Fraction(float(b[0]))
        truncated = Fraction(math.fmod(float(a[0]), float(b[0])))
        # The sum of remainder and divisor is rounded once, and only where the signs differ.
        expected = dtype(float(exact)) if exact == truncated else dtype(math.fmod(float(a[0]), float(b[0]))) + b[0]
        assert run("mod", a, b)[0] == expected


@FLOATS
def test_the_remainder_of_random_bit_patterns_is_numpys(dtype: type) -> None:
    rng = np.random.default_rng(5)
    unsigned = np.uint32 if dtype is np.float32 else np.uint64
    x, y = (rng.integers(0, np.iinfo(unsigned).max, 20_000, unsigned, endpoint=True).view(dtype) for _ in range(2))
    with np.errstate(all="ignore"):
        assert_same(run("mod", x, y), np.mod(x, y), "mod")
        assert_same(run("floordiv", x, y), np.floor_divide(x, y), "floordiv")


def test_the_library_says_what_it_has() -> None:
    assert has("exp", "float32") and has("mod", "int8") and has("right_shift", "uint64")
    assert not has("exp", "int32") and not has("exp", "float16") and not has("left_shift", "float32")
    assert symbol("exp", "float32") == "tj.exp.f32"
    assert symbol("mod", "int64") == "tj.mod.i64" and symbol("mod", "uint64") == "tj.mod.u64"
    assert definition("exp", "float32").startswith("define internal float @tj.exp.f32(float %x) alwaysinline nounwind")
