"""Operations in several steps: the proof wants each step right, and that one takes what the other left."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from tilejit.dtypes import float32
from tilejit.ir.nodes import Region, TileOp
from tilejit.layout import S, laneid
from tilejit.lower import DispatchContext
from tilejit.lower.ask import operand
from tilejit.lower.proof import prove
from tilejit.lower.variants import copy_through_shared
from tilejit.target import target


def _conversion() -> tuple[TileOp, copy_through_shared.Exchange]:
    rows, columns = S[(32, 32) : (1 @ laneid, 1)], S[(32, 32) : (1, 1 @ laneid)]
    sides = (operand("local", (32, 32), float32, layout=layout) for layout in (columns, rows))
    op = TileOp("copy", "warp", tuple(side.named(name) for side, name in zip(sides, ("dst", "src"), strict=True)))
    return op, copy_through_shared.plan(op, DispatchContext(target("sm_90a"), 32))


def test_what_goes_through_memory_is_proved_step_by_step() -> None:
    op, plan = _conversion()
    prove(plan, op)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda plan: replace(plan, store=plan.load), "the first step reads something else"),
        (lambda plan: replace(plan, load=plan.store), "the last step writes something else"),
        (
            lambda plan: replace(plan, load=replace(plan.load, op=_reading(plan.load.op, plan.load.op.region("dst")))),
            "a step doesn't read what the one before wrote",
        ),
        (
            lambda plan: replace(plan, store=replace(plan.store, plan=plan.load.plan)),
            "which holds no element of the region",
        ),
    ],
)
def test_a_step_that_fits_no_other_is_found(
    change: Callable[[copy_through_shared.Exchange], copy_through_shared.Exchange], message: str
) -> None:
    op, plan = _conversion()
    with pytest.raises(AssertionError, match=message):
        prove(change(plan), op)


def _reading(op: TileOp, src: Region) -> TileOp:
    return replace(op, operands=(op.region("dst"), src))
