"""Checks that all threads of a scope reach its collective operations and agree on operands that must be uniform."""

from __future__ import annotations

from collections.abc import Iterable

from ... import scopes
from ...errors import DispatchError, KernelTypeError
from ...isa import ROWS, Row
from ...layout import TileLayout
from ...scopes import SCOPES
from ...source import Span
from .. import nodes as ir
from .. import walk
from .flow import solve
from .own_copies import is_of_copies, may_run_per_thread
from .register_pool import SETTINGS, check_pool
from .ring_counts import check_steps
from .thread_states import ThreadState, Visit
from .uniformity import Uniformity

#: the classes of statements that may be collective, except `Let`, which is collective only for `tj.uniform`
_COLLECTIVE = (ir.Sync, ir.Arrive, ir.Instruction, ir.TileOp)
_REPORTED: frozenset[type[ir.Stmt]] = frozenset((*_COLLECTIVE, ir.Let))


def check(kernel: ir.Kernel) -> None:
    """Raise DispatchError for a collective operation or barrier that some threads of its scope may not reach.

    The error points to the branch or loop that diverges; its message names the operation. Some operations on tiles of
    one element are exempt (see `may_run_per_thread`). The error is also raised if an incomplete instance of the scope
    may reach the operation, or if operands that must be uniform may differ between threads. `check_pool` and
    `check_steps`, which this function calls, raise other errors.
    """
    if not _has_collectives(kernel.body):
        return
    uniformity = Uniformity.of(kernel)
    statements = walk.statements(kernel.body)
    states = solve(uniformity, kernel.body, uniformity.start())
    needs = _Needs(kernel, uniformity)
    for stmt, state in zip(statements, states, strict=True):
        if type(stmt) in _REPORTED and state is not None:
            needs.check(stmt, state)
    rings = [alloc for alloc in walk.each(kernel.body, ir.Alloc) if alloc.call]
    settings = [number for number, stmt in walk.numbered(kernel.body, ir.Instruction) if stmt.name in SETTINGS]
    if rings or settings:
        visits = [
            None if state is None else Visit(stmt, state.possible, state.is_certain, state.gates)
            for stmt, state in zip(statements, states, strict=True)
        ]
        check_pool(kernel, [visit for number in settings if (visit := visits[number]) is not None])
        check_steps(kernel, rings, visits)


def _has_collectives(body: walk.Block) -> bool:
    if not walk.inventory(body).kinds.isdisjoint(_COLLECTIVE):
        return True
    return any(let.var.uniform for let in walk.each(body, ir.Let))


class _Needs:
    """Checks of single statements, given the state of the threads; the methods raise DispatchError."""

    def __init__(self, kernel: ir.Kernel, uniformity: Uniformity) -> None:
        self.kernel, self.uniformity = kernel, uniformity

    def check(self, stmt: ir.Stmt, state: ThreadState) -> None:
        match stmt:
            case ir.Let(var):
                if var.uniform:
                    self.collective("tj.uniform", var.uniform, stmt.span, state)
            case ir.Sync(scope):
                # a cluster or grid is checked within each CTA only; the simulator detects divergence between CTAs
                within = scope if scope in SCOPES else scopes.CTA.name
                self.collective(f"{scope}_sync", within, stmt.span, state)
            case ir.Arrive(place, scope):
                what = f"{scope}.{stmt.word}"
                self.collective(what, scope, stmt.span, state)
                self.barrier(place.buffer, walk.indices(place), f"{what} arrives at", stmt, state)
            case ir.Instruction(name):
                self.collective(ROWS[name].spelling, ROWS[name].scope.name, stmt.span, state)
                self.common(stmt, ROWS[name], state)
            case ir.TileOp(name, scope):
                self.collective(f"{scope}.{name}", scope, stmt.span, state, stmt)
                self.places(stmt, state)

    def collective(
        self, what: str, scope: str, span: Span | None, state: ThreadState, op: ir.TileOp | None = None
    ) -> None:
        if scope == scopes.THREAD.name:
            return
        active = state.active
        if self.uniformity.widened(active.level) < SCOPES[scope].level:
            remedy = ""
            if op is not None and is_of_copies(op, self.kernel.threads):
                if may_run_per_thread(op, self.kernel.body):
                    return
                remedy = ", or compute with each thread's value: float(x), int(x)"
            is_loop = active.cause.endswith("the loop")
            place, same = ("loop", "use bounds that are") if is_loop else ("branch", "branch on a value that is")
            # after a jump, the operation isn't in the branch or loop that diverges
            moved = "" if active.cause.startswith("`") else f"move it out of the {place}, or "
            raise DispatchError(
                f"{what}{_at(span)} needs all threads of its {scope}, but some may not reach it: "
                f"{active.cause} isn't uniform across the {scope}",
                span=active.span or span,
                hint=f"{moved}{same} the same for the whole {scope}{remedy}",
            )
        if scope in state.partial:
            size = SCOPES[scope].threads(self.kernel.threads)
            raise DispatchError(
                f"{what} needs whole {scope}s of {size} threads; the last {scope} of a CTA of {self.kernel.threads} "
                f"threads has {SCOPES[scope].left_over(self.kernel.threads)}",
                span=span,
                hint=f"launch a multiple of {size} threads, or branch so that the last {scope} doesn't reach it",
            )

    def places(self, op: ir.TileOp, state: ThreadState) -> None:
        """Raise if threads of the scope may disagree on the regions, conditions, barriers or index of an operation."""
        if op.scope == scopes.THREAD.name:
            return
        what = f"{op.scope}.{op.name}"
        for operand in op.tiles.values():
            for dim, start in enumerate(operand.starts):
                if not isinstance(start, ir.Const):
                    one = f"{what} takes one region of {operand.buffer.name}", f"the start of dimension {dim}"
                    try:
                        self.agree(start, op.scope, state, one, operand.span or op.span, ", or use the thread scope")
                    except DispatchError as error:
                        if not _has_shared_places(operand.buffer, dim):
                            raise
                        raise KernelTypeError(
                            f"the {op.scope} takes one part of its tile, but the part may differ between threads",
                            span=error.span,
                            hint=f"use an index or a shift that is the same for the whole {op.scope}, or select by a "
                            "tile of indices: tj.gather(x, index, axis)",
                        ) from None
        for barrier in map(op.operand, op.record.barriers):
            if isinstance(barrier, ir.Region):
                self.barrier(barrier.buffer, barrier.starts, f"{what} reports to", op, state)
        for name in op.record.conditions:
            self.agree(op.condition(name), op.scope, state, (f"{what} takes one value of {name}", "it"), op.span)
        gathered, index = op.gathered, op.index
        if gathered is not None and index is not None and not isinstance(index, ir.Region):
            one, other = (f"{what} takes one region of {gathered.buffer.name}", "its index"), ", a tile of indices"
            self.agree(index, op.scope, state, one, gathered.span or op.span, f"{other}, or the thread scope")

    def barrier(
        self, buffer: ir.Buffer, indices: Iterable[ir.Expr], what: str, stmt: ir.Arrive | ir.TileOp,
        state: ThreadState,
    ) -> None:
        if stmt.scope == scopes.THREAD.name:
            return
        for index in indices:
            one = f"{what} one barrier", f"its index in {buffer.name}"
            self.agree(index, stmt.scope, state, one, stmt.span, ", or use the thread scope")

    def common(self, stmt: ir.Instruction, row: Row, state: ThreadState) -> None:
        """Raise if an instruction's threads may disagree on an operand that must be the same in all of them."""
        for operand, item in zip(row.arguments, stmt.inputs, strict=False):
            if operand.is_common and not isinstance(item, (ir.Vector, ir.Descriptor)):
                one = f"{row.spelling} takes one {operand.name}", "it"
                self.agree(item, row.scope.name, state, one, stmt.span)

    def agree(
        self, expr: ir.Expr, scope: str, state: ThreadState, one: tuple[str, str], span: Span | None, remedy: str = ""
    ) -> None:
        """Raise if threads of a scope may disagree on the value of an expression.

        one: for the message, a clause such as "warp.copy takes one region of A", and a phrase for `expr` ("its index").
        """
        if not self.uniformity.agree(expr, scope, state):
            raise DispatchError(
                f"{one[0]} for its whole {scope}, but {one[1]} may differ between threads", span=span,
                hint=f"use a value that is the same for the whole {scope}{remedy}",
            )


def _has_shared_places(buffer: ir.Buffer, dim: int) -> bool:
    """True if the elements along a dimension of a shared buffer have one place, as in the exchange of a tile's part."""
    if buffer.space != "shared" or not isinstance(buffer.layout, TileLayout):
        return False
    grouped, ends = buffer.layout.group(buffer.fixed_shape)
    return not any(it.stride for it in grouped.shard[ends[dim] : ends[dim + 1]])


def _at(span: Span | None) -> str:
    return f" at {span}" if span is not None else ""
