"""The committed coefficients are the generator's."""

from __future__ import annotations

import contextlib
import io
from pathlib import Path

from tests.codegen import math_fits
from tilejit.codegen.mathlib import coefficients


def test_the_generator_makes_the_committed_coefficients() -> None:
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        math_fits.main()
    assert Path(coefficients.__file__).read_text() == printed.getvalue()
