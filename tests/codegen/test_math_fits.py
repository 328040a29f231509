"""The committed coefficients are the generator's."""

from __future__ import annotations

import mpmath as mp
import pytest

from tests.codegen import math_fits
from tilejit.codegen.mathlib.coefficients import COEFFICIENTS

FITS = [(dtype, name) for dtype in ("float32", "float64") for name in (f.name for f in math_fits.fits())]


@pytest.mark.parametrize(("dtype", "name"), FITS)
def test_a_fit_gives_the_committed_coefficients(dtype: str, name: str) -> None:
    with mp.workdps(math_fits.PRECISION[dtype]):
        fit = next(f for f in math_fits.fits() if f.name == name)
        degree = fit.degrees[("float32", "float64").index(dtype)]
        made, _ = math_fits.coefficients(fit, dtype, degree)
    assert made == COEFFICIENTS[dtype][name]


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_constants_are_the_generators(dtype: str) -> None:
    with mp.workdps(math_fits.PRECISION[dtype]):
        made = math_fits.constants(dtype)
    assert made == {name: COEFFICIENTS[dtype][name] for name in made}
    fitted = {name for of, name in FITS if of == dtype}
    assert fitted | set(made) == set(COEFFICIENTS[dtype])
