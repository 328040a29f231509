"""Registers to which products add: PTX's own, which LLVM has no values for."""

from __future__ import annotations

import re

import numpy as np
import pytest

import tilejit as tj
from tests.support.example_sizes import EXAMPLES
from tests.support.ptxas import ptxas_accepts
from tilejit.codegen.debug import LineTable
from tilejit.codegen.registers import Registers, Word
from tilejit.codegen.writer import Writer

NUMBERS = np.random.default_rng(5).integers(-2, 3, (2, 64, 64)).astype(np.float16)


@tj.function
def staged(A, B):
    """Factors of 64 x 64 in shared memory."""
    a = tj.alloc_shared((64, 64), A.dtype, swizzle="128B")
    b = tj.alloc_shared((64, 64), B.dtype, swizzle="128B")
    tj.cta.copy(a, A[0:64, 0:64])
    tj.cta.copy(b, B[0:64, 0:64])
    tj.cta_sync()
    return a, b


@tj.kernel(threads=128, target="sm_90a")
def started_from_parts(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, start: tj.float16):
    a, b = staged(A, B)
    größe = tj.alloc_local((64, 64), tj.float16, layout=tj.wgmma.layout_c((64, 64)))
    for j in tj.static_range(32):
        größe.registers[j] = start
    tj.wg.gemm_async(größe, a, b)
    tj.wgmma.wait(0)
    for j in tj.static_range(0, 32, 2):
        größe.registers[j] = größe.registers[j] + start
    tj.wg.copy(C[0:64, 0:64], größe)


@tj.kernel(threads=128, target="sm_90a")
def scaled_in_turns(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, turns: tj.int32):
    a, b = staged(A, B)
    even = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64)))
    odd = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64)))
    tj.wg.fill(even, 0)
    tj.wg.fill(odd, 1)
    for i in range(turns):
        if i % 2 == 0:
            tj.wg.mul(even, even, 2.0)
            tj.wg.gemm_async(even, a, b)
        else:
            tj.wg.gemm_async(odd, a, b)
        tj.wgmma.wait(0)
        if i == 4:
            tj.wg.copy(odd, even)
    tj.wg.add(odd, odd, even)
    tj.wg.copy(C[0:64, 0:64], odd)


@tj.kernel(threads=32)
def multiplied_in_turns(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor, turns: tj.int32, ROWS: tj.constexpr):
    a = tj.cta.load(A[0:ROWS, 0:16], layout=tj.mma.layout_a((ROWS, 16), A.dtype))
    b = tj.cta.load(B[0:16, 0:16], layout=tj.mma.layout_b((16, 16), B.dtype))
    even = tj.alloc_local((ROWS, 16), C.dtype, layout=tj.mma.layout_c((ROWS, 16)))
    odd = tj.alloc_local((ROWS, 16), C.dtype, layout=tj.mma.layout_c((ROWS, 16)))
    tj.cta.fill(even, 0)
    tj.cta.fill(odd, 1)
    for i in range(turns):
        if i % 2 == 0:
            tj.cta.mul(even, even, 2.0)
            tj.cta.gemm(even, a, b)
        else:
            tj.cta.gemm(odd, a, b)
        if i == 4:
            tj.cta.copy(odd, even)
    first = turns % (ROWS // 16) * 16
    tj.cta.add(even[first : first + 16, :], even[first : first + 16, :], 3.0)
    tj.cta.add(odd, odd, even)
    tj.cta.copy(C[0:ROWS, 0:16], odd)


def test_a_word_that_ptx_names_is_moved_from_and_to_and_known_in_no_block() -> None:
    w, word = Writer(LineTable("k", None)), Word("float", name="%sums_3")
    w.write(word, "i32", "%x")
    names = w.read(word, "float"), w.read(word, "float")
    moved = [line for line in w.lines() if "asm" in line]
    assert moved == [
        '  call void asm sideeffect "mov.b32 %sums_3, $0;", "f"(float %0) nounwind',
        *(f'  {name} = call float asm sideeffect "mov.b32 $0, %sums_3;", "=f"() nounwind' for name in names),
    ]
    then, after = w.join("then"), w.join("after")
    w.branch("%c", then, after)
    w.start(then)
    w.write(word, "float", "1.0")
    w.jump(after)
    w.start(after)
    w.read(word, "float")
    assert not any("phi" in line for line in w.lines())


def test_words_that_were_written_in_parts_are_declared_as_zero() -> None:
    registers, floats = Registers(3, 32, "i32"), Registers(3, 32, "float")
    registers.give_names("%a_")
    floats.give_names("%a_")
    registers.words[1].zeroed = True
    assert r'".reg .b32 %a_<3>;\0A\09mov.b32 %a_1, 0;"' in registers.declaration
    assert '".reg .f32 %a_<3>;"' in floats.declaration


def test_zeros_that_follow_each_other_are_one_call() -> None:
    w, zero = Writer(LineTable("k", None)), "0x0000000000000000"
    words = [Word("float", name=f"%sums_{k}") for k in range(4)]
    w.write_all(words[:2], "float", [zero, zero])
    w.write(words[2], "float", "%x")
    w.write(words[3], "float", zero)
    w.effect("something else")
    w.write(words[0], "i32", "0")
    w.write(words[1], "float", zero)
    assert [line.split('"')[1] for line in w.lines() if "asm" in line] == [
        r"mov.b32 %sums_0, 0;\0A\09mov.b32 %sums_1, 0;",
        "mov.b32 %sums_2, $0;",
        "mov.b32 %sums_3, 0;",
        "mov.b32 %sums_0, $0;",
        "mov.b32 %sums_1, 0;",
    ]


def test_products_name_their_sums_and_llvm_carries_none_of_them() -> None:
    for name in ("gemm_hopper.gemm_with_producer", "attention full 128"):
        compiled = EXAMPLES[name]()
        # attention's rows have a sum and a maximum each, which are values
        assert compiled.llvm_ir.count(" = phi float ") <= (16 if name.startswith("attention") else 0)
        declared = {prefix: int(number) for prefix, number in re.findall(r"\.reg \.f32 (%\w+_)<(\d+)>", compiled.ptx)}
        products = re.findall(r"wgmma\.mma_async[^;{]*{([^}]*)}", compiled.ptx)
        assert declared and products
        for product in products:
            names = product.split(", ")
            prefix = names[0].rsplit("_", 1)[0] + "_"
            assert names == [f"{prefix}{k}" for k in range(declared[prefix])]


@pytest.mark.parametrize("name", ["matmul", "matmul_small", "attention full"])
def test_products_of_warps_name_their_sums(name: str) -> None:
    compiled = EXAMPLES[name]()
    declared = dict(re.findall(r"\.reg \.f32 (%\w+_)<(\d+)>", compiled.ptx))
    products = re.findall(r"mma\.sync[^;{]*{([^}]*)}[^;]*, {([^}]*)};", compiled.ptx)
    assert products and all(results == added for results, added in products)
    named = {register for results, _ in products for register in results.split(", ")}
    assert named == {f"{prefix}{k}" for prefix, number in declared.items() for k in range(int(number))}


def test_sums_of_sixteen_bits_are_read_and_written_one_by_one() -> None:
    a, b = NUMBERS
    c = np.zeros((64, 64), np.float16)
    started_from_parts[1](a, b, c, 3.0)
    expected = a.astype(np.float32) @ b + 3
    expected[:, ::2] += 3
    np.testing.assert_array_equal(c, expected)
    ptx = started_from_parts.compile(a, b, c, 3.0, target="sm_90a").ptx
    assert ".reg .b32 %gr$f6$dfe_<16>;" in ptx
    ptxas_accepts(ptx, "sm_90a")


def test_sums_are_what_branches_and_turns_made_of_them() -> None:
    a, b = NUMBERS
    c = np.zeros((64, 64), np.float32)
    product = a.astype(np.float32) @ b
    for turns in range(7):
        even, odd = np.zeros_like(product), np.ones_like(product)
        for i in range(turns):
            if i % 2:
                odd = odd + product
            else:
                even = 2 * even + product
            if i == 4:
                odd = even
        scaled_in_turns[1](a, b, c, turns)
        np.testing.assert_array_equal(c, odd + even)
    ptxas_accepts(scaled_in_turns.compile(a, b, c, 1, target="sm_90a").ptx, "sm_90a")


@pytest.mark.parametrize(
    ("dtype", "rows", "named"),
    [
        pytest.param(tj.float32, 16, {"even", "odd"}, id="float32"),
        pytest.param(tj.float16, 16, {"even", "odd"}, id="pairs of float16"),
        pytest.param(tj.float32, 256, {"odd"}, id="in memory"),
    ],
)
def test_sums_of_warps_have_names_where_they_live_in_registers(dtype: tj.DType, rows: int, named: set[str]) -> None:
    a, b = np.random.default_rng(7).integers(-2, 3, (2, rows, 16)).astype(np.float16)
    b = b[:16]
    c = np.zeros((rows, 16), dtype.numpy)
    product = a.astype(np.float32) @ b
    for turns in range(7):
        even, odd = np.zeros_like(product), np.ones_like(product)
        for i in range(turns):
            if i % 2:
                odd = odd + product
            else:
                even = 2 * even + product
            if i == 4:
                odd = even.copy()
        even[turns % (rows // 16) * 16 :][:16] += 3
        multiplied_in_turns[1](a, b, c, turns, ROWS=rows)
        np.testing.assert_array_equal(c, odd + even)
    ptx = multiplied_in_turns.compile(a, b, c, 1, ROWS=rows, target="sm_90a").ptx
    assert set(re.findall(r"\.reg \.\w+ %(\w+)_<", ptx)) == named
    ptxas_accepts(ptx, "sm_90a")


@tj.kernel(threads=32)
def summed_by_letters(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor):
    a = tj.cta.load(A[0:16, 0:16], layout=tj.mma.layout_a((16, 16), A.dtype))
    b = tj.cta.load(B[0:16, 0:16], layout=tj.mma.layout_b((16, 16), B.dtype))
    ö1 = tj.alloc_local((16, 16), tj.float32, layout=tj.mma.layout_c((16, 16)))
    ཡ = tj.alloc_local((16, 16), tj.float32, layout=tj.mma.layout_c((16, 16)))
    tj.cta.fill(ö1, 1)
    tj.cta.fill(ཡ, 3)
    tj.cta.gemm(ö1, a, b)
    tj.cta.gemm(ཡ, a, b)
    tj.cta.add(ཡ, ཡ, ö1)
    tj.cta.copy(C[0:16, 0:16], ཡ)


def test_sums_have_names_of_their_own_whatever_letters_these_are_written_in() -> None:
    # ö is f6, and ཡ f61
    a, b = NUMBERS[:, :16, :16]
    c = np.zeros((16, 16), np.float32)
    summed_by_letters[1](a, b, c)
    np.testing.assert_array_equal(c, 2 * (a.astype(np.float32) @ b) + 4)
    ptx = summed_by_letters.compile(a, b, c, target="sm_90a").ptx
    assert len(set(re.findall(r"\.reg \.f32 (\S+)<8>;", ptx))) == 2
    ptxas_accepts(ptx, "sm_90a")


@tj.kernel(threads=128)
def added_to_what_comes_later(A: tj.Tensor, B: tj.Tensor, C: tj.Tensor):
    a = tj.wg.load(A[0:64, 0:16], layout=tj.mma.layout_a((64, 16), A.dtype, (4, 1), "warpgroup"))
    b = tj.wg.load(B[0:16, 0:16], layout=tj.mma.layout_b((16, 16), B.dtype, (4, 1), "warpgroup"))
    columns = tj.alloc_tmem((64, 16), tj.float32, layout=tj.tmem.datapath("F", 64, 16))
    sums = tj.alloc_local((64, 16), tj.float32, layout=tj.tcgen05.atom_layout("16x256b", 2, tj.float32, rows=64))
    tj.wg.copy(sums, C[0:64, 0:16])
    tj.wg.copy_async(columns, sums)
    tj.tcgen05.wait_st()
    tj.wg.fill(sums, 0)
    tj.wg.copy_async(sums, columns)
    tj.tcgen05.wait_ld()
    tj.wg.gemm(sums, a, b)
    tj.wg.copy(C[0:64, 0:16], sums)


def test_sums_that_tensor_memory_fills_later_are_values(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TILEJIT_DEVICE", "sim:sm_100a")
    a, b = NUMBERS[:, :, :16]
    c = np.arange(64 * 16, dtype=np.float32).reshape(64, 16)
    expected = c + a.astype(np.float32) @ b[:16]
    added_to_what_comes_later[1](a, b, c)
    np.testing.assert_array_equal(c, expected)
    ptx = added_to_what_comes_later.compile(a, b, c, target="sm_100a").ptx
    assert "tcgen05.ld" in ptx and "mma.sync" in ptx and "%sums_" not in ptx
    ptxas_accepts(ptx, "sm_100a")
