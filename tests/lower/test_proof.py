"""Operations in several steps: the proof wants each step right, and that one takes what the other left; products."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from tests.support.proving import prove_edited, prove_emitted
from tilejit.dtypes import float16, float32
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import Buffer, Move, Region, Stmt, Sync, TileOp
from tilejit.layout import R, S, TileLayout, laneid
from tilejit.layout.fragments import fragment_layout
from tilejit.lower import DispatchContext, Products
from tilejit.lower.ask import operand
from tilejit.lower.plans import Reductions
from tilejit.lower.proof.products import prove_products
from tilejit.lower.proof.prove import prove_reductions
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
LANES, FIRST = np.arange(32), np.zeros(32, np.int64)

#: name -> (operation, the source's shape and layout, a plan by which all lanes write)
BESIDE: dict[str, tuple[str, tuple[int, ...], TileLayout, Callable[[TileOp], None]]] = {
    "moves": (
        "copy", (8,), S[(8,) : (4 @ laneid,)] + EVERYWHERE,
        lambda op: prove_emitted(copy_rename.VARIANT, copy_rename.RenamedRegisters(float32, ((0, 0, 1),), 32), op),
    ),
    "reductions": (
        "sum", (2, 8), S[(2, 8) : (1, 4 @ laneid)] + EVERYWHERE,
        lambda op: prove_reductions(
            Reductions(FIRST[:1], np.arange(2)[None], np.ones((32, 2), bool), LANES[:, None]), op
        ),
    ),
}


@pytest.mark.parametrize("kind", BESIDE)
def test_what_writes_beside_a_part_is_found(kind: str) -> None:
    name, shape, layout, check = BESIDE[kind]
    part = operand("local", (4, 8), float32, layout=QUARTERS, region=((3, 1), (0, 8))).named("dst")
    src = operand("local", shape, float32, layout=layout).named("src")
    attrs = (("axis", (0,)),) if name == "sum" else ()
    op = TileOp(name, "warp", (replace(part, extents=(None, 8)), src), attrs)
    with pytest.raises(AssertionError, match="thread 0 writes register 0 of dst, which holds an element outside"):
        check(op)


def _product(m: int, n: int, k: int) -> tuple[TileOp, Products]:
    regions = []
    for name, shape, dtype in (("acc", (m, n), float32), ("a", (m, k), float16), ("b", (k, n), float16)):
        made = fragment_layout(name, shape, dtype, (1, 1), 1, 8, "cta")
        buffer = Buffer(name, "local", dtype, shape, made.layout, 16, slots=made.slots)
        regions.append(Region(buffer, (build.const(0, float32),) * 2, shape))
    op = TileOp("gemm", "warp", tuple(regions))
    plan = gemm_mma.plan(op, DispatchContext(target("sm_90a"), 32))
    return op, plan.moves()


EXTENTS = [(13, 9, 20), (1, 8, 3), (16, 1, 24), (5, 7, 1)]


@pytest.mark.parametrize("extents", EXTENTS, ids=str)
def test_a_padded_product_is_proved(extents: tuple[int, int, int]) -> None:
    op, products = _product(*extents)
    prove_products(products, op)


@pytest.mark.parametrize("extents", [e for e in EXTENTS if e[2] % 8], ids=str)
@pytest.mark.parametrize("name", ["a_zeros", "b_zeros"])
def test_padding_along_k_that_counts_in_one_factor_is_found(name: str, extents: tuple[int, int, int]) -> None:
    op, products = _product(*extents)
    forgotten = replace(products, **{name: np.zeros_like(getattr(products, name))})
    with pytest.raises(AssertionError, match="one of A and B counts as 0 where the other doesn't"):
        prove_products(forgotten, op)


@pytest.mark.parametrize("extents", [e for e in EXTENTS if e[2] % 8], ids=str)
def test_padding_along_k_that_counts_is_found(extents: tuple[int, int, int]) -> None:
    op, products = _product(*extents)
    forgotten = replace(products, a_zeros=products.a_zeros & False, b_zeros=products.b_zeros & False)
    with pytest.raises(AssertionError, match="takes padding|added twice|different k"):
        prove_products(forgotten, op)


def test_elements_that_count_as_0_are_found() -> None:
    op, products = _product(13, 9, 20)
    emptied = replace(products, a_zeros=products.a_zeros | True, b_zeros=products.b_zeros | True)
    with pytest.raises(AssertionError, match="an accumulator element lacks products"):
        prove_products(emptied, op)


def test_a_product_that_is_left_out_or_added_twice_is_found() -> None:
    op, products = _product(17, 8, 24)
    every = np.arange(len(products.acc))
    for taken, message in ((every[:-1], "lacks products"), ((*every, 0), "a product is added twice")):
        chosen = list(taken)
        part = {name: getattr(products, name)[chosen] for name in ("acc", "a", "b")}
        zeros = {name: getattr(products, name)[:, chosen] for name in ("a_zeros", "b_zeros")}
        with pytest.raises(AssertionError, match=message):
            prove_products(replace(products, **part, **zeros), op)
