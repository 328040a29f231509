"""Scalar code, on the simulator and on a GPU, gives what NumPy gives, bit for bit where the operation is exact."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from tests.codegen.devices import Runner
from tests.reference.functions import INEXACT, rounded64
from tests.support.lane_kernels import (
    Case,
    arguments,
    array,
    cast_cases,
    elementwise_kernel,
    kernel,
    operation_cases,
    pointer,
)
from tests.support.tolerances import REPRODUCIBLE, tolerance
from tilejit.dtypes import DTYPES, DType, float64, int32
from tilejit.ir.nodes import Const, Store, Vector
from tilejit.ops import elementwise
from tilejit.ops.cast import convert

INPUTS = 256


def samples(dtype: DType, seed: int) -> np.ndarray[Any, Any]:
    """Edge cases of the type in random order, and random bits: NaN, infinities and subnormal numbers among them."""
    random = np.random.default_rng(seed)
    if dtype.kind == "bool":
        return random.integers(0, 2, INPUTS).astype(np.bool_)
    bits = random.integers(0, 256, INPUTS * dtype.bytes, dtype=np.uint8).view(dtype.numpy)
    if dtype.is_integer:
        info = np.iinfo(dtype.numpy)
        edges = [0, 1, 2, 3, 7, 8, 31, 32, 63, 64, info.max, info.max - 1, info.min, info.min + 1]
        if dtype.kind == "int":
            edges += [-1, -2, -3, -7, -8]
        small = random.integers(0 if dtype.kind == "uint" else -20, 20, INPUTS)
        return np.where(
            random.random(INPUTS) < 0.5,
            np.concatenate([np.array(edges, dtype.numpy), small.astype(dtype.numpy)])[:INPUTS],
            bits,
        )
    with np.errstate(over="ignore"):
        edges = np.array([0.0, -0.0, 1, -1, 0.5, 1.5, 2.5, -2.5, np.inf, -np.inf, np.nan, 448, 449, 464, 57344, 65504,
                          65520, 1e-7, 2**-24, 2**-25, 2**-9, 2**-10, 3.4e38, 1e-45]).astype(dtype.numpy)
        normal = np.concatenate([edges, (random.normal(size=INPUTS) * 8).astype(dtype.numpy)])[:INPUTS]
    return random.permutation(np.where(random.random(INPUTS) < 0.7, normal, bits))


def results_of(
    device: Runner, cases: Sequence[Case], inputs: dict[tuple[int, DType], np.ndarray[Any, Any]], name: str
) -> list[Any]:
    """The result of each case on the device."""
    arrays = arguments(cases, inputs)
    device.run(elementwise_kernel(cases, name, INPUTS), arrays)
    results = dict(zip(dict.fromkeys(c.result for c in cases), arrays[len(inputs) :], strict=True))
    return [results[case.result][c * INPUTS : (c + 1) * INPUTS] for c, case in enumerate(cases)]


def reference(case: Case, args: Sequence[np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """The table's NumPy meaning; float64's functions in multiple precision, since NumPy's own errors would count."""
    value = elementwise.reference(case.name, *args)
    if case.result == float64 and case.name in INEXACT:
        return rounded64(case.name, value, *args)
    return value


def mismatch(found: np.ndarray[Any, Any], wanted: np.ndarray[Any, Any], ulps: int = 0) -> np.ndarray[Any, Any]:
    """Where two arrays of one type differ: NaN equals NaN, zeros of both signs are equal."""
    if found.dtype.kind in "biu":
        return np.asarray(found != wanted)
    with np.errstate(invalid="ignore"):
        a, b = found.astype(np.float64), wanted.astype(np.float64)
    same = (a == b) | (np.isnan(a) & np.isnan(b))
    if ulps == 0:
        return ~same
    near = np.abs(_ordinal(found) - _ordinal(wanted)) <= ulps
    return ~(same | (near & ~np.isnan(a) & ~np.isnan(b)))


def _ordinal(x: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """The place of each float among those of its type."""
    bits = x.view(f"i{x.dtype.itemsize}").astype(np.int64)
    return np.where(bits < 0, np.iinfo(f"i{x.dtype.itemsize}").min - bits, bits)


def report(case: Case, args: Sequence[np.ndarray[Any, Any]], found: Any, wanted: Any, bad: Any) -> str:
    """The first few differences."""
    rows = np.flatnonzero(bad)[:4]
    lines = [f"{[str(a[i]) for a in args]}: found {found[i]}, wanted {wanted[i]}" for i in rows]
    return f"{case}: {bad.sum()} differ: " + "; ".join(lines)


@pytest.mark.parametrize("name", ["sm_75", "sm_90"])
@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if operation_cases(d)], ids=str)
def test_operations_are_what_the_table_says(device: Runner, dtype: DType, name: str) -> None:
    cases = [case for case in operation_cases(dtype) if case.name in REPRODUCIBLE]
    keys = dict.fromkeys((k, d) for case in cases for k, d in enumerate(case.dtypes))
    inputs = {key: samples(key[1], seed) for seed, key in enumerate(keys)}
    wrong: list[str] = []
    for case, found in zip(cases, results_of(device, cases, inputs, name), strict=True):
        args = [inputs[k, d] for k, d in enumerate(case.dtypes)]
        wanted = reference(case, args)
        bad = mismatch(found, wanted, tolerance(case.name, case.result))
        if bad.any():
            wrong.append(report(case, args, found, wanted, bad))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("name", ["sm_75", "sm_89"])
@pytest.mark.parametrize("dtype", list(DTYPES.values()), ids=str)
def test_casts_are_numpys(device: Runner, dtype: DType, name: str) -> None:
    cases = cast_cases(dtype)
    values = samples(dtype, 3)
    wrong: list[str] = []
    for case, found in zip(cases, results_of(device, cases, {(0, dtype): values}, name), strict=True):
        wanted = convert(values, case.result, case.saturate)
        known = np.ones(INPUTS, bool)
        if dtype.is_float and case.result.is_integer:
            info = np.iinfo(case.result.numpy)
            known = (values.astype(np.float64) >= info.min) & (values.astype(np.float64) <= info.max)
        bad = mismatch(found, wanted) & known
        if bad.any():
            wrong.append(report(case, [values], found, wanted, bad))
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.is_fp8], ids=str)
@pytest.mark.parametrize("name", ["sm_75", "sm_89"])
def test_every_fp8_number_survives_the_way_through_float32(device: Runner, dtype: DType, name: str) -> None:
    every = np.arange(256, dtype=np.uint8).view(dtype.numpy)
    (wide,) = results_of(device, [Case("cast", (dtype,), DTYPES["float32"])], {(0, dtype): every}, name)
    assert not mismatch(wide, every.astype(np.float32)).any()
    (back,) = results_of(device, [Case("cast", (DTYPES["float32"],), dtype)], {(0, DTYPES["float32"]): wide}, name)
    finite = np.isfinite(wide)
    assert (back.view(np.uint8)[finite] == every.view(np.uint8)[finite]).all()


def test_floats_beyond_an_integers_range_clamp_and_nan_is_zero(device: Runner) -> None:
    values = np.resize(np.array([np.nan, np.inf, -np.inf, 1e30, -1e30, 300.7, -300.7], np.float32), INPUTS)
    results = [d for d in DTYPES.values() if d.is_integer]
    for source in (DTYPES["float32"], DTYPES["float64"]):
        cases = [Case("cast", (source,), to) for to in results]
        typed = values.astype(source.numpy)
        for case, found in zip(cases, results_of(device, cases, {(0, source): typed}, "sm_90"), strict=True):
            info = np.iinfo(case.result.numpy)
            wanted = [0 if np.isnan(v) else int(min(max(np.trunc(v), info.min), info.max)) for v in values[:5]]
            assert [int(x) for x in found[:5]] == wanted, str(case)


@pytest.mark.parametrize("dtype", [d for d in DTYPES.values() if d.kind != "bool"], ids=str)
def test_a_literal_keeps_every_bit(device: Runner, dtype: DType) -> None:
    values = samples(dtype, 11)[:64]
    out = array("out", dtype, len(values))
    python = [int(v) if dtype.is_integer else float(v) for v in values]
    body = [Store(Vector(out, Const(n, int32)), Const(v, dtype)) for n, v in enumerate(python)]
    found = np.zeros(len(values), dtype.numpy)
    device.run(kernel(body, [pointer(out, written=True)], threads=1), [found])
    nan = np.isnan(values.astype(np.float64))
    bits = f"u{dtype.bytes}"
    assert (found.view(bits)[~nan] == values.view(bits)[~nan]).all()
    assert np.isnan(found[nan].astype(np.float64)).all()
