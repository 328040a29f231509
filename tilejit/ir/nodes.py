"""The IR: tile operations and lane operations are one language at three levels.

Scalar expressions, memory and places are in `values`, kernel parameters in `params`; here are statements and kernels.

*Open level*, what the frontend makes: `TileOp`s on `Region`s, `Element` reads and writes, scalar control flow. Local
tiles that nobody laid out are `Open`.
*Tile level*: the same, and every tile has a layout.
*Lane level*, what lowering leaves: one thread's view. No `TileOp` and no `Element` remains; memory is touched
through `Vector`s, flat runs of a buffer's storage, by `Move`, `Load` and `Store`; local buffers are registers, or
local memory where `Alloc` says so.

Nodes are frozen and compare by what they say; `span` is left out of equality. Operands are fields in the order in
which they print. Statements hold tuples of statements; a `Var` carries the facts known of its value.
"""

from __future__ import annotations

from collections.abc import Mapping

from ..dataclass import field, lean
from ..dtypes import DType
from ..ops.copies import INDEX
from ..ops.record import AttributeValue, TileOperation
from ..ops.tile import TILE_OPERATIONS
from ..source import Span
from .params import Param
from .placements import MemoryPlacement
from .values import (
    FALSE,
    ORDERS,
    SPECIALS,
    TRUE,
    Buffer,
    Cast,
    Const,
    Element,
    Expr,
    Gathered,
    Load,
    Op,
    Open,
    Region,
    Special,
    Strided,
    Var,
    Vector,
)

__all__ = [
    "Alloc", "Arrive", "Assert", "Assign", "Atomic", "Break", "Buffer", "BufferView", "Cast", "Const", "Continue",
    "Declare", "Descriptor", "Element", "Expect", "Expr", "FALSE", "For", "Gathered", "If", "Input", "Instruction",
    "Jump", "Kernel", "Let", "Load", "Loop", "Move", "ORDERS", "Op", "Open", "Print", "RULES", "Region", "Return",
    "SPECIALS", "Simple", "Special", "Stmt", "Store", "Strided", "Sync", "TRUE", "TileOp", "Var", "Vector",
    "WaitPhase",
]


@lean(frozen=True, slots=True)
class Let:
    """Defines `var`, once."""

    var: Var
    value: Expr
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Declare:
    """Defines a variable that `Assign` may change; no facts hold of it. init: None where it begins without a value."""

    var: Var
    init: Expr | None
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Assign:
    """Changes a declared variable."""

    var: Var
    value: Expr
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Alloc:
    """Makes a shared, local or tmem buffer that lives as long as the kernel.

    addressed: a local buffer lives in the thread's local memory instead of its registers, so that it can be indexed
    by values known only at run time (lane level).
    arrivals: of a buffer of barriers, which are ready before the first statement: how many complete a phase.
    call: of a ring's barriers: what arrives there once a step, "commit" or "release".
    along: of a ring's barriers: the axis of the cluster along which one copy may fill a stage of all CTAs. A stage is
    free when all of them have released it: who arrives by "release" does so in each of them, so that `arrivals` of
    each CTA complete a phase.
    """

    buffer: Buffer
    addressed: bool = False
    arrivals: int = 0
    call: str = ""
    along: int | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def reach(self) -> int | None:
        """The axis of the cluster in all of whose CTAs those arrive who arrive here; None where only here."""
        return self.along if self.call == "release" else None


@lean(frozen=True, slots=True)
class BufferView:
    """Names a view: `buffer.base` says of what."""

    buffer: Buffer
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Store:
    """Writes one element: an `Element` at tile level, a `Vector` of width 1 at lane level.

    order: one of `ORDERS["store"]`.
    """

    place: Element | Vector
    value: Expr
    order: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Atomic:
    """Updates one element of global or shared memory at once: no other thread's atomic update comes in between.

    op: one of `tilejit.isa.atomics.OPERATIONS`. place: an `Element` at tile level, a `Vector` of width 1 at lane level.
    operands: what the operation takes, of the element's type; where that is a float, `exch` takes its bits.
    order: one of `ORDERS["atomic"]`. var: defined as what was there before; None where nobody wants to know.
    """

    op: str
    place: Element | Vector
    operands: tuple[Expr, ...]
    order: str = "relaxed.gpu"
    var: Var | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class If:
    cond: Expr
    then: tuple[Stmt, ...]
    orelse: tuple[Stmt, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class For:
    """`var` from start to stop (exclusive) in steps, as Python's range; a step of 0 makes no turn.

    All are of one type, except that the step of an unsigned variable may be of the signed type of its width.
    unrolled: written out by a pass, with a constant for `var` in each turn (bounds constant; lane level only).
    """

    var: Var
    start: Expr
    stop: Expr
    step: Expr
    body: tuple[Stmt, ...]
    unrolled: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Loop:
    """Repeats until a `Break` (what Python's `while` becomes)."""

    body: tuple[Stmt, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Break:
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Continue:
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Return:
    """Ends this thread."""

    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Sync:
    """A barrier among the threads of one scope, by its name."""

    scope: str
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Arrive:
    """Each instance of a scope arrives once at a barrier in shared memory, by its leader.

    What the instance's threads did before comes before what others do who wait for the phase.
    place: an `Element` at tile level, a `Vector` of width 1 at lane level.
    bytes: how many bytes of copies the phase awaits besides, as an int32; None for none.
    word: by which messages call it.
    """

    place: Element | Vector
    scope: str
    bytes: Expr | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    word: str = field(default="arrive", compare=False, repr=False)


@lean(frozen=True, slots=True)
class WaitPhase:
    """Waits, thread by thread, until a phase of a barrier is complete. A phase below 0 is.

    place: as `Arrive` has it. phase: its number, an int32; the barrier is in this phase or in the next one.
    var: instead of waiting, a bool_ that is defined as whether it is complete.
    """

    place: Element | Vector
    phase: Expr
    var: Var | None = None
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Expect:
    """Each instance of a scope has the present phase of a barrier await so many bytes of copies besides.

    place: as `Arrive` has it. bytes: an int32. scope: its leader does it; of "thread" each one for itself.
    """

    place: Element | Vector
    bytes: Expr
    scope: str = "thread"
    span: Span | None = field(default=None, compare=False, repr=False)


#: what an `Assert` can be about: what the kernel's author asserted, or what checked builds hold against a kernel
RULES = ("assert", "bounds", "front", "overlap", "unwritten", "uniform", "division")


@lean(frozen=True, slots=True)
class Assert:
    """Ends the thread where the condition doesn't hold, and leaves a record of it.

    rule: which of `RULES` the thread breaks there.
    values: numbers of int64 that the record keeps, at most `AssertionsParam.VALUES`. Where the rule isn't "assert",
    `{0}`, `{1}`, … in the message stand for them.
    """

    cond: Expr
    message: str
    rule: str = "assert"
    values: tuple[Expr, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class Print:
    """Prints text and scalars, already in order and with their separators."""

    parts: tuple[str | Expr, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@lean(frozen=True, slots=True)
class TileOp:
    """A tile operation that the threads of one scope carry out together (tile level).

    name: of its record, in `tilejit.ops.tile`. scope: name of a record in `tilejit.scopes`.
    operands: as the record lists them, the destination first; None for an optional one that isn't given where a later
    one is.
    attrs: (name, value) pairs in the order of the record's, values plain Python.
    record: what there is to say of the operation. tiles: those among the operands, by name, in order.
    """

    name: str
    scope: str
    operands: tuple[Region | Expr | None, ...]
    attrs: tuple[tuple[str, AttributeValue], ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    record: TileOperation = field(init=False, compare=False, repr=False)
    tiles: Mapping[str, Region] = field(init=False, compare=False, repr=False)

    def __post_init__(self) -> None:
        # verification refuses a name without a record
        record, given = TILE_OPERATIONS.get(self.name), self.operands
        named = () if record is None else record.tiles
        tiles = {n: o for n, k in named if k < len(given) and isinstance(o := given[k], Region)}
        object.__setattr__(self, "record", record)
        object.__setattr__(self, "tiles", tiles)

    def operand(self, name: str) -> Region | Expr | None:
        """The operand of this name, None for an optional one that isn't given."""
        position = self.record.position(name)
        return self.operands[position] if position < len(self.operands) else None

    def region(self, name: str) -> Region:
        """The operand of this name, a region."""
        tile = self.tiles.get(name)
        if tile is not None:
            return tile
        operand = self.operand(name)
        assert isinstance(operand, Region), f"{name} of {self.name} is no region"
        return operand

    @property
    def index(self) -> Region | Expr | None:
        """What says where its gathered region lies; None where it has none."""
        return self.operand(INDEX.name) if INDEX.name in self.record.positions else None

    @property
    def gathered(self) -> Region | None:
        """The tile whose place its index says; None where it has none."""
        return next((o for o in self.tiles.values() if o.gathered is not None), None)

    def value(self, name: str) -> Expr | None:
        """The operand of this name, a scalar; None for an optional one that isn't given."""
        operand = self.operand(name)
        assert not isinstance(operand, Region), f"{name} of {self.name} is no scalar"
        return operand

    @property
    def given(self) -> tuple[Region | Expr, ...]:
        """The operands without those that aren't given, of whatever kind."""
        return tuple([o for o in self.operands if o is not None])

    @property
    def written(self) -> tuple[Region, ...]:
        """The regions that it writes, of whatever kind."""
        pairs = zip(self.operands, self.record.operands, strict=False)
        return tuple([o for o, rule in pairs if rule.written and isinstance(o, Region)])

    @property
    def read(self) -> tuple[Region, ...]:
        """The regions that it may read, of whatever kind, those that it updates among them."""
        pairs = zip(self.operands, self.record.operands, strict=False)
        return tuple([
            o for o, rule in pairs
            if rule.read and isinstance(o, Region) and (not rule.read_where or self.condition(rule.read_where) != FALSE)
        ])

    @property
    def surely_read(self) -> tuple[Region, ...]:
        """The regions that it reads in any case."""
        pairs = zip(self.operands, self.record.operands, strict=False)
        return tuple([
            o for o, rule in pairs
            if rule.read and isinstance(o, Region) and (not rule.read_where or self.condition(rule.read_where) == TRUE)
        ])

    def condition(self, name: str) -> Expr:
        """The operand of this name, a condition; true where it isn't given."""
        value = self.value(name)
        return TRUE if value is None else value

    @property
    def options(self) -> tuple[str, ...]:
        """The optional operands that are given, by name."""
        given = self.operands
        if len(given) <= self.record.required:
            return ()
        return tuple([n for n, k in self.record.options if k < len(given) and given[k] is not None])

    @property
    def elements(self) -> dict[str, Region | Expr]:
        """The tiles and scalars among the operands, by name, in order."""
        given = self.operands
        return {n: o for n, k in self.record.elements if k < len(given) and (o := given[k]) is not None}

    @property
    def inputs(self) -> dict[str, Region | Expr]:
        """The tiles and scalars but for those that it writes, by name, in order."""
        given = self.operands
        return {n: o for n, k in self.record.inputs if k < len(given) and (o := given[k]) is not None}

    @property
    def shapes(self) -> dict[str, tuple[int, ...] | None]:
        """Each tile's shape, and None for a scalar, by name."""
        return {name: o.shape if isinstance(o, Region) else None for name, o in self.elements.items()}

    @property
    def dtypes(self) -> dict[str, DType]:
        """The types of tiles and scalars, by name."""
        return {name: o.dtype for name, o in self.elements.items()}

    def attr(self, name: str) -> AttributeValue:
        """The attribute's value, its default where it isn't given, None where there is neither."""
        value = dict(self.attrs).get(name)
        return self.record.defaults.get(name) if value is None else value


@lean(frozen=True, slots=True)
class Move:
    """Moves one vector in one access: memory to registers, registers to memory, or between registers (lane level).

    predicate: the access happens where it holds. otherwise: what the destination registers get where it doesn't;
    None leaves them (or memory) as they are.
    order: one of `ORDERS["move"]`, of the access of memory.
    cache: what caches should do with global memory, one of the choices of `ops.copies.CACHE`; "" where that is theirs.
    """

    dst: Vector
    src: Vector
    predicate: Expr | None = None
    otherwise: Expr | None = None
    order: str = ""
    cache: str = ""
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def memory(self) -> Vector:
        """The side that isn't registers; the source where both are."""
        return self.src if self.dst.buffer.space == "local" else self.dst


@lean(frozen=True, slots=True)
class Descriptor:
    """What tells tensor cores where a tile lies in shared memory: 64 bits (lane level).

    The address of `place` in units of 16 bytes, without bits from 18 on, plus `constant`, which says the rest.
    In a cluster those bits say which CTA it is, and would change other fields.
    """

    place: Vector
    constant: int


#: what an instruction takes
Input = Expr | Vector | Descriptor


@lean(frozen=True, slots=True)
class Instruction:
    """One instruction from the instruction table (`tilejit.isa`), by name.

    At tile level it takes scalars only and has no outputs, as `cp.async.wait` and `vote.any`.
    outputs: local vectors that it fills. inputs: scalars, or vectors whose address (shared, global, tmem) or registers
    (local) it takes, or descriptors. Registers that it both takes and returns come first in outputs and in inputs.
    var: defined as what it gives besides the outputs, or instead of them.
    """

    name: str
    outputs: tuple[Vector, ...] = ()
    inputs: tuple[Input, ...] = ()
    span: Span | None = field(default=None, compare=False, repr=False)
    var: Var | None = None

    @property
    def places(self) -> tuple[Vector, ...]:
        """The places that its inputs name: registers, and where in memory the addresses lead that it takes."""
        places: list[Vector] = []
        for x in self.inputs:
            if isinstance(x, Vector):
                places.append(x)
            elif isinstance(x, Descriptor):
                places.append(x.place)
        return tuple(places)


#: a statement that holds no other statements, and after which the next one is executed
Simple = (
    Let | Declare | Assign | Alloc | BufferView | Store | Atomic | Sync | Arrive | WaitPhase | Expect | Assert | Print
    | TileOp | Move | Instruction
)

#: a statement after which the next one isn't executed
Jump = Break | Continue | Return

Stmt = Simple | Jump | If | For | Loop


@lean(frozen=True, slots=True)
class Kernel:
    """A whole kernel at either level.

    threads: of a CTA. target: name of the architecture. max_registers: a limit per thread, or None.
    cluster: CTAs of a cluster in each dimension, or None. debug: a checked build: assertions are compiled in.
    cooperative: all CTAs of a launch run at the same time, so that they may wait for each other.
    memory: where its shared and tmem buffers live, and barriers that have numbers; empty before that is decided.
    """

    name: str
    params: tuple[Param, ...]
    threads: int
    target: str
    body: tuple[Stmt, ...]
    max_registers: int | None = None
    cluster: tuple[int, int, int] | None = None
    debug: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)
    cooperative: bool = False
    memory: tuple[MemoryPlacement, ...] = ()

