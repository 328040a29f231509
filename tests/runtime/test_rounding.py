"""Numbers that float32 rounds and a kernel uses as float64: reported once, and float64 arithmetic is explained."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import array, tile_ir
from tilejit import dtypes
from tilejit.ir.analyses.precision import widened_scalars
from tilejit.runtime.rounding import is_rounded


@pytest.fixture(autouse=True)
def simulator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim")


def scale() -> Any:
    @tj.kernel(threads=1)
    def scale(X: tj.Tensor, a, b: float, c: tj.float64, n: float, K: tj.constexpr = 1):  # type: ignore[no-untyped-def]
        X[0] = X[0] * a + b + c + tj.int32(n)

    return scale


def saved(kernel: Any, x: Any, *args: Any) -> Any:
    path = Path(__import__("tempfile").mkdtemp()) / "k.ptx"
    kernel.compile(x, *args).save(path)
    return tj.load_compiled(path)[1](x, *args)


WAYS: dict[str, Callable[..., Any]] = {
    "launch": lambda k, *args: k[1](*args),
    "bind": lambda k, *args: k[1].bind(*args),
    "bind with others": lambda k, x, a, b, *rest: k[1].bind(x, 0.5, 0.5, *rest)(x, a, b, *rest),
    "simulate": lambda k, *args: tj.simulate(k, 1, *args),
    "saved": saved,
    "autotune": lambda k, *args: tj.autotune(
        configs=[tj.Config({"K": 1}), tj.Config({"K": 2})], key=["X"], reset=["X"]
    )(k)[1](*args),
}


@pytest.mark.parametrize("way", WAYS)
def test_a_number_that_is_rounded_and_then_used_as_float64_is_reported(way: str) -> None:
    kernel, x = scale(), np.ones(1)
    with pytest.warns(tj.PrecisionWarning) as caught:
        WAYS[way](kernel, x, 0.1, np.float64(1) / 3, 0.1, 0.1)
    first, second = map(str, (each.message for each in caught))
    assert first.startswith("a of scale is 0.1, which is passed as float32 (0.10000000149011612) and used as float64\n")
    assert "help: annotate it, `a: tj.float64`" in first and second.startswith("b of scale is 0.333")
    assert {each.filename for each in caught} == {__file__}


def test_each_parameter_of_a_kernel_is_reported_once() -> None:
    kernel, x = scale(), np.ones(1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for a, b in ((0.5, 2.0), (2, np.float32(0.1)), (0.1, 0.5), (0.2, 0.1), (0.3, 0.3), (float("nan"), 1e300)):
            kernel[1](x, a, b, 0.1, 0.1)
        tj.simulate(kernel, 1, x, 0.1, 0.1, 0.1, 0.1)
    assert [str(each.message).split()[0] for each in caught] == ["a", "b"]


def test_a_launch_of_which_the_warning_is_an_error_changes_nothing() -> None:
    kernel, x = scale(), np.ones(1)
    with warnings.catch_warnings():
        warnings.simplefilter("error", tj.PrecisionWarning)
        for _ in range(2):
            with pytest.raises(tj.PrecisionWarning):
                kernel[1](x, 0.1, 0.5, 0.1, 0.1)
    assert x == 1


EXACT = [0.5, 2.0, 2**24, -0.0, float("inf"), float("nan"), np.float32(0.1), np.float64(3), True]


@pytest.mark.parametrize("value", EXACT)
def test_numbers_that_float32_represents_are_not_rounded(value: Any) -> None:
    assert not is_rounded(value)


@pytest.mark.parametrize("value", [0.1, 2**24 + 1, 1e300, np.float64(0.1), np.int64(2**24 + 1), 1e-46])
def test_numbers_that_float32_does_not_represent_are_rounded(value: Any) -> None:
    assert is_rounded(value)


DOUBLE = array(dtypes.float64)
WIDENING = [
    "X[0] = a", "X[0] = X[1] * a", "X[0] = tj.float64(a)", "s = a * 2\n    X[0] = s", "tj.atomic.add(X[0], a)",
    "tj.cta.store(X[0:8], tj.cta.load(X[0:8]) - a)", "tj.cta.store(X[0:8], tj.cta.full((8,), a, tj.float64))",
    "tj.cta.store(X[0:8], tj.cta.load(X[4:12], fill=a))", "tj.cta.fill(X[0:8], a)",
    "X[0] = tj.where(X[0] > a, 1.0, 2.0)",
    "q = a\n    for i in range(9):\n        q = q * 0.5 + i\n    X[0] = q",
    "q = 0.0\n    if X[0] > 1:\n        q = a\n    X[0] = q", "X[0] = min(X[1], a)",
    "tj.cta.store(X[0:8], tj.maximum(tj.cta.load(X[0:8]), a))",
]
NARROW = [
    "Y[0] = Y[1] * a", "X[0] = Y[0] * a", "X[0] = X[1]\n    Y[0] = a", "X[0] = tj.int32(a)",
    "q = a\n    for i in range(9):\n        q = q + Y[i]\n    X[0] = q",
    "tj.cta.store(X[0:8], (tj.cta.load(Y[0:8]) * a).astype(tj.float64))", "if a > 0:\n        X[0] = 1.0",
    "X[0] = tj.where(a > 0, 1.0, 2.0)", "X[0] = float(int(a)) + 1",
]


@pytest.mark.parametrize(("body", "expected"), [(b, ("a",)) for b in WIDENING] + [(b, ()) for b in NARROW])
def test_a_scalar_combined_with_float64_is_widened_before_other_floats(body: str, expected: tuple[str, ...]) -> None:
    kernel = tile_ir(f"def k(X, Y, a):\n    {body}\n", DOUBLE, array(dtypes.float32), dtypes.float32)
    assert widened_scalars(kernel) == expected
    kernel = tile_ir(f"def k(X, Y, a):\n    {body}\n", DOUBLE, array(dtypes.float32), dtypes.float64)
    assert widened_scalars(kernel) == ()


def test_float64_arithmetic_of_a_kernel_without_float64_arrays_is_explained_by_line() -> None:
    @tj.kernel(threads=32)
    def k(X: tj.Tensor, Y: tj.Tensor, a: tj.float64) -> None:
        s = a * 2
        x = tj.cta.load(X[0:32]).astype(tj.float64)
        total = tj.sum(x * x)
        Y[0] = tj.float32(total) + tj.float32(s)

    single, double = tj.spec((32,), tj.float32), tj.spec((32,), tj.float64)
    first = k.__wrapped__.__code__.co_firstlineno
    notes = [note for note in k.explain(single, single, 0.5).notes if "float64" in note]
    assert notes == [
        f"test_rounding.py:{first + line}: {names} in float64, though no array of k is float64"
        for line, names in ((2, "mul"), (4, "mul, sum"))
    ]
    assert not [note for note in k.explain(double, single, 0.5).notes if "float64" in note]
