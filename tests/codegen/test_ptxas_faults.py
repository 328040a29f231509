"""Faults of ptxas: which PTX is changed, that it computes the same, and what affected versions make of it."""

from __future__ import annotations

import dataclasses
import random
import re
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tilejit as tj
from tests.support.programs import source_of
from tests.support.ptxas import nvdisasm_path, ptxas_paths
from tilejit.codegen import module
from tilejit.codegen.ptxas_faults import FAULTS, without_faults

#: (expression of a, b, c, d; whether some inner maximum may lose a negation)
EXPRESSIONS = (
    ("max(max(a, -b), c)", True),
    ("max(max(-a, b), c)", True),
    ("max(c, max(a, -b))", True),
    ("min(min(-a, -b), -c)", True),
    ("max(max(a, -1 * b), c)", True),
    ("max(max(a, 0 - (b + d)), c)", True),
    ("max(max(max(a, b), -c), d)", True),
    ("max(max(-a, -b), max(-c, -d))", True),
    ("min(min(a, -a), b)", True),
    ("max(a, -b)", False),
    ("max(max(a, b), -c)", False),
    ("max(min(a, -b), c)", False),
    ("max(max(a, b - c), d)", False),
    ("max(max(a, ~b), c)", False),
)
ENDS = {"int32": (-(2**31), 2**31 - 1), "int16": (-(2**15), 2**15 - 1)}


def kernel_of(expression: str, dtype: str) -> Any:
    """A kernel in which each thread evaluates an expression of elements of four arrays."""
    text = f"""
def chosen(A, B, C, D, O):
    i = tj.cta_id() * 32 + tj.thread_id()
    a = A[i]
    b = B[i]
    c = C[i]
    d = D[i]
    O[i] = ({expression}).astype(tj.{dtype})
"""
    return tj.kernel(threads=32)(source_of(text))


def ptx_of(expression: str, dtype: str) -> str:
    array = tj.spec((32,), getattr(tj, dtype))
    return str(kernel_of(expression, dtype).compile(*[array] * 5, target="sm_90").ptx)


@pytest.fixture
def unmended(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "without_faults", lambda ptx: ptx)


def test_each_fault_says_what_it_is_and_how_it_is_avoided() -> None:
    for fault in FAULTS:
        assert all(dataclasses.asdict(fault).values()), fault.name
        assert re.search(r"\d+\.\d+", fault.versions), fault.name


@pytest.mark.parametrize(("expression", "is_affected"), EXPRESSIONS)
@pytest.mark.parametrize("dtype", ENDS)
@pytest.mark.usefixtures("unmended")
def test_only_affected_programs_change(expression: str, is_affected: bool, dtype: str) -> None:
    ptx = ptx_of(expression, dtype)
    assert (without_faults(ptx) != ptx) == is_affected


def test_a_maximum_carried_round_a_loop_is_an_inner_one() -> None:
    @tj.kernel(threads=32)
    def greatest(X: tj.Tensor, Y: tj.Tensor) -> None:
        i = tj.thread_id()
        best = tj.int32(-5)
        for k in range(4):
            best = max(best, -X[i, k])
        Y[i] = best

    ptx = greatest.compile(tj.spec((32, 4), tj.int32), tj.spec((32,), tj.int32), target="sm_90").ptx
    assert "%again" in ptx


def test_a_difference_from_what_is_zero_in_the_first_iteration_is_a_negation() -> None:
    @tj.kernel(threads=32)
    def differences(X: tj.Tensor, Y: tj.Tensor) -> None:
        i = tj.thread_id()
        best = tj.int32(-5)
        for k in range(3):
            best = max(max(best, k - X[i, k]), 7)
        Y[i] = best

    ptx = differences.compile(tj.spec((32, 4), tj.int32), tj.spec((32,), tj.int32), target="sm_90").ptx
    assert "%again" in ptx


@pytest.mark.parametrize("on", ["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", ENDS)
def test_extrema_of_negations_are_right(on: str, dtype: str) -> None:
    rng = random.Random(0)
    numbers = [*ENDS[dtype], -1, 0, 1, 5, -5, 100]
    for expression, _ in EXPRESSIONS:
        arrays = [np.array([rng.choice(numbers) for _ in range(128)], dtype) for _ in range(4)]
        names = dict(zip("abcd", arrays, strict=True))
        with np.errstate(over="ignore"):
            meant = eval(expression, {"max": np.maximum, "min": np.minimum}, names)
        out = np.zeros(128, dtype)
        with tj.use_device(on):
            kernel_of(expression, dtype)[4](*arrays, out)
        np.testing.assert_array_equal(out, meant.astype(dtype), expression)


@pytest.mark.parametrize("on", ["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
def test_a_reduction_of_negated_numbers_in_a_loop_is_right(on: str) -> None:
    @tj.kernel(threads=32)
    def negated_maxima(n: tj.int32, X: tj.Tensor, Y: tj.Tensor) -> None:
        x = -tj.thread.load(X[0:3]) - n
        for _ in range(3):
            x = (x + tj.max(x, axis=0)).astype(tj.int32)
        tj.thread.store(Y[0:3], x)

    y = np.full(3, 99, np.int32)
    with tj.use_device(on):
        negated_maxima[1](np.int32(0), np.ones(3, bool), y)
    assert y.tolist() == [-8, -8, -8]


def sass_of(ptx: str, ptxas: Path, folder: Path) -> str:
    source, binary = folder / "kernel.ptx", folder / "kernel.cubin"
    source.write_text(ptx)
    subprocess.run([str(ptxas), "-arch=sm_90", "-o", str(binary), str(source)], check=True, capture_output=True)
    command = [str(nvdisasm_path()), "-c", str(binary)]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def test_no_version_of_ptxas_fuses_a_maximum_of_negations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Needs nvdisasm; `TILEJIT_TEST_PTXAS` names assemblers besides the one that is installed."""
    if nvdisasm_path() is None or not ptxas_paths():
        pytest.skip("no ptxas or no nvdisasm: install nvidia-cuda-nvcc and nvidia-cuda-nvdisasm")
    expression = "max(max(a, -b), c)"
    ptx = ptx_of(expression, "int32")
    with monkeypatch.context() as patch:
        patch.setattr(module, "without_faults", lambda text: text)
        unmended = ptx_of(expression, "int32")
    for ptxas in ptxas_paths():
        said = subprocess.run([str(ptxas), "--version"], check=True, capture_output=True, text=True).stdout
        version = tuple(map(int, re.findall(r"release (\d+)\.(\d+)", said)[0]))
        negations = re.findall(r"\bI(?:ADD3|MAD)\S* .*-R\d", sass_of(unmended, ptxas, tmp_path))
        if version >= (12, 6):
            assert bool(negations) == (version >= (13, 4)), f"{ptxas}, version {version}"
        assert "VIMNMX3" not in sass_of(ptx, ptxas, tmp_path), ptxas
