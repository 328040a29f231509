"""The numbers that records hold are the generator's."""

from __future__ import annotations

import mpmath as mp
import numpy as np
import pytest

from tests.codegen import math_fits
from tilejit.ops.elementwise.trigonometric import TWO_OVER_PI_BITS, TWO_OVER_PI_FRACTION

DTYPES = ("float32", "float64")


@pytest.mark.integration
@pytest.mark.parametrize(
    ("name", "dtype"),
    [(name, dtype) for name, fit in math_fits.polynomials().items() for dtype in DTYPES if fit.coefficients(dtype)],
)
def test_a_fit_gives_the_committed_coefficients(name: str, dtype: str) -> None:
    fit = math_fits.polynomials()[name]
    made, _ = math_fits.coefficients(fit, dtype)
    assert made == fit.coefficients(dtype), math_fits.shown(made)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", math_fits.constants())
def test_a_constant_is_the_sum_of_its_parts(dtype: str, name: str) -> None:
    constant = math_fits.constants()[name]
    assert math_fits.parts(constant, dtype) == constant.parts(dtype)


@pytest.mark.parametrize("name", math_fits.ratios())
def test_a_quotient_is_as_near_as_it_says_and_its_divisor_the_nearest(name: str) -> None:
    ratio = math_fits.ratios()[name]
    dividend, divisor = ratio.numbers
    with mp.workdps(40):
        value = eval(ratio.value, {"mp": mp})
        assert divisor == float(np.float32(float(dividend / value)))
        assert abs(mp.mpf(dividend) / divisor / value - 1) < mp.mpf(2) ** -ratio.precision_bits


def test_the_bits_of_two_over_pi_are_its_own() -> None:
    with mp.workprec(TWO_OVER_PI_BITS + 64):
        assert int(mp.floor(2 / mp.pi * mp.mpf(2) ** TWO_OVER_PI_BITS)) == TWO_OVER_PI_FRACTION
