"""The vectors of a thread's registers are where the picture in `lower/moves/vectors.py` says."""

from __future__ import annotations

import numpy as np
import pytest

from tests.support.proving import prove_emitted
from tilejit.dtypes import float16
from tilejit.ir.nodes import TileOp
from tilejit.layout import S, laneid
from tilejit.lower.ask import operand
from tilejit.lower.moves.vectors import pieces
from tilejit.lower.variant import DispatchContext
from tilejit.lower.variants import copy_reg
from tilejit.target import target

REGISTERS = operand("local", (8, 64), float16, S[(8, 4, 16) : (4 @ laneid, 1 @ laneid, 1)])
MEMORY = operand("shared", (8, 64), float16, S[(8, 64) : (72, 1)], align=16)


@pytest.mark.parametrize("loads", [True, False])
def test_vectors_lie_where_the_picture_says(loads: bool) -> None:
    sides = (REGISTERS.named("r"), MEMORY.named("m")) if loads else (MEMORY.named("m"), REGISTERS.named("r"))
    op = TileOp("copy", "warp", sides)
    plan = copy_reg.plan(op, DispatchContext(target("sm_90a"), 32))
    assert (plan.vector_width, plan.rounds, plan.limit) == (8, 2, "")
    r, t = np.indices((2, 32)).reshape(2, -1)
    registers, memory = 8 * r, 72 * (t // 4) + 16 * (t % 4) + 8 * r
    moves = plan.moves()
    assert (moves.issue == r).all() and (moves.thread == t).all() and (moves.width == 8).all()
    assert (moves.places == np.stack([registers, memory] if loads else [memory, registers], axis=1)).all()
    prove_emitted(copy_reg.VARIANT, plan, op)


@pytest.mark.parametrize("count", range(1, 40))
def test_pieces_are_aligned_and_make_up_the_whole(count: int) -> None:
    starts, widths = zip(*pieces(count), strict=True)
    assert sum(widths) == count and starts == tuple(np.cumsum((0, *widths))[:-1])
    assert all(start % width == 0 and width & (width - 1) == 0 for start, width in pieces(count))
