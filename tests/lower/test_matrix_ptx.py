"""ldmatrix, stmatrix and cp.async as golden lane IR, as PTX, and through ptxas for every target that has them."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from tests.lower.test_golden import edge, kernel
from tests.support.goldens import Golden, joined
from tests.support.ptxas import ptxas_accepts
from tilejit.codegen import generate
from tilejit.dtypes import bfloat16, float16, int32
from tilejit.ir.nodes import Const, Instruction, Kernel, Sync, TileOp
from tilejit.ir.text.printer import to_text
from tilejit.layout import Swizzle, TileLayout
from tilejit.lower import lower
from tilejit.lower.ask import OperandSpec, operand
from tilejit.lower.passes.storage import placed
from tilejit.lower.passes.unroll import unroll_loops
from tilejit.target import target

COMMIT = Instruction("cp.async.commit")
WAIT = Instruction("cp.async.wait", (), (Const(0, int32),))


def fragment(n: int) -> OperandSpec:
    layout = TileLayout.from_iters([(8, 4, "laneid"), (4, 1, "laneid"), (n, 2, "m"), (2, 1, "m")])
    return operand("local", (8, 4, n, 2), float16, layout)


def place(n: int, trans: bool) -> OperandSpec:
    """Row-major S[(8, 4, n, 2) : (8n, 2, 8, 1)], or column-major."""
    row, quad, pair = (1, 16 * n, 8 * n) if trans else (8 * n, 2, 1)
    layout = TileLayout.from_iters([(8, row, "m"), (4, quad, "m"), (n, 8, "m"), (2, pair, "m")])
    return operand("shared", (8, 4, n, 2), float16, layout)


def matrix(n: int, trans: bool, loads: bool, arch: str = "sm_90a") -> Kernel:
    r, s = fragment(n).named("r"), place(n, trans).named("s")
    return kernel("matrix", 32, [r, s], TileOp("copy", "warp", (r, s) if loads else (s, r)), target=arch)


def there_and_back(arch: str = "sm_90a") -> Kernel:
    """A 64x64 tile from a swizzled buffer into the fragments of a product, and transposed into another."""
    shape = (64, 64)
    s = operand("shared", shape, bfloat16, TileLayout.row_major(shape, Swizzle(3, 3, 3))).named("s")
    o = operand("shared", shape, bfloat16, TileLayout.from_iters([(64, 1, "m"), (64, 72, "m")])).named("o")
    digits = [(4, 1, "wid_in_wg"), (2, 2, "m"), (8, 4, "laneid"), (8, 4, "m"), (4, 1, "laneid"), (2, 1, "m")]
    r = operand("local", shape, bfloat16, TileLayout.from_iters(digits)).named("r")
    load, store = (TileOp("copy", "warpgroup", pair) for pair in ((r, s), (o, r)))
    return kernel("there_and_back", 128, [s, o, r], load, Sync("warpgroup"), store, target=arch)


def asynchronous(align: int, arch: str = "sm_90a", swizzle: Swizzle | None = None) -> Kernel:
    a = operand("global", (32, 32), float16, align=align, strides=(32 + align // 2, 1)).named("A")
    s = operand("shared", (32, 32), float16, TileLayout.row_major((32, 32), swizzle)).named("s")
    return kernel("asynchronous", 32, [a, s], TileOp("copy_async", "warp", (s, a)), COMMIT, WAIT, target=arch)


def asynchronous_edge() -> Kernel:
    made = edge()
    *allocs, copy = made.body
    assert isinstance(copy, TileOp)
    started = TileOp("copy_async", "warp", copy.operands)
    return Kernel("edge", made.params, 32, "sm_90a", (*allocs, started, COMMIT, WAIT))


CASES: dict[str, Callable[[], Kernel]] = {
    **{
        f"copy/{'ld' if d else 'st'}matrix_x{n}{'_trans' * t}.tile": lambda n=n, t=t, d=d: matrix(n, t, d)
        for n in (1, 2, 4)
        for t in (False, True)
        for d in (True, False)
    },
    "copy/ldmatrix_swizzled_stmatrix_trans.tile": there_and_back,
    "copy_async/ldgsts_16_bytes.tile": lambda: asynchronous(16),
    "copy_async/ldgsts_4_bytes.tile": lambda: asynchronous(4),
    "copy_async/ldgsts_swizzled.tile": lambda: asynchronous(16, swizzle=Swizzle(2, 3, 3)),
    "copy_async/ldgsts_edge.tile": asynchronous_edge,
}


@pytest.mark.parametrize("name", CASES)
def test_a_demonstration_lowers_to_its_golden_lane_ir(name: str, golden: Golden) -> None:
    tile = CASES[name]()
    lane = lower(tile, target(tile.target)).kernel
    golden.check(name, joined(tile.target, to_text(tile), to_text(lane)))


def ptx_of(made: Kernel) -> str:
    """The kernel's PTX, which ptxas accepts for its target."""
    arch = target(made.target)
    ptx = generate(unroll_loops(placed(lower(made, arch).kernel)), arch).ptx
    ptxas_accepts(ptx, made.target)
    return ptx


def version(ptx: str) -> tuple[int, int]:
    found = re.search(r"\.version (\d+)\.(\d+)", ptx)
    assert found
    return int(found[1]), int(found[2])


REGISTER = r"%r\d+"


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89", "sm_90a", "sm_100a"])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_ldmatrix_in_ptx(n: int, trans: bool, arch: str) -> None:
    ptx = ptx_of(matrix(n, trans, True, arch))
    registers = r"\{" + ", ".join([REGISTER] * n) + r"\}"
    name = f"ldmatrix.sync.aligned.m8n8.x{n}{'.trans' * trans}.shared.b16".replace(".", r"\.")
    assert len(re.findall(rf"{name} {registers}, \[{REGISTER}\];", ptx)) == 1
    assert "ld.shared" not in ptx and version(ptx) >= (6, 5)


@pytest.mark.parametrize("arch", ["sm_90a", "sm_100a"])
@pytest.mark.parametrize("trans", [False, True])
@pytest.mark.parametrize("n", [1, 2, 4])
def test_stmatrix_in_ptx(n: int, trans: bool, arch: str) -> None:
    ptx = ptx_of(matrix(n, trans, False, arch))
    registers = r"\{" + ", ".join([REGISTER] * n) + r"\}"
    name = f"stmatrix.sync.aligned.m8n8.x{n}{'.trans' * trans}.shared.b16".replace(".", r"\.")
    assert len(re.findall(rf"{name} \[{REGISTER}\], {registers};", ptx)) == 1
    assert "st.shared" not in ptx and version(ptx) >= (7, 8)


@pytest.mark.parametrize("arch", ["sm_75", "sm_80", "sm_89"])
def test_before_sm_90_stores_are_plain(arch: str) -> None:
    r, s, o = fragment(4).named("r"), place(4, False).named("s"), place(4, False).named("o")
    copies = TileOp("copy", "warp", (r, s)), TileOp("copy", "warp", (o, r))
    ptx = ptx_of(kernel("rows", 32, [r, s, o], *copies, target=arch))
    assert "ldmatrix" in ptx and "stmatrix" not in ptx
    # a lane's pair of neighbours, tile by tile
    assert len(re.findall(r"st\.shared\.b32", ptx)) == 4


def test_registers_pass_from_one_instruction_to_the_next_untouched() -> None:
    ptx = ptx_of(there_and_back())
    loads = re.findall(r"ldmatrix\S+x4\.shared\.b16 \{(.*?)\}", ptx)
    stores = re.findall(r"stmatrix\S+x4\.trans\.shared\.b16 \[\S+\], \{(.*?)\}", ptx)
    assert len(loads) == len(stores) == 4
    assert {r for line in loads for r in line.split(", ")} == {r for line in stores for r in line.split(", ")}
    assert "mov.b32 \t{" not in ptx and "prmt" not in ptx


@pytest.mark.parametrize("arch", ["sm_80", "sm_89", "sm_90a", "sm_100a"])
@pytest.mark.parametrize(("size", "cache"), [(16, "cg"), (8, "ca"), (4, "ca")])
def test_cp_async_in_ptx(size: int, cache: str, arch: str) -> None:
    ptx = ptx_of(asynchronous(size, arch))
    copies = re.findall(rf"cp\.async\.{cache}\.shared\.global \[%r\d+(?:\+\d+)?\], \[%rd\d+\], {size};", ptx)
    assert len(copies) == 32 * 32 * 2 // size // 32
    assert re.search(r"cp\.async\.commit_group;.*cp\.async\.wait_group 0;", ptx, re.DOTALL)
    assert "ld.global" not in ptx and "st.shared" not in ptx and version(ptx) >= (7, 0)


def test_at_an_edge_a_predicate_says_what_is_ignored() -> None:
    ptx = ptx_of(asynchronous_edge())
    copies = re.findall(r"cp\.async\.cg\.shared\.global \[%r\d+(?:\+\d+)?\], \[%rd\d+\], 16(.*);", ptx)
    assert len(copies) == 8 and all(re.fullmatch(r", %p\d+", operand) for operand in copies)
    assert version(ptx) >= (7, 5) and "bra" not in ptx
