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
from hypothesis import given
from hypothesis import strategies as st

import tilejit as tj
from tests.kernels.test_mixed import halves_program
from tests.simulator import small_kernels
from tests.support.programs import source_of
from tests.support.ptxas import nvdisasm_path, ptxas_paths
from tilejit.codegen import module
from tilejit.codegen.ptxas_faults import FAULTS, without_faults
from tilejit.simulator import run

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


def joined_ptx() -> tuple[str, str]:
    """Return PTX of a kernel in which registers of two 16-bit elements have two definitions, changed and unchanged."""
    program = halves_program()
    kernel = tj.kernel(threads=program.threads)(source_of(program.text))
    arrays = {memory.name: memory.array()[0] for memory in program.memories}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "without_faults", lambda ptx: ptx)
        ptx = str(kernel.compile(**arrays, **program.scalars, target="sm_90").ptx)
    return without_faults(ptx), ptx


def test_halves_of_a_register_with_two_definitions_are_shifted() -> None:
    changed, ptx = joined_ptx()
    assert "%half" not in ptx
    assert changed.count("shr.u32 \t%half") == 4


@pytest.mark.parametrize(
    ("join", "use", "is_affected"),
    [
        ("mov.b32 \t%r1, 7;\n\t@%p1 mov.b32 \t%r1, {%rs1, %rs2};", "add.s16 \t%rs5, %rs3, %rs4;", True),
        ("mov.b32 \t%r1, 7;\n\t@%p1 ld.global.b32 \t%r1, [%rd1];", "shl.b16 \t%rs5, %rs4, 1;", True),
        ("mov.b32 \t%r2, 7;\n\t@%p1 mov.b32 \t%r2, %r3;\n\tmov.b32 \t%r1, %r2;", "cvt.u32.u16 \t%r4, %rs4;", True),
        ("mov.b32 \t%r1, 7;\n\t@%p1 mov.b32 \t%r1, %r3;", "mov.b16 \t%rs5, %rs4;\n\tmul.lo.s16 \t%rs6, %rs5, 3;", True),
        ("mov.b32 \t%r1, 7;\n\t@%p1 mov.b32 \t%r1, %r3;", "add.f16 \t%rs5, %rs3, %rs4;", False),
        ("mov.b32 \t%r1, 7;\n\t@%p1 mov.b32 \t%r1, %r3;", "st.global.b16 \t[%rd1], %rs4;", False),
        ("mov.b32 \t%r1, {%rs1, %rs2};", "add.s16 \t%rs5, %rs3, %rs4;", False),
        ("ld.global.b32 \t%r1, [%rd1];", "add.s16 \t%rs5, %rs3, %rs4;", False),
    ],
)
def test_only_integers_in_joined_registers_are_shifted(join: str, use: str, is_affected: bool) -> None:
    ptx = f"\n{{\n\t{join}\n\tmov.b32 \t{{%rs3, %rs4}}, %r1;\n\t{use}\n}}\n"
    assert ("%half" in without_faults(ptx)) == is_affected


@pytest.mark.parametrize("unpack", ["mov.b32 \t{_, %h3}, %r1", "cvt.u16.u32 \t%h3, %r1"])
@pytest.mark.parametrize("operation", ["neg", "abs"])
def test_a_packed_negation_is_extended(operation: str, unpack: str) -> None:
    ptx = f"{{\n{operation}.s16 %h2, %h1;\nmov.b32 %r1, {{%h2, %h2}};\n{unpack};\ncvt.s32.s16 %r2, %h3;\n}}"
    assert f"{operation}.s16" not in without_faults(ptx)


#: operations of random functions -> types of the result and of the operands
OPERATIONS = {
    **{f"{name}.s{n}": f"{n} {n} {n}" for name in ("min", "max", "add", "sub", "mul.lo") for n in (16, 32)},
    **{f"{name}.s{n}": f"{n} {n}" for name in ("neg", "abs") for n in (16, 32)},
    "min.u16": "16 16 16", "max.u32": "32 32 32", "cvt.s32.s16": "32 16", "cvt.u32.u16": "32 16",
    "cvt.u16.u32": "16 32", "mov.b32": "32 32", "mov.b16": "16 16", "pack": "32 16 16", "unpack": "16 32",
    "shr.s16": "16 16", "setp.lt.s16": "16 16 16",
}

#: those that rarely provoke a fault, as other operations must follow
OFTEN = 4 * ["pack", "unpack", "neg.s32", "max.s32", "max.s32", "neg.s16", "abs.s16"]


@st.composite
def functions(draw: st.DrawFn) -> str:
    """Draw a straight-line function of %h1, %h2, %r1 and %r2, as PTX that stores all registers at [%x1]."""
    held = {"16": ["%h1", "%h2"], "32": ["%r1", "%r2"]}
    lines = []
    for name in draw(st.lists(st.sampled_from([*OPERATIONS, *OFTEN]), min_size=6, max_size=16)):
        bits, *types = OPERATIONS[name].split()
        terms = [draw(st.sampled_from(held[t])) for t in types]
        if len(types) == 2 and name != "pack":
            terms[1] = draw(st.sampled_from([terms[1], terms[1], "0", "-1"]))
        # registers may be defined several times, also under a predicate
        results = draw(st.permutations([f"%{'h' if bits == '16' else 'r'}{n}" for n in range(1, 5)]))
        results = results[: 2 if name == "unpack" else 1]
        is_old = set(results) <= set(held[bits])
        predicate = draw(st.sampled_from(["", "@%p1 ", "@!%p1 "])) if is_old and "setp" not in name else ""
        match name:
            case "pack":
                line = f"mov.b32 \t{results[0]}, {{{', '.join(terms)}}};"
            case "unpack":
                line = f"mov.b32 \t{{{', '.join(results)}}}, {terms[0]};"
            case "setp.lt.s16":
                line, results = f"{name} \t%p1, {', '.join(terms)};", []
            case "shr.s16":
                line = f"{name} \t{results[0]}, {terms[0]}, 2;"
            case _:
                line = f"{name} \t{results[0]}, {', '.join(terms)};"
        lines.append(f"\t{predicate}{line}\n")
        held[bits] = sorted({*held[bits], *results})
    for number, register in enumerate([*held["16"], *held["32"]]):
        lines.append(f"\tst.global.b{16 if 'h' in register else 32} \t[%x1+{4 * number}], {register};\n")
    return "".join(lines)


def evaluated(ptx: str, numbers: list[int]) -> list[int]:
    """Return what a function stores in the simulator."""
    out = np.zeros(12, np.uint32)
    arguments = [np.array([number], np.uint32) for number in numbers]
    run(ptx, "k", (1,), (1,), [*map(small_kernels.pointer, arguments), small_kernels.pointer(out)])
    return out.tolist()


NUMBERS = st.sampled_from([0, 1, 5, 0x7FFF, 0x8000, 0xFFFF, 0x80000000, 0xFFFF8000])


@given(functions(), st.lists(NUMBERS, min_size=4, max_size=4))
def test_a_changed_function_computes_the_same(body: str, numbers: list[int]) -> None:
    loads = "".join(
        f"\tld.param.b64 \t%x1, [p{n}];\n\tld.global.b{16 if n < 2 else 32} \t%{'hhrr'[n]}{n % 2 + 1}, [%x1];\n"
        for n in range(4)
    )
    loads += "\tsetp.gt.s32 \t%p1, %r1, 0;\n\tld.param.b64 \t%x1, [p4];\n"
    params = ", ".join(f".param .u64 p{n}" for n in range(5))
    ptx = small_kernels.kernel(f"{loads}{body}\tret;\n", params)
    assert evaluated(without_faults(ptx), numbers) == evaluated(ptx, numbers)


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
    """Needs nvdisasm; `TILEJIT_TEST_PTXAS` names further assemblers."""
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


def test_no_version_of_ptxas_takes_the_next_register_for_an_upper_half(tmp_path: Path) -> None:
    """Needs nvdisasm; `TILEJIT_TEST_PTXAS` names further assemblers."""
    need_disassembler()
    for ptxas in ptxas_paths():
        pairs = []
        for ptx in joined_ptx():
            moves = re.findall(r"R2UR UR(\d+), R(\d+)", sass_of(ptx, ptxas, tmp_path))
            numbers = {(int(target), int(source)) for target, source in moves}
            pairs.append([n for n in numbers if n[0] % 2 == 0 and (n[0] + 1, n[1] + 1) in numbers])
        assert pairs[0] == [], ptxas
        if version_of(ptxas) >= (12, 6):
            assert pairs[1] != [], ptxas
