"""Whole programs on open tiles against NumPy: whatever layouts are chosen, the values are the same."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tests.lower.open.programs import program
from tests.support.running import run
from tilejit.runtime import devices


def holds(seed: int, *, converts: bool) -> None:
    kernel, made = program(seed, converts=converts)
    run(replace(kernel, debug=True), made.arrays, {}, devices.named("sim"))
    for name, values in made.expected.items():
        assert np.array_equal(made.arrays[name], values), f"seed {seed}: {name}"


@pytest.mark.parametrize("seed", range(12))
def test_a_program_computes_what_numpy_does(seed: int) -> None:
    holds(seed, converts=False)


@pytest.mark.parametrize("seed", range(12))
def test_a_program_whose_tiles_are_wanted_in_two_layouts_computes_what_numpy_does(seed: int) -> None:
    holds(seed, converts=True)
