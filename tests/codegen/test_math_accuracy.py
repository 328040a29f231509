"""Errors of the mathematical functions, run on the host from the very text that GPUs get."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.codegen.math_host import run
from tests.codegen.measure_accuracy import errors_of_half, every_half
from tests.reference.functions import INEXACT, accuracy, double, errors32, errors64, samples32, samples64
from tests.support.tolerances import PROMISE
from tilejit.dtypes import DType, bfloat16, float16
from tilejit.ops.elementwise import ELEMENTWISE

#: the functions with a formula for halves
HALVES = [name for name, op in ELEMENTWISE.items() if op.halves is not None]
SYMMETRIC = [(name, op.symmetry) for name, op in ELEMENTWISE.items() if op.symmetry and op.floats is not None]
RISING = [name for name, op in ELEMENTWISE.items() if op.is_ascending]


def assert_within(limit: float, name: str, args: tuple[np.ndarray, ...], error: np.ndarray) -> None:
    worst = int(np.argmax(error))
    at = ", ".join(repr(a[worst]) for a in args)
    assert error[worst] <= limit, f"{name}({at}) errs by {error[worst]:.2f} ulp"


@pytest.mark.parametrize("name", INEXACT)
def test_float32_errs_by_no_more_than_its_record_says(name: str) -> None:
    args = samples32(name)
    assert_within(accuracy(name).ulp[0], name, args, errors32(run(name, *args), double(name, *args)))


@pytest.mark.parametrize("name", INEXACT)
def test_float64_errs_by_no_more_than_its_record_says(name: str) -> None:
    args = samples64(name)
    assert_within(accuracy(name).ulp[1], name, args, errors64(name, run(name, *args), *args))


@pytest.mark.parametrize("dtype", [float16, bfloat16], ids=str)
@pytest.mark.parametrize("name", HALVES)
def test_a_formula_for_halves_errs_by_no_more_than_its_record_says(name: str, dtype: DType) -> None:
    """Of every argument, special values included; a record that has a formula has a bound."""
    limits = accuracy(name).halves
    assert limits is not None
    args = every_half(dtype)
    assert_within(limits[dtype == bfloat16], name, (args,), errors_of_half(name, dtype, args))


@pytest.mark.parametrize("name", INEXACT)
def test_no_record_says_more_than_the_language_promises(name: str) -> None:
    assert max(accuracy(name).ulp) <= PROMISE


@pytest.mark.parametrize("name", INEXACT)
def test_the_numpy_meaning_is_the_true_value(name: str) -> None:
    """Near enough to measure float32 by: its own error is below 2^-10 of float32's unit."""
    args = samples64(name)
    single = tuple(np.where(np.abs(a) < 1e38, a, 1.5).astype(np.float32).astype(np.float64) for a in args)
    ordinary = np.logical_and.reduce([a != 0 for a in single])
    single = tuple(a[ordinary] for a in single)
    values = double(name, *single)
    subnormal = np.abs(values) < np.finfo(np.float64).smallest_normal
    assert_within(2**19, name, single, np.where(subnormal, 0, errors64(name, values, *single)))


def powers(dtype: type, largest_exponent: float, count: int) -> tuple[np.ndarray, np.ndarray]:
    """Bases far from, near and next to 1, with exponents that take the result through the whole range."""
    rng = np.random.default_rng(7)
    far = np.exp(rng.normal(size=count) * 20)
    near = np.exp(rng.uniform(-1, 1, count))
    next_to = 1 + rng.normal(size=count) * 1e-3
    x = np.concatenate([far, near, next_to]).astype(dtype)
    x = x[x != 1]
    y = (rng.uniform(-1, 1, x.size) * largest_exponent / np.log2(x.astype(np.float64))).astype(dtype)
    return x, y


def test_float32_power_errs_by_less_than_1_ulp() -> None:
    x, y = powers(np.float32, 152, 100_000)
    assert_within(accuracy("pow").ulp[0], "pow", (x, y), errors32(run("pow", x, y), double("pow", x, y)))


def test_float64_power_errs_by_less_than_2_ulp() -> None:
    x, y = powers(np.float64, 1076, 600)
    assert_within(accuracy("pow").ulp[1], "pow", (x, y), errors64("pow", run("pow", x, y), x, y))


@pytest.mark.parametrize(("name", "symmetry"), SYMMETRIC)
@given(st.floats(allow_nan=False, allow_infinity=False))
def test_odd_functions_are_odd_and_even_ones_even(name: str, symmetry: str, x: float) -> None:
    for dtype in (np.float32, np.float64):
        with np.errstate(over="ignore"):
            both = np.array([x, -x]).astype(dtype)
        positive, negative = run(name, both)
        np.testing.assert_equal(-negative if symmetry == "odd" else negative, positive)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", RISING)
def test_the_order_of_neighbouring_ranges_is_kept(name: str, dtype: type) -> None:
    """Where one formula hands over to another, and where results end, no step goes down by more than the error."""
    record = ELEMENTWISE[name].accuracy
    low, high = record.float32[0] if record is not None else (-100, 100)
    x = np.sort(np.random.default_rng(1).uniform(low, high, 20_000)).astype(dtype)
    y = run(name, x).astype(dtype)
    assert np.all(y[1:] >= y[:-1] * (1 - np.sign(y[:-1]) * PROMISE * np.finfo(dtype).eps))
