"""gemm_async by wgmma: descriptors against worked numbers, reasons, proofs, what stays in flight, ptxas."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

import tilejit as tj
from tests.lower.test_golden import kernel
from tests.support.goldens import Golden, joined
from tests.support.programs import array, tile_ir
from tests.support.proving import prove_edited, prove_verdict
from tests.support.ptxas import notes_of, usage
from tilejit.dtypes import (
    DType,
    bfloat16,
    bool_,
    float8_e4m3fn,
    float8_e5m2,
    float16,
    float32,
    float64,
    int8,
    int32,
    uint8,
)
from tilejit.errors import DispatchError, KernelTypeError, LayoutError
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Const, Descriptor, Expr, Instruction, Kernel, Stmt, TileOp, Var
from tilejit.ir.text.printer import to_text
from tilejit.ir.types import ScalarType, Signature
from tilejit.isa.wgmma import WGMMA_M, WgmmaForm
from tilejit.layout import TileLayout, layout_c, swizzled_atom_layout, warpgroup
from tilejit.lower import lower
from tilejit.lower.ask import OperandSpec, dispatch, operand
from tilejit.lower.engine import Verdict
from tilejit.lower.passes.pending import add_wait_registers
from tilejit.lower.variants.gemm_async_wgmma import InMemory, Plan
from tilejit.pipeline import compile
from tilejit.target import target


def sums(m: int, n: int, dtype: DType = float32) -> OperandSpec:
    return operand("local", (m, n), dtype, warpgroup.layout_c((m, n)))


def held(m: int, k: int, dtype: DType = float16) -> OperandSpec:
    """A in registers."""
    return operand("local", (m, k), dtype, warpgroup.layout_a((m, k), dtype))


def stored(rows: int, columns: int, mode: str = "128B", dtype: DType = float16) -> OperandSpec:
    """A factor as it is stored."""
    return operand("shared", (rows, columns), dtype, swizzled_atom_layout((rows, columns), dtype.bits, mode))


def turned(rows: int, columns: int, mode: str = "128B", dtype: DType = float16) -> OperandSpec:
    """`.T` of a factor of these rows and columns."""
    layout = swizzled_atom_layout((rows, columns), dtype.bits, mode)
    return operand("shared", (columns, rows), dtype, layout.permute_groups((0, 1, len(layout.shard)), (1, 0)))


def asked(
    acc: OperandSpec, a: OperandSpec, b: OperandSpec, *, accumulate: Expr | None = None, scope: str = "warpgroup",
    on: str = "sm_90a", threads: int = 128, **attrs: str,
) -> Verdict:
    return dispatch("gemm_async", scope, acc, a, b, *[] if accumulate is None else [accumulate], target=on,
                    threads=threads, **attrs)


def plan_of(verdict: Verdict) -> Plan:
    assert verdict.variant == "wgmma"
    prove_verdict(verdict)
    assert isinstance(verdict.plan, Plan)
    return verdict.plan


def in_memory(factor: object) -> InMemory:
    assert isinstance(factor, InMemory)
    return factor


A64, B64 = stored(128, 64), turned(128, 64)

#: a factor, its descriptors' fields except the start, and the offset in bytes at which each (block, step of k) begins
DESCRIPTORS: dict[str, tuple[Callable[[], Plan], str, int, list[int]]] = {
    "a row-major, K = 64": (
        lambda: plan_of(asked(sums(128, 64), A64, stored(64, 64))), "a", 0x4000_0040_0001_0000,
        [8192 * i + 32 * k for i in range(2) for k in range(4)],
    ),
    "a column-major, K = 128, M = 64": (
        lambda: plan_of(asked(sums(64, 64), B64, stored(128, 64))), "a", 0x4000_0040_0400_0000,
        [2048 * k for k in range(8)],
    ),
    "a column-major in two blocks": (
        lambda: plan_of(asked(sums(128, 64), turned(64, 128), stored(64, 64))), "a", 0x4000_0040_0200_0000,
        [8192 * i + 2048 * k for i in range(2) for k in range(4)],
    ),
    "b 64 x 256 row-major": (
        lambda: plan_of(asked(sums(64, 256), stored(64, 64), stored(64, 256))), "b", 0x4000_0040_0200_0000,
        [2048 * k for k in range(4)],
    ),
    "b 256 x 64 transposed": (
        lambda: plan_of(asked(sums(64, 256), stored(64, 64), turned(256, 64))), "b", 0x4000_0040_0001_0000,
        [32 * k for k in range(4)],
    ),
    "b 24 columns of 64": (
        lambda: plan_of(asked(sums(64, 24), stored(64, 64), operand(
            "shared", (64, 64), float16, swizzled_atom_layout((64, 64), 16, "128B"), [(0, 64), (0, 24)]
        ))), "b", 0x4000_0040_0200_0000, [2048 * k for k in range(4)],
    ),
    "b 24 rows transposed": (
        lambda: plan_of(asked(sums(64, 24), stored(64, 64), turned(24, 64))), "b", 0x4000_0040_0001_0000,
        [32 * k for k in range(4)],
    ),
    "a 64B, K = 128": (
        lambda: plan_of(asked(sums(64, 8), stored(64, 128, "64B"), turned(8, 128))), "a", 0x8000_0020_0001_0000,
        [32 * (k % 2) + 4096 * (k // 2) for k in range(8)],
    ),
    "b 64B, N = 128": (
        lambda: plan_of(asked(sums(64, 128), stored(64, 64), stored(64, 128, "64B"))), "b", 0x8000_0020_0100_0000,
        [1024 * k for k in range(4)],
    ),
    "b 64B, N = 96": (
        lambda: plan_of(asked(sums(64, 96), stored(64, 64), stored(64, 96, "64B"))), "b", 0x8000_0020_0100_0000,
        [1024 * k for k in range(4)],
    ),
    "a 32B, K = 64": (
        lambda: plan_of(asked(sums(64, 8), stored(64, 64, "32B"), turned(8, 64))), "a", 0xC000_0010_0001_0000,
        [2048 * k for k in range(4)],
    ),
    "b 32B, N = 128": (
        lambda: plan_of(asked(sums(64, 128), stored(64, 64), stored(64, 128, "32B"))), "b", 0xC000_0010_0080_0000,
        [512 * k for k in range(4)],
    ),
    "a in core matrices": (
        lambda: plan_of(asked(sums(64, 8), stored(64, 32, "none"), turned(8, 32, "64B"))), "a", 0x0000_0008_0040_0000,
        [2048 * k for k in range(2)],
    ),
}


@pytest.mark.parametrize("name", DESCRIPTORS)
def test_a_descriptor_is_the_worked_one(name: str) -> None:
    make, which, fields, starts = DESCRIPTORS[name]
    plan = make()
    factor = in_memory(getattr(plan, which))
    blocks = plan.form.m if which == "a" else plan.form.n
    every = [(i, k) for i in range(blocks) for k in range(plan.form.k)]
    assert f"{factor.fields:#018x}" == f"{fields:#018x}"
    assert [factor.start(i, k) for i, k in every] == starts
    assert [factor.constant(i, k) for i, k in every] == [fields + start // 16 for start in starts]
    column = 3 if which == "a" else 4
    assert set(plan.schedule()[:, column]) == set(starts)


def test_whole_descriptors_are_those_that_an_h100_multiplied_by() -> None:
    a = in_memory(plan_of(asked(sums(128, 64), A64, stored(64, 64))).a)
    assert a.constant(1, 2) + (0x400 >> 4) == 0x4000004000010244
    a = in_memory(plan_of(asked(sums(64, 64), B64, stored(128, 64))).a)
    assert a.constant(0, 3) + (0x400 >> 4) == 0x40000040040001C0
    b = in_memory(plan_of(asked(sums(64, 256), stored(64, 64), stored(64, 256))).b)
    assert b.constant(0, 1) + (0x4400 >> 4) == 0x40000040020004C0


def test_products_are_as_wide_as_their_columns_allow() -> None:
    for n, wide in ((256, 256), (24, 24), (384, 192), (512, 256), (320, 160)):
        form = plan_of(asked(sums(64, n), stored(64, 64), turned(n, 64))).form
        assert (form.product.n, form.n) == (wide, n // wide)
    integers = asked(sums(64, 40, int32), stored(64, 32, "32B", int8), turned(40, 32, "32B", uint8))
    assert plan_of(integers).form.product.n == 8


@pytest.mark.parametrize(
    ("a", "b", "acc"),
    [(float16, float16, float32), (float16, float16, float16), (bfloat16, bfloat16, float32), (int8, uint8, int32),
     (float8_e4m3fn, float8_e5m2, float32), (float8_e5m2, float8_e5m2, float16)],
    ids=str,
)
def test_factors_of_every_type_lie_with_k_together_or_are_held(a: DType, b: DType, acc: DType) -> None:
    k = 1024 // a.bits
    stored_b = turned(16, k, "128B", b)
    for left in (stored(128, k, "128B", a), held(128, k, a)):
        form = plan_of(asked(sums(128, 16, acc), left, stored_b)).form
        assert (form.m, form.n, form.k) == (2, 1, 4)


def test_tf32_factors_need_a_precision() -> None:
    operands = sums(64, 16), stored(64, 32, "128B", float32), turned(16, 32, "128B", float32)
    assert plan_of(asked(*operands, precision="tf32")).form.product.k == 8
    with pytest.raises(DispatchError, match='float32 operands need precision="tf32"'):
        asked(*operands)


A, B = stored(64, 64), stored(64, 128)

#: what is refused -> the operands and what else differs
REFUSALS: dict[str, Callable[[], Verdict]] = {
    "too few rows": lambda: asked(operand("local", (32, 128), float32), stored(32, 64), B),
    "columns that are no multiple of 8": lambda: asked(operand("local", (64, 12), float32), A, operand(
        "shared", (64, 64), float16, swizzled_atom_layout((64, 64), 16, "128B"), [(0, 64), (0, 12)]
    )),
    "half a step of k": lambda: asked(sums(64, 128), stored(64, 8, "none"), stored(8, 128)),
    "rows of 128 bytes without a swizzle": lambda: asked(sums(64, 128), operand("shared", (64, 64), float16), B),
    "b without a swizzle, N together": lambda: asked(sums(64, 8), A, stored(64, 8, "none")),
    "8-bit b, N together": lambda: asked(
        sums(64, 128), stored(64, 64, "64B", float8_e4m3fn), stored(64, 128, "128B", float8_e4m3fn)
    ),
    "tf32 a, M together": lambda: asked(
        sums(64, 8), turned(32, 64, "128B", float32), turned(8, 32, "128B", float32), precision="tf32"
    ),
    "a in global memory": lambda: asked(sums(64, 128), operand("global", (64, 64), float16), B),
    "b in registers": lambda: asked(sums(64, 64), A, held(64, 64)),
    "sums in shared memory": lambda: asked(operand("shared", (64, 128), float32), A, B),
    "another target": lambda: asked(sums(64, 128), A, B, on="sm_90"),
    "a newer target": lambda: asked(sums(64, 128), A, B, on="sm_100a"),
    "a warp": lambda: asked(sums(64, 128), A, B, scope="warp"),
    "a CTA": lambda: asked(sums(64, 128), A, B, scope="cta"),
    "sums of mma's on 2 x 2 warps": lambda: asked(
        operand("local", (64, 128), float32, layout_c((64, 128), warps=(2, 2), scope="warpgroup")), A, B
    ),
    "sums of one warp": lambda: asked(operand("local", (64, 128), float32, layout_c((64, 128))), A, B),
    "a held as the sums are": lambda: asked(
        sums(64, 128), operand("local", (64, 64), float8_e4m3fn, warpgroup.layout_c((64, 64))),
        turned(128, 64, "64B", float8_e4m3fn)
    ),
    "float32 without a precision": lambda: asked(
        sums(64, 8), stored(64, 32, "128B", float32), turned(8, 32, "128B", float32)
    ),
    "types that aren't multiplied": lambda: asked(sums(64, 128), A, stored(64, 128, "128B", bfloat16)),
    "sums in float64": lambda: asked(sums(64, 128, float64), A, B),
    "other shapes": lambda: asked(sums(64, 128), A, stored(128, 128)),
    "rows from 4 on": lambda: asked(sums(64, 128), operand(
        "shared", (128, 64), float16, swizzled_atom_layout((128, 64), 16, "128B"), [(4, 64), (0, 64)]
    ), B),
    "a swizzle for 8-bit elements": lambda: asked(sums(64, 128), operand(
        "shared", (64, 64), float16, TileLayout.row_major((64, 64), tj.Swizzle(3, 4, 3))
    ), B),
    "a register known at run time": lambda: asked(sums(64, 64), operand(
        "local", (64, 128), float16, warpgroup.layout_a((64, 128), float16), [(0, 64), (Var("n", int32, 64), 64)]
    ), stored(64, 64)),
}


def refused(make: Callable[[], Verdict]) -> str:
    with pytest.raises(DispatchError) as raised:
        make()
    return f"{raised.value.message}\nhelp: {raised.value.hint}"


def test_every_refusal_says_what_is_there_and_what_is_needed(golden: Golden) -> None:
    parts = [f"{name}\n{refused(make)}" for name, make in REFUSALS.items()]
    golden.check("gemm_async/refusals.txt", "\n\n".join(parts))


def test_what_other_targets_take_is_refused_by_this_variant_alone() -> None:
    scale = operand("local", (64, 1), float32, TileLayout.row_major((64, 1)))
    with pytest.raises(DispatchError, match="wgmma: takes no scale_a; one is given"):
        dispatch("gemm_async", "warpgroup", sums(64, 128), A, B, None, scale, target="sm_90a", threads=128)


def product(name: str, acc: OperandSpec, a: OperandSpec, b: OperandSpec, *more: Expr, **attrs: str) -> Kernel:
    regions = [each.named(n) for each, n in zip((acc, a, b), ("acc", "a", "b"), strict=True)]
    return kernel(name, 128, regions, TileOp("gemm_async", "warpgroup", (*regions, *more), tuple(attrs.items())))


GOLDENS: dict[str, Callable[[], Kernel]] = {
    "wgmma_float16_64x256x64": lambda: product("product", sums(64, 256), A, stored(64, 256)),
    "wgmma_without_sums": lambda: product("product", sums(64, 8), A, turned(8, 64), build.const(False, bool_)),
    "wgmma_bfloat16_registers": lambda: product("product", sums(64, 64), held(64, 32, bfloat16), stored(
        32, 64, "128B", bfloat16
    )),
    "wgmma_int8_128_rows": lambda: product(
        "product", sums(128, 16, int32), stored(128, 64, "64B", int8), turned(16, 64, "64B", uint8)
    ),
    "wgmma_tf32_512_columns": lambda: product(
        "product", sums(64, 512), stored(64, 8, "32B", float32), turned(512, 8, "32B", float32), precision="tf32"
    ),
    "wgmma_fp8_into_float16": lambda: product(
        "product", sums(64, 8, float16), stored(64, 32, "32B", float8_e4m3fn), turned(8, 32, "32B", float8_e5m2)
    ),
}


@pytest.mark.parametrize("name", GOLDENS)
def test_products_lower_to_their_golden_lane_ir(name: str, golden: Golden) -> None:
    op = GOLDENS[name]()
    text = to_text(op) + "  instruction wgmma.wait <- 0\n"
    tile = replace(op, body=(*op.body, Instruction("wgmma.wait", (), (Const(0, int32),))))
    assert to_text(tile) == text
    lane = add_wait_registers(lower(tile, target("sm_90a")).kernel)
    golden.check(f"gemm_async/{name}.tile", joined("sm_90a", text, to_text(lane)))


def field(bit: int, value: int) -> Callable[[Descriptor], Descriptor]:
    mask = 0x3FFF << bit
    return lambda d: replace(d, constant=d.constant & ~mask & (1 << 64) - 1 | value << bit)


@pytest.mark.parametrize(
    ("change"),
    [
        field(32, 512 >> 4),
        field(16, 4096 >> 4),
        lambda d: replace(d, constant=d.constant ^ 3 << 62),
        lambda d: replace(d, constant=d.constant + 1),
    ],
    ids=["sbo", "lbo", "mode", "start"],
)
def test_a_wrong_descriptor_is_found(change: Callable[[Descriptor], Descriptor]) -> None:
    verdict = asked(sums(64, 256), A, stored(64, 256))

    def emitted(stmt: Stmt) -> tuple[Stmt, ...]:
        assert isinstance(stmt, Instruction)
        inputs = [change(x) if isinstance(x, Descriptor) and x.place.buffer.name == "b" else x for x in stmt.inputs]
        return (replace(stmt, inputs=tuple(inputs)),)

    with pytest.raises(AssertionError):
        prove_edited(verdict.chosen, plan_of(verdict), verdict.op, emitted)


def test_another_order_and_another_major_dimension_are_found() -> None:
    verdict = asked(sums(64, 256), A, stored(64, 256))

    def backwards(stmt: Stmt) -> tuple[Stmt, ...]:
        assert isinstance(stmt, Instruction)
        every = [x for x in stmt.inputs if isinstance(x, Descriptor) and x.place.buffer.name == "b"]
        others = [x for x in stmt.inputs if x not in every]
        return (replace(stmt, inputs=(*others[:-1], *every[::-1], others[-1])),)

    def by_rows(stmt: Stmt) -> tuple[Stmt, ...]:
        assert isinstance(stmt, Instruction)
        return (replace(stmt, name=stmt.name.replace("b_mn", "b_k")),)

    for change in (backwards, by_rows):
        with pytest.raises(AssertionError):
            prove_edited(verdict.chosen, plan_of(verdict), verdict.op, change)


def test_layouts_of_64_rows_are_those_of_fragments_on_four_warps() -> None:
    assert tj.wgmma.layout_c((64, 96)) == tj.mma.layout_c((64, 96), warps=(4, 1), scope="warpgroup")
    for dtype in (tj.float16, tj.float8_e4m3fn, tj.float32):
        wanted = tj.mma.layout_a((64, 96), dtype, warps=(4, 1), scope="warpgroup")
        assert tj.wgmma.layout_a((64, 96), dtype) == wanted
    two = tj.wgmma.layout_c((128, 32))
    assert two.shard[0].extent == 2 and two.shard[0].stride == 16
    with pytest.raises(LayoutError, match="M is 32; wgmma needs a positive multiple of 64"):
        tj.wgmma.layout_c((32, 32))
    with pytest.raises(LayoutError, match="K is 8; wgmma needs a positive multiple of 16"):
        tj.wgmma.layout_a((64, 8), tj.float16)


def test_sums_in_16_bits_are_a_factor_register_for_register() -> None:
    for dtype in (float16, bfloat16):
        verdict = dispatch("cast", "warpgroup", held(128, 64, dtype), sums(128, 64), target="sm_90a", threads=128)
        assert verdict.variant == "reg"
        rows = verdict.plan.schedule()
        assert np.array_equal(rows[:, -1], rows[:, -2])


START = """def k(A, B, C, n):
    a, b = tj.alloc_shared((64, 64), A.dtype, swizzle="128B"), tj.alloc_shared((64, 64), A.dtype, swizzle="128B")
    p = tj.alloc_local((64, 64), A.dtype, layout=tj.wgmma.layout_a((64, 64), A.dtype))
    acc = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64)))
    other = tj.alloc_local((64, 64), tj.float32, layout=tj.wgmma.layout_c((64, 64)))
    tj.wg.fill(acc, 0)
    tj.wg.fill(other, 0)
    tj.wg.fill(p, 1)
"""

TYPES = array(float16, 2), array(float16, 2), array(float32, 2), int32

SIGNATURE = Signature(tuple(zip("ABCn", (*TYPES[:3], ScalarType(int32)), strict=True)))


def made(body: str) -> str:
    """The PTX of `body` after `START`."""
    lines = "".join(f"    {line}\n" for line in body.strip("\n").splitlines())
    return compiled(START + lines)


def compiled(text: str) -> str:
    return compile(tile_ir(text, *TYPES, threads=128), SIGNATURE, target("sm_90a")).ptx


LEFT = "tj.wg.copy(C[0:64, 0:64], acc)"

#: kernels whose products stay in flight, each with what ptxas must leave as it is
PIPELINED = {
    "from turn to turn": f"""
for k in range(n):
    tj.wg.gemm_async(acc, a, b, accumulate=k > 0)
    tj.wgmma.wait(1)
tj.wgmma.wait(0)
{LEFT}
""",
    "after a branch": f"""
for k in range(n):
    if k > 2:
        tj.wg.gemm_async(acc, a, b)
    tj.wgmma.wait(1)
tj.wgmma.wait(0)
{LEFT}
""",
    "two sums": f"""
for k in range(n):
    tj.wg.gemm_async(other, a, b.T, accumulate=False)
    tj.wg.gemm_async(acc, p, b)
    tj.wgmma.wait(1)
    x = tj.exp(other)
    tj.wgmma.wait(0)
    tj.wg.cast(p, x)
{LEFT}
""",
}


@pytest.mark.parametrize("name", PIPELINED)
def test_ptxas_leaves_products_in_flight_and_registers_where_they_are(name: str) -> None:
    ptx = made(PIPELINED[name])
    assert notes_of(ptx, "sm_90a") == []
    assert usage(ptx, "sm_90a").spill_stores == 0


def test_a_missing_wait_is_what_ptxas_serialises() -> None:
    ptx = made(PIPELINED["two sums"]).replace("wgmma.wait_group.sync.aligned 1;", "")
    assert any("C7517" in note or "C7514" in note for note in notes_of(ptx, "sm_90a"))


#: what is wrong -> the error
MISTAKES = {
    f"tj.wg.gemm_async(acc, a, b)\n{LEFT}\ntj.wgmma.wait(0)":
        r"acc is used before tj.wgmma.wait\(0\): gemm_async at .* may not have filled it yet",
    f"tj.wg.gemm_async(acc, a, b)\ntj.wg.gemm_async(other, a, b)\n{LEFT}\ntj.wgmma.wait(0)":
        r"acc is used before tj.wgmma.wait\(1\)",
    f"tj.wg.gemm_async(acc, a, b)\ntj.wg.gemm_async(other, a, b)\ntj.wgmma.wait(2)\n{LEFT}\ntj.wgmma.wait(0)":
        r"acc is used before tj.wgmma.wait\(1\)",
    "tj.wg.gemm_async(acc, p, b)\ntj.wg.fill(p, 2)\ntj.wgmma.wait(0)":
        r"p is changed before tj.wgmma.wait\(0\): gemm_async at .* may not have read it yet",
    "tj.wg.gemm_async(acc, a, b)":
        r"acc isn't waited for on every path: the kernel may end while gemm_async at .* is in flight",
    "tj.wg.gemm_async(acc, a, b)\nif n > 0:\n    return\ntj.wgmma.wait(0)": "acc isn't waited for",
    "for k in range(n):\n    tj.wg.gemm_async(acc, a, b)\n    tj.wgmma.wait(1)": "acc isn't waited for",
    "tj.wg.gemm_async(acc[:, 0:32], a, b[:, 0:32])\ntj.wg.gemm_async(acc, a, b)\ntj.wgmma.wait(0)":
        r"acc is used before tj.wgmma.wait\(0\)",
    "if n > 0:\n    tj.wg.gemm_async(acc, a, b)\nacc.registers[0] = 1.0\ntj.wgmma.wait(0)":
        r"acc is used before tj.wgmma.wait\(0\)",
}


@pytest.mark.parametrize("body", MISTAKES)
def test_what_is_in_flight_may_not_be_used(body: str) -> None:
    with pytest.raises(KernelTypeError, match=MISTAKES[body]) as raised:
        made(body)
    assert raised.value.span is not None and "tj.wgmma.wait(" in str(raised.value.hint)


def test_what_need_not_be_there_yet_may_be_used() -> None:
    assert "wgmma.mma_async" in made(f"""
tj.wg.gemm_async(acc, p, b)
tj.wg.gemm_async(other, p, b)
x = p.astype(tj.float32)
tj.wgmma.wait(1)
{LEFT}
tj.wg.copy(C[0:64, 0:64], x)
tj.wgmma.wait(0)
""")


def test_without_old_sums_none_need_be_there() -> None:
    text = START.replace("    tj.wg.fill(acc, 0)\n", "")
    for accumulate in ("False", "n > 3"):
        kernel = f"{text}    tj.wg.gemm_async(acc, a, b, accumulate={accumulate})\n    tj.wgmma.wait(0)\n"
        compiled(kernel)
    with pytest.raises(KernelTypeError, match="acc is read before anything has been written to it"):
        compiled(f"{text}    tj.wg.gemm_async(acc, a, b)\n    tj.wgmma.wait(0)\n")


def test_whether_a_product_adds_is_the_same_for_all_its_threads() -> None:
    with pytest.raises(DispatchError, match="takes one value of accumulate for its whole warpgroup, but it may differ"):
        made("tj.wg.gemm_async(acc, a, b, accumulate=tj.lane_id() > 3)\ntj.wgmma.wait(0)")
    with pytest.raises(DispatchError, match="needs all threads of its warpgroup"):
        made("if tj.warp_id() == 0:\n    tj.wg.gemm_async(acc, a, b)\ntj.wgmma.wait(0)")
    with pytest.raises(DispatchError, match="wgmma.wait at .* needs all threads of its warpgroup"):
        made("tj.wg.gemm_async(acc, a, b)\nif tj.warp_id() == 0:\n    tj.wgmma.wait(0)")


@pytest.mark.parametrize(("groups", "words"), [("8", "0 to 7"), ("-1", "at least 0; got -1"), ("n", "constant")])
def test_the_number_of_groups_is_a_small_constant(groups: str, words: str) -> None:
    with pytest.raises(KernelTypeError, match=words):
        made(f"tj.wg.gemm_async(acc, a, b)\ntj.wgmma.wait({groups})")


def test_k_steps_add_to_one_descriptor() -> None:
    ptx = made("tj.wg.gemm_async(acc, a, b)\ntj.wgmma.wait(0)")
    (line,) = re.findall(r"wgmma\.fence.*commit_group.*", ptx)
    assert line.count("wgmma.mma_async") == 4
    assert len(re.findall(r"and\.b32\s+%r\d+, %r\d+, 262143|bfe\.u32\s+%r\d+, %r\d+, 4, 14", ptx)) <= 2


def test_the_names_of_rows_say_the_form() -> None:
    form = plan_of(asked(sums(64, 256), A, stored(64, 256))).form
    assert form.name == "wgmma.m64n256k16.f32.f16.f16.a_k.b_mn.1x1x4"
    assert WgmmaForm.called(form.name) == form and WGMMA_M == 64
