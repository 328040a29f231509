"""Registers that an asynchronous operation has yet to fill or to read, and the waits that it ends with.

The hardware's wait names no register, so nothing would keep LLVM from using one before it. Here every wait takes and
returns all registers that may be pending where it stands; what is found pending at a use is the user's missing wait.
Loops are followed to a fixed point, branches are joined. Where control flow joins, LLVM may copy a register to make
the values of both ways one: so branches and loops that load or wait end with a wait of their own.
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
from ..isa import ROWS, Token
from ..isa.tcgen05 import TMEM_LOAD, TMEM_STORE, WAIT_LD
from ..source import Span

__all__ = ["carry"]

def carry(kernel: Kernel) -> Kernel:
    """The kernel at lane level, its waits carrying what may be pending.

    raises: KernelTypeError where a register is used that may be pending, with the places of both.
    """
    if not any(isinstance(s, Alloc) and s.buffer.space == "tmem" for s in kernel.body):
        return kernel
    body, _ = _Walk().block(kernel.body, frozenset(), settled=False)
    return replace(kernel, body=body)


@dataclass(frozen=True, slots=True)
class _Pending:
    """Registers that one instruction fills (kind `TMEM_LOAD`) or reads (`TMEM_STORE`).

    settled: a wait that the user didn't write has come since.
    """

    kind: Token
    vector: Vector
    span: Span | None
    settled: bool = False

    @property
    def range(self) -> tuple[int, int]:
        return _range(self.vector)


#: what may be pending at one point
_State = frozenset[_Pending]


@dataclass(slots=True)
class _Exits:
    """What is pending at the breaks and at the continues of one loop. touched: it loads or waits."""

    touched: bool
    breaks: set[_Pending] = field(default_factory=set)
    continues: set[_Pending] = field(default_factory=set)


class _Walk:
    """Rewrites statements; `found` collects them, `state` is what may be pending, None where nothing gets."""

    def __init__(self) -> None:
        self.loops: list[_Exits] = []
        self.found: list[Stmt] = []
        self.state: _State | None = frozenset()

    def block(self, body: tuple[Stmt, ...], state: _State, settled: bool) -> tuple[tuple[Stmt, ...], _State | None]:
        """The statements, and what is pending at their end. settled: they end with a wait for their loads."""
        outer = self.found, self.state
        self.found, self.state = [], state
        for stmt in body:
            self.stmt(stmt)
        if settled:
            self.settle(body[-1].span if body else None)
        done = tuple(self.found), self.state
        self.found, self.state = outer
        return done

    def settle(self, span: Span | None) -> None:
        """Waits for the loads of which none has been waited for."""
        loads = frozenset(p for p in self.state or () if p.kind is TMEM_LOAD and not p.settled)
        if self.state is None or not loads:
            return
        self.found.append(_filled(Instruction(WAIT_LD.name, span=span), loads))
        self.state = self.state - loads | {replace(p, settled=True) for p in loads}

    def stmt(self, stmt: Stmt) -> None:
        state = self.state or frozenset()
        if state:
            _check(stmt, state)
        if isinstance(stmt, If):
            self.branch(stmt)
        elif isinstance(stmt, (For, Loop)):
            self.loop(stmt)
        elif isinstance(stmt, (Break, Continue)):
            self.jump(stmt)
        elif isinstance(stmt, Instruction) and ROWS[stmt.name].carries is not None:
            self.found.append(_filled(stmt, state))
            self.state = frozenset(p for p in state if p.kind is not ROWS[stmt.name].completes)
        else:
            self.found.append(stmt)
            if isinstance(stmt, Return):
                self.state = None
            elif isinstance(stmt, Instruction):
                self.state = state | _started(stmt)

    def branch(self, stmt: If) -> None:
        if self.loops and self.loops[-1].touched and _jumps(stmt):
            # not all lanes may take the jump, and the wait needs them all
            self.settle(stmt.span)
        state, settled = self.state or frozenset(), _touches((stmt,))
        then, after_then = self.block(stmt.then, state, settled)
        orelse, after_else = self.block(stmt.orelse, state, settled)
        self.found.append(replace(stmt, then=then, orelse=orelse))
        ways = [way for way in (after_then, after_else) if way is not None]
        self.state = frozenset().union(*ways) if ways else None

    def jump(self, stmt: Break | Continue) -> None:
        exits = self.loops[-1]
        if exits.touched:
            self.settle(stmt.span)
        (exits.breaks if isinstance(stmt, Break) else exits.continues).update(self.state or ())
        self.found.append(stmt)
        self.state = None

    def loop(self, stmt: For | Loop) -> None:
        touched = _touches(stmt.body)
        if touched:
            self.settle(stmt.span)
        head = self.state or frozenset()
        while True:
            self.loops.append(_Exits(touched))
            body, end = self.block(stmt.body, head, touched)
            exits = self.loops.pop()
            again = head.union(end or (), exits.continues)
            if again == head:
                break
            head = again
        self.found.append(replace(stmt, body=body))
        self.state = frozenset(exits.breaks) if isinstance(stmt, Loop) else head | exits.breaks


def _touches(body: tuple[Stmt, ...]) -> bool:
    """Whether statements, nested ones too, load from tensor memory or wait for that."""
    return any(
        isinstance(s, Instruction) and TMEM_LOAD in (ROWS[s.name].starts, ROWS[s.name].completes)
        or any(_touches(part) for part in _parts(s))
        for s in body
    )


def _jumps(stmt: Stmt) -> bool:
    """Whether a statement breaks or continues the loop around it."""
    if isinstance(stmt, (Break, Continue)):
        return True
    return isinstance(stmt, If) and any(_jumps(s) for part in _parts(stmt) for s in part)


def _parts(stmt: Stmt) -> tuple[tuple[Stmt, ...], ...]:
    if isinstance(stmt, If):
        return stmt.then, stmt.orelse
    return (stmt.body,) if isinstance(stmt, (For, Loop)) else ()


def _started(stmt: Instruction) -> _State:
    token = ROWS[stmt.name].starts
    if token is TMEM_LOAD:
        return frozenset(_Pending(token, v, stmt.span) for v in stmt.outputs)
    if token is TMEM_STORE:
        sources = (v for v in stmt.inputs if isinstance(v, Vector) and v.buffer.space == "local")
        return frozenset(_Pending(token, v, stmt.span) for v in sources)
    return frozenset()


def _filled(stmt: Instruction, state: _State) -> Instruction:
    """A wait with the registers that it waits for, each once."""
    kind = ROWS[stmt.name].completes
    mine = sorted((p for p in state if p.kind is kind), key=lambda p: (p.vector.buffer.root.name, p.range))
    vectors: list[Vector] = []
    reached: dict[str, int] = {}
    for pending in mine:
        name, (first, last) = pending.vector.buffer.root.name, pending.range
        first = max(first, reached.get(name, 0))
        if first < last:
            vectors.append(_part(pending.vector, first, last))
            reached[name] = last
    return replace(stmt, outputs=tuple(vectors), inputs=tuple(vectors))


def _part(vector: Vector, first: int, last: int) -> Vector:
    size = vector.buffer.dtype.bytes
    return Vector(vector.buffer, build.const(first // size, int32), (last - first) // size)


# ---- uses ---------------------------------------------------------------------------------------------------


def _check(stmt: Stmt, state: _State) -> None:
    """Raise KernelTypeError where a statement itself, without those in it, uses pending registers."""
    writes = list(_writes(stmt))
    # a second load into the same registers only makes the first one useless
    fills = isinstance(stmt, Instruction) and ROWS[stmt.name].starts is TMEM_LOAD
    touched = [*_reads(stmt), *([] if fills else writes)]
    for pending in state:
        for vector in touched if pending.kind is TMEM_LOAD else writes:
            if vector.buffer.root.name == pending.vector.buffer.root.name and _overlap(vector, pending):
                raise _hazard(vector, pending, stmt)


def _hazard(vector: Vector, pending: _Pending, stmt: Stmt) -> KernelTypeError:
    name, call = vector.buffer.root.name, f"tj.{pending.kind.wait}()"
    started = f" at {pending.span}" if pending.span is not None else ""
    if pending.kind is TMEM_LOAD:
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
