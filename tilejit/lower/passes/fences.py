"""Fences that order memory accesses of different proxies, and accesses of different warpgroups to tensor memory.

Ordinary accesses are by the generic proxy; TMA, bulk copies and wgmma use the async proxy. Only a fence in the thread
that made an ordinary access orders it before a later access by the async proxy. Memory is *dirty*, until the next
fence, after

    an ordinary write      if the kernel also accesses the memory by the async proxy
    an ordinary read       if the kernel writes the memory by the async proxy
    a wait for cp.async    if cp.async writes the memory, and the kernel also accesses it by the async proxy
    an acquire             if the memory is global, and the kernel accesses it by the async proxy

While memory is dirty, all active threads execute a fence before they publish their accesses (at a barrier, an arrival
or a release), and before an access to dirty memory by the async proxy. So a barrier orders accesses of both proxies. No
fence is needed after the wait for an access by the async proxy, or between two such accesses.

Tensor memory that one warpgroup hands over to another by a barrier, a ring or a flag needs other fences:

    tcgen05.fence::before_thread_sync       directly before an arrival or a release (and its implicit synchronization)
    tcgen05.fence::after_thread_sync        directly after a wait or an acquire

They are inserted only where threads that access tensor memory may execute them, and only in CTAs of several warpgroups,
because the warps of one warpgroup access different lanes. A barrier of a smaller scope than the CTA gets both fences:
one of its threads may arrive or wait on behalf of the others. Code generation adds the fences of the CTA's barrier.

source: PTX ISA, "tcgen05.fence".
"""

from __future__ import annotations

from collections.abc import Mapping

from ...dataclass import dataclass, replace
from ...dtypes import barrier
from ...errors import DispatchError
from ...ir import walk
from ...ir.analyses.flow import Analysis, solve
from ...ir.analyses.overlap import are_apart
from ...ir.analyses.thread_values import ThreadValues, comers
from ...ir.nodes import (
    Arrive,
    Atomic,
    Descriptor,
    Element,
    For,
    If,
    Instruction,
    Jump,
    Kernel,
    Let,
    Load,
    Move,
    Region,
    Simple,
    Stmt,
    Store,
    Sync,
    TileOp,
    Var,
    Vector,
    WaitPhase,
)
from ...ir.params import PointerParam, TensorMapParam
from ...isa import ROWS, Direction, Kind, Row
from ...isa.barriers import BAR_ARRIVE_NUMBERED, SYNCHRONIZING
from ...isa.cp_async import CP_ASYNC
from ...isa.fences import FENCE, PROXY_ASYNC_OF
from ...isa.hints import with_hints
from ...isa.tcgen05 import FENCE_AFTER, FENCE_BEFORE, LD, ST
from ...isa.tma import MULTICAST_LOADS
from ...ops.copies import MULTICAST
from ...scopes import CTA
from ...source import Span
from ...target import WARPGROUP

#: (memory space, name of the root buffer or of the argument)
_Memory = tuple[str, str]
_State = frozenset[_Memory]

#: names of the instructions that write the shared memory of several CTAs
_MULTICAST = with_hints(MULTICAST_LOADS.rows())
#: names of the barrier and fence instructions, which publish accesses
_ORDERING = frozenset(row.name for row in (*SYNCHRONIZING, BAR_ARRIVE_NUMBERED, *FENCE.rows()))
#: names of the instructions that load from or store to tensor memory, and of the barrier instructions
_TENSOR_ACCESSES = frozenset(row.name for row in (*LD.rows(), *ST.rows()))
_BARRIERS = frozenset(row.name for row in SYNCHRONIZING)


def with_fences(kernel: Kernel) -> Kernel:
    """Insert the fences that a kernel at lane level needs between proxies and where tensor memory is handed over."""
    return _with_tensor_fences(_with_proxy_fences(kernel))


def _with_proxy_fences(kernel: Kernel) -> Kernel:
    accesses = _Accesses.of(kernel)
    if not accesses.touched:
        return kernel
    states = solve(_Dirty(accesses), kernel.body, frozenset[_Memory]())
    fenced: dict[int, tuple[Stmt, ...]] = {}
    for number, (stmt, state) in enumerate(zip(walk.statements(kernel.body), states, strict=True)):
        spaces = {space for space, _ in accesses.fenced(stmt, state)} if state else ()
        if spaces:
            fenced[number] = (*(_fence(space, stmt.span) for space in sorted(spaces)), stmt)
    return replace(kernel, body=walk.edited(kernel.body, fenced)) if fenced else kernel


def check_multicast(tile: Kernel, lane: Kernel) -> None:
    """Raise DispatchError if ordinary instructions may access memory that multicast copies of other CTAs fill.

    The release of this memory to the other CTAs orders only accesses by the async proxy that have been waited for.
    Ordinary accesses to parts of a buffer that provably no multicast copy fills are allowed.
    """
    copies = [op for op in walk.each(tile.body, TileOp) if op.attr(MULTICAST.name) is not None]
    accesses = _Accesses.of(lane) if copies else None
    if accesses is None or not accesses.multicast:
        return
    filled = [region for op in copies for region in op.written]
    touched: dict[Span | None, list[Region | Element]] = {}
    for stmt in walk.statements(tile.body):
        touched.setdefault(stmt.span, []).extend(p for p, _ in walk.in_memory(stmt) if not isinstance(p, Vector))
    for stmt in walk.statements(lane.body):
        name = next((name for (_, name), _ in accesses.ordinary(stmt) if ("shared", name) in accesses.multicast), None)
        places = [place for place in touched.get(stmt.span, ()) if place.buffer.root.name == name]
        fills = [region for region in filled if region.buffer.root.name == name]
        if name is not None and not (places and all(are_apart(a, b) for a in places for b in fills)):
            raise DispatchError(
                f"other CTAs copy to {name} with multicast=: only products of warpgroups and copies by TMA may read "
                "the filled memory, and no thread may write it",
                span=stmt.span,
                hint="read it with gemm_async, or copy it without multicast=; only what multicast fills is refused",
            )


def _fence(space: str, span: Span | None) -> Instruction:
    return Instruction(PROXY_ASYNC_OF[space].name, (), (), span)


@dataclass(frozen=True, slots=True)
class _Accesses:
    #: id of an instruction -> the memory that it accesses by the async proxy
    issued: Mapping[int, _State]
    #: arguments that may alias each other
    overlapping: frozenset[str]
    #: memory accessed by the async proxy
    touched: _State
    #: memory written by the async proxy
    overwritten: _State
    #: shared memory that cp.async writes
    staged: _State
    #: shared memory that other CTAs of the cluster write
    multicast: _State

    @staticmethod
    def of(kernel: Kernel) -> _Accesses:
        maps = {p.var.name: p.of for p in kernel.params if isinstance(p, TensorMapParam)}
        overlapping = frozenset([p.of for p in kernel.params if isinstance(p, PointerParam) and not p.noalias])
        issued: dict[int, _State] = {}
        overwritten, staged, multicast = set[_Memory](), set[_Memory](), set[_Memory]()
        for stmt in walk.each(kernel.body, Instruction):
            row = ROWS[stmt.name]
            if row.asynchronous:
                accesses = [*_addressed(row, stmt), *_described(row, stmt, maps)]
                issued[id(stmt)] = frozenset([memory for memory, _ in accesses])
                overwritten.update([memory for memory, writes in accesses if writes])
                if stmt.name in _MULTICAST:
                    multicast.update([memory for memory, _ in _addressed(row, stmt)])
            elif row.starts is CP_ASYNC:
                staged.update([memory for memory, writes in _addressed(row, stmt) if writes])
        touched = frozenset[_Memory]().union(*issued.values())
        return _Accesses(issued, overlapping, touched, frozenset(overwritten), frozenset(staged), frozenset(multicast))

    def ordinary(self, stmt: Stmt) -> list[tuple[_Memory, bool]]:
        """Return (memory, True if written) for each access of a statement that isn't by the async proxy."""
        if isinstance(stmt, Instruction):
            return [] if id(stmt) in self.issued else _addressed(ROWS[stmt.name], stmt)
        return [((place.buffer.space, place.buffer.root.name), writes) for place, writes in walk.in_memory(stmt)]

    def dirtied(self, stmt: Stmt) -> _State:
        dirty: set[_Memory] = set()
        for memory, writes in self.ordinary(stmt):
            dirty |= self._same(memory) & (self.touched if writes else self.overwritten)
        if isinstance(stmt, Instruction) and ROWS[stmt.name].completes is CP_ASYNC:
            dirty |= self.staged & self.touched
        if acquires(stmt):
            # other threads may have accessed the memory before the matching release
            dirty |= {memory for memory in self.touched if memory[0] == "global"}
        return frozenset(dirty)

    def fenced(self, stmt: Stmt, dirty: _State) -> _State:
        """Return the dirty memory that needs a fence before a statement."""
        if not dirty:
            return dirty
        if isinstance(stmt, (Sync, Arrive)) or releases(stmt):
            return dirty
        if isinstance(stmt, If) and not self._issues(stmt):
            return frozenset()
        if not isinstance(stmt, If):
            return dirty & self.issued.get(id(stmt), frozenset())
        return dirty.intersection([memory for each in stmt.then for memory in self.issued.get(id(each), ())])

    def _issues(self, stmt: If) -> bool:
        """True for an `If` without `else`, such as a leader's, that only uses the async proxy or commits async work."""
        return not stmt.orelse and all(
            isinstance(each, Instruction) and (ROWS[each.name].asynchronous or ROWS[each.name].commits is not None)
            for each in stmt.then
        )

    def _same(self, memory: _Memory) -> _State:
        space, name = memory
        if space == "global" and name in self.overlapping:
            return frozenset({memory, *(("global", other) for other in self.overlapping)})
        return frozenset({memory})


def _addressed(row: Row, stmt: Instruction) -> list[tuple[_Memory, bool]]:
    """Return (memory, True if written) for each access of an instruction by an address, except to barriers."""
    vectors = [v for v in stmt.inputs if isinstance(v, Vector) and v.buffer.space != "local"]
    if not vectors:
        return []
    operands = [operand for operand in row.operands if operand.kind is Kind.ADDRESS]
    return [
        ((vector.buffer.space, vector.buffer.root.name), operand.direction is not Direction.IN)
        for operand, vector in zip(operands, vectors, strict=False) if vector.buffer.dtype != barrier
    ]


def _described(row: Row, stmt: Instruction, arguments: Mapping[str, str]) -> list[tuple[_Memory, bool]]:
    """Return (memory, True if written) for each access of an instruction by a descriptor or a tensor map.

    arguments: name of a tensor map -> the argument that it describes.
    """
    stores = any(o.space == "shared" and o.direction is Direction.IN for o in row.operands)
    accesses: list[tuple[_Memory, bool]] = []
    for each in stmt.inputs:
        if isinstance(each, Descriptor):
            accesses.append((("shared", each.place.buffer.root.name), False))
        elif isinstance(each, Var) and each.name in arguments:
            accesses.append((("global", arguments[each.name]), stores))
    return accesses


def releases(stmt: Stmt) -> bool:
    """True for barrier instructions and `fence.acq_rel`, and for stores and atomic operations with release semantics.

    The statements `Sync` and `Arrive` are not included.
    """
    if isinstance(stmt, Instruction):
        return stmt.name in _ORDERING
    return isinstance(stmt, (Store, Atomic)) and stmt.order.startswith(("release", "acq_rel"))


def acquires(stmt: Stmt) -> bool:
    """True for loads and atomic operations with acquire semantics."""
    if isinstance(stmt, Let) and isinstance(stmt.value, Load):
        return stmt.value.order.startswith("acquire")
    return isinstance(stmt, Atomic) and stmt.order.startswith(("acquire", "acq_rel"))


class _Dirty(Analysis[_State]):
    """Analysis of the memory that may be dirty before a statement, given the fences inserted before earlier ones."""

    kinds = frozenset({If, Sync, Arrive, Instruction, Let, Store, Move, Atomic})

    def __init__(self, accesses: _Accesses) -> None:
        self._accesses = accesses
        # id of a statement -> the memory that it makes dirty, for statements that make any dirty
        self._dirtied: dict[int, _State] = {}

    def join(self, first: _State, second: _State) -> _State:
        return first | second

    def concerns(self, stmt: Simple | If | For) -> bool:
        if not isinstance(stmt, (If, Sync, Arrive, Instruction)) and not walk.in_memory(stmt):
            return False
        dirtied = self._accesses.dirtied(stmt)
        if dirtied:
            self._dirtied[id(stmt)] = dirtied
        return bool(dirtied) or bool(self._accesses.fenced(stmt, self._accesses.touched))

    def step(self, stmt: Simple | Jump, state: _State) -> _State:
        return self._after_fence(stmt, state) | self._dirtied.get(id(stmt), frozenset())

    def branch(self, stmt: If, state: _State) -> tuple[_State, _State]:
        inside = self._after_fence(stmt, state)
        return inside, inside

    def _after_fence(self, stmt: Stmt, state: _State) -> _State:
        spaces = [space for space, _ in self._accesses.fenced(stmt, state)]
        return frozenset([memory for memory in state if memory[0] not in spaces]) if spaces else state


def _with_tensor_fences(kernel: Kernel) -> Kernel:
    if kernel.threads <= WARPGROUP or not any(i.name in _TENSOR_ACCESSES for i in walk.each(kernel.body, Instruction)):
        return kernel
    reaching = comers(kernel.body, ThreadValues.of_conditions(kernel))
    every = list(zip(walk.statements(kernel.body), reaching, strict=True))
    if all(isinstance(stmt, Sync) or not (_hands_over(stmt) or _takes_over(stmt)) for stmt, _ in every):
        return kernel
    accessing = 0
    for stmt, coming in every:
        if isinstance(stmt, Instruction) and stmt.name in _TENSOR_ACCESSES:
            accessing |= coming
    fenced: dict[int, tuple[Stmt, ...]] = {}
    for number, (stmt, coming) in enumerate(every):
        before = (Instruction(FENCE_BEFORE.name, (), (), stmt.span),) if _hands_over(stmt) else ()
        after = (Instruction(FENCE_AFTER.name, (), (), stmt.span),) if _takes_over(stmt) else ()
        if coming & accessing and (before or after):
            fenced[number] = (*before, stmt, *after)
    return replace(kernel, body=walk.edited(kernel.body, fenced))


def _hands_over(stmt: Stmt) -> bool:
    """True if `stmt`, other than the CTA's barrier, lets other threads rely on this thread's earlier accesses."""
    return isinstance(stmt, Arrive) or _is_partial_barrier(stmt) or releases(stmt)


def _takes_over(stmt: Stmt) -> bool:
    """True if `stmt`, other than the CTA's barrier, lets this thread rely on other threads' earlier accesses."""
    if isinstance(stmt, Instruction):
        return stmt.name in _BARRIERS
    return isinstance(stmt, WaitPhase) or _is_partial_barrier(stmt) or acquires(stmt)


def _is_partial_barrier(stmt: Stmt) -> bool:
    return isinstance(stmt, Sync) and stmt.scope != CTA.name
