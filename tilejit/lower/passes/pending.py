"""Registers of asynchronous work in flight, and the waits that complete it.

The PTX wait instructions name no registers, so LLVM could move a use before the wait. Here every wait takes and returns
the registers of all work that it completes; using a pending register is an error, since the user's wait is missing.

At joins of control flow LLVM may copy registers to merge the values of both paths, so branches and loops with work that
`settles_at_joins`, or with waits for it, end with a wait. These waits are inserted first, as *joint* placeholders. Then
a dataflow analysis finds the pending registers. Last, waits get their registers, and joints where nothing is pending
are removed.

Products that continue from one iteration to the next have no joints: each takes and returns its accumulators, which
LLVM leaves in place. Using registers of pending products is an error, and so is ending the kernel with products
pending.

Work that a loop leaves pending is pending only if the loop ran. If `if steps > 0` waits for the work of
`for k in range(steps)`, its other side has nothing to wait for; nor has the branch of `if steps == 0: continue` before
a wait. But ptxas considers every path, and would insert a wait after each product (C7517, C7514). So such a side gets a
wait too, from an *absence* placeholder. Tests fail if ptxas reports an inserted wait or another slowdown (C75xx),
except in checked builds, whose threads may end anywhere.

The instruction table defines the kinds of work and how they use registers.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from functools import partial

from ...dataclass import dataclass, replace
from ...dtypes import int32
from ...errors import KernelTypeError
from ...ir import walk
from ...ir.analyses.flow import Analysis, LoopStates, solve
from ...ir.arithmetic import build, facts
from ...ir.arithmetic.affine import decided
from ...ir.nodes import (
    FALSE,
    Assign,
    Break,
    Breakpoint,
    Cast,
    Const,
    Continue,
    Descriptor,
    Expr,
    For,
    If,
    Instruction,
    Jump,
    Kernel,
    Load,
    Loop,
    Op,
    Return,
    Simple,
    Stmt,
    Var,
    Vector,
)
from ...ir.walk import Block, Place
from ...isa import ROWS, WAITS, AsyncWork
from ...source import Span

#: default limit of group counts; a wait that may leave `_GROUPS` or more groups unfinished raises the limit
_GROUPS = 8

#: name of the placeholder for waits at joins of control flow
_JOINT = "joint"

#: name of the placeholder at the start of a side of a branch; its input is the condition of that side, which may prove
#: that work was never started
_ABSENCE = "absence"


def add_wait_registers(kernel: Kernel) -> Kernel:
    """Add the registers of completed work to each wait of a kernel at lane level; insert waits that LLVM or ptxas need.

    raises: KernelTypeError if a register is used or changed too early, or the kernel may end while work that must be
    awaited is pending.
    """
    instructions = walk.each(kernel.body, Instruction)
    started = {ROWS[name].starts for name in {stmt.name for stmt in instructions}}
    if not any(work is not None and work.holds_registers for work in started):
        return kernel
    # the end of the kernel is checked like a `return`
    body = _with_joints(kernel.body) if any(map(_settles, instructions)) else kernel.body
    stops = frozenset(stop[0] for stop in map(_least_stop, walk.each(kernel.body, For)) if stop is not None)
    body = (*(_with_absences(body, stops) if stops else body), Return())
    analysis = _InFlight(max(_GROUPS, *(1 + unfinished(s) for s in instructions)), stops)
    states = solve(analysis, body, frozenset())
    for stmt, state in zip(walk.statements(body), states, strict=True):
        if state and not isinstance(stmt, Breakpoint):
            _check(stmt, state)
    carrying: dict[int, Sequence[Stmt]] = {}
    for number, instruction in walk.numbered(body, Instruction):
        state = states[number]
        if state or instruction.name in (_JOINT, _ABSENCE) or ROWS[instruction.name].carries is not None:
            carrying[number] = _carrying(instruction, state or frozenset())
    for number, stop in walk.numbered(body, Breakpoint):
        carrying[number] = (_without_filled(stop, states[number] or frozenset()),)
    return replace(kernel, body=walk.edited(body, carrying)[:-1])


@dataclass(frozen=True, slots=True)
class _Pending:
    """Registers that the asynchronous work of one instruction fills (`fills`) or reads.

    groups: number of groups of this kind of work committed since, including that of this instruction.
    settled: True after a joint that waits for the work.
    least: (variable, lower bound) pairs that hold if the work is pending. A loop that left it pending ran at least
    once, so its stop has a lower bound.
    """

    work: AsyncWork
    vector: Vector
    span: Span | None
    fills: bool
    groups: int = 0
    settled: bool = False
    least: frozenset[tuple[str, int]] = frozenset()

    @property
    def range(self) -> tuple[int, int]:
        return _range(self.vector)

    def is_absent(self, absence: Instruction) -> bool:
        """True if the condition of an absence placeholder implies that the work isn't pending."""
        (cond,) = absence.inputs
        if not self.least or isinstance(cond, (Vector, Descriptor)):
            return False
        return _decided(cond, dict(self.least)) is False


#: the registers that may be pending at one point
_State = frozenset[_Pending]


class _InFlight(Analysis[_State]):
    """Finds registers that may be pending. most_groups: limit of group counts. stops: variables at which loops stop."""

    kinds = frozenset({Instruction, Assign, *walk.VARIABLES})

    def __init__(self, most_groups: int, stops: frozenset[str]) -> None:
        self.most_groups = most_groups
        self.stops = stops

    def join(self, first: _State, second: _State) -> _State:
        return first | second

    def concerns(self, stmt: Simple | If | For) -> bool:
        if isinstance(stmt, Instruction) and _is_of_work(stmt):
            return True
        return bool(self.stops) and _defined(stmt) in self.stops

    def enter(self, loop: For | Loop, before: _State) -> _State:
        return _forgetting(before, loop)

    def repeat(self, loop: For | Loop, head: _State, ends: _State) -> _State:
        return _forgetting(ends, loop)

    def leave(self, loop: For | Loop, states: LoopStates[_State]) -> _State | None:
        stop = _least_stop(loop)
        if stop is None:
            return super().leave(loop, states)
        left = (states.again or frozenset()) | (states.breaks or frozenset())
        return states.before | {replace(p, least=p.least | {stop}) for p in left - states.before}

    def step(self, stmt: Simple | Jump, state: _State) -> _State:
        state = _forgetting(state, stmt)
        if not isinstance(stmt, Instruction):
            return state
        if stmt.name == _JOINT:
            return frozenset([replace(p, settled=True) if p.work.settles_at_joins else p for p in state])
        if stmt.name == _ABSENCE:
            return frozenset([p for p in state if not p.is_absent(stmt)])
        committed = ROWS[stmt.name].commits
        every = [p for p in state if not _completes(stmt, p) and not _succeeds(stmt, p)]
        every += _started(stmt)
        return frozenset(every if committed is None else [self.grouped(p, committed) for p in every])

    def grouped(self, pending: _Pending, committed: AsyncWork) -> _Pending:
        if pending.work is not committed:
            return pending
        return replace(pending, groups=min(pending.groups + 1, self.most_groups))


def _is_of_work(stmt: Instruction) -> bool:
    """True if an instruction starts, commits or awaits work that holds registers, or is a placeholder."""
    return stmt.name in (_JOINT, _ABSENCE) or any(work.holds_registers for work in _works(stmt))


def _works(stmt: Instruction) -> list[AsyncWork]:
    """Return the work that an instruction starts, commits or awaits."""
    row = ROWS[stmt.name]
    return [work for work in (row.starts, row.commits, row.completes) if work is not None]


def _forgetting(state: _State, stmt: Stmt) -> _State:
    """Return the state after a statement, without lower bounds of the variable that it defines or assigns."""
    name = _defined(stmt) if state else None
    if name is None or not [p for p in state if p.least]:
        return state
    return frozenset([replace(p, least=frozenset([x for x in p.least if x[0] != name])) for p in state])


def _defined(stmt: Stmt) -> str | None:
    return stmt.var.name if isinstance(stmt, (Assign, *walk.VARIABLES)) and stmt.var is not None else None


def _least_stop(loop: For | Loop) -> tuple[str, int] | None:
    """Return the variable at which a loop stops, and its lower bound if the loop ran; None if that is unknown."""
    if isinstance(loop, Loop) or not (isinstance(loop.start, Const) and isinstance(loop.stop, Var)):
        return None
    step = facts.bounds(loop.step)[0]
    if step is None or step <= 0 or loop.stop.name in walk.assigned(loop.body):
        return None
    return loop.stop.name, int(loop.start.value) + 1


def _decided(cond: Expr, least: Mapping[str, int]) -> bool | None:
    """Return the value of a comparison with a constant, or of its negation, given lower bounds of variables.

    None for other conditions, and if the bounds don't determine the value.
    """
    match cond:
        case Op(name="logical_not", args=(arg,)):
            answer = _decided(arg, least)
            return None if answer is None else not answer
        case Op(name="less" | "less_equal" | "greater" | "greater_equal" | "equal" | "not_equal" as name, args=(x, y)):
            x, y = _raised(x, least), _raised(y, least)
            return decided(name, x, y) if isinstance(x, Const) or isinstance(y, Const) else None
    return None


def _raised(expr: Expr, least: Mapping[str, int]) -> Expr:
    if isinstance(expr, Cast):
        return replace(expr, x=_raised(expr.x, least))
    if not isinstance(expr, Var) or expr.name not in least:
        return expr
    low, high = expr.bounds or facts.full_range(expr.dtype)
    return replace(expr, bounds=(max(low, least[expr.name]), high))


def _started(stmt: Instruction) -> list[_Pending]:
    work = ROWS[stmt.name].starts
    if work is None:
        return []
    filled = stmt.outputs if work.fills else ()
    # registers that are both inputs and outputs count as filled
    read = [v for v in _registers(walk.reads(stmt)) if v not in filled] if work.reads else []
    return [_Pending(work, v, stmt.span, True) for v in filled] + [_Pending(work, v, stmt.span, False) for v in read]


def _succeeds(stmt: Instruction, pending: _Pending) -> bool:
    """True if an instruction starts more work of the pending kind on the same registers, which completes no earlier."""
    if ROWS[stmt.name].starts is not pending.work or pending.vector not in stmt.inputs:
        return False
    return pending.fills == (pending.vector in stmt.outputs)


def _completes(stmt: Instruction, pending: _Pending) -> bool:
    """True if a wait completes the pending work. A wait that counts groups completes only committed work."""
    row = ROWS[stmt.name]
    return row.completes is pending.work and (row.leaves is None or pending.groups > unfinished(stmt))


def unfinished(stmt: Instruction) -> int:
    """Return the number of latest groups that a wait may leave unfinished; 0 if the instruction counts no groups."""
    leaves = ROWS[stmt.name].leaves
    count = None if leaves is None else stmt.inputs[leaves]
    return int(count.value) if isinstance(count, Const) else 0


def _with_joints(body: Block, in_touched_loop: bool = False, closed: bool = False) -> Block:
    """Insert joints at branches and loops with work that settles at joins, and before jumps in such loops.

    in_touched_loop: True if the loop around `body` starts or awaits such work. closed: True to end `body` with a joint.
    """
    joined: list[Stmt] = []
    for stmt in body:
        touched = isinstance(stmt, walk.COMPOUND) and _touches(stmt)
        is_loop = isinstance(stmt, (For, Loop))
        # some lanes may run no iteration, or leave one by a jump, and the wait needs all lanes
        if (is_loop and touched) or (in_touched_loop and _jumps(stmt)):
            joined.append(Instruction(_JOINT, span=stmt.span))
        in_loop = touched if is_loop else in_touched_loop
        joined.append(walk.with_blocks(stmt, partial(_with_joints, in_touched_loop=in_loop, closed=touched)))
    if closed:
        joined.append(Instruction(_JOINT, span=body[-1].span if body else None))
    return tuple(joined)


def _with_absences(body: Block, stops: Collection[str]) -> Block:
    """Insert an absence placeholder at the start of each side of a branch that may skip a wait of another path.

    A side may do so if the condition depends on `stops`, and the other side contains a wait, or this side ends in a
    jump and so skips any waits after the branch. Placeholders that prove nothing are removed later.
    """

    def on_both_sides(stmt: Stmt) -> tuple[Stmt]:
        if not isinstance(stmt, If) or not _compares(stmt.cond, stops):
            return (stmt,)
        then, orelse = stmt.then, stmt.orelse
        if _counts_groups(stmt.orelse) or _leaves(stmt.then):
            then = (Instruction(_ABSENCE, (), (stmt.cond,), stmt.span), *then)
        if _counts_groups(stmt.then) or _leaves(stmt.orelse):
            orelse = (Instruction(_ABSENCE, (), (build.op("logical_not", stmt.cond),), stmt.span), *orelse)
        return (replace(stmt, then=then, orelse=orelse),)

    branches = walk.each(body, If)
    return walk.rewrite(body, on_both_sides) if any(_compares(stmt.cond, stops) for stmt in branches) else body


def _compares(cond: Expr, names: Collection[str]) -> bool:
    """True if a condition depends on one of the variables `names`, and reads no memory."""
    parts = list(walk.subexpressions(cond))
    return any(isinstance(x, Var) and x.name in names for x in parts) and not any(isinstance(x, Load) for x in parts)


def _counts_groups(body: Block) -> bool:
    """True if a statement of the block itself, not of a nested one, waits for groups of work that holds registers."""
    rows = (ROWS[s.name] for s in body if isinstance(s, Instruction) and s.name in ROWS)
    return any(row.carries is not None and row.leaves is not None for row in rows)


def _leaves(body: Block) -> bool:
    return bool(body) and isinstance(body[-1], walk.JUMPS)


def _touches(stmt: Stmt) -> bool:
    return any(_settles(s) for s in walk.within(stmt) if isinstance(s, Instruction))


def _settles(stmt: Instruction) -> bool:
    return any(work.settles_at_joins for work in _works(stmt))


def _jumps(stmt: Stmt) -> bool:
    if isinstance(stmt, If):
        return any(_jumps(inner) for block in walk.blocks(stmt) for inner in block)
    return isinstance(stmt, (Break, Continue))


def _without_filled(stop: Breakpoint, state: _State) -> Breakpoint:
    """Replace buffers that work in flight may fill by a constant, which tells the debugger that it can't see them."""
    filled = {pending.vector.buffer.root.name for pending in state if pending.fills}
    return replace(stop, values=tuple([
        FALSE if isinstance(x, Vector) and x.buffer.root.name in filled else x for x in stop.values
    ]))


def _carrying(stmt: Instruction, pending: _State) -> Sequence[Stmt]:
    """Return the statements that replace `stmt`.

    A wait gets its registers, a placeholder becomes waits or nothing, and waits precede a load into registers that an
    earlier load may still fill.
    """
    unsettled = frozenset(p for p in pending if p.work.settles_at_joins and not p.settled)
    if stmt.name == _JOINT:
        return _waits(unsettled, stmt.span)
    if stmt.name == _ABSENCE:
        return _waits(frozenset(p for p in pending if p.is_absent(stmt)), stmt.span)
    if ROWS[stmt.name].carries is not None:
        return (_filled(stmt, pending),)
    return (*_waits(frozenset(p for p in unsettled if _refills(stmt, p)), stmt.span), stmt)


def _waits(state: _State, span: Span | None) -> list[Instruction]:
    rows = dict.fromkeys(WAITS[p.work] for p in _in_order(state))
    for_all = (build.const(0, int32),)
    return [_filled(Instruction(row.name, (), () if row.leaves is None else for_all, span), state) for row in rows]


def _refills(stmt: Instruction, pending: _Pending) -> bool:
    """True if an instruction fills registers that pending work of the same kind also fills, possibly later."""
    if not pending.fills or ROWS[stmt.name].starts is not pending.work:
        return False
    return any(_may_overlap(vector, pending) for vector in stmt.outputs if vector not in stmt.inputs)


def _filled(stmt: Instruction, state: _State) -> Instruction:
    """Return the wait `stmt` with all registers of the work that it completes, each once."""
    mine = [p for p in _in_order(state) if _completes(stmt, p)]
    vectors: list[Vector] = []
    reached: dict[str, int] = {}
    for pending in mine:
        name, (first, last) = pending.vector.buffer.root.name, pending.range
        first = max(first, reached.get(name, 0))
        if first < last:
            vectors.append(_part(pending.vector, first, last))
            reached[name] = last
    return replace(stmt, outputs=tuple(vectors), inputs=(*vectors, *stmt.inputs))


def _part(vector: Vector, first: int, last: int) -> Vector:
    size = vector.buffer.dtype.bytes
    return Vector(vector.buffer, build.const(first // size, int32), (last - first) // size)


def _check(stmt: Stmt, state: _State) -> None:
    if isinstance(stmt, Return):
        _check_end(stmt, state)
        return
    reads, writes = _registers(walk.reads(stmt)), _registers(walk.writes(stmt))
    if not reads and not writes:
        return
    names = {vector.buffer.root.name for vector in (*reads, *writes)}
    near = [pending for pending in state if pending.vector.buffer.root.name in names]
    started = ROWS[stmt.name].starts if isinstance(stmt, Instruction) else None
    for pending in _in_order(near):
        for vector in _uses(reads, writes, pending, started):
            if _may_overlap(vector, pending):
                raise _hazard(vector, pending, stmt)


def _uses(reads: list[Vector], writes: list[Vector], pending: _Pending, started: AsyncWork | None) -> list[Vector]:
    """Return the registers of a statement that must not be pending. started: the work that it starts."""
    if not pending.fills:
        return writes
    if started is not pending.work:
        return [*reads, *writes]
    # A second load into the same registers makes the first one useless, and gets a wait before it. A second product
    # with the same accumulators follows the first.
    return [vector for vector in reads if vector not in writes or vector != pending.vector]


def _check_end(stmt: Return, state: _State) -> None:
    for pending in _in_order(state):
        if pending.work.is_awaited:
            name = pending.vector.buffer.root.name
            raise KernelTypeError(
                f"{name} isn't waited for on every path: the kernel may end while {_starter(pending)} is in flight",
                span=stmt.span or pending.span,
                hint=f"call {_wait(pending)} before the end, on every path",
            )


def _hazard(vector: Vector, pending: _Pending, stmt: Stmt) -> KernelTypeError:
    name, call, started = vector.buffer.root.name, _wait(pending), _starter(pending)
    if pending.fills:
        message = f"{name} is used before {call}: {started} may not have filled it yet"
    else:
        message = f"{name} is changed before {call}: {started} may not have read it yet"
    return KernelTypeError(message, span=stmt.span or vector.span, hint=f"call {call} between the two, on every path")


def _wait(pending: _Pending) -> str:
    """Return the call that completes the work and leaves as many later groups unfinished as possible."""
    counted = WAITS[pending.work].leaves is not None
    return f"tj.{pending.work.wait}({max(pending.groups - 1, 0) if counted else ''})"


def _starter(pending: _Pending) -> str:
    started = pending.work.started_by
    return started if pending.span is None else f"{started} at {pending.span}"


def _may_overlap(vector: Vector, pending: _Pending) -> bool:
    if vector.buffer.root.name != pending.vector.buffer.root.name:
        return False
    (first, last), (begin, end) = _range(vector), pending.range
    return first < end and begin < last


def _range(vector: Vector) -> tuple[int, int]:
    """Return the half-open range [first, last) of bytes of a thread's buffer that a vector may cover."""
    low, high = facts.bounds(vector.offset)
    size = vector.buffer.dtype.bytes
    first = (low or 0) * size
    return first, 1 << 31 if high is None else (high + vector.width) * size


def _in_order(state: Collection[_Pending]) -> list[_Pending]:
    if len(state) < 2:
        return list(state)
    return sorted(state, key=lambda p: (p.vector.buffer.root.name, p.range, p.work.name, p.groups, str(p.span)))


def _registers(places: Sequence[Place]) -> list[Vector]:
    return [p for p in places if isinstance(p, Vector) and p.buffer.space == "local"] if places else []
