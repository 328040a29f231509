"""Whether threads agree on the values that `tj.uniform` says they agree on.

A barrier would order what the plain build leaves unordered, and so hide races. Instead each of these values has a cell
of shared memory for each instance of its scope. A thread that comes there for the n-th time puts (n, value) into it by
an atomic maximum, and compares what it found there from its own turn. One that comes later than others do to their
next turn compares nothing.

    cell of 64 bits:   | turn | value, its halves combined |
                       63     31                            0
"""

from __future__ import annotations

from collections.abc import Iterator

from ...dtypes import int32, int64, uint64
from ...layout import TileLayout
from ...scopes import SCOPES
from .. import nodes as ir
from ..arithmetic import build

__all__ = ["Agreements"]

#: bits of a cell that tell the value
_VALUE_BITS = 32


class Agreements:
    """The values of one kernel on which threads are said to agree.

    head: what makes their cells, in front of all other statements.
    """

    def __init__(self, kernel: ir.Kernel) -> None:
        self._threads = kernel.threads
        self.head: list[ir.Stmt] = []

    def after(self, stmt: ir.Stmt) -> Iterator[ir.Stmt]:
        """The test of a value that was just defined."""
        if not isinstance(stmt, ir.Let) or not stmt.var.uniform:
            return
        var, scope = stmt.var, SCOPES[stmt.var.uniform]
        number = scope.number_id
        instance: ir.Expr = build.const(0, int32) if number is None else ir.Special(number.name)
        cell, turn = self._cell(var, 1 if number is None else -(-self._threads // scope.threads(self._threads)))
        low = build.const((1 << _VALUE_BITS) - 1, uint64)
        shift = build.const(_VALUE_BITS, uint64)
        yield ir.Assign(turn, build.add(turn, build.const(1, uint64)), stmt.span)
        value = build.cast(var, uint64)
        folded = build.bitwise_and(build.bitwise_xor(value, build.op("right_shift", value, shift)), low)
        told = build.bitwise_or(build.left_shift(turn, shift), folded)
        before = ir.Var(f"{var.name}.agreed", uint64)
        yield ir.Atomic("max", ir.Element(cell, (instance,)), (told,), "relaxed.cta", before, stmt.span)
        is_other_turn = build.not_equal(build.op("right_shift", before, shift), turn)
        cond = build.logical_or(is_other_turn, build.equal(build.bitwise_and(before, low), folded))
        message = f"tj.uniform: the value is {{0}} here, and another in another thread of the {scope}"
        yield ir.Assert(cond, message, "uniform", (build.cast(var, int64),), stmt.span)

    def _cell(self, var: ir.Var, instances: int) -> tuple[ir.Buffer, ir.Var]:
        """Cells for the instances of a scope, and the variable that counts a thread's turns."""
        layout = TileLayout.row_major((instances,))
        cell = ir.Buffer(f"{var.name}.cells", "shared", uint64, layout.shape, layout, uint64.bytes, span=var.span)
        turn = ir.Var(f"{var.name}.turn", uint64)
        thread = ir.Special("thread_id")
        cleared = ir.Store(ir.Element(cell, (thread,)), build.const(0, uint64))
        clearing = ir.If(build.less(thread, build.const(instances, int32)), (cleared,))
        if self.head:
            # one barrier serves all
            self.head.pop()
        self.head += [ir.Alloc(cell), ir.Declare(turn, build.const(0, uint64)), clearing, ir.Sync("cta")]
        return cell, turn
