"""Local tiles that are read before anything has written them.

Registers have no bits to remember that by: LLVM drops whatever is computed from one that was never set, so neither
the simulator nor a GPU would say a word.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ..errors import KernelTypeError
from ..ops.tile import TILE_OPERATIONS
from ..source import Span
from .nodes import (
    Alloc,
    Assert,
    Assign,
    Cast,
    Declare,
    Element,
    Expr,
    For,
    If,
    Kernel,
    Let,
    Load,
    Loop,
    Op,
    Print,
    Region,
    Stmt,
    Store,
    TileOp,
)

__all__ = ["check"]


def check(kernel: Kernel) -> None:
    """Refuses a read of a local buffer that no write comes before, in the order of the text.

    A branch in a loop may read what the loop writes further down: an earlier round may have written it.
    raises: KernelTypeError with the place of the read.
    """
    local = {s.buffer.name: s.buffer.span for s in kernel.body if isinstance(s, Alloc) and s.buffer.space == "local"}
    if local:
        _Walk(local).run(kernel.body, (), frozenset())


class _Walk:
    def __init__(self, local: dict[str, Span | None]) -> None:
        self.local = local
        self.written: set[str] = set()

    def run(self, body: Sequence[Stmt], loops: tuple[frozenset[str], ...], maybe: frozenset[str]) -> None:
        """loops: what each enclosing loop writes. maybe: what an earlier round may have written before this branch."""
        for statement in body:
            self.read(statement, maybe)
            self.written.update(_target(statement))
            if isinstance(statement, If):
                within = maybe.union(*loops)
                self.run(statement.then, loops, within)
                self.run(statement.orelse, loops, within)
            elif isinstance(statement, (For, Loop)):
                self.run(statement.body, (*loops, frozenset(_targets(statement.body))), maybe)

    def read(self, statement: Stmt, maybe: frozenset[str]) -> None:
        for name, span in _reads(statement):
            if name in self.local and name not in self.written and name not in maybe:
                raise KernelTypeError(
                    f"{name} is read before anything has been written to it",
                    span=span or statement.span,
                    hint=f"copy something into {name} or fill it first, for example with 0",
                )


def _target(statement: Stmt) -> Iterator[str]:
    """The buffer that a statement writes."""
    if isinstance(statement, TileOp) and isinstance(statement.operands[0], Region):
        yield statement.operands[0].buffer.root.name
    elif isinstance(statement, Store):
        yield statement.place.buffer.root.name


def _targets(body: Sequence[Stmt]) -> Iterator[str]:
    for statement in body:
        yield from _target(statement)
        for part in ("then", "orelse", "body"):
            yield from _targets(getattr(statement, part, ()))


def _reads(statement: Stmt) -> Iterator[tuple[str, Span | None]]:
    """The buffers that a statement itself reads, without the statements in it."""
    if isinstance(statement, TileOp):
        updates = TILE_OPERATIONS[statement.name].updates
        for operand in statement.operands[0 if updates else 1 :]:
            yield from _operand(operand)
    elif isinstance(statement, (Let, Assign)):
        yield from _loads(statement.value)
    elif isinstance(statement, Declare) and statement.init is not None:
        yield from _loads(statement.init)
    elif isinstance(statement, Store):
        yield from _loads(statement.value)
    elif isinstance(statement, (If, Assert)):
        yield from _loads(statement.cond)
    elif isinstance(statement, Print):
        for part in statement.parts:
            if not isinstance(part, str):
                yield from _loads(part)


def _operand(operand: Region | Expr) -> Iterator[tuple[str, Span | None]]:
    if isinstance(operand, Region):
        yield operand.buffer.root.name, operand.span
    else:
        yield from _loads(operand)


def _loads(expr: Expr) -> Iterator[tuple[str, Span | None]]:
    if isinstance(expr, Load):
        yield expr.place.buffer.root.name, expr.span
        if isinstance(expr.place, Element):
            for index in expr.place.indices:
                yield from _loads(index)
    elif isinstance(expr, Op):
        for argument in expr.args:
            yield from _loads(argument)
    elif isinstance(expr, Cast):
        yield from _loads(expr.x)
