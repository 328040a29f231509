"""Conversions by shuffles: how many, that they move what they should, and that the proof finds where they don't."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.lower.running import Run
from tests.support.drafts import Operation
from tests.support.proving import prove_emitted
from tilejit.dtypes import DTYPES, DType, float16, float32, float64, int64
from tilejit.errors import LayoutError
from tilejit.ir.arithmetic import build
from tilejit.ir.nodes import TileOp
from tilejit.layout import R, S, TileLayout, laneid, tx
from tilejit.lower import DispatchContext
from tilejit.lower.ask import operand
from tilejit.lower.variants import copy_shuffle
from tilejit.target import target

ROW = S[(32, 8) : (1 @ laneid, 1)]
Shape = tuple[int, ...]

#: name -> (shape, from, to, shuffles of a 32-bit word, instruction)
CASES: dict[str, tuple[Shape, TileLayout, TileLayout, int, str]] = {
    "two lanes": ((32, 2), S[(32, 2) : (1 @ laneid, 1)], S[(16, 2, 2) : (2 @ laneid, 1, 1 @ laneid)], 1, "bfly"),
    "four lanes": (
        (32, 8), S[(8, 4, 8) : (4 @ laneid, 1 @ laneid, 1)],
        S[(8, 4, 2, 4) : (4 @ laneid, 1, 4, 1 @ laneid)], 6, "bfly",
    ),
    "three more registers": (
        (8, 3, 4, 4), S[(8, 3, 4, 4) : (4 @ laneid, 4, 1 @ laneid, 1)],
        S[(8, 3, 4, 4) : (4 @ laneid, 4, 1, 1 @ laneid)], 9, "bfly",
    ),
    "a row a lane, coalesced": ((32, 8), ROW, S[(8, 4, 8) : (1, 8 @ laneid, 1 @ laneid)], 8, "idx"),
    "lanes only": (
        (4, 8, 2), S[(4, 8, 2) : (8 @ laneid, 1 @ laneid, 1)], S[(4, 8, 2) : (1 @ laneid, 4 @ laneid, 1)], 2, "idx"
    ),
    "to replicas": (
        (8, 2), S[(8, 2) : (4 @ laneid, 1)] + R[4 : 1 @ laneid], S[(8, 2) : (1 @ laneid, 1)] + R[4 : 8 @ laneid], 2,
        "idx",
    ),
    "several warps": (
        (64, 4), S[(64, 4) : (1 @ tx, 1)], S[(2, 4, 8, 4) : (32 @ tx, 1, 4 @ tx, 1 @ tx)], 4, "idx"
    ),
}


def asked(case: str, dtype: DType, name: str = "copy") -> Operation:
    shape, before, after, *_ = CASES[case]
    threads = 64 if case == "several warps" else 32
    sides = [operand("local", shape, dtype, layout=layout) for layout in (after, before)]
    regions = tuple(side.named(side_name) for side, side_name in zip(sides, ("dst", "src"), strict=True))
    return Operation(TileOp(name, "cta" if threads == 64 else "warp", regions), target("sm_90a"), threads, {})


def planned(operation: Operation) -> copy_shuffle.Shuffled:
    return copy_shuffle.plan(operation.op, DispatchContext(operation.target, operation.threads))


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("dtype", [float32, DTYPES["int32"], float64], ids=lambda t: t.name)
def test_the_shuffles_are_as_few_as_they_can_be_and_move_what_they_should(case: str, dtype: DType) -> None:
    *_, shuffles, instruction = CASES[case]
    operation = asked(case, dtype)
    plan = planned(operation)
    assert plan.instructions == ((f"shfl.sync.{instruction}.b32", shuffles * dtype.bits // 32),)
    prove_emitted(copy_shuffle.VARIANT, plan, operation.op)
    Run(operation.forced("shuffle")).check()


@pytest.mark.parametrize("dtype", [t for t in DTYPES.values() if t.bits in (8, 16)], ids=lambda t: t.name)
def test_narrow_elements_travel_in_words(dtype: DType) -> None:
    per_word = 32 // dtype.bits
    shape = (32, 2 * per_word)
    before = S[(32, 2, per_word) : (1 @ laneid, per_word, 1)]
    after = S[(16, 2, 2, per_word) : (2 @ laneid, per_word, 1 @ laneid, 1)]
    regions = (
        operand("local", shape, dtype, layout=layout).named(name) for layout, name in ((after, "dst"), (before, "src"))
    )
    operation = Operation(TileOp("copy", "warp", tuple(regions)), target("sm_90a"), 32, {})
    plan = planned(operation)
    assert plan.instructions == (("shfl.sync.bfly.b32", 1),)
    prove_emitted(copy_shuffle.VARIANT, plan, operation.op)
    Run(operation.forced("shuffle")).check()


def test_elements_of_a_word_that_part_are_declined() -> None:
    operation = asked("two lanes", float16)
    with pytest.raises(LayoutError, match="of a 32-bit word"):
        copy_shuffle.plan(operation.op, DispatchContext(operation.target, 32))


def test_a_part_of_a_tile_whose_rest_other_warps_have_in_its_registers_is_declined() -> None:
    """Warp 1 holds a replica of the source and the destination's upper half, in the register that warp 0 writes."""
    whole = operand("local", (64,), float32, layout=S[64 : 1 @ tx])
    before = operand("local", (32,), float32, layout=S[(4, 8) : (1 @ tx, 4 @ tx)] + R[2 : 32 @ tx]).named("src")
    part = replace(whole.named("dst"), starts=(build.const(0, int64),), extents=(32,))
    operation = Operation(TileOp("copy", "cta", (part, before)), target("sm_90a"), 64, {})
    with pytest.raises(LayoutError, match="values outside the region"):
        copy_shuffle.plan(operation.op, DispatchContext(operation.target, 64))
    Run(operation).check()
