"""Loops that wait for writes of other threads.

Such a loop's exit depends on a load of global or shared memory in its body. The load must access memory in every
iteration, even if the kernel never writes the array: a plain load might be hoisted out of the loop, or become a load of
constant data (ld.global.nc). The exit may also depend on a copy of the loaded vector in registers or shared memory.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

from ...dataclass import replace
from .. import walk
from ..nodes import Assign, Buffer, Expr, For, If, Instruction, Kernel, Let, Load, Loop, Move, Stmt, Var

#: memory space -> memory order of a scalar load that determines when a loop ends
_ORDERS = {"global": "relaxed.gpu", "shared": "relaxed.cta"}
#: the same for a `Move`, which may load a vector: PTX treats volatile as relaxed, and LLVM can relax only scalar loads
_VECTOR_ORDER = "volatile"


class _Step(NamedTuple):
    """A statement, the names of the variables and buffers that it changes, and those that the new values depend on."""

    stmt: Stmt
    changed: frozenset[str]
    sources: frozenset[str]


def relaxed(kernel: Kernel) -> Kernel:
    """Return a lane-level kernel with the loads relaxed on which the exit of an enclosing loop may depend."""
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
    """Yield the ids of the statements in a loop's body whose loads may determine when the loop ends."""
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
        # everything that a deciding name depends on is deciding, too, such as the condition of an assignment
        more = {name for step in steps if not deciding.isdisjoint(step.changed) for name in step.sources}
        settled = more <= deciding
        deciding |= more
    yield from (id(step.stmt) for step in steps if _is_plain(step.stmt) and not deciding.isdisjoint(step.changed))


def _is_plain(stmt: Stmt) -> bool:
    """True for a `Move` from global or shared memory, and for a `Let` that loads from there without a memory order."""
    if isinstance(stmt, Move):
        return stmt.src.buffer.space in _ORDERS
    value = stmt.value if isinstance(stmt, Let) else None
    return isinstance(value, Load) and not value.order and value.place.buffer.space in _ORDERS


def _under_conditions(body: walk.Block, conds: tuple[Expr, ...]) -> list[tuple[Stmt, tuple[Expr, ...]]]:
    """Return all statements, each with the conditions of the branches and the bounds of the loops around it."""
    under: list[tuple[Stmt, tuple[Expr, ...]]] = []
    for stmt in body:
        under.append((stmt, conds))
        if isinstance(stmt, walk.COMPOUND):
            inner = (*conds, *walk.expressions(stmt)) if isinstance(stmt, (If, For)) else conds
            for block in walk.blocks(stmt):
                under += _under_conditions(block, inner)
    return under


def _changed(stmt: Stmt) -> Iterator[str]:
    named = stmt.var if isinstance(stmt, Assign) else walk.defines(stmt)
    if isinstance(named, Var):
        yield named.name
    yield from (_buffer(place.buffer) for place in walk.writes(stmt))
    if isinstance(stmt, Instruction):
        # an instruction may write where its address operands point
        yield from (_buffer(place.buffer) for place in stmt.places)


def _sources(stmt: Stmt, conds: tuple[Expr, ...]) -> Iterator[str]:
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
    """Return a key for a buffer that differs from names of variables, which contain no spaces."""
    return f"buffer {buffer.root.name}"
