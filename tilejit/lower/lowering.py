"""The walk that lowers a kernel: it dispatches tile operations, and computes the offsets of single elements."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

from ..dataclass import dataclass, replace
from ..errors import DispatchError, LayoutError
from ..ir import walk
from ..ir.arithmetic import build
from ..ir.names import defined_names
from ..ir.nodes import (
    Alloc,
    Arrive,
    Atomic,
    Breakpoint,
    Const,
    Element,
    Expect,
    Expr,
    For,
    If,
    Instruction,
    Kernel,
    Let,
    Load,
    Loop,
    Move,
    Region,
    Special,
    Stmt,
    Store,
    Sync,
    TileOp,
    Vector,
    WaitPhase,
)
from ..ir.params import BarrierParam, PointerParam, TensorMapParam
from ..ir.walk import Block
from ..isa import ROWS
from ..isa.hints import hinted
from ..isa.mbarrier import EXPECT
from ..isa.tma import PREFETCH
from ..ops.copies import CACHE, FETCH
from ..scopes import GRID
from ..source import Span
from ..target import Target
from .builder import Builder, RegisterRun
from .engine import Verdict, dispatch
from .passes import fences, grid_barrier, store_groups
from .proof.prove import prove
from .rematerialized import Recomputed
from .reuse import Dispatch, LoweredOperation, reuse_key
from .schedule.placement import element_offset
from .variant import DispatchContext, Variant


@dataclass(frozen=True, slots=True)
class Lowered:
    """A kernel at lane level, and its verdicts in program order.

    addressed: name of each local buffer that must be in local memory -> the place in the source that needs its address.
    """

    kernel: Kernel
    verdicts: tuple[Verdict[Any], ...]
    addressed: Mapping[str, Span | None]


def lower(kernel: Kernel, target: Target, variants: tuple[Variant[Any], ...]) -> Lowered:
    """Lower `kernel` with `variants`. In checked builds, prove plans correct, except those of reused lane IR.

    If a statement needs a local buffer in local memory, the whole kernel is lowered again, since earlier statements
    accessed it as registers. The buffer stays there for the whole kernel, like an array in C: moving it there and
    back around an access in a loop would copy all of it in each iteration.
    raises: DispatchError if the kernel can't be lowered; KernelTypeError if `store_groups.check` rejects a wait.
    """
    recomputed = Recomputed(kernel)
    context, taken = DispatchContext(target, kernel.threads, recomputed, kernel.cluster), defined_names(kernel.body)
    addressed: Mapping[str, Span | None] = {}
    while True:
        builder = Builder(taken, addressed, has_checks=kernel.debug)
        walker = _Walk(context, recomputed, variants, kernel.debug, builder)
        with recomputed.block():
            walker.block(kernel.body)
        if builder.addressed == addressed:
            break
        addressed = builder.addressed
    # checked after dispatch, whose errors are more specific: they list each variant's reasons
    for stmt in walker.instructions:
        ROWS[stmt.name].need(target, stmt.span)
    store_groups.check(kernel, walker.verdicts)
    # the launch has the extents of scratch from the tile IR
    given = [replace(p, scratch=None) if isinstance(p, PointerParam) and p.scratch else p for p in kernel.params]
    params = (*given, *builder.params)
    prefetches = _prefetches(builder.params, kernel.span)
    body = (*builder.head, *prefetches, *recomputed.remove_unread(builder.take()))
    if walker.waits_for_grid:
        params = (*params, BarrierParam(grid_barrier.BARRIER))
    lane = replace(kernel, params=params, body=body)
    fences.check_multicast(kernel, lane)
    return Lowered(lane, tuple(walker.verdicts), addressed)


def _prefetches(params: Sequence[TensorMapParam], span: Span | None) -> tuple[Stmt, ...]:
    if not params:
        return ()
    fetched = tuple([Instruction(PREFETCH.name, (), (param.var,), span) for param in params])
    return (If(build.equal(Special("thread_id"), 0), fetched, span=span),)


def _cached(stmt: Stmt, cache: str, fetch: str) -> Stmt:
    if isinstance(stmt, Instruction):
        name = hinted(stmt.name, cache, fetch)
        return stmt if name == stmt.name else replace(stmt, name=name)
    is_global = isinstance(stmt, Move) and "global" in (stmt.dst.buffer.space, stmt.src.buffer.space)
    return replace(stmt, cache=cache) if isinstance(stmt, Move) and is_global else stmt


def _whole(value: Expr | Region | Vector) -> Expr | Vector:
    if not isinstance(value, Region):
        return value
    buffer = value.buffer
    width = buffer.tile_layout.storage().span() if buffer.space == "local" else 1
    return Vector(buffer, build.const(0, buffer.index_dtype), width)


class _Walk:
    def __init__(
        self,
        context: DispatchContext,
        recomputed: Recomputed,
        variants: tuple[Variant[Any], ...],
        debug: bool,
        builder: Builder,
    ) -> None:
        self.recomputed = recomputed
        self.debug = debug
        # not a method: verdicts refer to this function, and a bound method would keep the walk alive
        self.dispatch_operation: Dispatch = lambda op: dispatch(op, context, variants)
        self.count = context.count
        self.builder = builder
        self.verdicts: list[Verdict[Any]] = []
        self.instructions: list[Instruction] = []
        self.waits_for_grid = False
        self.reusable: dict[Hashable, LoweredOperation] = {}

    def block(self, body: Block) -> None:
        for stmt in body:
            self.stmt(stmt)

    def inner(self, body: Block) -> Block:
        with self.builder.block() as statements, self.recomputed.block():
            self.block(body)
        return tuple(statements)

    def stmt(self, stmt: Stmt) -> None:
        self.builder.span = stmt.span
        lowered = _LOWERED.get(type(stmt))
        if lowered is None:
            self.builder.append(stmt)
        else:
            lowered(self, stmt)

    def branch(self, stmt: If) -> None:
        self.builder.append(walk.with_blocks(stmt, self.inner))

    def loop(self, stmt: For | Loop) -> None:
        with self.builder.repeated():
            self.builder.append(walk.with_blocks(stmt, self.inner))

    def let(self, stmt: Let) -> None:
        if isinstance(stmt.value, Load) and isinstance(stmt.value.place, Element):
            self.read(stmt, stmt.value.place)
        else:
            self.builder.append(stmt)

    def store(self, stmt: Store) -> None:
        if isinstance(stmt.place, Element):
            self.write(stmt, stmt.place)
        else:
            self.builder.append(stmt)

    def atomic(self, stmt: Atomic) -> None:
        place = stmt.place
        if isinstance(place, Element):
            stmt = replace(stmt, place=Vector(place.buffer, self.offset(place), span=place.span))
        self.builder.append(stmt)

    def barrier_access(self, stmt: Arrive | WaitPhase) -> None:
        self.builder.append(replace(stmt, place=self.barrier(stmt.place)))

    def expect(self, stmt: Expect) -> None:
        self.instruction(Instruction(EXPECT.name, (), (self.barrier(stmt.place), stmt.bytes), stmt.span))

    def sync(self, stmt: Sync) -> None:
        if stmt.scope == GRID.name:
            grid_barrier.wait(self.builder)
            self.waits_for_grid = True
        else:
            self.builder.append(stmt)

    def instruction(self, stmt: Instruction) -> None:
        self.instructions.append(stmt)
        self.builder.append(stmt)

    def breakpoint(self, stmt: Breakpoint) -> None:
        self.builder.append(replace(stmt, values=tuple(map(_whole, stmt.values))))

    def alloc(self, stmt: Alloc) -> None:
        is_addressed = self.builder.is_addressed(stmt.buffer)
        self.builder.append(stmt if is_addressed == stmt.addressed else replace(stmt, addressed=is_addressed))

    def operation(self, op: TileOp) -> None:
        self.carry_out(op)
        self.recomputed.record(op)

    def carry_out(self, op: TileOp) -> None:
        reuse = reuse_key(op, self.builder)
        reusable = None if reuse is None else self.reusable.get(reuse)
        if reusable is not None:
            self.verdicts.append(reusable.reuse_for(op, self.builder, self.dispatch_operation))
            return
        verdict = self.dispatch_operation(op)
        self.verdicts.append(verdict)
        head, made = len(self.builder.head), self.builder.made
        before = len(made)
        verdict.emit(self.builder)
        if self.debug:
            prove(verdict.plan, op, self.count(op.scope), self.builder, made[before:])
        if op.attrs:
            hints = str(op.attr(CACHE.name) or ""), str(op.attr(FETCH.name) or "")
            if any(hints):
                made[before:] = walk.rewrite(tuple(made[before:]), lambda stmt: (_cached(stmt, *hints),))
        # lane IR that allocated a buffer at the kernel's beginning isn't reused: the buffer belongs to this operation
        if reuse is not None and not any(isinstance(each, Alloc) for each in self.builder.head[head:]):
            self.reusable[reuse] = LoweredOperation(verdict, tuple(made[before:]))

    def offset(self, place: Element) -> Expr:
        try:
            return element_offset(place.buffer, place.indices)
        except LayoutError as error:
            raise DispatchError(error.message, span=place.span, hint=error.hint) from None

    def barrier(self, place: Element | Vector) -> Vector:
        return place if isinstance(place, Vector) else Vector(place.buffer, self.offset(place), span=place.span)

    def read(self, stmt: Let, place: Element) -> None:
        offset = self.offset(place)
        if place.buffer.space != "local":
            assert isinstance(stmt.value, Load), "elements are read by loads"
            self.builder.append(replace(stmt, value=replace(stmt.value, place=Vector(place.buffer, offset))))
            return
        if place.buffer.dtype.is_fp8 and not isinstance(offset, Const):
            # fp8 values can't be selected among registers by a run-time index, so the buffer is placed in local memory
            self.builder.address(place.buffer)
        index, starts = self.builder.choice(RegisterRun(place.buffer, offset, 1))
        value: Expr | None = None
        for start in starts:
            here = Load(Vector(place.buffer, start), span=stmt.value.span)
            value = here if value is None else build.where(build.equal(index, start), here, value)
        if value is None:
            raise DispatchError(
                f"{place.buffer.name} has no register at this index",
                span=place.span,
                hint=f"keep the index inside the shape of {place.buffer.name}, {place.buffer.shape}",
            )
        self.builder.append(replace(stmt, value=value))

    def write(self, stmt: Store, place: Element) -> None:
        offset = self.offset(place)
        if place.buffer.space != "local":
            self.builder.append(replace(stmt, place=Vector(place.buffer, offset, span=place.span)))
            return
        for (start,) in self.builder.each_start(RegisterRun(place.buffer, offset, 1)):
            self.builder.append(replace(stmt, place=Vector(place.buffer, start, span=place.span)))


#: class of statements -> the method that lowers them; statements of other classes are left unchanged
_LOWERED: dict[type[Stmt], Callable[[_Walk, Any], None]] = {
    TileOp: _Walk.operation, If: _Walk.branch, For: _Walk.loop, Loop: _Walk.loop, Let: _Walk.let, Store: _Walk.store,
    Atomic: _Walk.atomic, Arrive: _Walk.barrier_access, WaitPhase: _Walk.barrier_access, Expect: _Walk.expect,
    Sync: _Walk.sync, Instruction: _Walk.instruction, Alloc: _Walk.alloc, Breakpoint: _Walk.breakpoint,
}
