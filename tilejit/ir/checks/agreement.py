"""Checks that threads agree on values that `tj.uniform` declares uniform.

A barrier would hide races, because it orders accesses that the plain build leaves unordered. Instead, each value has a
cell of shared memory per instance of its scope. On its n-th visit to the declaration, a thread puts (n, value) into the
cell by an atomic maximum, and compares its value with the old contents if they are from another thread's n-th visit. If
another thread has already begun a later visit, the thread compares nothing.

    cell of 64 bits:   | visit | XOR of the value's halves  |
                       63      31                           0
"""

from __future__ import annotations

from collections.abc import Iterator

from ...dtypes import int32, int64, uint64
from ...layout import TileLayout
from ...scopes import SCOPES
from .. import nodes as ir
from ..arithmetic import build

#: number of bits of a cell that hold the folded value
_VALUE_BITS = 32


class Agreements:
    """The checks of one kernel. head: statements for kernel entry, which define and clear cells and visit counters."""

    def __init__(self, kernel: ir.Kernel) -> None:
        self._threads = kernel.threads
        self.head: list[ir.Stmt] = []

    def after(self, stmt: ir.Stmt) -> Iterator[ir.Stmt]:
        """Yield the check of the value that a statement defines, if it is declared uniform."""
        if not isinstance(stmt, ir.Let) or not stmt.var.uniform:
            return
        var, scope = stmt.var, SCOPES[stmt.var.uniform]
        number = scope.number_id
        instance: ir.Expr = build.const(0, int32) if number is None else ir.Special(number.name)
        cell, visit = self._cell(var, 1 if number is None else -(-self._threads // scope.threads(self._threads)))
        low = build.const((1 << _VALUE_BITS) - 1, uint64)
        shift = build.const(_VALUE_BITS, uint64)
        yield ir.Assign(visit, build.add(visit, build.const(1, uint64)), stmt.span)
        value = build.cast(var, uint64)
        folded = build.bitwise_and(build.bitwise_xor(value, build.op("right_shift", value, shift)), low)
        entry = build.bitwise_or(build.left_shift(visit, shift), folded)
        before = ir.Var(f"{var.name}.agreed", uint64)
        yield ir.Atomic("max", ir.Element(cell, (instance,)), (entry,), "relaxed.cta", before, stmt.span)
        is_other_visit = build.not_equal(build.op("right_shift", before, shift), visit)
        cond = build.logical_or(is_other_visit, build.equal(build.bitwise_and(before, low), folded))
        message = f"tj.uniform: the value is {{0}} in this thread and differs in another thread of the {scope}"
        yield ir.Assert(cond, message, "uniform", (build.cast(var, int64),), stmt.span)

    def _cell(self, var: ir.Var, instances: int) -> tuple[ir.Buffer, ir.Var]:
        """Define and return the cells for the instances of a scope, and the variable that counts a thread's visits."""
        layout = TileLayout.row_major((instances,))
        cell = ir.Buffer(f"{var.name}.cells", "shared", uint64, layout.shape, layout, uint64.bytes, span=var.span)
        visit = ir.Var(f"{var.name}.turn", uint64)
        thread = ir.Special("thread_id")
        cleared = ir.Store(ir.Element(cell, (thread,)), build.const(0, uint64))
        clearing = ir.If(build.less(thread, build.const(instances, int32)), (cleared,))
        if self.head:
            # one barrier suffices for all cells
            self.head.pop()
        self.head += [ir.Alloc(cell), ir.Declare(visit, build.const(0, uint64)), clearing, ir.Sync("cta")]
        return cell, visit
