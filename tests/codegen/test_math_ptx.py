"""What LLVM makes of the functions for GPUs: accepted by ptxas, and of IEEE instructions only."""

from __future__ import annotations

import re

import pytest

from tests.codegen.math_device import FUNCTIONS, TARGETS, ptx
from tests.support.ptxas import ptxas_accepts


@pytest.mark.parametrize("target", TARGETS)
def test_ptxas_accepts_every_function(target: str) -> None:
    assert ptx(target).count(".entry") == len(FUNCTIONS)
    ptxas_accepts(ptx(target), target)


@pytest.mark.parametrize("target", TARGETS)
def test_no_function_calls_approximates_flushes_or_reads_tables(target: str) -> None:
    forbidden = r"^\s*(?:call\b.*|\S*\.(?:approx|ftz|full)\b\S*|ld\.(?:const|local)\S*)"
    assert re.findall(forbidden, ptx(target), re.M) == []


@pytest.mark.parametrize("target", TARGETS)
def test_float32_functions_compute_in_float32(target: str) -> None:
    kernels = re.split(r"^\.visible \.entry ", ptx(target), flags=re.M)[1:]
    single = {k.split("(")[0]: k for k in kernels if "_float32(" in k.split("\n")[0]}
    assert len(single) == sum(dtype == "float32" for _, dtype in FUNCTIONS)
    assert [name for name, text in single.items() if ".f64" in text] == []


@pytest.mark.parametrize("target", TARGETS)
def test_every_float_operation_names_its_rounding(target: str) -> None:
    """Without `.rn` ptxas may contract a product and a sum."""
    assert re.findall(r"^\s*(?:add|sub|mul|fma|div|rcp|sqrt)\.f(?:32|64)\b.*", ptx(target), re.M) == []
