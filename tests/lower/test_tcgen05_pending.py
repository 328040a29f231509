"""Registers between an asynchronous copy and its wait: what the compiler refuses, and what its waits carry."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tilejit as tj
from tests.support.profiles import times
from tests.support.ptx import early_uses
from tilejit import S, tid_in_wg
from tilejit.compiled import Compiled
from tilejit.dtypes import float32
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import (
    Alloc,
    Break,
    Const,
    Continue,
    If,
    Instruction,
    Kernel,
    Loop,
    Special,
    Stmt,
    TileOp,
)
from tilejit.ir.params import (
    PointerParam,
)
from tilejit.ir.types import ArrayType, Signature
from tilejit.layout import datapath
from tilejit.lower.ask import operand
from tilejit.pipeline import compile
from tilejit.target import target

ROWS = S[(128, 8) : (1 @ tid_in_wg, 1)]
WIDE = S[(128, 32) : (1 @ tid_in_wg, 1)]
TILE = tj.spec((128, 8), tj.float32)


def compiled(k: Any, **constants: Any) -> Compiled:
    made: Compiled = k.compile(TILE, TILE, target="sm_100a", **constants)
    assert early_uses(made.ptx) == []
    return made


def refused(k: Any, words: str, use: str, **constants: Any) -> None:
    """The error names the buffer, the wait and the copy's line; its place is the use's line."""
    with pytest.raises(tj.KernelTypeError, match=words) as caught:
        k.compile(TILE, TILE, target="sm_100a", **constants)
    assert caught.value.span is not None and caught.value.span.text.strip() == use
    assert "test_tcgen05_pending.py:" in str(caught.value)


@tj.kernel(threads=128)
def unwaited_load(A: tj.Tensor = TILE, B: tj.Tensor = TILE):
    r = tj.alloc_local((128, 8), tj.float32, layout=ROWS)
    t = tj.alloc_tmem((128, 8), tj.float32)
    tj.wg.copy_async(r, t)
    tj.wg.copy(B, r)
    tj.tcgen05.wait_ld()


@tj.kernel(threads=128)
def waited_for_stores_only(A: tj.Tensor = TILE, B: tj.Tensor = TILE):
    r = tj.alloc_local((128, 8), tj.float32, layout=ROWS)
    t = tj.alloc_tmem((128, 8), tj.float32)
    tj.wg.copy_async(r, t)
    tj.tcgen05.wait_st()
    tj.wg.copy(B, r)


@tj.kernel(threads=128)
def computed_in_place(A: tj.Tensor = TILE, B: tj.Tensor = TILE):
    r = tj.alloc_local((128, 8), tj.float32, layout=ROWS)
    t = tj.alloc_tmem((128, 8), tj.float32)
    tj.wg.copy_async(r, t)
    tj.wg.add(r, r, 1.0)
    tj.tcgen05.wait_ld()


@tj.kernel(threads=128)
def one_register(A: tj.Tensor = TILE, B: tj.Tensor = TILE):
    r = tj.alloc_local((128, 8), tj.float32, layout=ROWS)
    t = tj.alloc_tmem((128, 8), tj.float32)
    tj.wg.copy_async(r, t)
    B[tj.thread_id(), 0] = r.registers[3]
    tj.tcgen05.wait_ld()


@tj.kernel(threads=128)
def waited_on_one_path(A: tj.Tensor = TILE, B: tj.Tensor = TILE):
    r = tj.alloc_local((128, 8), tj.float32, layout=ROWS)
    t = tj.alloc_tmem((128, 8), tj.float32)
    tj.wg.copy_async(r, t)
    if tj.cta_id(0) > 3:
        tj.tcgen05.wait_ld()
    tj.wg.copy(B, r)


@tj.kernel(threads=128)
def loaded_in_the_round_before(A: tj.Tensor = TILE, B: tj.Tensor = TILE):
    r = tj.alloc_local((128, 8), tj.float32, layout=ROWS)
    t = tj.alloc_tmem((128, 8), tj.float32)
    tj.wg.copy(r, A)
    for _ in range(tj.cta_id(0)):
        tj.wg.copy(B, r)
        tj.wg.copy_async(r, t)


@pytest.mark.parametrize(
    ("k", "use"),
    [
        (unwaited_load, "tj.wg.copy(B, r)"),
        (waited_for_stores_only, "tj.wg.copy(B, r)"),
        (computed_in_place, "tj.wg.add(r, r, 1.0)"),
        (one_register, "B[tj.thread_id(), 0] = r.registers[3]"),
        (waited_on_one_path, "tj.wg.copy(B, r)"),
        (loaded_in_the_round_before, "tj.wg.copy(B, r)"),
    ],
    ids=lambda k: "" if isinstance(k, str) else k.source.name,
)
def test_a_tile_that_is_used_before_its_load_is_waited_for_is_refused(k: Any, use: str) -> None:
    refused(k, r"r is used before tj\.tcgen05\.wait_ld\(\): copy_async at .*:\d+.* may not have filled it yet", use)


@tj.kernel(threads=128)
def changed_source(A: tj.Tensor = TILE, B: tj.Tensor = TILE):
    r = tj.alloc_local((128, 8), tj.float32, layout=ROWS)
    t = tj.alloc_tmem((128, 8), tj.float32)
    tj.wg.copy(r, A)
    tj.wg.copy_async(t, r)
    tj.wg.fill(r, 0.0)
    tj.tcgen05.wait_st()


def test_a_tile_that_is_changed_before_its_store_is_waited_for_is_refused() -> None:
    words = r"r is changed before tj\.tcgen05\.wait_st\(\): copy_async at .*:\d+.* may not have read it yet"
    refused(changed_source, words, "tj.wg.fill(r, 0.0)")


@tj.kernel(threads=128)
def other_registers(A: tj.Tensor = TILE, B: tj.Tensor = TILE):
    r = tj.alloc_local((128, 32), tj.float32, layout=WIDE)
    t = tj.alloc_tmem((128, 32), tj.float32)
    tj.wg.copy(r[:, 0:8], A)
    tj.wg.copy_async(t[:, 0:8], r[:, 0:8])
    tj.wg.copy(B, r[:, 0:8])
    tj.wg.copy_async(r[:, 8:16], t[:, 8:16])
    tj.wg.copy_async(r[:, 24:32], t[:, 24:32])
    tj.wg.sqrt(r[:, 16:24], r[:, 0:8])
    tj.tcgen05.wait_ld()
    tj.tcgen05.wait_st()
    tj.wg.add(r[:, 8:16], r[:, 8:16], r[:, 24:32])
    tj.wg.copy(B, r[:, 8:16])


def test_registers_that_arent_pending_may_be_used_and_a_wait_carries_just_those_that_are() -> None:
    text = compiled(other_registers).lane_ir
    assert "instruction tcgen05.wait.ld r[8 +: 8], r[24 +: 8] <- r[8 +: 8], r[24 +: 8]" in text
    assert "instruction tcgen05.wait.st r[0 +: 8] <- r[0 +: 8]" in text


@tj.kernel(threads=128)
def pipelined(A: tj.Tensor = TILE, B: tj.Tensor = TILE):
    r = tj.alloc_local((128, 8), tj.float32, layout=ROWS)
    t = tj.alloc_tmem((128, 32), tj.float32)
    tj.wg.copy_async(r, t[:, 0:8])
    for i in range(3):
        tj.tcgen05.wait_ld()
        tj.wg.copy(B, r)
        tj.wg.copy_async(r, t[:, i * 8 + 8 : i * 8 + 16])
    tj.tcgen05.wait_ld()
    tj.wg.copy(B, r)


def test_a_wait_at_the_head_of_a_loop_carries_what_its_end_has_loaded() -> None:
    # before the loop and at its end there is a wait of the compiler's: there LLVM may copy registers
    lines = [line for line in compiled(pipelined).lane_ir.splitlines() if "tcgen05" in line or " for i" in line]
    wait = "instruction tcgen05.wait.ld r[0 +: 8] <- r[0 +: 8]"
    assert [wait in line for line in lines] == [False, True, False, True, False, True, True]


@tj.kernel(threads=128)
def either_way(A: tj.Tensor = TILE, B: tj.Tensor = TILE):
    r = tj.alloc_local((128, 8), tj.float32, layout=ROWS)
    q = tj.alloc_local((128, 8), tj.float32, layout=ROWS)
    t = tj.alloc_tmem((128, 8), tj.float32)
    tj.wg.copy(r, A)
    tj.wg.copy(q, A)
    while True:
        if tj.cta_id(0) > 3:
            tj.wg.copy_async(r, t)
            break
        tj.wg.copy_async(q, t)
        break
    tj.tcgen05.wait_ld()
    tj.wg.add(r, r, q)
    tj.wg.copy(B, r)


def test_a_wait_after_branches_carries_what_any_of_them_has_loaded() -> None:
    assert "tcgen05.wait.ld q[0 +: 8], r[0 +: 8] <-" in compiled(either_way).lane_ir


@tj.kernel(threads=128)
def loaded_again(A: tj.Tensor = TILE, B: tj.Tensor = TILE):
    r = tj.alloc_local((128, 8), tj.float32, layout=ROWS)
    t = tj.alloc_tmem((128, 32), tj.float32)
    tj.wg.copy_async(r, t[:, 0:8])
    if tj.cta_id(0) > 3:
        tj.wg.copy_async(r, t[:, 8:16])
    tj.tcgen05.wait_ld()
    tj.wg.copy(B, r)


def test_a_second_load_into_the_same_registers_waits_for_the_first() -> None:
    lines = [line.strip() for line in compiled(loaded_again).lane_ir.splitlines() if "tcgen05" in line]
    wait = "instruction tcgen05.wait.ld r[0 +: 8] <- r[0 +: 8]"
    first, waited, second = (next(k for k, line in enumerate(lines) if text in line) for text in ("t[0", wait, "t[8"))
    assert first < waited < second


@tj.kernel(threads=128)
def chosen_columns(A: tj.Tensor = TILE, B: tj.Tensor = TILE):
    r = tj.alloc_local((128, 32), tj.float32, layout=WIDE)
    t = tj.alloc_tmem((128, 32), tj.float32)
    for i in range(4):
        tj.wg.copy_async(r[:, i * 8 : i * 8 + 8], t[:, i * 8 : i * 8 + 8])
    tj.tcgen05.wait_ld()
    tj.wg.copy(B, r[:, 0:8])


def test_several_loads_into_registers_chosen_at_run_time_have_one_wait() -> None:
    text = compiled(chosen_columns).lane_ir
    assert text.count("instruction tcgen05.ld.32x32b.x8") == 4
    assert "tcgen05.wait.ld r[0 +: 8], r[8 +: 8], r[16 +: 8], r[24 +: 8] <-" in text


@tj.kernel(threads=128)
def wait_in_half_a_warp(A: tj.Tensor = TILE, B: tj.Tensor = TILE):
    if tj.lane_id() < 16:
        tj.tcgen05.wait_ld()


def test_a_wait_needs_all_lanes_of_a_warp() -> None:
    with pytest.raises(tj.DispatchError, match=r"tcgen05\.wait_ld at .* needs all threads of its warp"):
        wait_in_half_a_warp.compile(TILE, TILE, target="sm_100a")


TILES = [operand("local", (128, 8), float32, ROWS).named(f"r{i}") for i in range(2)]
TMEM = operand("tmem", (128, 8), float32, datapath("D", 128, 8)).named("t")
OUT = operand("global", (128, 8), float32).named("B")
FEW = build.less(Special("cta_id.0"), 3)


def steps(depth: int, in_loop: bool) -> st.SearchStrategy[tuple[Stmt, ...]]:
    """Loads, waits and uses of two tiles, in branches and loops that a whole CTA takes uniformly."""
    loads = st.sampled_from([TileOp("copy_async", "warpgroup", (r, TMEM)) for r in TILES])
    uses = st.sampled_from([TileOp("copy", "warpgroup", (OUT, r)) for r in TILES])
    changes = st.sampled_from([TileOp("add", "warpgroup", (r, r, Const(1.0, float32))) for r in TILES])
    waits = st.just(Instruction("tcgen05.wait.ld"))
    options: list[st.SearchStrategy[Stmt]] = [loads, waits, waits, uses, changes]
    if in_loop:
        options.append(st.sampled_from([If(FEW, (Break(),)), If(FEW, (), (Continue(),))]))
    if depth > 0:
        inner, body = steps(depth - 1, in_loop), steps(depth - 1, True)
        options += [st.builds(lambda a, b: If(FEW, a, b), inner, inner), st.builds(loop, body)]
    return st.lists(st.one_of(options), max_size=4).map(tuple)


def loop(body: tuple[Stmt, ...]) -> Stmt:
    return Loop((*body, If(FEW, (Break(),))))


@settings(max_examples=times(2))
@given(steps(3, False))
def test_whatever_is_accepted_touches_no_loading_register_before_a_wait(body: tuple[Stmt, ...]) -> None:
    filled = tuple(TileOp("fill", "warpgroup", (r, Const(0.0, float32))) for r in TILES)
    allocs = tuple(Alloc(r.buffer) for r in (*TILES, TMEM))
    params = (PointerParam("B", OUT.buffer, written=True),)
    kernel = Kernel("walk", params, 128, "sm_100a", (*allocs, *filled, *body))
    try:
        made = compile(kernel, Signature((("B", ArrayType(float32, 2, 1, 16, 16)),)), target("sm_100a"))
    except tj.KernelTypeError as refused:
        assert "is used before tj.tcgen05.wait_ld()" in refused.message
        return
    assert early_uses(made.ptx) == []


@tj.kernel(threads=128)
def three_tiles(A: tj.Tensor, B: tj.Tensor, COLUMNS: tj.constexpr):
    acc = tj.alloc_tmem((128, COLUMNS), tj.float32)  # noqa: F841 - the name is in the error
    halves = tj.alloc_tmem((128, 64), tj.float16)  # noqa: F841
    bytes_ = tj.alloc_tmem((64, 64), tj.uint8, layout=tj.tmem.datapath("F", 64, 64, half=1))  # noqa: F841


def test_allocations_share_one_power_of_two_of_columns() -> None:
    for columns, reserved in ((32, 128), (81, 256), (464, 512)):
        ptx = three_tiles.compile(TILE, TILE, COLUMNS=columns, target="sm_100a").ptx
        assert ptx.count("tcgen05.alloc.") == ptx.count("tcgen05.dealloc.") == 1
        assert f", {reserved};" in ptx


def test_too_many_columns_list_every_allocation() -> None:
    with pytest.raises(tj.ResourceError, match="needs 513 columns .*; a CTA has 512") as caught:
        three_tiles.compile(TILE, TILE, COLUMNS=465, target="sm_100a")
    assert "acc 465, halves 32, bytes_ 16" in str(caught.value)


@pytest.mark.parametrize("arch", ["sm_80", "sm_90a", "sm_100", "sm_120a"])
def test_tensor_memory_is_refused_where_there_is_none(arch: str) -> None:
    with pytest.raises(tj.ResourceError, match=f"{arch} has no tensor memory") as caught:
        three_tiles.compile(TILE, TILE, COLUMNS=32, target=arch)
    assert all(name in str(caught.value) for name in ("sm_100a", "sm_103a", "sm_110a"))


@tj.kernel(threads=128)
def made_of(A: tj.Tensor, B: tj.Tensor, SHAPE: tj.constexpr, DTYPE: tj.constexpr, LAYOUT: tj.constexpr):
    tj.alloc_tmem(SHAPE, DTYPE, layout=LAYOUT)


@pytest.mark.parametrize(
    ("shape", "dtype", "layout", "error", "words"),
    [
        ((64, 32), tj.float32, None, tj.KernelTypeError, r"and 128 rows; got \(64, 32\)"),
        ((128, 32), tj.float64, None, tj.KernelTypeError, "8, 16 and 32 bits; float64 has 64"),
        ((128, 32), tj.float32, S[(128, 32) : (32, 1)], tj.LayoutError, "has axis m; a layout of tensor memory"),
        ((64, 32), tj.float32, tj.tmem.datapath("F", 64, 32, half=1), None, ""),
        ((256, 32), tj.float32, S[(256, 32) : (1 @ tj.TLane, 1 @ tj.TCol)], tj.LayoutError, "reaches lane 255"),
        ((128, 32), tj.float32, S[(128, 32) : (1 @ tj.TLane, 0 @ tj.TCol)], tj.LayoutError, "several elements"),
    ],
)
def test_a_tile_of_tensor_memory_has_lanes_and_columns(
    shape: tuple[int, int], dtype: Any, layout: Any, error: Any, words: str
) -> None:
    if error is None:
        made_of.compile(TILE, TILE, SHAPE=shape, DTYPE=dtype, LAYOUT=layout, target="sm_100a")
        return
    with pytest.raises(error, match=words):
        made_of.compile(TILE, TILE, SHAPE=shape, DTYPE=dtype, LAYOUT=layout, target="sm_100a")


@tj.kernel(threads=128)
def layouts_made_inside(A: tj.Tensor = TILE, B: tj.Tensor = TILE):
    r = tj.alloc_local((64, 8), tj.float32, layout=tj.tcgen05.atom_layout("16x256b", 1, tj.float32, rows=64))
    t = tj.alloc_tmem((64, 8), tj.float32, layout=tj.tmem.datapath("F", 64, 8))
    tj.wg.fill(r, 1.0)
    tj.wg.copy_async(t, r)
    tj.tcgen05.wait_st()


def test_layouts_may_be_made_in_the_kernel() -> None:
    assert "tcgen05.st.sync.aligned.16x256b.x1.b32" in compiled(layouts_made_inside).ptx
