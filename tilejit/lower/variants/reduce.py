"""Reductions of local tiles: in each thread, then across lanes, then through shared memory.

All variants but `in_order` plan a `Reducing`; they differ in which threads share a result.

registers: no two threads share a result.
  accepts: a local source and a local destination, both owned by exactly the threads of the scope; kept axes distributed
    over the same threads in both; the reduced axes in registers only.
  emits: a balanced tree over the registers of each result, in the order of indices except for packed minima and maxima.
    Padding is left out if it is known at compile time, and replaced by the identity otherwise.

shuffle: lanes of a warp share a result.
  accepts: like `registers`, but the reduced axes are distributed over lanes whose indices differ in single bits; the
    scope has whole warps.
  emits: the tree of `registers`; then for each such bit, the lowest first, a shuffle and the operation per result, or
    fewer of both if lanes divide the results among themselves. A result that all lanes share takes one `redux.sync` if
    the target has it for the operation and the type.

shared: threads beyond the reach of shuffles share a result.
  accepts: like `registers`, but the reduced axes are distributed over several warps, partial warps, or lanes whose
    number isn't a power of two.
  emits: the tree of `registers`, and the shuffles of `shuffle` as far as they reach. Then the lowest thread with each
    partial result stores it to shared memory, the scope synchronizes, and every thread loads the partials of its
    results in vectors and combines them in a tree, in ascending order of threads. If whole warps share results with 16
    or 32 partials, each lane loads one partial, and shuffles combine them. Another barrier precedes the stores if the
    memory may still be read.

vote: all threads of the scope share each result of `any` or `all`.
  accepts: `any` and `all`, with operands as for `registers`, but the reduced axes are distributed over threads; a
    scope of whole warps; several results only if the scope is a warp.
  emits: the tree of `registers`, and a vote per result: of a warp's lanes, or at the scope's barrier.

in_order: a user's function that is associative, but possibly not commutative (`moves/fold.py`).
  accepts: local sources and destinations, all owned by exactly the threads of the scope; equal indices of the sources
    in the same threads; kept axes distributed over the same threads in source and destination.
  emits: the function for each digit of the reduced index, fastest first, so that the left operand always comes from
    earlier elements than the right one: a balanced tree over registers, shuffles between lanes whose indices differ in
    single bits, and otherwise shared memory, which all threads read. Padding is skipped: if the right operand holds
    only padding, the left one is kept.

scan: a user's function for each prefix of the elements along an axis (`moves/scan.py`).
  accepts: local tiles of one shape, distributed over exactly the threads of the scope in the same way.
  emits: a running combination in each thread's runs of registers; for each bit of the lane, a shuffle and a
    combination; for other threads, one barrier, after which each thread combines all totals, or each lane reads one
    and lanes combine them. Then the totals of all preceding blocks are combined with each register.

The layouts alone determine the order of operations, except for packed minima and maxima, `redux` and votes. All
threads that share a result end up with the same bits.
source: tilejit/lower/README.md, "Reductions"; PTX ISA, "shfl.sync", "redux.sync", "vote.sync" and "bar.red".
"""

from __future__ import annotations

import numpy as np

from ...dataclass import dataclass, replace
from ...dtypes import int32
from ...errors import LayoutError
from ...ir.arithmetic import build, facts
from ...ir.arithmetic.evaluate import evaluate
from ...ir.nodes import Buffer, Expr, Instruction, Load, Store, TileOp, Var, Vector
from ...isa import ROWS
from ...isa.barriers import BARRIERS, VOTES
from ...isa.convert import PAIRS, Pair
from ...isa.warp import REDUX, SHUFFLE_XOR, Redux
from ...ops import fold
from ...ops.reduce import REDUCTION_OPERATIONS
from ...remember import remembered_pair
from ...scopes import SCOPES, WARP
from ...target import WARP as LANES
from ...target import Target
from ..builder import Builder
from ..moves.combining import Combining, Partial, SharedPartials, Shuffles, by_redux, by_vote, exchanged
from ..moves.fold import Folding, plan_fold
from ..moves.scan import plan_scan
from ..plans import Facts
from ..plans import Plan as PlanBase
from ..schedule.shares import ResultShares
from ..variant import RULE_CONDITIONS, Condition, DispatchContext, Variant, tiles_in

Array = np.ndarray

#: the thread index in conditions that are evaluated for all threads
_THREAD = Var("reduction.thread", int32)


@dataclass(frozen=True, slots=True)
class Reducing(PlanBase):
    """The plan of a reduction of local tiles."""

    operation: str
    scope: str
    threads: int
    cta_threads: int
    combining: Combining
    #: the registers and threads that are combined into each result
    shares: ResultShares
    #: name of the instruction that combines the lanes in place of shuffles, or ""
    redux: str
    #: name of the packed instruction that combines pairs of elements in a thread, or ""
    pairs: str = ""
    #: name of the vote that returns each result to all threads, or ""
    vote: str = ""

    @property
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(name, count per thread), never empty; a name is a mnemonic, or operation and type if LLVM selects it."""
        counted = self._counted()
        return tuple([(name, times) for name, times in counted if times]) or (counted[0],)

    def _counted(self) -> list[tuple[str, int]]:
        shares, results = self.shares, self.shares.results.count
        combined = f"{self.operation}.{self.combining.dtype}"
        if self.vote:
            return [(combined, results * (len(shares.slots) - 1)), (ROWS[self.vote].mnemonic, results)]
        by_lanes = self._shared_partials(_THREAD).by_lanes
        from_shared = shares.partials - 1 if by_lanes is None else by_lanes.steps
        single = len(shares.slots) if not self.pairs else 2 * len(set(shares.counts(_THREAD)))
        steps = results * (single - 1 + from_shared) + (0 if self.redux else self.shuffles.steps)
        shuffles = (0 if self.redux else self.shuffles.count) + (0 if by_lanes is None else results * by_lanes.count)
        made = [(combined, steps)]
        if self.pairs:
            made.insert(0, (self.pairs, results * (len(shares.slots) - single) // 2))
        if self.redux:
            made.append((self.redux, results))
        if shuffles:
            made.append((SHUFFLE_XOR.mnemonic, shuffles * self.combining.words))
        if shares.members:
            made.append((BARRIERS[SCOPES[self.scope]].mnemonic, 1))
        return made

    @property
    def shuffles(self) -> Shuffles:
        return Shuffles(self.shares.results.count, self.shares.lanes)

    def facts(self) -> Facts:
        return Facts("-", self.shares.results.count)

    def schedule(self) -> Array:
        """Return one row per result: (its register, the thread's source registers that are combined into it ...)."""
        dst, src = (
            np.array(list(self.shares.each_result(name))) + int(evaluate(self.shares.tiles[name].start, {}))
            for name in ("dst", "src")
        )
        return np.column_stack([dst, src[:, None] + np.array([slot.register for slot in self.shares.slots])])

    def emit(self, op: TileOp, b: Builder) -> None:
        thread, tiles = b.thread(self.scope, self.threads), self.shares.tiles
        src, dst = op.region("src").buffer, op.region("dst").buffer
        for first_src, first_dst in b.each_start(tiles["src"].touched(1), tiles["dst"].touched(1)):
            partials = self._among_threads(b, self._in_threads(b, src, first_src, thread), thread)
            for register, partial in zip(self.shares.each_result("dst"), partials, strict=True):
                value = self.combining.result(partial, dst.dtype)
                b.append(Store(Vector(dst, build.add(first_dst, register)), value, span=b.span))

    def _in_threads(self, b: Builder, src: Buffer, first: Expr, thread: Expr) -> list[Partial]:
        """Combine the registers of each result. first: index of the source's first register."""
        slots = self.shares.slots
        conditions = self.shares.counts(thread)
        named = {number: b.let("counts", cond) for number, cond in {id(cond): cond for cond in conditions}.items()}
        counts = [named[id(cond)] for cond in conditions]
        index = b.let("index", self.shares.index_of(thread)) if self.combining.reduction.picks else None
        partials = []
        for register in self.shares.each_result("src"):
            places = [Vector(src, build.add(first, register + slot.register)) for slot in slots]
            if self.pairs:
                places, kept = self._by_pairs(b, places, counts)
            else:
                kept = counts
            entered = [self.combining.entered(Load(at), slot.index) for at, slot in zip(places, slots, strict=False)]
            made = self.combining.tree(b, entered, in_order=True, counts=kept)
            partials.append(self.combining.named(b, made if index is None else self.combining.moved(made, index)))
        return partials

    def _by_pairs(self, b: Builder, places: list[Vector], counts: list[Expr]) -> tuple[list[Vector], list[Expr]]:
        """Combine the register pairs of each condition into one pair; return the elements left and their conditions."""
        left: list[Vector] = []
        for cond in dict.fromkeys(counts):
            level = [Vector(at.buffer, at.offset, 2) for at, each in zip(places, counts, strict=True) if each == cond]
            level = level[::2]
            while len(level) > 1:
                joined = [self._pair(b, low, high) for low, high in zip(level[::2], level[1::2], strict=False)]
                level = [*joined, *level[len(level) & ~1 :]]
            left.append(level[0])
        elements = [Vector(pair.buffer, build.add(pair.offset, k)) for pair in left for k in range(2)]
        return elements, [cond for cond in dict.fromkeys(counts) for _ in range(2)]

    def _pair(self, b: Builder, low: Vector, high: Vector) -> Vector:
        pair = Vector(b.scratch("pair", low.buffer.dtype, 2), build.const(0, int32), 2)
        b.append(Instruction(self.pairs, (pair,), (low, high), span=b.span))
        return pair

    def _among_threads(self, b: Builder, partials: list[Partial], thread: Expr) -> list[Partial]:
        shares = self.shares
        if self.vote:
            return by_vote(b, self.combining, ROWS[self.vote], self.cta_threads, partials)
        if self.redux:
            partials = by_redux(b, self.combining, self.redux, partials)
        elif shares.lanes:
            partials = self.shuffles.emit(b, self.combining, partials, thread)
        if not shares.members:
            return partials
        return exchanged(b, self.combining, self._shared_partials(thread), partials)

    def _shared_partials(self, thread: Expr) -> SharedPartials:
        lane = build.mod(thread, LANES) if 1 << len(self.shares.lanes) == LANES else None
        return SharedPartials(self.scope, self.cta_threads, self.shares.gathering(thread), lane)


@remembered_pair
def _planned(op: TileOp, context: DispatchContext) -> Reducing:
    """Plan a reduction of local tiles, or raise LayoutError. Cached because each variant requests the plan."""
    reduction = op.record.reduction
    assert reduction is not None, f"{op.name} is not a reduction"
    combining = Combining(reduction, reduction.combines_in(op.region("src").dtype, op.region("dst").dtype))
    threads = context.count(op.scope)
    shares = ResultShares.of(op, threads)
    redux = _redux(combining, context.target) if 1 << len(shares.lanes) == LANES else ""
    pairs = _pairs(op, combining, shares, context.target)
    return Reducing(op.name, op.scope, threads, context.threads, combining, shares, redux, pairs)


def _pairs(op: TileOp, combining: Combining, shares: ResultShares, target: Target) -> str:
    """Return the name of the packed minimum or maximum of 16-bit floats; "" if it can't combine the registers."""
    form, start = Pair(combining.reduction.combines, op.region("src").dtype), shares.tiles["src"].start
    if combining.reduction.picks or not form.dtype.is_half or form not in PAIRS.forms():
        return ""
    registers, conditions = [slot.register for slot in shares.slots], shares.counts(_THREAD)
    are_consecutive = all(high == low + 1 for low, high in zip(registers[::2], registers[1::2], strict=False))
    same_conditions = all(low == high for low, high in zip(conditions[::2], conditions[1::2], strict=False))
    firsts = [start, *[build.const(r, int32) for r in (*shares.each_result("src"), *registers[::2])]]
    are_even = all(facts.multiple_of(first) % 2 == 0 for first in firsts)
    is_possible = len(registers) % 2 == 0 and are_consecutive and same_conditions and are_even
    if not is_possible or PAIRS.row(form).missing(target) is not None:
        return ""
    return PAIRS.row(form).name


def _redux(combining: Combining, target: Target) -> str:
    form = Redux(combining.reduction.combines, combining.dtype)
    has_one = not combining.reduction.picks and form in REDUX.forms()
    return REDUX.row(form).name if has_one and REDUX.row(form).missing(target) is None else ""


def _in_registers(op: TileOp, context: DispatchContext) -> Reducing:
    plan = _planned(op, context)
    if plan.shares.sharers > 1:
        raise LayoutError(f"{plan.shares.sharers} threads share a result")
    return plan


def _by_shuffles(op: TileOp, context: DispatchContext) -> Reducing:
    plan = _planned(op, context)
    if plan.shares.sharers == 1:
        raise LayoutError("no two threads share a result")
    if plan.shares.members:
        partials = plan.shares.partials
        raise LayoutError(f"shuffles don't reach the {partials} partials of a result: {plan.shares.apart}")
    return plan


def _through_shared(op: TileOp, context: DispatchContext) -> Reducing:
    plan = _planned(op, context)
    if not plan.shares.members:
        raise LayoutError("no result has partials that must go through shared memory")
    return plan


def _by_votes(op: TileOp, context: DispatchContext) -> Reducing:
    plan, scope = _planned(op, context), SCOPES[op.scope]
    if plan.shares.sharers == 1:
        raise LayoutError("no two threads share a result")
    if plan.shares.groups > 1:
        raise LayoutError(f"{plan.shares.groups} groups of threads have different results")
    if scope is not WARP and plan.shares.results.count > 1:
        raise LayoutError(f"{plan.shares.results.count} results would need a barrier each")
    return replace(plan, vote=VOTES[op.name, scope].name)


def _voters(op: TileOp, context: DispatchContext) -> str | None:
    threads = context.count(op.scope)
    return None if threads % LANES == 0 else f"votes need whole warps; the {op.scope} has {threads} threads"


_REDUCTIONS = tuple(op.name for op in REDUCTION_OPERATIONS)
_TESTS = tuple(op.name for op in REDUCTION_OPERATIONS if op.reduction is not None and op.reduction.tests)
_OPERANDS = (
    tiles_in("local", does="reduces local tiles to local ones", remedy=" (load it first, store it afterwards)"),
)

REGISTERS = Variant(
    name="registers",
    operations=_REDUCTIONS,
    priority=30,
    operands=_OPERANDS,
    when=RULE_CONDITIONS,
    plan=_in_registers,
    emit=Reducing.emit,
)
SHUFFLE = replace(REGISTERS, name="shuffle", priority=20, plan=_by_shuffles)
SHARED = replace(REGISTERS, name="shared", priority=10, plan=_through_shared)
VOTE = replace(
    REGISTERS,
    name="vote",
    operations=_TESTS,
    when=(*RULE_CONDITIONS, Condition("voters", _voters)),
    plan=_by_votes,
)
IN_ORDER = Variant(
    name="in_order",
    operations=(fold.REDUCE.name,),
    priority=10,
    operands=_OPERANDS,
    when=RULE_CONDITIONS,
    plan=plan_fold,
    emit=Folding.emit,
    # the destinations and sources of further values
    honours=tuple(name for pair in fold.PAIRS[1:] for name in pair),
)
SCAN = replace(
    IN_ORDER, name="scan", operations=(fold.SCAN.name,), plan=plan_scan, honours=(*IN_ORDER.honours, *fold.INITIAL)
)
