"""Registers that an asynchronous operation has yet to fill or to read, and the waits that it ends with.

The hardware's wait names no register, so nothing would keep LLVM from using one before it. Here every wait takes and
returns all registers that may be pending where it stands; what is found pending at a use is the user's missing wait.
Loops are followed to a fixed point, branches are joined.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from ..dtypes import int32
from ..errors import KernelTypeError
from ..ir import build, facts
from ..ir.nodes import (
    Alloc,
    Assert,
    Assign,
    Break,
    Cast,
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
    Move,
    Op,
    Print,
    Return,
    Stmt,
    Store,
    Vector,
)
from ..source import Span

__all__ = ["carry"]

_LOAD, _STORE = "tcgen05.ld.", "tcgen05.st."

#: wait -> the operations that it waits for
_WAITS = {"tcgen05.wait.ld": _LOAD, "tcgen05.wait.st": _STORE}

#: operations -> what users call to wait for them
_CALLS = {_LOAD: "tj.tcgen05.wait_ld()", _STORE: "tj.tcgen05.wait_st()"}


def carry(kernel: Kernel) -> Kernel:
    """The kernel at lane level, its waits carrying what may be pending.

    raises: KernelTypeError where a register is used that may be pending, with the places of both.
    """
    if not any(isinstance(s, Alloc) and s.buffer.space == "tmem" for s in kernel.body):
        return kernel
    body, _ = _Walk().block(kernel.body, frozenset())
    return replace(kernel, body=body)


@dataclass(frozen=True, slots=True)
class _Pending:
    """Registers that one instruction fills (kind `_LOAD`) or reads (`_STORE`)."""

    kind: str
    vector: Vector
    span: Span | None

    @property
    def range(self) -> tuple[int, int]:
        return _range(self.vector)


_State = frozenset[_Pending]


@dataclass(slots=True)
class _Exits:
    """What is pending at the breaks and at the continues of one loop."""

    breaks: set[_Pending] = field(default_factory=set)
    continues: set[_Pending] = field(default_factory=set)


class _Walk:
    def __init__(self) -> None:
        self.loops: list[_Exits] = []

    def block(self, body: tuple[Stmt, ...], state: _State) -> tuple[tuple[Stmt, ...], _State]:
        """The statements, their waits filled in, and what is pending at their end."""
        found: list[Stmt] = []
        for stmt in body:
            stmt, state = self.stmt(stmt, state)
            found.append(stmt)
        return tuple(found), state

    def stmt(self, stmt: Stmt, state: _State) -> tuple[Stmt, _State]:
        if isinstance(stmt, Instruction) and stmt.name in _WAITS:
            return _filled(stmt, state)
        if state:
            _check(stmt, state)
        if isinstance(stmt, Instruction):
            return stmt, state | _started(stmt)
        if isinstance(stmt, If):
            then, after_then = self.block(stmt.then, state)
            orelse, after_else = self.block(stmt.orelse, state)
            return replace(stmt, then=then, orelse=orelse), after_then | after_else
        if isinstance(stmt, (For, Loop)):
            return self.loop(stmt, state)
        if isinstance(stmt, Break):
            self.loops[-1].breaks |= state
            return stmt, frozenset()
        if isinstance(stmt, Continue):
            self.loops[-1].continues |= state
            return stmt, frozenset()
        return stmt, frozenset() if isinstance(stmt, Return) else state

    def loop(self, stmt: For | Loop, state: _State) -> tuple[Stmt, _State]:
        while True:
            self.loops.append(_Exits())
            body, end = self.block(stmt.body, state)
            exits = self.loops.pop()
            head = state | end | exits.continues
            if head == state:
                break
            state = head
        after = exits.breaks if isinstance(stmt, Loop) else head | exits.breaks
        return replace(stmt, body=body), frozenset(after)


def _started(stmt: Instruction) -> _State:
    if stmt.name.startswith(_LOAD):
        return frozenset(_Pending(_LOAD, v, stmt.span) for v in stmt.outputs)
    if stmt.name.startswith(_STORE):
        return frozenset(_Pending(_STORE, v, stmt.span) for v in stmt.inputs if _is_local(v))
    return frozenset()


def _filled(stmt: Instruction, state: _State) -> tuple[Instruction, _State]:
    """A wait with the registers that it waits for, each once; and what stays pending."""
    kind = _WAITS[stmt.name]
    mine = sorted((p for p in state if p.kind == kind), key=lambda p: (p.vector.buffer.root.name, p.range))
    vectors: list[Vector] = []
    reached: dict[str, int] = {}
    for pending in mine:
        name, (first, last) = pending.vector.buffer.root.name, pending.range
        first = max(first, reached.get(name, 0))
        if first < last:
            vectors.append(_part(pending.vector, first, last))
            reached[name] = last
    carried = tuple(vectors)
    return replace(stmt, outputs=carried, inputs=carried), frozenset(p for p in state if p.kind != kind)


def _part(vector: Vector, first: int, last: int) -> Vector:
    size = vector.buffer.dtype.bytes
    return Vector(vector.buffer, build.const(first // size, int32), (last - first) // size)


# ---- uses ---------------------------------------------------------------------------------------------------


def _check(stmt: Stmt, state: _State) -> None:
    """Raise KernelTypeError where a statement itself, without those in it, uses pending registers."""
    writes = list(_writes(stmt))
    # a second load into the same registers only makes the first one useless
    fills = isinstance(stmt, Instruction) and stmt.name.startswith(_LOAD)
    touched = [*_reads(stmt), *([] if fills else writes)]
    for pending in state:
        for vector in touched if pending.kind == _LOAD else writes:
            if vector.buffer.root.name == pending.vector.buffer.root.name and _overlap(vector, pending):
                raise _hazard(vector, pending, stmt)


def _hazard(vector: Vector, pending: _Pending, stmt: Stmt) -> KernelTypeError:
    name, call = vector.buffer.root.name, _CALLS[pending.kind]
    started = f" at {pending.span}" if pending.span is not None else ""
    if pending.kind == _LOAD:
        message = f"{name} is used before {call}: copy_async{started} may not have filled it yet"
    else:
        message = f"{name} is changed before {call}: copy_async{started} may not have read it yet"
    return KernelTypeError(message, span=stmt.span or vector.span, hint=f"call {call} between the two, on every path")


def _overlap(vector: Vector, pending: _Pending) -> bool:
    (first, last), (begin, end) = _range(vector), pending.range
    return first < end and begin < last


def _range(vector: Vector) -> tuple[int, int]:
    """Bytes of the thread's registers that a vector may be in: [first, last)."""
    low, high = facts.bounds(vector.offset)
    size = vector.buffer.dtype.bytes
    first = (low or 0) * size
    return first, 1 << 31 if high is None else (high + vector.width) * size


def _is_local(operand: Expr | Vector) -> bool:
    return isinstance(operand, Vector) and operand.buffer.space == "local"


def _writes(stmt: Stmt) -> Iterator[Vector]:
    """Registers that a statement changes."""
    places: tuple[object, ...] = ()
    if isinstance(stmt, Store):
        places = (stmt.place,)
    elif isinstance(stmt, Move):
        places = (stmt.dst,)
    elif isinstance(stmt, Instruction):
        places = stmt.outputs
    yield from (p for p in places if isinstance(p, Vector) and p.buffer.space == "local")


def _reads(stmt: Stmt) -> Iterator[Vector]:
    """Registers that a statement reads."""
    if isinstance(stmt, Move) and stmt.src.buffer.space == "local":
        yield stmt.src
    for expr in _expressions(stmt):
        yield from _loads(expr)
    if isinstance(stmt, Instruction):
        yield from (v for v in stmt.inputs if isinstance(v, Vector) and v.buffer.space == "local")


def _expressions(stmt: Stmt) -> Iterator[Expr]:
    if isinstance(stmt, (Let, Assign)):
        yield stmt.value
    elif isinstance(stmt, Declare) and stmt.init is not None:
        yield stmt.init
    elif isinstance(stmt, (If, Assert)):
        yield stmt.cond
    elif isinstance(stmt, For):
        yield from (stmt.start, stmt.stop, stmt.step)
    elif isinstance(stmt, Print):
        yield from (part for part in stmt.parts if not isinstance(part, str))
    elif isinstance(stmt, Store):
        yield from (stmt.value, *([stmt.place.offset] if isinstance(stmt.place, Vector) else []))
    elif isinstance(stmt, Move):
        yield from (e for e in (stmt.dst.offset, stmt.src.offset, stmt.predicate, stmt.otherwise) if e is not None)
    elif isinstance(stmt, Instruction):
        yield from (v.offset if isinstance(v, Vector) else v for v in stmt.inputs)


def _loads(expr: Expr) -> Iterator[Vector]:
    if isinstance(expr, Load):
        if isinstance(expr.place, Vector):
            yield from [expr.place] if expr.place.buffer.space == "local" else []
            yield from _loads(expr.place.offset)
    elif isinstance(expr, Op):
        for argument in expr.args:
            yield from _loads(argument)
    elif isinstance(expr, Cast):
        yield from _loads(expr.x)
