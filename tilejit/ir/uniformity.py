"""Which threads are active where, on tile IR: collective operations need all threads of their scope.

A value, and the set of active threads, has a *level*: the widest scope of which every instance agrees, thread < warp
< warpgroup < cta. A branch leaves its condition's level of the active set; so do a loop whose end isn't known to come
at once, and a `break`, `continue` or `return` in such a branch, for what follows it. What depends on thread ids and
constants alone is evaluated for every thread of the CTA; anything else has the least level of its parts. Loads from
global and shared memory have their address's level. Variables that change are followed to a fixed point.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from ..errors import DispatchError
from ..isa import ROWS
from ..ops.cast import convert
from ..ops.elementwise import ELEMENTWISE
from ..source import Span
from ..target import WARP, WARPGROUP
from . import nodes as ir

__all__ = ["check"]

THREAD, WARP_LEVEL, WARPGROUP_LEVEL, CTA = range(4)

_LEVELS = {"thread": THREAD, "warp": WARP_LEVEL, "warpgroup": WARPGROUP_LEVEL, "cta": CTA}
_SIZES = {"warp": WARP, "warpgroup": WARPGROUP}

_THREAD_IDS: dict[str, Callable[[np.ndarray], np.ndarray]] = {
    "thread_id": lambda t: t,
    "lane_id": lambda t: t % WARP,
    "warp_id": lambda t: t // WARP,
    "warpgroup_id": lambda t: t // WARPGROUP,
    "tid_in_wg": lambda t: t % WARPGROUP,
}


def check(kernel: ir.Kernel) -> None:
    """Raise DispatchError where a collective operation or barrier stands where some threads of its scope don't come.

    The error's place is the branch or loop that keeps them away; its message names the operation. So it does where
    the threads of one operation mean different regions.
    """
    walk = _Walk(kernel.threads)
    state = _State(partial=frozenset(s for s, n in _SIZES.items() if kernel.threads % n != 0))
    walk.block(kernel.body, state)


@dataclass(frozen=True, slots=True)
class _Active:
    """The level of the set of active threads, and what made it so."""

    level: int = CTA
    cause: str = ""
    span: Span | None = None

    def meet(self, other: _Active) -> _Active:
        return other if other.level < self.level else self


@dataclass(slots=True)
class _State:
    """What holds at one point.

    entered: by the branches and loops around. left: by earlier returns, breaks and continues.
    levels: of the variables that change. partial: scopes whose last, partial instance may be here.
    """

    entered: _Active = _Active()
    returned: _Active = _Active()
    broken: _Active = _Active()
    continued: _Active = _Active()
    levels: dict[str, int] = field(default_factory=dict)
    partial: frozenset[str] = frozenset()

    @property
    def active(self) -> _Active:
        return self.entered.meet(self.returned).meet(self.broken).meet(self.continued)

    def copy(self) -> _State:
        return replace(self, levels=dict(self.levels))

    def join(self, other: _State) -> None:
        """Take in another way to the same point."""
        self.returned = self.returned.meet(other.returned)
        self.broken = self.broken.meet(other.broken)
        self.continued = self.continued.meet(other.continued)
        for name, level in other.levels.items():
            self.levels[name] = min(level, self.levels.get(name, level))
        self.partial |= other.partial


class _Walk:
    """threads: of the CTA. exits: the states at the breaks of the loops around, innermost last.

    fixed: of the variables that don't change, their level and every thread's value. evaluated: expressions with every
    thread's value, by identity; loops are walked several times.
    """

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.ids = np.arange(threads, dtype=np.int32)
        self.fixed: dict[str, tuple[int, np.ndarray | None]] = {}
        self.evaluated: dict[int, np.ndarray | None] = {}
        self.exits: list[list[_State]] = []
        self.reporting = True

    # ---- statements ----

    def block(self, body: tuple[ir.Stmt, ...], state: _State) -> None:
        for stmt in body:
            self.stmt(stmt, state)

    def stmt(self, stmt: ir.Stmt, state: _State) -> None:
        match stmt:
            case ir.Let(var, value):
                self.fixed[var.name] = (self.level(value, state), self.values(value))
            case ir.Declare(var, init):
                # one that isn't assigned yet has no value that threads could disagree on
                state.levels[var.name] = CTA if init is None else min(self.level(init, state), state.active.level)
            case ir.Assign(var, value):
                state.levels[var.name] = min(self.level(value, state), state.active.level)
            case ir.If():
                self.branch(stmt, state)
            case ir.For():
                self.counted(stmt, state)
            case ir.Loop():
                self.repeated(stmt, state.active, state)
            case ir.Break():
                state.broken = state.broken.meet(self.departure("break", stmt.span, state))
                self.exits[-1].append(state.copy())
            case ir.Continue():
                state.continued = state.continued.meet(self.departure("continue", stmt.span, state))
            case ir.Return():
                state.returned = state.returned.meet(self.departure("return", stmt.span, state))
            case ir.Sync(scope):
                self.collective(f"{scope}_sync", scope, stmt.span, state)
            case ir.Instruction(name):
                self.collective(ROWS[name].spelling, ROWS[name].scope, stmt.span, state)
            case ir.TileOp(name, scope):
                self.collective(f"{scope}.{name}", scope, stmt.span, state)
                self.places(stmt, state)

    def departure(self, word: str, span: Span | None, state: _State) -> _Active:
        """Threads that leave in a branch leave those that remain at the branch's level."""
        active = state.active
        return replace(active, cause=f"`{word}` in {active.cause}" if active.cause else "", span=active.span or span)

    def branch(self, stmt: ir.If, state: _State) -> None:
        inner = self.narrowed(state.active, self.level(stmt.cond, state), "the `if`", stmt.span)
        then, orelse = state.copy(), state.copy()
        then.entered = orelse.entered = inner
        then.partial = frozenset(s for s in state.partial if not self.never(stmt.cond, True, s))
        orelse.partial = frozenset(s for s in state.partial if not self.never(stmt.cond, False, s))
        self.block(stmt.then, then)
        self.block(stmt.orelse, orelse)
        left_then, left_orelse = _returns(stmt.then), _returns(stmt.orelse)
        partial = (frozenset() if left_then else then.partial) | (frozenset() if left_orelse else orelse.partial)
        then.join(orelse)
        state.returned, state.broken, state.continued = then.returned, then.broken, then.continued
        state.levels, state.partial = then.levels, partial

    def counted(self, stmt: ir.For, state: _State) -> None:
        begin, end, step = (self.level(e, state) for e in (stmt.start, stmt.stop, stmt.step))
        self.fixed[stmt.var.name] = (min(begin, step), None)
        inner = self.narrowed(state.active, min(begin, end, step), "the loop", stmt.span)
        self.repeated(stmt, inner, state)

    def narrowed(self, active: _Active, level: int, what: str, span: Span | None) -> _Active:
        return active if level >= active.level else _Active(level, what, span)

    def repeated(self, stmt: ir.For | ir.Loop, inside: _Active, state: _State) -> None:
        """A loop: its head is joined with its end until nothing changes, then walked once to report."""
        head = state.copy()
        head.entered, head.broken, head.continued = inside, _Active(), _Active()
        reporting, self.reporting = self.reporting, False
        while True:
            before = (dict(head.levels), head.returned.level, head.broken.level)
            self.once(stmt.body, head)
            if (head.levels, head.returned.level, head.broken.level) == before:
                break
        self.reporting = reporting
        exits = self.once(stmt.body, head)
        self.leave(stmt, head, exits, state)

    def once(self, body: tuple[ir.Stmt, ...], head: _State) -> list[_State]:
        """Walk the body from the head and join the end to it; the states at its breaks."""
        self.exits.append([])
        end = head.copy()
        self.block(body, end)
        exits = self.exits.pop()
        end.continued = _Active()
        head.join(end)
        return exits

    def leave(self, stmt: ir.For | ir.Loop, head: _State, exits: list[_State], state: _State) -> None:
        """After a loop all are back; what it assigned differs between those that left at different times."""
        state.returned = state.returned.meet(head.returned)
        ends = min(head.entered.level, head.broken.level)
        for name in _assigned(stmt.body):
            if name in state.levels:
                found = [s.levels.get(name, CTA) for s in (head, *exits)]
                state.levels[name] = min(*found, ends)

    # ---- collectives ----

    def collective(self, what: str, scope: str, span: Span | None, state: _State) -> None:
        if not self.reporting or scope == "thread":
            return
        active = state.active
        if self.widened(active.level) < _LEVELS[scope]:
            raise DispatchError(
                f"{what}{_at(span)} needs all threads of its {scope}, but not all of them come there: "
                f"{active.cause} isn't taken alike by the whole {scope}",
                span=active.span or span,
                hint=f"move it out of the branch, or branch on what is the same for the whole {scope}",
            )
        if scope in state.partial:
            size = _SIZES[scope]
            raise DispatchError(
                f"{what} needs whole {scope}s of {size} threads; the last {scope} of a CTA of {self.threads} "
                f"threads has {self.threads % size}",
                span=span,
                hint=f"launch a multiple of {size} threads, or branch so that the last {scope} doesn't come there",
            )

    def places(self, op: ir.TileOp, state: _State) -> None:
        """The threads of a collective operation must mean one region."""
        if not self.reporting or op.scope == "thread":
            return
        for operand in op.operands:
            if not isinstance(operand, ir.Region):
                continue
            for dim, start in enumerate(operand.starts):
                if self.widened(self.level(start, state)) >= _LEVELS[op.scope]:
                    continue
                raise DispatchError(
                    f"{op.scope}.{op.name} takes one region of {operand.buffer.name} for its whole {op.scope}, but "
                    f"where dimension {dim} starts may differ from thread to thread",
                    span=operand.span or op.span,
                    hint=f"start at what is the same for the whole {op.scope}, or use the thread scope",
                )

    def never(self, cond: ir.Expr, truth: bool, scope: str) -> bool:
        """Whether no thread of the last, partial instance of `scope` finds the condition to be `truth`."""
        found = self.values(cond)
        if found is not None:
            first = self.threads // _SIZES[scope] * _SIZES[scope]
            return not np.any(np.broadcast_to(found, self.ids.shape)[first:] == truth)
        if not isinstance(cond, ir.Op):
            return False
        if cond.name == "logical_not":
            return self.never(cond.args[0], not truth, scope)
        deciding = {"logical_and": True, "logical_or": False}.get(cond.name)
        return deciding is truth and any(self.never(a, truth, scope) for a in cond.args)

    # ---- values ----

    def level(self, expr: ir.Expr, state: _State) -> int:
        """The widest scope whose active threads agree on the value."""
        values = self.values(expr)
        if values is not None:
            return self.level_of(values)
        match expr:
            case ir.Var(name):
                return state.levels[name] if name in state.levels else self.fixed.get(name, (CTA, None))[0]
            case ir.Cast(x):
                return self.level(x, state)
            case ir.Op(_, args):
                return min((self.level(a, state) for a in args), default=CTA)
            case ir.Load(place):
                return self.load_level(place, state)
        return CTA

    def load_level(self, place: ir.Element | ir.Vector, state: _State) -> int:
        if place.buffer.space in ("local", "tmem"):
            return THREAD
        indices = place.indices if isinstance(place, ir.Element) else (place.offset,)
        return min((self.level(i, state) for i in indices), default=CTA)

    def level_of(self, values: np.ndarray) -> int:
        if values.ndim == 0:
            return CTA
        for level, size in ((CTA, self.threads), (WARPGROUP_LEVEL, WARPGROUP), (WARP_LEVEL, WARP)):
            first = values[self.ids // size * size]
            # nan differs from itself, but not from one thread to the next
            if np.all((values == first) | ((values != values) & (first != first))):
                return level
        return THREAD

    def widened(self, level: int) -> int:
        """A CTA that is one warp or one warpgroup agrees as a whole."""
        if level >= WARPGROUP_LEVEL and self.threads <= WARPGROUP:
            return CTA
        if level >= WARP_LEVEL and self.threads <= WARP:
            return CTA
        return CTA if self.threads == 1 else level

    def values(self, expr: ir.Expr) -> np.ndarray | None:
        """Every thread's value where it depends on thread ids and constants alone, else None."""
        match expr:
            case ir.Const(value, dtype):
                return np.asarray(value, dtype=dtype.numpy)
            case ir.Var(name):
                return self.fixed.get(name, (CTA, None))[1]
            case ir.Special(name):
                return _THREAD_IDS[name](self.ids) if name in _THREAD_IDS else None
            case ir.Cast() | ir.Op():
                if id(expr) not in self.evaluated:
                    self.evaluated[id(expr)] = self.computed(expr)
                return self.evaluated[id(expr)]
        return None

    def computed(self, expr: ir.Cast | ir.Op) -> np.ndarray | None:
        args = []
        for arg in (expr.x,) if isinstance(expr, ir.Cast) else expr.args:
            value = self.values(arg)
            if value is None:
                return None
            args.append(value)
        if isinstance(expr, ir.Cast):
            return convert(args[0], expr.dtype, expr.saturate)
        with np.errstate(all="ignore"):
            return np.asarray(ELEMENTWISE[expr.name].formula(*args))


def _at(span: Span | None) -> str:
    return f" at {span}" if span is not None else ""


def _returns(body: tuple[ir.Stmt, ...]) -> bool:
    """Whether no thread gets past the end of the block, because it returns."""
    if not body:
        return False
    last = body[-1]
    return isinstance(last, ir.Return) or (isinstance(last, ir.If) and _returns(last.then) and _returns(last.orelse))


def _assigned(body: tuple[ir.Stmt, ...]) -> set[str]:
    """Names that statements in the block assign."""
    found: set[str] = set()
    for stmt in body:
        match stmt:
            case ir.Assign(var):
                found.add(var.name)
            case ir.If(_, then, orelse):
                found |= _assigned(then) | _assigned(orelse)
            case ir.For() | ir.Loop():
                found |= _assigned(stmt.body)
    return found
