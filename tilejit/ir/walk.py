"""The walk over statements and expressions: their blocks, operands, reads and writes; and rewriting.

Only this file of the compiler lists the classes of nodes for that purpose. Each list ends with `assert_never`, so a
new class of statement or expression fails type checking until every list has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from typing import NoReturn

from .nodes import (
    Alloc,
    Assert,
    Assign,
    Break,
    Buffer,
    Cast,
    Const,
    Continue,
    Declare,
    Element,
    Expr,
    For,
    If,
    Instruction,
    Jump,
    Let,
    Load,
    Loop,
    Move,
    Op,
    Print,
    Region,
    Return,
    Simple,
    Special,
    Stmt,
    Store,
    Sync,
    TileOp,
    Var,
    Vector,
    View,
)

__all__ = [
    "Block",
    "Place",
    "assert_never",
    "assigned",
    "blocks",
    "defines",
    "expressions",
    "indices",
    "operands",
    "reads",
    "rewrite",
    "size",
    "statements",
    "subexpressions",
    "with_blocks",
    "writes",
]

Block = tuple[Stmt, ...]

#: the part of a buffer that an operand names
Place = Region | Element | Vector


def assert_never(node: NoReturn) -> NoReturn:
    """Type checking fails where this may be reached. It is `typing.assert_never`, which Python 3.10 lacks."""
    raise AssertionError(f"no case for {type(node).__name__}")


# ---- statements ---------------------------------------------------------------------------------------------


def blocks(stmt: Stmt) -> tuple[Block, ...]:
    """The blocks that a statement holds, in the order of the text."""
    match stmt:
        case Let() | Move() | Instruction() | Store() | Assign() | Sync() | TileOp() | Alloc() | View() | Declare():
            return ()
        case If():
            return stmt.then, stmt.orelse
        case For() | Loop():
            return (stmt.body,)
        case Break() | Continue() | Return() | Assert() | Print():
            return ()
        case _:
            assert_never(stmt)


def with_blocks(stmt: Stmt, change: Callable[[Block], Block]) -> Stmt:
    """The statement with each of its blocks changed, in the order of the text."""
    match stmt:
        case If():
            return replace(stmt, then=change(stmt.then), orelse=change(stmt.orelse))
        case For() | Loop():
            return replace(stmt, body=change(stmt.body))
        case _:
            leaf: Simple | Jump = stmt
            return leaf


def statements(body: Block) -> Iterator[Stmt]:
    """Every statement, those in blocks too, in the order of the text."""
    waiting = list(reversed(body))
    while waiting:
        stmt = waiting.pop()
        yield stmt
        for block in reversed(blocks(stmt)):
            waiting.extend(reversed(block))


def size(stmt: Stmt) -> int:
    """The number of statements in a statement: itself, and all in its blocks."""
    return sum(1 for _ in statements((stmt,)))


def rewrite(body: Block, change: Callable[[Stmt], Iterable[Stmt]]) -> Block:
    """The block with each statement replaced by those that `change` returns for it.

    Statements are visited in the order of the text; the blocks of the returned statements are rewritten as well.
    """

    def block(inner: Block) -> Block:
        return tuple(with_blocks(new, block) for stmt in inner for new in change(stmt))

    return block(body)


def defines(stmt: Stmt) -> Var | Buffer | None:
    """The variable or buffer that a statement gives a name to."""
    match stmt:
        case Let() | Declare() | For():
            return stmt.var
        case Alloc() | View():
            return stmt.buffer
        case Assign() | Store() | If() | Loop() | Break() | Continue() | Return():
            return None
        case Sync() | Assert() | Print() | TileOp() | Move() | Instruction():
            return None
        case _:
            assert_never(stmt)


def assigned(body: Block) -> frozenset[str]:
    """The names of the variables that the statements, those in blocks too, assign."""
    return frozenset(stmt.var.name for stmt in statements(body) if isinstance(stmt, Assign))


def expressions(stmt: Stmt) -> Iterator[Expr]:
    """The expressions that a statement itself computes, those of places included, in the order of its fields."""
    match stmt:
        case Let() | Assign():
            yield stmt.value
        case Declare():
            if stmt.init is not None:
                yield stmt.init
        case Store():
            yield from indices(stmt.place)
            yield stmt.value
        case If() | Assert():
            yield stmt.cond
        case For():
            yield from (stmt.start, stmt.stop, stmt.step)
        case Print():
            yield from (part for part in stmt.parts if not isinstance(part, str))
        case TileOp():
            yield from _computed(stmt.operands)
        case Move():
            yield from _computed((stmt.dst, stmt.src))
            yield from (expr for expr in (stmt.predicate, stmt.otherwise) if expr is not None)
        case Instruction():
            yield from _computed((*stmt.outputs, *stmt.inputs))
        case Alloc() | View() | Loop() | Break() | Continue() | Return() | Sync():
            pass
        case _:
            assert_never(stmt)


def _computed(values: Iterable[Place | Expr]) -> Iterator[Expr]:
    for value in values:
        if isinstance(value, Place):
            yield from indices(value)
        else:
            yield value


def reads(stmt: Stmt) -> Iterator[Place]:
    """The places that a statement itself reads.

    Of an instruction's inputs these are the ones in registers. Of the others the instruction takes the address, and
    the instruction table says whether it reads there.
    """
    match stmt:
        case TileOp():
            yield from stmt.sources
        case Move():
            yield stmt.src
        case Instruction():
            yield from (v for v in stmt.inputs if isinstance(v, Vector) and v.buffer.space == "local")
        case Let() | Declare() | Assign() | Alloc() | View() | Store() | If() | For() | Loop():
            pass
        case Break() | Continue() | Return() | Sync() | Assert() | Print():
            pass
        case _:
            assert_never(stmt)
    for expr in expressions(stmt):
        yield from (part.place for part in subexpressions(expr) if isinstance(part, Load))


def writes(stmt: Stmt) -> Iterator[Place]:
    """The places that a statement itself writes, without those of which an instruction takes the address."""
    match stmt:
        case Store():
            yield stmt.place
        case TileOp():
            yield stmt.destination
        case Move():
            yield stmt.dst
        case Instruction():
            yield from stmt.outputs
        case Let() | Declare() | Assign() | Alloc() | View() | If() | For() | Loop():
            pass
        case Break() | Continue() | Return() | Sync() | Assert() | Print():
            pass
        case _:
            assert_never(stmt)


# ---- expressions and places ---------------------------------------------------------------------------------


def operands(expr: Expr) -> tuple[Expr, ...]:
    """The expressions that an expression is directly made of."""
    match expr:
        case Op():
            return expr.args
        case Const() | Var() | Special():
            return ()
        case Cast():
            return (expr.x,)
        case Load():
            return indices(expr.place)
        case _:
            assert_never(expr)


def subexpressions(expr: Expr) -> Iterator[Expr]:
    """The expression and all that it is made of, from the left."""
    waiting = [expr]
    while waiting:
        part = waiting.pop()
        yield part
        waiting.extend(reversed(operands(part)))


def indices(place: Place) -> tuple[Expr, ...]:
    """The expressions that give a place's position in its buffer."""
    match place:
        case Vector():
            return (place.offset,)
        case Region():
            return place.starts
        case Element():
            return place.indices
        case _:
            assert_never(place)
