"""Values that each thread of a CTA computes from thread ids and constants, and the statements that it may reach.

Expressions of thread ids and constants are evaluated for every thread. Any other value is unknown: a branch on it lets
all threads into both blocks, except those that a known operand of `and` or `or` excludes.
"""

from __future__ import annotations

from functools import reduce
from operator import and_, or_

import numpy as np

from ...ops.cast import convert
from ...ops.elementwise import ELEMENTWISE
from ...remember import once
from ...scopes import THREAD_IDS
from .. import nodes as ir
from .. import walk
from ..names import sources
from ..walk import Block
from .bitsets import flagged


class ThreadValues:
    """The values that the threads of a CTA compute; callers must define variables in program order."""

    def __init__(self, threads: int) -> None:
        self.ids = np.arange(threads, dtype=np.int32)
        #: all threads, thread i as bit i
        self.everybody = (1 << threads) - 1
        #: name of a variable that depends only on thread ids and constants -> its value per thread
        self.numbers: dict[str, np.ndarray] = {}

    def define(self, let: ir.Let) -> None:
        """Record a variable's value per thread, if it depends on thread ids and constants only."""
        values = self.of(let.value)
        if values is not None:
            self.numbers[let.var.name] = values

    def of(self, expr: ir.Expr) -> np.ndarray | None:
        """Return the value per thread, 0-d without thread ids; None if it depends on more than ids and constants."""
        if isinstance(expr, ir.Var):
            return self.numbers.get(expr.name)
        return self._evaluated(expr)

    @once
    def _evaluated(self, expr: ir.Expr) -> np.ndarray | None:
        if isinstance(expr, ir.Const):
            return np.asarray(expr.value, dtype=expr.dtype.numpy)
        if isinstance(expr, ir.Special):
            return THREAD_IDS[expr.name].of(self.ids) if expr.name in THREAD_IDS else None
        for part in walk.inputs(expr):
            if isinstance(part, ir.Load) or self.of(part) is None:
                return None
        args = [value for arg in walk.operands(expr) if (value := self.of(arg)) is not None]
        if isinstance(expr, ir.Cast):
            return convert(args[0], expr.dtype, expr.saturate)
        assert isinstance(expr, ir.Op)
        with np.errstate(all="ignore"):
            return np.asarray(ELEMENTWISE[expr.name].formula(*args))

    @once
    def finding(self, cond: ir.Expr) -> tuple[int, int]:
        """Return bit masks of the threads for which a condition may be true, and for which it may be false."""
        values = self.of(cond)
        if values is not None:
            true = flagged(np.broadcast_to(values, self.ids.shape))
            return true, self.everybody & ~true
        match cond:
            case ir.Op("logical_not", (arg,)):
                true, false = self.finding(arg)
                return false, true
            case ir.Op("logical_and" | "logical_or" as name, args):
                every_true, every_false = zip(*map(self.finding, args), strict=True)
                # for `or`, one true operand suffices; for `and`, all are required
                one, all_of = (or_, and_) if name == "logical_or" else (and_, or_)
                return reduce(one, every_true), reduce(all_of, every_false)
        return self.everybody, self.everybody

    @staticmethod
    def of_conditions(kernel: ir.Kernel) -> ThreadValues:
        """Return the values of the variables that conditions of branches depend on."""
        values = ThreadValues(kernel.threads)
        conditions = sources(kernel.body, [stmt.cond for stmt in walk.each(kernel.body, ir.If)])
        for let in walk.each(kernel.body, ir.Let):
            if let.var.name in conditions:
                values.define(let)
        return values


def comers(body: Block, values: ThreadValues) -> list[int]:
    """Return the threads that may reach each of a kernel's statements, thread i as bit i (at any level).

    All threads that reach a loop are assumed to reach the statements after it.
    values: the values that the kernel's threads compute, at least for conditions.
    """
    listed: list[int] = []
    _reach(body, values.everybody, values, listed)
    return listed


def instances(comers: int, size: int, threads: int) -> list[int]:
    """Return the first thread of each instance of `size` threads that contains some of `comers`.

    comers: thread i as bit i. threads: the number of threads of the CTA.
    """
    return [first for first in range(0, threads, size) if comers >> first & (1 << size) - 1]


#: the classes of statements after which fewer threads may continue
_NARROWING = (ir.If, *walk.JUMPS)


def _reach(body: Block, reaching: int, values: ThreadValues, listed: list[int]) -> int:
    """Append the threads that reach each statement of a block; return the threads that reach its end."""
    if not body:
        return reaching
    held = walk.inventory(body)
    if held.kinds.isdisjoint(_NARROWING):
        listed += [reaching] * held.size
        return reaching
    for stmt in body:
        listed.append(reaching)
        if type(stmt) not in walk.CONTROL:
            continue
        match stmt:
            case ir.If(cond, then, orelse):
                true, false = values.finding(cond)
                true_end = _reach(then, reaching & true, values, listed)
                reaching = true_end | _reach(orelse, reaching & false, values, listed)
            case ir.For() | ir.Loop():
                _reach(stmt.body, reaching, values, listed)
            case ir.Break() | ir.Continue() | ir.Return():
                reaching = 0
    return reaching
