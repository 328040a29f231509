"""What plans promise is what comes out as PTX, and ptxas accepts it."""

from __future__ import annotations

import re

import pytest

from tests.lower.test_golden import kernel, rows
from tests.support.ptxas import EmittedPtx
from tilejit.dtypes import DType, bfloat16, float16, float32
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import (
    Kernel,
    Sync,
    TileOp,
)
from tilejit.ir.params import (
    PointerParam,
)
from tilejit.ir.types import ArrayType, Signature
from tilejit.layout import Swizzle, TileLayout
from tilejit.lower.ask import operand
from tilejit.pipeline import compile
from tilejit.target import target


def ptx_of(made: Kernel) -> str:
    pointers = [p for p in made.params if isinstance(p, PointerParam)]
    arrays = tuple((p.of, ArrayType(p.buffer.dtype, 2, 1, 16, 16)) for p in pointers)
    return compile(made, Signature(arrays), target(made.target)).ptx


def in_registers(name: str, arch: str, to: DType, source: DType, *inputs: float) -> Kernel:
    """dst = name(src, ...) by one warp, from global memory and back."""
    a, b = operand("global", (32, 8), source).named("A"), operand("global", (32, 8), to).named("B")
    r = operand("local", (32, 8), source, rows(8)).named("r")
    s = operand("local", (32, 8), to, rows(8)).named("s")
    scalars = tuple(build.const(x, source) for x in inputs)
    body = (TileOp("copy", "warp", (r, a)), TileOp(name, "warp", (s, r, *scalars)), TileOp("copy", "warp", (b, s)))
    return kernel("case", 32, [a, b, r, s], *body, target=arch)


def count(ptx: str, mnemonic: str) -> int:
    return len(re.findall(rf"^\s*(?:@!?%p\d+ )?{re.escape(mnemonic)}\b", ptx, re.MULTILINE))


@pytest.mark.parametrize(
    ("name", "arch", "to", "source", "inputs", "mnemonic", "times"),
    [
        ("sqrt", "sm_90a", float32, float32, (), "sqrt.rn.f32", 8),
        ("add", "sm_90a", float32, float32, (2.0,), "add.rn.f32", 8),
        ("add", "sm_100a", float32, float32, (2.0,), "add.rn.f32x2", 4),
        ("sub", "sm_100", float32, float32, (2.0,), "sub.rn.f32x2", 4),
        ("mul", "sm_120a", float32, float32, (2.0,), "mul.rn.f32x2", 4),
        ("fma", "sm_100a", float32, float32, (2.0, 1.0), "fma.rn.f32x2", 4),
        ("maximum", "sm_90a", float16, float16, (2.0,), "max.NaN.f16x2", 4),
        ("minimum", "sm_80", bfloat16, bfloat16, (2.0,), "min.NaN.bf16x2", 4),
        ("maximum", "sm_75", float16, float16, (2.0,), "max.f32", 8),
        ("cast", "sm_80", float16, float32, (), "cvt.rn.f16x2.f32", 4),
        ("cast", "sm_90a", bfloat16, float32, (), "cvt.rn.bf16x2.f32", 4),
        ("cast", "sm_75", float16, float32, (), "cvt.rn.f16.f32", 8),
        ("cast", "sm_90a", float32, float16, (), "cvt.f32.f16", 8),
    ],
)
def test_each_element_or_pair_is_one_instruction(
    name: str, arch: str, to: DType, source: DType, inputs: tuple[float, ...], mnemonic: str, times: int,
    emitted_ptx: EmittedPtx,
) -> None:
    ptx = ptx_of(in_registers(name, arch, to, source, *inputs))
    assert count(ptx, mnemonic) == times
    emitted_ptx.add(ptx, arch, f"{name} {arch}")


@pytest.mark.parametrize("dtype", [float32, float16])
def test_a_copy_through_shared_memory_is_two_serial_loops_of_16_byte_accesses(
    dtype: DType, emitted_ptx: EmittedPtx
) -> None:
    layout = TileLayout.row_major((128, 64), Swizzle.for_dtype(dtype, "64B"))
    a, b = (operand("global", (128, 64), dtype).named(n) for n in "AB")
    s = operand("shared", (128, 64), dtype, layout).named("s")
    down, up = TileOp("copy", "cta", (s, a)), TileOp("copy", "cta", (b, s))
    ptx = ptx_of(kernel("through", 128, [a, b, s], down, Sync("cta"), up))
    for access in ("ld.global", "st.shared", "ld.shared", "st.global"):
        assert len(re.findall(rf"{access}\.v(4\.b32|2\.b64)", ptx)) == 1
    assert len(re.findall(r"bra\s", ptx)) == 2
    emitted_ptx.add(ptx, "sm_90a", f"through {dtype}")


def test_registers_never_become_a_stack_frame(emitted_ptx: EmittedPtx) -> None:
    a, b = (operand("global", (64, 64), float32).named(n) for n in "AB")
    layout = TileLayout.from_iters([(8, 4, "m"), (128, 1, "tx"), (4, 1, "m")])
    r = operand("local", (64, 64), float32, layout).named("r")
    ptx = ptx_of(kernel("kept", 128, [a, b, r], TileOp("copy", "cta", (r, a)), TileOp("copy", "cta", (b, r))))
    assert ".local" not in ptx and count(ptx, "ld.global.v4.b32") == 8
    emitted_ptx.add(ptx, "sm_90a", "kept")
