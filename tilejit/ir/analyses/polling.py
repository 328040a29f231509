"""Loops that wait for what other threads write.

Whether such a loop ends depends on a load of global or shared memory inside it. That load must look at memory in every
turn: a plain one may be moved in front of the loop, or become a load of what never changes (ld.global.nc). What a
vector brings may decide too, by way of registers or of shared memory that it was copied to.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...dataclass import replace
from .. import walk
from ..nodes import (
    Assign,
    Buffer,
    Expr,
    For,
    If,
    Instruction,
    Kernel,
    Let,
    Load,
    Loop,
    Move,
    Stmt,
    Var,
)

__all__ = ["relaxed"]

#: memory space -> how a load of it is ordered that decides when a loop ends
_ORDERS = {"global": "relaxed.gpu", "shared": "relaxed.cta"}
#: how a vector is loaded that decides; LLVM has relaxed loads of single values only
_VECTOR_ORDER = "volatile"


class _Step(NamedTuple):
    """A statement of a loop: the variables and buffers that it changes, and those that what it writes depends on."""

    stmt: Stmt
    changed: frozenset[str]
    sources: frozenset[str]


def relaxed(kernel: Kernel) -> Kernel:
    """The kernel with those loads relaxed on which the exit of a loop around them depends; others stay plain.

    accepts: lane level.
    """
    if walk.inventory(kernel.body).kinds.isdisjoint(walk.JUMPS):
        return kernel
    loading: tuple[Let | Move, ...] = (*walk.each(kernel.body, Let), *walk.each(kernel.body, Move))
    if not any(map(_is_plain, loading)):
        return kernel
    polls: set[int] = set()
    bodies = [loop.body for loop in walk.each(kernel.body, For)] + [loop.body for loop in walk.each(kernel.body, Loop)]
    for body in bodies:
        polls.update(_polls(body))
    if not polls:
        return kernel

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if id(stmt) not in polls:
            return (stmt,)
        if isinstance(stmt, Let) and isinstance(stmt.value, Load):
            return (replace(stmt, value=replace(stmt.value, order=_ORDERS[stmt.value.place.buffer.space])),)
        return (replace(stmt, order=_VECTOR_ORDER),) if isinstance(stmt, Move) else (stmt,)

    return replace(kernel, body=walk.rewrite(kernel.body, change))


def _polls(body: walk.Block) -> Iterator[int]:
    """The identities of the statements in a loop's body whose loads decide whether it ends."""
    if walk.inventory(body).kinds.isdisjoint(walk.JUMPS) or not any(map(_is_plain, walk.statements(body))):
        return
    under = _under_conditions(body, ())
    exits = [conds for stmt, conds in under if isinstance(stmt, walk.JUMPS)]
    deciding = {name for conds in exits for name in _names(conds)}
    if not deciding:
        return
    steps = [_Step(stmt, frozenset(_changed(stmt)), frozenset(_sources(stmt, conds))) for stmt, conds in under]
    settled = False
    while not settled:
        # what a deciding variable or buffer is computed from decides too, and so does the condition of its assignment
        more = {name for step in steps if not deciding.isdisjoint(step.changed) for name in step.sources}
        settled = more <= deciding
        deciding |= more
    yield from (id(step.stmt) for step in steps if _is_plain(step.stmt) and not deciding.isdisjoint(step.changed))


def _is_plain(stmt: Stmt) -> bool:
    """Whether this loads what other threads may write, without an order of its own."""
    if isinstance(stmt, Move):
        return stmt.src.buffer.space in _ORDERS
    value = stmt.value if isinstance(stmt, Let) else None
    return isinstance(value, Load) and not value.order and value.place.buffer.space in _ORDERS


def _under_conditions(body: walk.Block, conds: tuple[Expr, ...]) -> list[tuple[Stmt, tuple[Expr, ...]]]:
    """Every statement with the conditions around it: of branches, and of inner loops what they count to."""
    under: list[tuple[Stmt, tuple[Expr, ...]]] = []
    for stmt in body:
        under.append((stmt, conds))
        if isinstance(stmt, walk.COMPOUND):
            inner = (*conds, *walk.expressions(stmt)) if isinstance(stmt, (If, For)) else conds
            for block in walk.blocks(stmt):
                under += _under_conditions(block, inner)
    return under


def _changed(stmt: Stmt) -> Iterator[str]:
    """The variables and buffers that a statement itself changes."""
    named = stmt.var if isinstance(stmt, Assign) else walk.defines(stmt)
    if isinstance(named, Var):
        yield named.name
    yield from (_buffer(place.buffer) for place in walk.writes(stmt))
    if isinstance(stmt, Instruction):
        # of what an instruction takes the address it may write
        yield from (_buffer(place.buffer) for place in stmt.places)


def _sources(stmt: Stmt, conds: tuple[Expr, ...]) -> Iterator[str]:
    """The variables and buffers that a statement reads, and those of the conditions around it."""
    yield from _names((*walk.expressions(stmt), *conds))
    yield from (_buffer(place.buffer) for place in walk.reads(stmt))
    if isinstance(stmt, Instruction):
        yield from (_buffer(place.buffer) for place in stmt.places)


def _names(exprs: Iterable[Expr]) -> Iterator[str]:
    for expr in exprs:
        for part in walk.subexpressions(expr):
            if isinstance(part, Var):
                yield part.name
            elif isinstance(part, Load):
                yield _buffer(part.place.buffer)


def _buffer(buffer: Buffer) -> str:
    """A buffer among variables, whose names hold no blanks."""
    return f"buffer {buffer.root.name}"
