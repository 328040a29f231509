"""Unrolls loops: each iteration is emitted with a constant for the loop variable.

    unrolled for turn in 0 .. 2         move r[0 +: 4] <- A[first +: 4]
      move r[turn * 4 +: 4] <- …        move r[4 +: 4] <- A[first + 512 +: 4]

Conditions that become constant are folded: a branch is replaced by one of its sides, and a predicated move becomes
unconditional, a fill, or nothing. Variables get a fresh name per iteration. Unrolling takes 1 to 6 % of compile time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ...dataclass import replace
from ...forks import cached_property
from ...ir import walk
from ...ir.arithmetic.evaluate import number
from ...ir.arithmetic.substitution import Substitution
from ...ir.names import FreshNames
from ...ir.nodes import (
    Alloc,
    BufferView,
    Const,
    Descriptor,
    Expr,
    For,
    If,
    Input,
    Instruction,
    Kernel,
    Let,
    Move,
    Stmt,
    Store,
    Var,
    Vector,
)
from ...ir.rewriting import Rewriting
from ...ir.walk import Block
from ..builder import filled


def unroll_loops(kernel: Kernel) -> Kernel:
    """Unroll the loops of a kernel at lane level that are marked as unrolled."""
    if not any(loop.unrolled for loop in walk.each(kernel.body, For)):
        return kernel
    return replace(kernel, body=_Unrolling(kernel).outside(kernel.body))


#: returns the statements that replace one statement in the current iteration
Write = Callable[[], Sequence[Stmt]]


class _Unrolling(Rewriting):
    """Compiles each statement of unrolled loops once, to a function that emits it for the loop variables' values."""

    def __init__(self, kernel: Kernel) -> None:
        super().__init__({})
        self._kernel = kernel
        self._values = Substitution()
        self._writes: dict[int, Write] = {}

    @cached_property
    def _names(self) -> FreshNames:
        return FreshNames.of(self._kernel)

    def expr(self, expr: Expr) -> Expr:
        return self._values.expr(expr)

    def defined(self, var: Var) -> Var:
        """Return a variable with a fresh name that replaces `var` in the current iteration."""
        made = replace(var, name=self._names.name(var.name))
        self._values.value(var.name, made)
        return made

    def outside(self, body: Block) -> Block:
        """Return `body`, which is outside unrolled loops, with the unrolled loops in it expanded."""
        made: list[Stmt] = []
        for stmt in body:
            if not isinstance(stmt, walk.COMPOUND):
                made.append(stmt)
            elif isinstance(stmt, For) and stmt.unrolled:
                # allocations live as long as the kernel, so they and their views are emitted once
                made += [each for each in walk.within(stmt) if isinstance(each, (Alloc, BufferView))]
                made += self._prepared(stmt)()
                # break the reference cycles between this object and its functions, which would need garbage collection
                self._writes.clear()
            else:
                made.append(walk.with_blocks(stmt, self.outside))
        return tuple(made)

    def block(self, body: Block) -> Block:
        return tuple(_run(self._all(body)))

    def _prepared(self, stmt: Stmt) -> Write:
        """Return the function that emits `stmt`, compiled on first use. Definitions must be compiled before uses."""
        write = self._writes.get(id(stmt))
        if write is None:
            write = self._writes[id(stmt)] = _PREPARE.get(type(stmt), _Unrolling._other)(self, stmt)
        return write

    def _other(self, stmt: Stmt) -> Write:
        named = walk.defines(stmt)
        if isinstance(named, Var):
            self._values.changing(named)
        return lambda: (self.stmt(stmt),)

    def _all(self, body: Block) -> list[Write]:
        return [self._prepared(stmt) for stmt in body]

    def _for(self, loop: For) -> Write:
        if not loop.unrolled:
            return self._other(loop)
        name, numbers = loop.var.name, self._values.numbers
        indices = range(number(loop.start), number(loop.stop), number(loop.step))
        self._values.index(name)
        body = self._all(loop.body)

        def write() -> list[Stmt]:
            made: list[Stmt] = []
            for index in indices:
                numbers[name] = index
                made += _run(body)
            return made

        return write

    def _store(self, stmt: Store) -> Write:
        assert isinstance(stmt.place, Vector), "lowering leaves no Element"
        place, value = self._values.place(stmt.place), self._values.maker(stmt.value)
        return lambda: (Store(place(), value(), stmt.order, stmt.span),)

    def _instruction(self, stmt: Instruction) -> Write:
        outputs = [self._values.place(each) for each in stmt.outputs]
        inputs = [self._taken(each) for each in stmt.inputs]
        if stmt.var is not None:
            self._values.changing(stmt.var)

        def write() -> Sequence[Stmt]:
            made = tuple([make() for make in outputs]), tuple([make() for make in inputs])
            return (Instruction(stmt.name, *made, stmt.span, None if stmt.var is None else self.defined(stmt.var)),)

        return write

    def _taken(self, given: Input) -> Callable[[], Input]:
        if isinstance(given, Vector):
            return self._values.place(given)
        if isinstance(given, Descriptor):
            place, constant = self._values.place(given.place), given.constant
            return lambda: Descriptor(place(), constant)
        return self._values.maker(given)

    def _let(self, stmt: Let) -> Write:
        value, name = self._values.maker(stmt.value), stmt.var.name
        if not self._values.is_number(stmt.value):
            self._values.changing(stmt.var)
            return lambda: (Let(value=value(), var=self.defined(stmt.var), span=stmt.span),)
        self._values.index(name)

        def know() -> Sequence[Stmt]:
            self._values.numbers[name] = number(value())
            return ()

        return know

    def _branch(self, stmt: If) -> Write:
        cond, then, orelse = self._values.maker(stmt.cond), self._all(stmt.then), self._all(stmt.orelse)

        def write() -> Sequence[Stmt]:
            test = cond()
            if isinstance(test, Const):
                return _run(then if test.value else orelse)
            return (If(test, tuple(_run(then)), tuple(_run(orelse)), stmt.span),)

        return write

    def _move(self, stmt: Move) -> Write:
        dst, src = self._values.place(stmt.dst), self._values.place(stmt.src)
        if stmt.predicate is None:
            return lambda: (Move(dst(), src(), None, None, stmt.order, stmt.cache, stmt.span),)
        predicate = self._values.maker(stmt.predicate)
        otherwise = None if stmt.otherwise is None else self._values.maker(stmt.otherwise)

        def write() -> Sequence[Stmt]:
            test = predicate()
            if isinstance(test, Const) and test.value:
                return (Move(dst(), src(), None, None, stmt.order, stmt.cache, stmt.span),)
            value = None if otherwise is None else otherwise()
            if isinstance(test, Const):
                return () if value is None else filled(dst(), value, stmt.span)
            return (Move(dst(), src(), test, value, stmt.order, stmt.cache, stmt.span),)

        return write

    def _hoisted(self, stmt: Alloc | BufferView) -> Write:
        """Emit nothing: `outside` has moved the statement before the loop."""
        return lambda: ()


def _run(writes: Sequence[Write]) -> list[Stmt]:
    return [stmt for write in writes for stmt in write()]


#: class of a statement -> the method that compiles it; statements of other classes are copied with new operands
_PREPARE: dict[type, Callable[[_Unrolling, Any], Write]] = {
    Store: _Unrolling._store, Instruction: _Unrolling._instruction, Let: _Unrolling._let, If: _Unrolling._branch,
    For: _Unrolling._for, Move: _Unrolling._move, Alloc: _Unrolling._hoisted, BufferView: _Unrolling._hoisted,
}
