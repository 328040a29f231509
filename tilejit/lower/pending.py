"""Registers that an asynchronous operation has yet to fill or to read, and the waits that it ends with.

The hardware's wait names no register, so nothing would keep LLVM from using one before it. Here every wait takes and
returns all registers that may be pending where it stands; what is found pending at a use is the user's missing wait.

Where control flow joins, LLVM may copy a register to make the values of both ways one: so branches and loops that
load or wait end with a wait of their own. These are put in first, as *joints*; then what may be pending is followed to
a fixed point; last the waits get their registers, and joints where nothing is pending go.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from functools import partial

from ..dtypes import int32
from ..errors import KernelTypeError
from ..ir import walk
from ..ir.analyses.flow import Analysis, solve
from ..ir.arithmetic import build, facts
from ..ir.nodes import Alloc, Break, Continue, For, If, Instruction, Jump, Kernel, Loop, Simple, Stmt, Vector
from ..ir.walk import Block, Place
from ..isa import ROWS, AsyncWork
from ..isa.tcgen05 import TMEM_LOAD, TMEM_STORE, WAIT_LD
from ..source import Span

__all__ = ["carry"]

#: the name of an instruction that stands for a wait for loads, where the compiler needs one if any is pending
_JOINT = "joint"


def carry(kernel: Kernel) -> Kernel:
    """The kernel at lane level, its waits carrying what may be pending.

    raises: KernelTypeError where a register is used that may be pending, with the places of both.
    """
    if not any(isinstance(s, Alloc) and s.buffer.space == "tmem" for s in kernel.body):
        return kernel
    body = _with_joints(kernel.body)
    states = solve(_InFlight(), body, frozenset())
    for stmt, state in zip(walk.statements(body), states, strict=True):
        _check(stmt, state or frozenset())
    before = iter(states)
    return replace(kernel, body=walk.rewrite(body, lambda stmt: _carrying(stmt, next(before))))


@dataclass(frozen=True, slots=True)
class _Pending:
    """Registers that one instruction fills (kind `TMEM_LOAD`) or reads (`TMEM_STORE`).

    settled: a wait that the user didn't write has come since.
    """

    kind: AsyncWork
    vector: Vector
    span: Span | None
    settled: bool = False

    @property
    def range(self) -> tuple[int, int]:
        return _range(self.vector)


#: what may be pending at one point
_State = frozenset[_Pending]


class _InFlight(Analysis[_State]):
    def join(self, first: _State, second: _State) -> _State:
        return first | second

    def step(self, stmt: Simple | Jump, state: _State) -> _State:
        if not isinstance(stmt, Instruction):
            return state
        if stmt.name == _JOINT:
            return frozenset(replace(p, settled=True) if p.kind is TMEM_LOAD else p for p in state)
        completed = ROWS[stmt.name].completes
        return frozenset(p for p in state if p.kind is not completed) | _started(stmt)


def _started(stmt: Instruction) -> _State:
    token = ROWS[stmt.name].starts
    if token is TMEM_LOAD:
        return frozenset(_Pending(token, v, stmt.span) for v in stmt.outputs)
    if token is TMEM_STORE:
        return frozenset(_Pending(token, v, stmt.span) for v in _registers(walk.reads(stmt)))
    return frozenset()


def _with_joints(body: Block, in_touched_loop: bool = False, closed: bool = False) -> Block:
    """The block with joints where control flow joins or parts.

    in_touched_loop: the loop around loads or waits. closed: the block ends with a joint, too.
    """
    joined: list[Stmt] = []
    for stmt in body:
        touched = _touches(stmt)
        is_loop = isinstance(stmt, (For, Loop))
        # not all lanes may take a jump or another turn, and the wait needs them all
        if (is_loop and touched) or (in_touched_loop and _jumps(stmt)):
            joined.append(Instruction(_JOINT, span=stmt.span))
        in_turn = touched if is_loop else in_touched_loop
        joined.append(walk.with_blocks(stmt, partial(_with_joints, in_touched_loop=in_turn, closed=touched)))
    if closed:
        joined.append(Instruction(_JOINT, span=body[-1].span if body else None))
    return tuple(joined)


def _touches(stmt: Stmt) -> bool:
    """Whether a statement, or one in it, loads from tensor memory or waits for that."""
    return any(
        isinstance(s, Instruction) and TMEM_LOAD in (ROWS[s.name].starts, ROWS[s.name].completes)
        for s in walk.statements((stmt,))
    )


def _jumps(stmt: Stmt) -> bool:
    """Whether a statement breaks or continues the loop around it."""
    if isinstance(stmt, If):
        return any(_jumps(inner) for block in walk.blocks(stmt) for inner in block)
    return isinstance(stmt, (Break, Continue))


def _carrying(stmt: Stmt, state: _State | None) -> Iterable[Stmt]:
    """What stands for a statement: a wait has its registers, a joint is a wait or nothing."""
    if not isinstance(stmt, Instruction):
        return (stmt,)
    pending = state or frozenset()
    if stmt.name == _JOINT:
        loads = frozenset(p for p in pending if p.kind is TMEM_LOAD and not p.settled)
        return (_filled(replace(stmt, name=WAIT_LD.name), loads),) if loads else ()
    return (_filled(stmt, pending) if ROWS[stmt.name].carries is not None else stmt,)


def _filled(stmt: Instruction, state: _State) -> Instruction:
    """A wait with the registers that it waits for, each once."""
    kind = ROWS[stmt.name].completes
    mine = [p for p in _in_order(state) if p.kind is kind]
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


def _check(stmt: Stmt, state: _State) -> None:
    """Raise KernelTypeError where a statement itself, without those in it, uses pending registers."""
    if not state:
        return
    reads, writes = list(_registers(walk.reads(stmt))), list(_registers(walk.writes(stmt)))
    if not reads and not writes:
        return
    # a second load into the same registers only makes the first one useless
    fills = isinstance(stmt, Instruction) and ROWS[stmt.name].starts is TMEM_LOAD
    for pending in _in_order(state):
        uses = writes if pending.kind is TMEM_STORE else reads if fills else [*reads, *writes]
        for vector in uses:
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


def _in_order(state: _State) -> list[_Pending]:
    return sorted(state, key=lambda p: (p.vector.buffer.root.name, p.range, p.kind.name, str(p.span)))


def _registers(places: Iterable[Place]) -> Iterator[Vector]:
    """Those of the places that are registers."""
    yield from (place for place in places if isinstance(place, Vector) and place.buffer.space == "local")
