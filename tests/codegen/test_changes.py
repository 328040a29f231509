"""What statements change of a thread's registers is what the walk says of them."""

from __future__ import annotations

from typing import get_args

import pytest

from tests.ir.test_walk import STATEMENTS, X
from tilejit.codegen.statements import changed
from tilejit.ir import walk
from tilejit.ir.nodes import Assign, If, Loop, Return, Stmt, TileOp

#: but operations on tiles, which lowering has written
NAMES = [kind.__name__ for kind in get_args(Stmt) if kind is not TileOp]


@pytest.mark.parametrize("name", NAMES)
def test_a_statement_changes_the_registers_that_it_writes(name: str) -> None:
    stmt, _, written = STATEMENTS[name]
    # an update is one of memory, whatever space its example has
    buffers = set() if name == "Atomic" else written
    for body in ((stmt,), (Loop((If(X, (), (stmt,)), Return())),)):
        assert (set(changed(body).variables), set(changed(body).buffers)) == (walk.assigned(body), buffers)


def test_a_loop_changes_what_the_loops_in_it_assign() -> None:
    inner = Loop((Assign(X, X),))
    assert list(changed((Loop((inner, inner)),)).variables) == [X.name]
