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
#: (expression of numbers a, b of 16 bits; whether it reads a negation or an absolute value as a signed number)
SIGNED_USES = (
    ("int32(-a)", True),
    ("int32(abs(a))", True),
    ("int32(0 - a)", True),
    ("int64(-a) >> 8", True),
    ("int32(-a < b)", True),
    ("int32(abs(a) >= b)", True),
    ("int32(abs(-a) < b)", True),
    ("int32((-a) >> 3)", True),
    ("int32((-a) // 3)", True),
    ("int32(max(-a, b))", True),
    ("int32(-a if b > 0 else a)", True),
    ("int32(-a == b)", False),
    ("int32(-a + b)", False),
    ("int32(-a & b)", False),
)
ENDS = {"int8": (-128, 127), "int32": (-(2**31), 2**31 - 1), "int16": (-(2**15), 2**15 - 1)}


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


def signed_use_kernel(expression: str) -> Any:
    """A kernel in which each thread evaluates an expression of elements of two arrays."""
    text = re.sub(r"\b(int\d\d)\(", r"tj.\1(", expression)
    return tj.kernel(threads=32)(source_of(f"""
def chosen(A, B, O):
    i = tj.cta_id() * 32 + tj.thread_id()
    a = A[i]
    b = B[i]
    O[i] = tj.int32({text})
"""))


def signed_use_of(expression: str, dtype: str) -> str:
    array = tj.spec((32,), getattr(tj, dtype))
    compiled = signed_use_kernel(expression).compile(array, array, tj.spec((32,), tj.int32), target="sm_90")
    return str(compiled.ptx)


@pytest.fixture
def unmended(monkeypatch: pytest.MonkeyPatch) -> Any:
    monkeypatch.setattr(module, "without_faults", lambda ptx: ptx)


def test_each_fault_says_what_it_is_and_how_it_is_avoided() -> None:
    for fault in FAULTS:
        assert all(dataclasses.asdict(fault).values()), fault.name
        assert re.search(r"\d+\.\d+", fault.versions), fault.name


@pytest.mark.parametrize(("expression", "is_affected"), EXPRESSIONS)
@pytest.mark.parametrize("dtype", ["int16", "int32"])
@pytest.mark.usefixtures("unmended")
def test_only_affected_programs_change(expression: str, is_affected: bool, dtype: str) -> None:
    ptx = ptx_of(expression, dtype)
    # maxima of 16 bits are signed uses of a negation
    is_affected = is_affected or "neg.s16" in ptx
    assert (without_faults(ptx) != ptx) == is_affected


@pytest.mark.parametrize(("expression", "is_affected"), SIGNED_USES)
@pytest.mark.usefixtures("unmended")
def test_only_signed_uses_of_16_bits_change(expression: str, is_affected: bool) -> None:
    ptx = signed_use_of(expression, "int16")
    assert (without_faults(ptx) != ptx) == is_affected


def test_a_predicate_remains_at_each_line() -> None:
    ptx = "\n{\n\t@!%p1 abs.s16 \t%rs2, %rs1;\n\tcvt.s32.s16 \t%r1, %rs2;\n}\n"
    lines = without_faults(ptx).splitlines()
    assert sum("@!%p1 " in line for line in lines) == 3
    assert "\t@!%p1 cvt.u16.u32 \t%rs2, %extended;" in lines


@pytest.mark.parametrize("on", ["sim", pytest.param("cuda", marks=pytest.mark.gpu)])
@pytest.mark.parametrize("dtype", ["int8", "int16"])
def test_negations_of_the_least_number_keep_their_sign(on: str, dtype: str) -> None:
    rng = random.Random(0)
    numbers = [*ENDS[dtype], ENDS[dtype][0] + 1, -1, 0, 1, 5, -5, 100]
    names = {"int32": np.int32, "int64": np.int64, "max": np.maximum}
    for expression, _ in SIGNED_USES:
        a, b = (np.array([rng.choice(numbers) for _ in range(128)], dtype) for _ in range(2))
        meant = []
        with np.errstate(over="ignore"):
            for x, y in zip(a, b, strict=True):
                meant.append(int(eval(expression, names, {"a": x, "b": y})))
        out = np.zeros(128, np.int32)
        with tj.use_device(on):
            signed_use_kernel(expression)[4](a, b, out)
        np.testing.assert_array_equal(out, meant, expression)


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


def need_disassembler() -> None:
    if nvdisasm_path() is None or not ptxas_paths():
        pytest.skip("no ptxas or no nvdisasm: install nvidia-cuda-nvcc and nvidia-cuda-nvdisasm")


def version_of(ptxas: Path) -> tuple[int, ...]:
    said = subprocess.run([str(ptxas), "--version"], check=True, capture_output=True, text=True).stdout
    return tuple(map(int, re.findall(r"release (\d+)\.(\d+)", said)[0]))


@pytest.mark.parametrize("expression", ["int32(-a)", "int32(abs(a))", "int32(-a < b)", "int32(abs(a) < b)"])
def test_no_version_of_ptxas_loses_an_extension(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expression: str
) -> None:
    """Needs what the next test needs."""
    need_disassembler()
    ptx = signed_use_of(expression, "int16")
    with monkeypatch.context() as patch:
        patch.setattr(module, "without_faults", lambda text: text)
        unmended = signed_use_of(expression, "int16")
    # of what is loaded and of the result
    needed = 3 if "b" in expression.replace("abs", "") else 2
    for ptxas in ptxas_paths():
        extensions = [len(re.findall(r"PRMT .*0x(?:9910|bb32)|LDG\.E\.S16", sass_of(text, ptxas, tmp_path)))
                      for text in (unmended, ptx)]
        if version_of(ptxas) >= (12, 6):
            assert (extensions[0] == needed) == (version_of(ptxas) >= (13, 3)), ptxas
        assert extensions[1] >= needed, ptxas


def test_no_version_of_ptxas_fuses_a_maximum_of_negations(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Needs nvdisasm; `TILEJIT_TEST_PTXAS` names assemblers besides the one that is installed."""
    need_disassembler()
    expression = "max(max(a, -b), c)"
    ptx = ptx_of(expression, "int32")
    with monkeypatch.context() as patch:
        patch.setattr(module, "without_faults", lambda text: text)
        unmended = ptx_of(expression, "int32")
    for ptxas in ptxas_paths():
        version = version_of(ptxas)
        negations = re.findall(r"\bI(?:ADD3|MAD)\S* .*-R\d", sass_of(unmended, ptxas, tmp_path))
        if version >= (12, 6):
            assert bool(negations) == (version >= (13, 4)), f"{ptxas}, version {version}"
        assert "VIMNMX3" not in sass_of(ptx, ptxas, tmp_path), ptxas
