"""Operations in several steps: the proof wants each step right, and that one takes what the other left; products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tests.support.proving import prove_edited, prove_emitted
from tilejit.dtypes import float16, float32
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Buffer, Instruction, Move, Region, Stmt, Store, Sync, TileOp
from tilejit.layout import R, S, laneid
from tilejit.layout.fragments import fragment_layout
from tilejit.lower import DispatchContext
from tilejit.lower.ask import operand
from tilejit.lower.variants import copy_rename, copy_through_shared, gemm_mma
from tilejit.target import target


def _conversion() -> tuple[TileOp, copy_through_shared.Exchange]:
    rows, columns = S[(32, 32) : (1 @ laneid, 1)], S[(32, 32) : (1, 1 @ laneid)]
    sides = (operand("local", (32, 32), float32, layout=layout) for layout in (columns, rows))
    op = TileOp("copy", "warp", tuple(side.named(name) for side, name in zip(sides, ("dst", "src"), strict=True)))
    return op, copy_through_shared.plan(op, DispatchContext(target("sm_90a"), 32))


def test_what_goes_through_memory_is_proved() -> None:
    op, plan = _conversion()
    prove_emitted(copy_through_shared.VARIANT, plan, op)


def unsynchronized(stmt: Stmt) -> tuple[Stmt, ...]:
    return () if isinstance(stmt, Sync) else (stmt,)


def elsewhere(stmt: Stmt) -> tuple[Stmt, ...]:
    is_store = isinstance(stmt, Move) and stmt.dst.buffer.space == "shared"
    return (replace(stmt, dst=replace(stmt.dst, offset=build.add(stmt.dst.offset, 32))),) if is_store else (stmt,)


@pytest.mark.parametrize(
    ("change", "message"),
    [(unsynchronized, "is read before threads wait"), (elsewhere, "elements of dst aren't those|is outside what")],
)
def test_a_step_that_fits_no_other_is_found(change: Callable[[Stmt], tuple[Stmt, ...]], message: str) -> None:
    op, plan = _conversion()
    with pytest.raises(AssertionError, match=message):
        prove_edited(copy_through_shared.VARIANT, plan, op, change)


#: of four rows each is owned by a quarter of the lanes, and what becomes one of them by all
QUARTERS, EVERYWHERE = S[(4, 8) : (1 @ laneid, 4 @ laneid)], R[4 : 1 @ laneid]


def test_what_writes_beside_a_part_is_found() -> None:
    part = operand("local", (4, 8), float32, layout=QUARTERS, region=((3, 1), (0, 8))).named("dst")
    src = operand("local", (8,), float32, layout=S[(8,) : (4 @ laneid,)] + EVERYWHERE).named("src")
    op = TileOp("copy", "warp", (replace(part, extents=(None, 8)), src))
    with pytest.raises(AssertionError, match="thread 0 writes register 0 of dst, which holds an element outside"):
        prove_emitted(copy_rename.VARIANT, copy_rename.RenamedRegisters(float32, ((0, 0, 1),), 32), op)


def _product(m: int, n: int, k: int) -> tuple[TileOp, gemm_mma.Plan]:
    regions = []
    for name, shape, dtype in (("acc", (m, n), float32), ("a", (m, k), float16), ("b", (k, n), float16)):
        made = fragment_layout(name, shape, dtype, (1, 1), 1, 8, "cta")
        buffer = Buffer(name, "local", dtype, shape, made.layout, 16, slots=made.slots)
        regions.append(Region(buffer, (build.const(0, float32),) * 2, shape))
    op = TileOp("gemm", "warp", tuple(regions))
    return op, gemm_mma.plan(op, DispatchContext(target("sm_90a"), 32))


EXTENTS = [(13, 9, 20), (1, 8, 3), (16, 1, 24), (5, 7, 1)]


@pytest.mark.parametrize("extents", EXTENTS, ids=str)
def test_a_padded_product_is_proved(extents: tuple[int, int, int]) -> None:
    op, plan = _product(*extents)
    prove_emitted(gemm_mma.VARIANT, plan, op)


@pytest.mark.parametrize("extents", [e for e in EXTENTS if e[2] % 8], ids=str)
@pytest.mark.parametrize("names", [("a",), ("b",), ("a", "b")], ids=str)
def test_padding_along_k_that_counts_is_found(names: tuple[str, ...], extents: tuple[int, int, int]) -> None:
    op, plan = _product(*extents)

    def unmasked(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, Move) and stmt.predicate is not None and stmt.src.buffer.name in names:
            return (replace(stmt, predicate=None, otherwise=None),)
        is_zero = isinstance(stmt, Store) and stmt.place.buffer.name.startswith(tuple(f"{n}.masked" for n in names))
        return () if is_zero else (stmt,)

    with pytest.raises(AssertionError, match="elements of acc aren't those of the operation"):
        prove_edited(gemm_mma.VARIANT, plan, op, unmasked)


@pytest.mark.parametrize("times", [0, 2])
def test_a_product_that_is_left_out_or_added_twice_is_found(times: int) -> None:
    op, plan = _product(17, 8, 24)
    seen: list[Stmt] = []

    def changed(stmt: Stmt) -> tuple[Stmt, ...]:
        is_first = isinstance(stmt, Instruction) and not seen
        seen.extend([stmt] if is_first else [])
        return (stmt,) * (times if is_first else 1)

    with pytest.raises(AssertionError, match="elements of acc aren't those of the operation"):
        prove_edited(gemm_mma.VARIANT, plan, op, changed)
