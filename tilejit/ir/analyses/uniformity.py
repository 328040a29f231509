"""Uniformity analysis of tile IR: which threads are active, and on which values they agree.

A value has a *level*: the widest scope such that the threads of each instance agree on the value. The set of active
threads has a level, too: the widest scope such that all or none of the threads of each instance are active.

    thread      threads of a warp may differ          lane_id, loads from registers
    warp        a warp agrees, warps may differ       warp_id
    warpgroup   a warpgroup agrees                    warpgroup_id
    cta         all threads agree                     constants, parameters, cta_id

A branch lowers the level of the active set to that of its condition, and a loop to that of its bounds. A `break`,
`continue` or `return` in such a branch also lowers the level for the statements after it. An expression that consists
only of thread ids and constants is evaluated for every thread (see `thread_values`); any other has the lowest level
of its parts. Loads from global and shared memory have the level of their address. A tile of one element with a copy
in every thread of a scope, which no thread writes alone, has the level of the scope, or the lower level of the
scalars from which the copies are computed. Levels that change are iterated to a fixed point.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ... import scopes
from ...dataclass import replace
from ...isa import ROWS
from ...isa.warp import ELECT
from ...layout import TileLayout
from ...remember import once, remembered
from ...scopes import SCOPES
from ...source import Span
from ...target import WARP
from .. import nodes as ir
from .. import walk
from ..names import sources
from .flow import Analysis, LoopStates, solve
from .own_copies import has_copies, numbers_of, written_by_numbers
from .thread_states import ALL_ACTIVE, CTA, THREAD, Active, Gate, ThreadState, lowest, with_levels
from .thread_values import ThreadValues

#: the ids that differ between threads of a warp
_LANE_IDS = frozenset(name for name, thread in scopes.THREAD_IDS.items() if thread.divisor < WARP)


def repeated_additions(kernel: ir.Kernel) -> list[tuple[ir.Atomic, int]]:
    """Return the atomic additions of one value to one element by several threads, each with the number of threads."""
    uniformity = Uniformity.of(kernel)
    states = solve(uniformity, kernel.body, uniformity.start())
    return [
        (stmt, state.possible.bit_count())
        for stmt, state in zip(walk.statements(kernel.body), states, strict=True)
        if state is not None and isinstance(stmt, ir.Atomic) and state.possible.bit_count() > 1
        and uniformity.is_repeated(stmt, state)
    ]


class _Sources(NamedTuple):
    """An expression's level, as the minimum of `level` and the levels of the variables and tiles in `names`."""

    level: int
    names: tuple[str, ...]


class Uniformity(Analysis[ThreadState]):
    kinds = frozenset({
        ir.Let, ir.Declare, ir.Assign, ir.Instruction, ir.WaitPhase, ir.Atomic, ir.TileOp, ir.Break, ir.Continue,
        ir.Return, ir.If, ir.For, ir.Loop,
    })

    def __init__(self, threads: int, body: walk.Block = (), stored: frozenset[str] = frozenset()) -> None:
        self.threads = threads
        #: names of the buffers to which threads store single elements
        self.stored = stored
        self.values = ThreadValues(threads)
        #: level of the narrowest scope of which one instance contains all threads
        self.whole = min(s.level for s in SCOPES.values() if s is scopes.CTA or threads <= s.threads(threads))
        #: sources, by name, of the variables whose level is the same in every state; states don't list them
        self.derived: dict[str, _Sources] = {}
        #: names of the replicated tiles whose level may change, like a variable's
        self.varying = written_by_numbers(body)
        #: levels of sets of threads, by bit mask
        self.sets: dict[int, int] = {}

    @staticmethod
    def of(kernel: ir.Kernel) -> Uniformity:
        stored = frozenset([stmt.place.buffer.root.name for stmt in walk.each(kernel.body, ir.Store)])
        uniformity = Uniformity(kernel.threads, kernel.body, stored)
        uniformity.derive(kernel.body)
        return uniformity

    def derive(self, body: walk.Block) -> None:
        """Record the values of `Let`s per thread, and the sources of their levels."""
        for instruction in walk.each(body, ir.Instruction):
            if instruction.name == ELECT.name and instruction.var is not None and not _divides_warps(body):
                # assume lane 0: any lane is equivalent, as no other condition distinguishes lanes
                self.values.numbers[instruction.var.name] = self.values.ids % WARP == 0
        changing = self.changed_in(body)
        for let in walk.each(body, ir.Let):
            self.values.define(let)
            sources = self.sources(let.value)
            if not let.var.uniform and changing.isdisjoint(sources.names):
                self.derived[let.var.name] = sources

    def changed_in(self, body: walk.Block) -> frozenset[str]:
        """Return the names of the variables and `varying` tiles that the statements of a block write."""
        changed = walk.assigned(body)
        if not self.varying:
            return changed
        tiles = [region.buffer.root.name for op in walk.each(body, ir.TileOp) for region in op.written]
        return changed | self.varying.intersection(tiles)

    def start(self) -> ThreadState:
        partial = frozenset(name for name, scope in SCOPES.items() if scope.left_over(self.threads))
        return ThreadState(partial=partial, possible=self.values.everybody)

    def join(self, first: ThreadState, second: ThreadState) -> ThreadState:
        return ThreadState(
            first.entered.combine(second.entered),
            first.returned.combine(second.returned),
            first.broken.combine(second.broken),
            first.continued.combine(second.continued),
            lowest(first.levels, second.levels),
            first.partial | second.partial,
            first.is_exact and second.is_exact,
            first.gates | second.gates,
            first.has_parted or second.has_parted,
            first.possible | second.possible,
            first.by_ids.combine(second.by_ids),
        )

    def step(self, stmt: ir.Simple | ir.Jump, state: ThreadState) -> ThreadState:
        match stmt:
            case ir.Let(var, value):
                if var.name in self.derived:
                    return state
                declared = SCOPES[var.uniform].level if var.uniform else THREAD
                return state.with_level(var.name, max(self.level(value, state), declared))
            case ir.Declare(var, init):
                # an undefined variable has no value that threads could disagree on
                level = CTA if init is None else min(self.level(init, state), state.active.level)
                return state.with_level(var.name, level)
            case ir.Assign(var, value):
                return state.with_level(var.name, min(self.level(value, state), state.active.level))
            case ir.Instruction(name, var=ir.Var() as var):
                row = ROWS[name]
                return state.with_level(var.name, row.scope.level if row.agrees else THREAD)
            case ir.WaitPhase(var=ir.Var() as var):
                return state.with_level(var.name, THREAD)
            case ir.Atomic(var=ir.Var() as var):
                # the result is the old value, which may differ between threads that update the same element
                return state.with_level(var.name, THREAD)
            case ir.TileOp():
                return self.with_copies(stmt, state)
            case ir.Break():
                return replace(state, broken=state.broken.combine(self.departure("break", stmt.span, state)))
            case ir.Continue():
                return replace(state, continued=state.continued.combine(self.departure("continue", stmt.span, state)))
            case ir.Return():
                departure = self.departure("return", stmt.span, state)
                parted = state.has_parted or (bool(state.gates) and departure.level < CTA)
                return replace(state, returned=state.returned.combine(departure), has_parted=parted)
        return state

    def with_copies(self, op: ir.TileOp, state: ThreadState) -> ThreadState:
        """Return the state after an operation: its results get the lowest level of its operands and the active set."""
        level = min([state.active.level, *[self.level(number, state) for number in numbers_of(op)]])
        for region in op.read:
            level = min(level, state.level(region.buffer.root.name))
        for region in op.written:
            if region.buffer.root.name in self.varying:
                state = state.with_level(region.buffer.root.name, level)
        return state

    def concerns(self, stmt: ir.Simple | ir.If | ir.For) -> bool:
        if isinstance(stmt, ir.Let):
            return stmt.var.name not in self.derived
        if isinstance(stmt, ir.TileOp):
            return bool(self.varying) and any(region.buffer.root.name in self.varying for region in stmt.written)
        return not isinstance(stmt, (ir.Instruction, ir.WaitPhase, ir.Atomic)) or stmt.var is not None

    def departure(self, word: str, span: Span | None, state: ThreadState) -> Active:
        """Return the threads that remain after a jump, with the level of the active set that executes it."""
        active = state.active
        cause = f"`{word}` in {active.cause}" if active.cause else ""
        threads = state.possible if active.level < CTA else 0
        return replace(active, cause=cause, span=active.span or span, threads=threads)

    def after_jump(self, jump: ir.Jump, state: ThreadState) -> ThreadState:
        # a `return` ends all threads that reach it, including those of partial instances
        return replace(state, possible=0, partial=frozenset() if isinstance(jump, ir.Return) else state.partial)

    def branch(self, stmt: ir.If, state: ThreadState) -> tuple[ThreadState, ThreadState]:
        true, false = self.values.finding(stmt.cond)
        then, orelse = self.among(state, true, stmt.span), self.among(state, false, stmt.span)
        if self.values.of(stmt.cond) is None:
            level = self.level(stmt.cond, state)
            exact = state.is_exact and self.widened(level) == CTA
            either = true & false & state.possible
            then, orelse = [
                replace(
                    side, entered=self.narrowed(side.entered, level, either, "the `if`", stmt.span), is_exact=exact,
                    gates=state.gates | {Gate(id(stmt), truth)},
                )
                for side, truth in ((then, True), (orelse, False))
            ]
        if state.partial:
            then = replace(then, partial=self.partly(state, true))
            orelse = replace(orelse, partial=self.partly(state, false))
        return then, orelse

    def among(self, state: ThreadState, threads: int, span: Span | None) -> ThreadState:
        """Return the state restricted to these threads, which ids select."""
        possible = state.possible & threads
        return state if possible == state.possible else state.among(possible, self.by_ids(possible, state.by_ids, span))

    def by_ids(self, possible: int, before: Active, span: Span | None) -> Active:
        """Return an `Active` with the level of a set of threads (thread i as bit i); `before` if its level is equal."""
        if possible not in self.sets:
            self.sets[possible] = self.level_of(np.array([possible >> int(i) & 1 for i in self.values.ids]))
        level = self.sets[possible]
        if level == CTA:
            return ALL_ACTIVE
        return before if level == before.level else Active(level, 0, "the `if`", span)

    def merged(self, stmt: ir.If, before: ThreadState, ends: ThreadState) -> ThreadState:
        stayed = (ends.returned, ends.broken, ends.continued) == (before.returned, before.broken, before.continued)
        exact = before.is_exact and (stayed or ends.is_exact)
        gates = before.gates | {gate for gate in ends.gates if gate.truth is None}
        if self.values.of(stmt.cond) is None and _jumps_out_of(stmt):
            gates |= {Gate(id(stmt), None)}
        by_ids = before.by_ids
        if ends.possible != before.possible:
            by_ids = self.by_ids(ends.possible, ends.by_ids, stmt.span)
        return replace(ends, entered=before.entered, is_exact=exact, gates=gates, by_ids=by_ids)

    def enter(self, loop: ir.For | ir.Loop, before: ThreadState) -> ThreadState:
        if isinstance(loop, ir.Loop):
            return replace(before, entered=before.decided, broken=ALL_ACTIVE, continued=ALL_ACTIVE)
        begin, step = self.level(loop.start, before), self.level(loop.step, before)
        least = min(begin, self.level(loop.stop, before), step)
        return replace(
            before,
            entered=self.narrowed(before.decided, least, before.possible, "the loop", loop.span),
            broken=ALL_ACTIVE,
            continued=ALL_ACTIVE,
            levels=with_levels(before.levels, {loop.var.name: min(begin, step)}),
            is_exact=before.is_exact and self.widened(least) == CTA,
            gates=before.gates | {Gate(id(loop), True)},
        )

    def narrowed(self, active: Active, level: int, threads: int, what: str, span: Span | None) -> Active:
        """Return the active set after a condition of this level, which only some of `threads` may satisfy."""
        return active if level == CTA else active.combine(Active(level, threads, what, span))

    def repeat(self, loop: ir.For | ir.Loop, head: ThreadState, ends: ThreadState) -> ThreadState:
        # variables that the iteration defines aren't visible at the head
        assigned = {name: ends.level(name) for name in self.changed_in(loop.body)}
        return replace(
            ends, entered=head.entered, continued=ALL_ACTIVE, levels=with_levels(head.levels, assigned),
            gates=head.gates, possible=head.possible, by_ids=head.by_ids,
        )

    def leave(self, loop: ir.For | ir.Loop, states: LoopStates[ThreadState]) -> ThreadState:
        """Return the state after a loop: all threads that haven't returned continue, with possibly different values."""
        head = states.head
        last = head if states.breaks is None else self.join(head, states.breaks)
        ends = min(head.entered.level, head.broken.level, head.by_ids.level)
        before = states.before
        stayed = head.returned == before.returned
        gates = before.gates | {Gate(id(loop), None)} if _jumps_out_of(loop) else before.gates
        assigned = {name: min(last.level(name), ends) for name in self.changed_in(loop.body)}
        return replace(
            before, returned=before.returned.combine(head.returned), levels=with_levels(before.levels, assigned),
            is_exact=before.is_exact and stayed, gates=gates, has_parted=head.has_parted,
        )

    def is_repeated(self, stmt: ir.Atomic, state: ThreadState) -> bool:
        """True if `stmt` is an addition, and all threads that reach it provably add one value to one element."""
        if stmt.op != "add" or not state.is_exact:
            return False
        given = (*walk.indices(stmt.place), *stmt.operands)
        return all(self.agree(expr, scopes.CTA.name, state) for expr in given)

    def partly(self, state: ThreadState, threads: int) -> frozenset[str]:
        """Return the scopes whose last instance is incomplete and may contain some of these threads."""
        left = (s for s in state.partial if threads >> self.threads - SCOPES[s].left_over(self.threads))
        return frozenset(left)

    def agree(self, expr: ir.Expr, scope: str, state: ThreadState) -> bool:
        """True if the active threads of each instance of a scope provably agree on the value of `expr`."""
        return self.widened(self.level(expr, state)) >= SCOPES[scope].level

    def level(self, expr: ir.Expr, state: ThreadState) -> int:
        """Return the level of the widest scope such that the active threads of each instance agree on the value."""
        sources = self.sources(expr)
        level, levels = sources.level, state.levels
        for name in sources.names:
            if name in levels:
                level = min(level, levels[name])
        return level

    @once
    def sources(self, expr: ir.Expr) -> _Sources:
        """Return the `_Sources` of an expression whose variables have all been defined."""
        level, names = CTA, set[str]()
        waiting = [expr]
        while waiting:
            part = waiting.pop()
            values = None if isinstance(part, ir.Const) else self.values.of(part)
            if values is not None:
                level = min(level, self.level_of(values))
            elif isinstance(part, ir.Var):
                derived = self.derived.get(part.name, _Sources(CTA, (part.name,)))
                level = min(level, derived.level)
                names.update(derived.names)
            elif isinstance(part, ir.Load) and part.place.buffer.space in ("local", "tmem"):
                tile = part.place.buffer.root
                level = min(level, self.level_of_copies(tile))
                if tile.name in self.varying:
                    names.add(tile.name)
            else:
                waiting.extend(walk.operands(part))
        return _Sources(level, tuple(names))

    def level_of_copies(self, tile: ir.Buffer) -> int:
        """Return the level of the scope whose threads each have a copy of a tile without `Store`s, or `THREAD`."""
        layout = tile.layout
        if not isinstance(layout, TileLayout) or tile.name in self.stored:
            return THREAD
        scope = SCOPES[scopes.THREAD.name if layout.scope is None else layout.scope[1]]
        return scope.level if has_copies(tile, scope.name, self.threads) else THREAD

    def level_of(self, values: np.ndarray) -> int:
        if values.ndim == 0:
            return CTA
        return next(scope.level for scope in reversed(SCOPES.values()) if self.agrees(values, scope))

    def agrees(self, values: np.ndarray, scope: scopes.Scope) -> bool:
        """True if the values agree in every instance of a scope."""
        size = scope.threads(self.threads)
        first = values[self.values.ids // size * size]
        equal = values == first
        if values.dtype.kind == "f":
            # NaN differs from itself, but here only differences between threads count
            equal |= (values != values) & (first != first)
        return bool(equal.all())

    def widened(self, level: int) -> int:
        """Return the level, or `CTA` if one instance of its scope contains all threads."""
        return CTA if level >= self.whole else level


def _divides_warps(body: walk.Block) -> bool:
    """True if lanes of a warp may take different branches depending on their ids, other than by `elect`."""
    conditions = [stmt.cond for stmt in walk.each(body, ir.If)]
    names = sources(body, conditions)
    conditions += [let.value for let in walk.each(body, ir.Let) if let.var.name in names]
    parts = (part for cond in conditions for part in walk.subexpressions(cond))
    return any(isinstance(part, ir.Special) and part.name in _LANE_IDS for part in parts)


@remembered
def _jumps_out_of(stmt: ir.Stmt) -> frozenset[type[ir.Stmt]]:
    """Return the kinds of jumps by which threads leave a statement from inside."""
    if isinstance(stmt, walk.JUMPS):
        return frozenset({type(stmt)})
    kinds = frozenset[type[ir.Stmt]]()
    for block in walk.blocks(stmt):
        if not walk.inventory(block).kinds.isdisjoint(walk.JUMPS):
            kinds = kinds.union(*map(_jumps_out_of, block))
    return kinds & {ir.Return} if isinstance(stmt, (ir.For, ir.Loop)) else kinds
