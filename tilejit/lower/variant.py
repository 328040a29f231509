"""What a variant is: one way to carry out a tile operation.

    operation ─▶ operands ─▶ when ─▶ plan ─▶ a Plan ─▶ emit ─▶ lane IR
                 `- conditions -´    |                 `- writes statements with a Builder
                    each says None   `- layout arithmetic; LayoutError, or a Decline,
                    or a reason         where it doesn't fit

A file of `variants/` has a docstring (*accepts*, *emits*, *source*), its `Plan`, `plan`, `emit` and `VARIANT`. The
engine takes the variant of the highest priority that no condition has a reason against and that doesn't decline.
A plan says what `explain` shows, its `Facts`, and what is moved, its `Moves`, which `proof/` compares with the layouts.
Of a `VectorPlan` both follow from where its vectors begin. Conditions that several variants share stand at the end.

    round    one pass of a loop over vectors: every thread of the scope that takes part moves or computes one
    turn     one thread in one round: `Turns` has them all
    issue    an instruction that a warp carries out together, such as ldmatrix, counted along the plan
    row      of `Moves`, a piece that one thread moves: the vector of a turn, or one of several pieces of an issue
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Set
from typing import Any, Generic, TypeVar

import numpy as np

from ..dataclass import dataclass, field
from ..dtypes import barrier, int32
from ..errors import LayoutError
from ..ir.arithmetic import build
from ..ir.nodes import TRUE, Expr, Region, TileOp
from ..isa import AsyncWork, Capability, Family
from ..ops.record import TILE
from ..scopes import SCOPES, THREAD, WARP
from ..target import Target
from .builder import Builder
from .recomputed import Recomputed
from .schedule.turns import Turns

__all__ = [
    "COPY_CONDITIONS", "KINDS", "SCOPE", "SHAPES", "TYPES", "WHOLE_WARPS", "AllMoves", "Condition", "Decline",
    "DispatchContext", "Facts", "Folds", "JointAccess", "Moves", "PRODUCT_CONDITIONS", "Passes", "Plan", "Products",
    "Reductions", "SharedFactor", "Staged", "Variant", "VectorPlan", "WarpgroupProducts", "among", "between",
    "copy_sides", "from_to", "lead_of", "local_side", "needs", "outside",
]

Array = np.ndarray
P = TypeVar("P", bound="Plan")


# without slots: `Variant[SomePlan](...)` sets an attribute, which slotted dataclasses refuse with a TypeError
@dataclass(frozen=True, kw_only=True)
class Variant(Generic[P]):
    """One way to carry out some tile operations.

    operations: names of the tile operations. priority: a multiple of ten, the highest that accepts wins;
    None for a variant that is chosen by name only.
    operands: conditions on the operands' kinds, number and spaces. when: conditions that are tested where those hold
    and may assume them. Who asks for the reasons gets those of all.
    honours: the optional operands that it carries out, by name; it declines an operation that has another.
    starts: the asynchronous work that it starts, for which users wait by a call of its own.
    plan: layout arithmetic, run when all hold; where it raises LayoutError it declines. emit: writes lane IR; it can't.
    """

    name: str
    operations: tuple[str, ...]
    priority: int | None
    operands: tuple[Condition, ...]
    when: tuple[Condition, ...]
    plan: Callable[[TileOp, DispatchContext], P | Decline]
    emit: Callable[[P, TileOp, Builder], None]
    honours: tuple[str, ...] = ()
    starts: tuple[AsyncWork, ...] = ()

    def accepts(self, op: TileOp, context: DispatchContext, tested: dict[Condition, str | None]) -> bool:
        """Whether `op` meets all conditions; tested: as of `reasons`, which takes longer."""
        if not _hold(self.operands, op, context, tested):
            return False
        for name in op.options:
            if name not in self.honours:
                return False
        return _hold(self.when, op, context, tested)

    def reasons(self, op: TileOp, context: DispatchContext, tested: dict[Condition, str | None]) -> tuple[str, ...]:
        """Why `op` doesn't meet the conditions: all reasons of the first tier in which there are any.

        tested: what the conditions say that other variants of the operation have, too; each is tested once.
        """
        failed = _failed(self.operands, op, context, tested)
        for name in op.options:
            if name not in self.honours:
                failed.append(self._refusal(op, name))
        return tuple(failed or _failed(self.when, op, context, tested))

    def _refusal(self, op: TileOp, option: str) -> str:
        """Why it doesn't carry out an optional operand."""
        operand = op.operand(option)
        if not self.starts or not isinstance(operand, Region) or operand.dtype != barrier:
            return f"takes no {option}; one is given"
        waits = " or ".join(f"tj.{work.wait}" for work in self.starts)
        return f"completes on {waits}; needs no barrier, got {operand.buffer.name}"

    def planned(self, op: TileOp, context: DispatchContext) -> P | Decline:
        """How `op`, which meets all conditions, is carried out, or why it isn't."""
        try:
            plan = self.plan(op, context)
        except LayoutError as error:
            return Decline((error.message,), error.hint)
        return plan if isinstance(plan, Decline) else _too_narrow(plan, op) or plan


@dataclass(frozen=True, slots=True)
class DispatchContext:
    """What an operation is dispatched for.

    threads: of the CTA. recomputed: the masks that can be computed again where it stands; None where it stands alone.
    """

    target: Target
    threads: int
    recomputed: Recomputed | None = field(default=None, compare=False, repr=False)

    def count(self, scope: str) -> int:
        """Threads of one scope that carry out an operation together."""
        return SCOPES[scope].threads(self.threads)


@dataclass(frozen=True, slots=True, eq=False)
class Condition:
    """One thing that a variant needs, or several do.

    test: the reason why an operation doesn't meet it, or None. hint: what to change then.
    """

    name: str
    test: Callable[[TileOp, DispatchContext], str | None]
    hint: str = ""


def _hold(
    tier: tuple[Condition, ...], op: TileOp, context: DispatchContext, tested: dict[Condition, str | None]
) -> bool:
    """Whether all conditions hold; `tested` has what is known of them already."""
    for condition in tier:
        if condition not in tested:
            tested[condition] = condition.test(op, context)
        if tested[condition] is not None:
            return False
    return True


def _failed(
    tier: tuple[Condition, ...], op: TileOp, context: DispatchContext, tested: dict[Condition, str | None]
) -> list[str]:
    """Why conditions don't hold; `tested` has what is known of them already."""
    reasons = []
    for condition in tier:
        if condition not in tested:
            tested[condition] = condition.test(op, context)
        reason = tested[condition]
        if reason is not None:
            reasons.append(reason)
    return reasons


@dataclass(frozen=True, slots=True)
class Decline:
    """Why a variant can't carry out an operation. hint: what to change."""

    reasons: tuple[str, ...]
    hint: str | None = None


def _too_narrow(plan: Plan, op: TileOp) -> Decline | None:
    """Why a plan moves fewer bits at a time than the call requires, or None."""
    required = op.attr("require_bits")
    if not isinstance(required, int):
        return None
    facts = plan.facts()
    bits = facts.vector_bits
    if bits is None or bits >= required:
        return None
    why = f": {facts.limit}" if facts.limit else ""
    return Decline(
        (f"moves {bits} bits at a time; require_bits={required}{why}",),
        "change what the reason names, or require fewer bits",
    )


class Plan(ABC):
    """How a variant carries out one operation: frozen and printable."""

    __slots__ = ()

    @property
    @abstractmethod
    def instructions(self) -> tuple[tuple[str, int], ...]:
        """(PTX mnemonic, times a thread)."""

    @abstractmethod
    def facts(self) -> Facts:
        """The figures that listings show and `require_bits` reads."""

    @abstractmethod
    def moves(self) -> AllMoves:
        """All that is moved, multiplied or combined, for `proof.prove`."""

    @abstractmethod
    def schedule(self) -> Array:
        """A table for users; what its columns are depends on the variant."""


@dataclass(frozen=True, slots=True)
class VectorPlan(Plan):
    """A plan in which each thread moves or computes vectors, one a round.

    vector_width: elements of a vector. rounds: vectors a thread, at most. threads: of the scope.
    limit: why vectors aren't wider, "" where nothing keeps them from it.
    A subclass that extends a method names its base, as `VectorPlan.moves(self)`: until Python 3.14 `super()` in a
    dataclass with slots means the class before it got them, and raises TypeError.
    """

    vector_width: int
    rounds: int
    threads: int
    limit: str

    @property
    @abstractmethod
    def regions(self) -> tuple[Region, ...]:
        """The operation's tiles, the destination first."""

    @abstractmethod
    def places(self, thread: Expr, round: Expr) -> tuple[Expr, ...]:
        """Where the vector of a thread in a round begins in each tile: its address, swizzled, or its register."""

    def takes_part(self, thread: Expr, round: Expr) -> Expr:
        """Whether a thread moves or computes anything in a round."""
        return TRUE

    def width_of(self, thread: Expr, round: Expr) -> Expr:
        """How many elements a thread's vector in a round has."""
        return build.const(self.vector_width, int32)

    @property
    def steps(self) -> tuple[int, ...]:
        """For each tile how far a vector's elements lie apart: 1, or 0 where one element serves them all."""
        return (1,) * len(self.regions)

    @property
    def vector_bits(self) -> int | None:
        """Bits of a memory access; None of work in registers."""
        return None

    def facts(self) -> Facts:
        width = "1 element" if self.vector_width == 1 else f"{self.vector_width} elements"
        return Facts(width, self.rounds, self.vector_bits, self.limit)

    def moves(self) -> Moves:
        """What the expressions come to, for every round of every thread."""
        turns = Turns(self.rounds, self.threads, self.regions)
        rows = turns.holding(self.takes_part(*turns.turn))
        places = turns.values(*self.places(*turns.turn))[rows]
        (width,) = turns.values(self.width_of(*turns.turn))[rows].T
        return Moves(turns.rounds_of[rows], turns.threads_of[rows], places, width, self.steps)

    def schedule(self) -> Array:
        """One row a vector: (round, thread, place on each source ..., place on the destination).

        Run-time starts are as near to 0 as they may be; run-time strides as those of a row-major tensor.
        """
        moves = self.moves()
        return np.column_stack([moves.issue, moves.thread, moves.places[:, 1:], moves.places[:, 0]])


@dataclass(frozen=True, slots=True)
class Facts:
    """A plan's figures.

    width: what one transfer moves, as text, "-" where a plan has no transfers.
    rounds: of a loop over vectors, or instructions of a warp.
    vector_bits: of one transfer's memory access; None where widths don't matter. limit: why it isn't wider, or "".
    cuts: which vectors go element by element, or "".
    """

    width: str
    rounds: int
    vector_bits: int | None = None
    limit: str = ""
    cuts: str = ""

    def __str__(self) -> str:
        return f"{self.width} in {self.rounds} rounds" + (f" (not wider: {self.limit})" if self.limit else "")


@dataclass(frozen=True, slots=True)
class JointAccess:
    """What several threads read or write together, or one for all: pieces of one side's memory.

    side: which tile of the operation. starts: addresses in elements. width: elements of each piece.
    align: of what each address must be a multiple, in elements.
    """

    side: int
    starts: Array
    width: int
    align: int


@dataclass(frozen=True, slots=True)
class Moves:
    """What the threads of one scope move or compute, a row for each piece that a thread moves.

    issue, thread: in which round, or by which of a warp's instructions, and by which thread of the scope; each of
    shape (rows,). An instruction that moves several pieces of a thread's has a row for each.
    places: of shape (rows, sides), where the first element lies on each side. The sides are the operation's tiles in
    its order, the destination first. A place in memory is an address in elements, after swizzling; in registers
    one of the thread's, in elements; in tensor memory lane * `target.TMEM_LANE` + column, in elements.
    width: of shape (rows,), how many elements.
    steps: for each side how far a row's elements lie apart: 1, or 0 where one element serves them all.
    accesses: a side's memory accesses where they aren't the rows themselves, at most one for each side.
    Run-time starts are as near to 0 as they may be, run-time strides as `launch_values` says; what lies past a
    tensor's edge is included.
    """

    issue: Array
    thread: Array
    places: Array
    width: Array
    steps: tuple[int, ...]
    accesses: tuple[JointAccess, ...] = ()

    def __post_init__(self) -> None:
        rows = len(self.issue)
        assert self.thread.shape == self.width.shape == (rows,)
        assert self.places.shape == (rows, len(self.steps))
        sides = [access.side for access in self.accesses]
        assert len(set(sides)) == len(sides) and set(sides) <= set(range(len(self.steps)))


@dataclass(frozen=True, slots=True)
class Products:
    """Which registers a warp's tensor instructions take, a row an instruction.

    m, n, k, bits: the instruction's shape, and the bits of a factor's element. threads: of the scope.
    acc, a, b: of shape (instructions, elements), the register of each element of a thread's fragments, in the order
    of the instruction: the same for every thread; -1 for sums that have no register of the accumulator.
    a_zeros, b_zeros: of shape (threads, instructions, elements), which elements count as 0, whatever the register has.
    """

    m: int
    n: int
    k: int
    bits: int
    threads: int
    acc: Array
    a: Array
    b: Array
    a_zeros: Array
    b_zeros: Array


@dataclass(frozen=True, slots=True)
class SharedFactor:
    """A factor that products read in shared memory. descriptors: of each, the buffer beginning at address 0.

    is_mn_major: rows of A, or columns of B, lie together.
    """

    descriptors: Array
    is_mn_major: bool


@dataclass(frozen=True, slots=True)
class WarpgroupProducts:
    """Which registers and memory a warpgroup's tensor instructions take, a row an instruction of 64 x n by k.

    acc, a: of shape (instructions, elements), the register of each element of a thread's fragments, in the order of the
    instruction: the same for every thread.
    """

    n: int
    k: int
    acc: Array
    a: Array | SharedFactor
    b: SharedFactor


@dataclass(frozen=True, slots=True)
class Reductions:
    """Which elements a reduction combines.

    dst: of shape (results,), each result's register. src: of shape (results, values), the registers of which a thread
    makes it. taken: of shape (threads, values), whether a thread takes these registers. partners: of shape
    (threads, partners), the threads whose values become each thread's result, itself among them.
    """

    dst: Array
    src: Array
    taken: Array
    partners: Array


@dataclass(frozen=True, slots=True)
class Folds:
    """Which elements a reduction combines, in which order.

    dst: of shape (values, results), each result's register of each value that is combined. src: of shape
    (values, results, slots), the registers that it is made of. order: of shape (threads, length), for each thread what
    its results are made of, in order: thread * slots + slot, and -1 where there is nothing.
    """

    dst: Array
    src: Array
    order: Array


@dataclass(frozen=True, slots=True)
class Passes:
    """What the threads of warps pass to each other, a row a round.

    sent, kept: of shape (rounds, threads), the first register of the source that each thread sends, and of the
    destination in which each keeps what it receives. sender: of the same shape, the thread from which it receives.
    width: elements of each.
    """

    sent: Array
    sender: Array
    kept: Array
    width: int


@dataclass(frozen=True, slots=True)
class Staged:
    """Operations that follow each other, each with its plan: what one writes the next one reads."""

    steps: tuple[tuple[TileOp, Plan], ...]


#: all that a plan moves
AllMoves = Moves | Products | WarpgroupProducts | Reductions | Folds | Passes | Staged

#: one instruction, or a family of which one form is enough
_Needed = Capability | Family[Any]


def _scope(op: TileOp, context: DispatchContext) -> str | None:
    if op.scope not in SCOPES:
        return f"needs a scope among {', '.join(SCOPES)}; got {op.scope}"
    need = context.count(op.scope)
    if need > context.threads:
        return f"a {op.scope} has {need} threads; the CTA has {context.threads}"
    return None


def _kinds(op: TileOp, context: DispatchContext) -> str | None:
    record = op.record
    fault = record.count_fault(op.operands)
    if fault is not None:
        return fault
    for operand, rule in zip(op.operands, record.operands, strict=False):
        if operand is None or rule.kind(is_region=isinstance(operand, Region)) is not None:
            continue
        if isinstance(operand, Region):
            return f"needs a scalar as {rule.name}; got {operand.buffer.name}, in {operand.buffer.space} memory"
        kind = rule.kinds[0]
        wanted = f"{rule.name} in memory or registers" if kind is TILE else f"a {kind.name} as {rule.name}"
        return f"needs {wanted}; got a scalar"
    return None


def _types(op: TileOp, context: DispatchContext) -> str | None:
    fault = op.record.type_fault(op.dtypes, dict(op.attrs))
    return None if fault is None else fault.message


def _rule_shapes(op: TileOp, context: DispatchContext) -> str | None:
    fault = op.record.shape_fault(op.shapes, dict(op.attrs))
    return None if fault is None else fault.message


def _dtypes(op: TileOp, context: DispatchContext) -> str | None:
    dst, src = copy_sides(op)
    if op.record.type_fault({"dst": dst.dtype, "src": src.dtype}, {}) is not None:
        return f"needs one dtype on both sides; got {dst.dtype} and {src.dtype} (cast converts)"
    return None


def _shapes(op: TileOp, context: DispatchContext) -> str | None:
    dst, src = copy_sides(op)
    if op.record.shape_fault(op.shapes, dict(op.attrs)) is None:
        return None
    return f"needs equal shapes; got {dst.shape} and {src.shape}"


def outside(op: TileOp, *spaces: str) -> str:
    """The tiles that live in none of `spaces`, as a list for a reason."""
    strangers: list[str] = []
    for tile in op.tiles.values():
        if tile.buffer.space not in spaces:
            strangers.append(f"{tile.buffer.name} is {tile.buffer.space}")
    return ", ".join(strangers)


def copy_sides(op: TileOp) -> tuple[Region, Region]:
    """Destination and source of a copy."""
    return op.region("dst"), op.region("src")


def local_side(op: TileOp) -> tuple[Region, Region, bool]:
    """Of a copy with one local side: that, the other, and whether it loads; then the destination is local."""
    dst, src = copy_sides(op)
    loads = dst.buffer.space == "local"
    return (dst, src, loads) if loads else (src, dst, loads)


def _whole_warps(op: TileOp, context: DispatchContext) -> str | None:
    """Why the scope isn't made of whole warps, or None."""
    if op.scope == THREAD.name:
        return "needs whole warps; called on one thread"
    threads = context.count(op.scope)
    return f"needs whole warps; the {op.scope} has {threads} threads" if WARP.left_over(threads) else None


def lead_of(src: Region) -> str:
    """Whose order a copy follows: the global side's, for coalescing."""
    return "src" if src.buffer.space == "global" else "dst"


def from_to(src: str, dst: str) -> Condition:
    """Needs a source in one space and a destination in the other."""
    return _memory_pair(f"{src} -> {dst}", {(src, dst)})


def between(one: str, *others: str) -> Condition:
    """Needs one side in a space and the other side in one of the other spaces."""
    pairs = {pair for other in others for pair in ((one, other), (other, one))}
    return _memory_pair(f"{one} <-> {' or '.join(others)}", pairs)


def among(*spaces: str) -> Condition:
    """Needs both sides in some of the spaces."""
    *first, last = spaces
    return _memory_pair(f"among {', '.join(first)} and {last}", {(src, dst) for src in spaces for dst in spaces})


def _memory_pair(text: str, pairs: Set[tuple[str, str]]) -> Condition:
    """Needs (source, destination) in one of `pairs` of spaces. text: these, for the reason."""

    def test(op: TileOp, context: DispatchContext) -> str | None:
        tiles = op.tiles
        # a scalar is for the condition on kinds to refuse
        if "dst" not in tiles or "src" not in tiles:
            return None
        src, dst = tiles["src"].buffer.space, tiles["dst"].buffer.space
        return None if (src, dst) in pairs else f"moves {text}; got {src} -> {dst}"

    return Condition("memory pair", test)


def needs(instruction: _Needed | Callable[[TileOp], _Needed], what: str = "", hint: str = "") -> Condition:
    """Needs a target that has an instruction, which may depend on the operation.

    what: how the reason calls it, where that isn't the instruction's name.
    """

    def test(op: TileOp, context: DispatchContext) -> str | None:
        needed = instruction if isinstance(instruction, (Capability, Family)) else instruction(op)
        missing = needed.missing(context.target)
        return None if missing is None else f"{what or needed.name} {missing}"

    return Condition("instruction", test, hint)


SCOPE = Condition("scope", _scope)
WHOLE_WARPS = Condition("whole warps", _whole_warps)

#: the operands are what the table of tile operations says: regions or scalars, as many
KINDS = Condition("operands", _kinds)

#: the operands' types are what the operation's rule says
TYPES = Condition("types", _types)

#: the operands' shapes are what the operation's rule says
SHAPES = Condition("shapes", _rule_shapes)

#: what every product needs
PRODUCT_CONDITIONS = (SCOPE, TYPES, SHAPES)

#: what every copy needs of two regions
COPY_CONDITIONS = (SCOPE, Condition("dtype", _dtypes), Condition("shape", _shapes))
