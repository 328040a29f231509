"""Registers that products fill later: PTX's own, which LLVM has no values for."""

from __future__ import annotations

import re

import numpy as np

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
    registers = Registers(3, 32, "i32", prefix="%a_")
    registers.words[1].zeroed = True
    assert '".reg .b32 %a_<3>; mov.b32 %a_1, 0;"' in registers.declaration
    assert '".reg .f32 %a_<3>;"' in Registers(3, 32, "float", prefix="%a_").declaration


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
