"""Loops that wait for what other threads write.

Whether such a loop ends depends on a load of global or shared memory inside it. That load must look at memory in every
turn: a plain one may be moved in front of the loop, or become a load of what never changes (ld.global.nc).
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from .. import walk
from ..nodes import (
    Assign,
    Atomic,
    Break,
    Continue,
    Declare,
    Expr,
    For,
    If,
    Instruction,
    Kernel,
    Let,
    Load,
    Loop,
    Return,
    Stmt,
    Var,
)

__all__ = ["relaxed"]

#: memory space -> how a load of it is ordered that decides when a loop ends
_ORDERS = {"global": "relaxed.gpu", "shared": "relaxed.cta"}


def relaxed(kernel: Kernel) -> Kernel:
    """The kernel with those loads relaxed on which the exit of a loop around them depends; others stay plain."""
    polls: set[int] = set()
    for stmt in walk.statements(kernel.body):
        if isinstance(stmt, (For, Loop)):
            polls.update(_polls(stmt.body))
    if not polls:
        return kernel

    def change(stmt: Stmt) -> tuple[Stmt, ...]:
        if id(stmt) not in polls or not isinstance(stmt, Let) or not isinstance(stmt.value, Load):
            return (stmt,)
        return (replace(stmt, value=replace(stmt.value, order=_ORDERS[stmt.value.place.buffer.space])),)

    return replace(kernel, body=walk.rewrite(kernel.body, change))


def _polls(body: walk.Block) -> Iterator[int]:
    """The identities of the `Let`s in a loop's body whose loads decide whether it ends."""
    under = list(_under_conditions(body, ()))
    deciding = {name for stmt, conds in under if isinstance(stmt, (Break, Continue, Return)) for name in _names(conds)}
    kinds = (Let, Declare, Assign, Atomic, Instruction)
    definitions = [(stmt, conds) for stmt, conds in under if isinstance(stmt, kinds)]
    settled = False
    while not settled:
        # what a deciding variable is computed from decides too, and so does the condition of its assignment
        more = {
            name
            for stmt, conds in definitions
            if stmt.var is not None and stmt.var.name in deciding
            for name in _names((*walk.expressions(stmt), *conds))
        }
        settled = more <= deciding
        deciding |= more
    for stmt, _ in definitions:
        if isinstance(stmt, Let) and stmt.var.name in deciding and _is_plain(stmt.value):
            yield id(stmt)


def _is_plain(value: Expr) -> bool:
    """Whether this is a load of what other threads may write, without an order of its own."""
    return isinstance(value, Load) and not value.order and value.place.buffer.space in _ORDERS


def _under_conditions(body: walk.Block, conds: tuple[Expr, ...]) -> Iterator[tuple[Stmt, tuple[Expr, ...]]]:
    """Every statement with the conditions around it: of branches, and of inner loops what they count to."""
    for stmt in body:
        yield stmt, conds
        inner = (*conds, *walk.expressions(stmt)) if isinstance(stmt, (If, For)) else conds
        for block in walk.blocks(stmt):
            yield from _under_conditions(block, inner)


def _names(exprs: tuple[Expr, ...]) -> Iterator[str]:
    for expr in exprs:
        yield from (part.name for part in walk.subexpressions(expr) if isinstance(part, Var))
