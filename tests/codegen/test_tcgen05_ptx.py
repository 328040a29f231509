"""PTX of copies between tensor memory and registers: order of instructions, and no use before its wait."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.profiles import times
from tests.support.ptx import early_uses, instructions
from tilejit import S, tid_in_wg
from tilejit.dtypes import float16, float32, uint8
from tilejit.ir.nodes import (
    Alloc,
    Instruction,
    Kernel,
    Region,
    Stmt,
    Sync,
    TileOp,
)
from tilejit.ir.params import (
    PointerParam,
)
from tilejit.ir.types import ArrayType, Signature
from tilejit.layout import TCGEN05_SHAPES, atom_layout, datapath
from tilejit.lower.ask import operand
from tilejit.pipeline import compile
from tilejit.target import target

TARGETS = ("sm_100a", "sm_103a")
EVERY_TARGET = (*TARGETS, "sm_110a")
SIZES = [(s.name, 1 << k) for s in TCGEN05_SHAPES.values() for k in range(s.max_num.bit_length())]
ROWS = S[(128, 8) : (1 @ tid_in_wg, 1)]
TILE = tj.spec((128, 8), float16)


@tj.kernel(threads=128)
def there_and_back(A: tj.Tensor = TILE, B: tj.Tensor = TILE):
    r = tj.alloc_local((128, 8), A.dtype, layout=ROWS)
    t = tj.alloc_tmem((128, 8), A.dtype)
    tj.wg.copy(r, A)
    tj.wg.copy_async(t, r)
    tj.tcgen05.wait_st()
    tj.cta_sync()
    tj.wg.copy_async(r, t)
    tj.tcgen05.wait_ld()
    tj.wg.copy(B, r)


def transfers(ptx: str) -> list[str]:
    """Mnemonics of tensor memory's transfers and waits, and of barriers, from allocation to freeing."""
    names = [line.split()[0].rstrip(";") for line in instructions(ptx)]
    first, last = (next(i for i, n in enumerate(names) if f"tcgen05.{what}" in n) for what in ("fence::after", "deall"))
    kept = ("tcgen05.ld", "tcgen05.st", "tcgen05.wait", "bar.sync")
    found = [n for n in names[first:last] if n.startswith(kept)]
    return found[: len(found) - 1]  # the last barrier is that of the kernel's end


@pytest.mark.parametrize("arch", EVERY_TARGET)
def test_the_demonstration_is_one_store_and_one_load_of_four_registers(arch: str) -> None:
    compiled = there_and_back.compile(TILE, TILE, target=arch)
    plans = [v.plan for v in compiled.verdicts if v.variant == "tcgen05_ldst"]
    assert [(p.shape, p.num, p.slabs, p.issues) for p in plans] == [("32x32b", 4, 1, 1)] * 2
    assert [p.schedule().tolist() for p in plans] == [[[0, 0, 0, 0, 4]]] * 2
    assert transfers(compiled.ptx) == [
        "tcgen05.st.sync.aligned.32x32b.x4.b32",
        "tcgen05.wait::st.sync.aligned",
        "bar.sync",
        "tcgen05.ld.sync.aligned.32x32b.x4.b32",
        "tcgen05.wait::ld.sync.aligned",
    ]
    assert early_uses(compiled.ptx) == []
    assert "mov.b32 \t{" not in compiled.ptx, "pairs of float16 stay in their registers"


@tj.kernel(threads=128)
def one_size(A: tj.Tensor, B: tj.Tensor, SHAPE: tj.constexpr, LAYOUT: tj.constexpr, TMEM: tj.constexpr):
    r = tj.alloc_local(SHAPE, A.dtype, layout=LAYOUT)
    q = tj.alloc_local(SHAPE, A.dtype, layout=LAYOUT)
    t = tj.alloc_tmem(SHAPE, A.dtype, layout=TMEM)
    tj.wg.copy(r, tj.assume_in_bounds(A[0 : SHAPE[0], 0 : SHAPE[1]]))
    tj.wg.copy_async(t, r)
    tj.tcgen05.wait_st()
    tj.cta_sync()
    tj.wg.copy_async(q, t)
    tj.tcgen05.wait_ld()
    tj.wg.copy(tj.assume_in_bounds(B[0 : SHAPE[0], 0 : SHAPE[1]]), q)


@pytest.mark.parametrize(("shape", "num"), SIZES)
@pytest.mark.parametrize("rows", [64, 128])
@pytest.mark.parametrize("arch", TARGETS)
def test_nothing_touches_a_loading_register_before_its_wait(shape: str, num: int, rows: int, arch: str) -> None:
    columns = TCGEN05_SHAPES[shape].columns * num * (2 if (shape, rows) == ("32x32b", 64) else 1)
    per_thread = rows * columns // 128
    if per_thread > 128:
        pytest.skip(f"{per_thread} registers a thread for one tile: the compiler would spill two of them")
    path = "D" if rows == 128 else "B" if shape == "32x32b" else "F"
    tile = tj.spec((rows, columns), float32)
    layout, tmem = atom_layout(shape, num, float32, rows), datapath(path, rows, columns)
    compiled = one_size.compile(tile, tile, SHAPE=(rows, columns), LAYOUT=layout, TMEM=tmem, target=arch)
    slabs = 2 if rows == 128 and shape != "32x32b" else 1
    assert compiled.ptx.count(f"tcgen05.ld.sync.aligned.{shape}.x{num}.b32") == slabs
    assert compiled.ptx.count(f"tcgen05.st.sync.aligned.{shape}.x{num}.b32") == slabs
    assert early_uses(compiled.ptx) == []


def test_the_checker_sees_a_wait_that_is_late_or_missing() -> None:
    ptx = there_and_back.compile(TILE, TILE, target="sm_100a").ptx
    wait = re.search(r"\t// begin inline asm\n\ttcgen05\.wait::ld.*\n\t// end inline asm\n", ptx)
    store = re.search(r"\tst\.global.*\n", ptx)
    assert wait is not None and store is not None
    without = ptx.replace(wait[0], "")
    assert [line.split()[0] for line in early_uses(without)] == ["st.global.v4.b32"]
    late = without.replace(store[0], store[0] + wait[0])
    assert [line.split()[0] for line in early_uses(late)] == ["st.global.v4.b32"]
    moved = ptx.replace(wait[0], "\tmov.b32 \t%r77, %r9;\n" + wait[0])
    loaded = re.search(r"tcgen05\.ld.*\{(%r\d+)", ptx)
    assert loaded is not None
    assert len(early_uses(moved.replace("%r77, %r9", f"%r77, {loaded[1]}"))) == 1


def test_the_checker_follows_branches_back() -> None:
    loop = "x\n{\n$L1:\n\tadd.s32 \t%r1, %r2, 1;\n\ttcgen05.ld.a {%r2}, [%r3];\n\t@%p1 bra \t$L1;\n\tret;\n\n}"
    assert early_uses(loop) == ["add.s32 \t%r1, %r2, 1;", "tcgen05.ld.a {%r2}, [%r3];"]


ATOMS = [(shape, num) for shape, num in SIZES if num <= 4]
WAITS = {kind: Instruction(f"tcgen05.wait.{kind}") for kind in ("ld", "st")}


@st.composite
def interleaved(draw: st.DrawFn) -> Kernel:
    """Tiles stored and loaded in any order, with work in between, and one wait or several before their use."""
    dtype = draw(st.sampled_from((float32, float16, uint8)))
    atoms = draw(st.lists(st.sampled_from(ATOMS), min_size=2, max_size=4))
    widths = [n * TCGEN05_SHAPES[s].columns * 32 // dtype.bits for s, n in atoms]
    tmem = operand("tmem", (128, sum(widths)), dtype, datapath("D", 128, sum(widths)))
    parts: list[tuple[Region, Region, Region, Region]] = []
    at = 0
    for i, ((shape, num), width) in enumerate(zip(atoms, widths, strict=True)):
        tile = operand("local", (128, width), dtype, atom_layout(shape, num, dtype)).named(f"r{i}")
        outside = [operand("global", (128, width), dtype).named(f"{name}{i}") for name in "AB"]
        place = operand("tmem", tmem.shape, dtype, tmem.layout, region=((0, 128), (at, width))).named("t")
        parts.append((tile, outside[0], outside[1], place))
        at += width
    order = draw(st.permutations(range(len(parts))))
    body: list[Stmt] = [TileOp("copy", "warpgroup", (tile, a)) for tile, a, _, _ in parts]
    body += [TileOp("copy_async", "warpgroup", (place, tile)) for tile, _, _, place in parts]
    body += [WAITS["st"], Sync("cta")]
    for i in order:
        body.append(TileOp("copy_async", "warpgroup", (parts[i][0], parts[i][3])))
        if draw(st.booleans()):
            body.append(WAITS["ld"])
    body.append(WAITS["ld"])
    for i in draw(st.permutations(range(len(parts)))):
        tile, _, b, _ = parts[i]
        if draw(st.booleans()):
            body.append(TileOp("add", "warpgroup", (tile, tile, tile)))
        body.append(TileOp("copy", "warpgroup", (b, tile)))
    params = [PointerParam(r.buffer.name, r.buffer, written=True) for p in parts for r in p[1:3]]
    allocs = [Alloc(tile.buffer) for tile, *_ in parts] + [Alloc(parts[0][3].buffer)]
    return Kernel("interleaved", tuple(params), 128, "sm_100a", (*allocs, *body))


@settings(max_examples=times(0.4))
@given(interleaved())
def test_loads_in_any_order_before_one_wait_or_several_stay_after_it(kernel: Kernel) -> None:
    arrays = tuple((p.of, ArrayType(p.buffer.dtype, 2, 1, 16, 16)) for p in kernel.params)
    ptx = compile(kernel, Signature(arrays), target("sm_100a")).ptx
    assert early_uses(ptx) == []
    assert ptx.count("tcgen05.ld.") == ptx.count("tcgen05.st.") > 0
